"""nn.utils against PyTorch."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
import warnings

import pytest

import edutorch
from edutorch import nn
from edutorch.nn import utils
from edutorch.nn.utils import parametrizations, parametrize
from tests.nn.compare import assert_close, carry, ours_of


def random_tensor(torch, *shape):
    return torch.randn(*shape, dtype=torch.float64)


# Gradients -----------------------------------------------------------------------------------


def parameters_with_grad(torch, device):
    """Return parameters of both libraries, with the same gradients."""
    theirs = [torch.zeros(3, 2).double().requires_grad_(), torch.zeros(4).double().requires_grad_()]
    theirs.append(torch.zeros(2).double().requires_grad_())  # which has none
    ours = [ours_of(their, device, True) for their in theirs]
    for a, b in zip(ours[:2], theirs[:2], strict=True):
        b.grad = random_tensor(torch, *b.shape) * 3
        a.grad = ours_of(b.grad, device)
    return ours, theirs


@pytest.mark.parametrize("norm_type", [2.0, 1, math.inf, 0.5])
@pytest.mark.parametrize("limit", [0.5, 100.0])
def test_clip_norm(limit, norm_type, device, torch):
    ours, theirs = parameters_with_grad(torch, device)
    kept = ours[0].grad
    expected = torch.nn.utils.clip_grad_norm_(theirs, limit, norm_type)
    assert_close(utils.clip_grad_norm_(iter(ours), limit, norm_type), expected)
    for a, b in zip(ours[:2], theirs[:2], strict=True):
        assert_close(a.grad, b.grad)
    assert ours[0].grad is kept and ours[2].grad is None


def test_clip_value_and_total(device, torch):
    ours, theirs = parameters_with_grad(torch, device)
    torch.nn.utils.clip_grad_value_(theirs, 1.5)
    utils.clip_grad_value_(ours, 1.5)
    assert_close(ours[0].grad, theirs[0].grad)
    expected = torch.nn.utils.get_total_norm([their.grad for their in theirs[:2]])
    assert_close(utils.get_total_norm([our.grad for our in ours[:2]]), expected)
    torch.nn.utils.clip_grads_with_norm_(theirs, 1.0, expected)
    utils.clip_grads_with_norm_(ours, 1.0, ours_of(expected, device))
    assert_close(ours[1].grad, theirs[1].grad)
    utils.clip_grad_value_(ours[0], 0.01)  # a single one
    assert ours[0].grad.abs().max().item() <= 0.01


def test_gradients_that_are_not_finite():
    x = edutorch.zeros(2, requires_grad=True)
    x.grad = edutorch.tensor([math.nan, 1.0])
    with pytest.raises(RuntimeError, match=r"order 2\.0 for gradients from `parameters` is non"):
        utils.clip_grad_norm_(x, 1.0, error_if_nonfinite=True)
    assert math.isnan(utils.clip_grad_norm_(x, 1.0).item())
    with pytest.warns(UserWarning, match="empty generator"):
        assert utils.clip_grad_norm_([], 1.0).item() == 0
    with pytest.warns(UserWarning, match="now deprecated"):
        utils.clip_grad_norm([x], 1.0)


def test_vectors_of_parameters(device, torch):
    net = nn.Linear(2, 3).to(device)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.shape == (9,) and vector.requires_grad
    utils.vector_to_parameters(vector.detach() * 0 + 2, net.parameters())
    assert net.weight.tolist() == [[2.0, 2.0]] * 3 and net.weight.requires_grad
    with pytest.raises(TypeError, match=r"expected torch\.Tensor, but got"):
        utils.vector_to_parameters([1.0], net.parameters())
    with pytest.raises(RuntimeError, match="ends before the parameters"):
        utils.vector_to_parameters(edutorch.zeros(3, device=device), net.parameters())


# Parametrizations ----------------------------------------------------------------------------

LAYERS = [("Linear", (3, 4), (2, 3)), ("Conv2d", (2, 3, 2), (1, 2, 4, 4)),
    ("ConvTranspose1d", (2, 3, 2), (1, 2, 4))]  # fmt: skip
RULES = {
    "weight norm": lambda lib, layer: lib.parametrizations.weight_norm(layer),
    "one length": lambda lib, layer: lib.parametrizations.weight_norm(layer, dim=None),
    "spectral norm": lambda lib, layer: lib.parametrizations.spectral_norm(layer, dim=1),
    "two steps": lambda lib, layer: lib.parametrizations.spectral_norm(layer, "weight", 2),
    "old weight norm": lambda lib, layer: lib.weight_norm(layer),
    "old spectral norm": lambda lib, layer: lib.spectral_norm(layer),
}  # fmt: skip


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("name", "args", "shape"), LAYERS)
def test_computed_weights(name, args, shape, rule, training, device, torch):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = RULES[rule](torch.nn.utils, getattr(torch.nn, name)(*args).double())
    ours = RULES[rule](utils, getattr(nn, name)(*args).double())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    ours.load_state_dict(carry(theirs.state_dict(), device))
    ours.train(training)
    theirs.train(training)
    x = random_tensor(torch, *shape)
    for _ in range(2):
        expected, actual = theirs(x), ours(ours_of(x, device))
        assert_close(actual, expected)
    (expected**2).sum().backward()
    (actual**2).sum().backward()
    gradients = {key: tensor.grad for key, tensor in ours.named_parameters()}
    for key, tensor in theirs.named_parameters():
        assert_close(gradients[key], tensor.grad, key)
    for key, tensor in theirs.named_buffers():
        assert_close(ours.get_buffer(key), tensor, key)


@pytest.mark.parametrize("rule", ["spectral norm", "old spectral norm"])
def test_a_later_call_leaves_the_gradients_of_an_earlier_one(rule, device, torch):
    """As where one discriminator judges real and generated images."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layers = [RULES[rule](library.nn.utils, library.nn.Linear(3, 4).double())
                  for library in (torch, edutorch)]  # fmt: skip
    theirs, ours = layers
    ours.load_state_dict(carry(theirs.state_dict(), device))
    real = random_tensor(torch, 2, 3)
    for layer, x in ((theirs, real), (ours, ours_of(real, device))):
        y = layer(x)
        layer(x * 2)
        (y**2).sum().backward()
    gradients = {key: tensor.grad for key, tensor in ours.named_parameters()}
    for key, tensor in theirs.named_parameters():
        assert_close(gradients[key], tensor.grad, key)


def test_old_forms_are_removed(torch):
    for add, take, keys in (
        (utils.weight_norm, utils.remove_weight_norm, ["bias", "weight"]),
        (utils.spectral_norm, utils.remove_spectral_norm, ["bias", "weight"]),
    ):
        layer = add(nn.Linear(3, 2))
        x = edutorch.ones(1, 3)
        y = layer.eval()(x)
        with pytest.raises(RuntimeError, match="Cannot register two"):
            add(layer)
        assert list(take(layer).state_dict()) == keys
        assert edutorch.allclose(layer(x), y) and layer.weight.requires_grad
        with pytest.raises(ValueError, match="of 'weight' not found in"):
            take(layer)
        with pytest.raises(ValueError, match="can't have uninitialized parameters"):
            add(nn.LazyLinear(2))
    with pytest.raises(ValueError, match="n_power_iterations to be positive"):
        utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)


@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("how", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (5, 3)])
def test_orthogonal(shape, how, trivial, device, torch):
    torch.manual_seed(0)
    settings = {"orthogonal_map": how, "use_trivialization": trivial}
    theirs = torch.nn.utils.parametrizations.orthogonal(
        torch.nn.Linear(*shape).double(), **settings
    )
    ours = parametrizations.orthogonal(nn.Linear(*shape).double(), **settings)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(carry(theirs.state_dict(), device))
    weight = ours.weight
    assert_close(weight, theirs.weight)
    wide = weight if weight.shape[0] <= weight.shape[1] else weight.T
    eye = edutorch.eye(min(shape), dtype=edutorch.float64, device=device)
    assert edutorch.allclose(wide @ wide.T, eye)
    x = random_tensor(torch, 2, shape[0])
    expected, actual = theirs(x), ours(ours_of(x, device))
    assert_close(actual, expected)
    (expected**3).sum().backward()
    (actual**3).sum().backward()
    assert_close(
        ours.parametrizations.weight.original.grad, theirs.parametrizations.weight.original.grad
    )


def test_assigning_to_an_orthogonal_weight():
    layer = parametrizations.orthogonal(nn.Linear(3, 3).double())
    turned = edutorch.tensor([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=edutorch.float64)
    layer.weight = turned
    assert edutorch.allclose(layer.weight, turned)
    with pytest.raises(ValueError, match="Expected a matrix or batch of matrices of shape"):
        layer.weight = edutorch.zeros(2, 2)
    with pytest.raises(ValueError, match="orthogonal_map has to be one of"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="x")
    with pytest.raises(ValueError, match="Got a tensor of 1 dimensions"):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="no parameter or buffer with name 'x'"):
        parametrizations.spectral_norm(nn.Linear(2, 2), "x")


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).mT

    def right_inverse(self, A):
        return A.triu()


class Double(nn.Module):
    def forward(self, X):
        return 2 * X


def test_parametrizations_of_ones_own():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    parametrize.register_parametrization(layer, "weight", Double())
    assert edutorch.equal(layer.weight, layer.weight.T)
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert parametrize.is_parametrized(layer) and parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert "parametrizations.weight.original" in dict(layer.named_parameters())
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert layer.weight is not layer.weight
    twin = copy.deepcopy(layer)
    assert edutorch.equal(twin.weight, layer.weight) and type(twin) is type(layer)
    layer(edutorch.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad is not None
    with pytest.raises(RuntimeError, match="Double does not implement right_inverse"):
        layer.weight = edutorch.zeros(3, 3)
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(layer)
    value = layer.weight.detach().clone()
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and edutorch.equal(layer.weight, value)
    assert set(layer.state_dict()) == {"weight", "bias"} and layer.weight.is_leaf


def test_several_originals_have_memory_of_their_own():
    class Average(nn.Module):
        def forward(self, first, second):
            return (first + second) / 2

        def right_inverse(self, value):
            return value, value

    layer = nn.Linear(2, 2)
    weight, before = layer.weight, layer.weight.tolist()
    parametrize.register_parametrization(layer, "weight", Average())
    assert layer.weight.tolist() == before
    with edutorch.no_grad():
        layer.parametrizations.weight.original0.zero_()
    assert layer.parametrizations.weight.original1.tolist() == weight.tolist() == before


def test_removing_without_keeping_the_value():
    layer = nn.Linear(2, 2)
    before = layer.weight
    parametrize.register_parametrization(layer, "weight", Double())
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert layer.weight is before
    layer = parametrizations.weight_norm(nn.Linear(2, 2))
    value = layer.weight.detach().clone()
    with pytest.raises(ValueError, match="Cannot leave unparametrized"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert edutorch.equal(layer.weight, value)
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(layer, "weight")


def test_parametrizations_that_do_not_fit():
    class Short(nn.Module):
        def forward(self, X):
            return X[:1]

    class Half(nn.Module):
        def forward(self, X):
            return X.half()

    for wrong, text in (
        (Short(), "may not change the shape"),
        (Half(), "may not change the dtype"),
    ):
        with pytest.raises(ValueError, match=text):
            parametrize.register_parametrization(nn.Linear(2, 2), "weight", wrong)
        layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Double())
        with pytest.raises(ValueError, match=text):
            parametrize.register_parametrization(layer, "weight", wrong)
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", wrong, unsafe=True)
    with pytest.raises(ValueError, match="element with name 'x'"):
        parametrize.register_parametrization(nn.Linear(2, 2), "x", Double())
    other = parametrize.transfer_parametrizations_and_params(layer, nn.Linear(2, 2))
    assert other.parametrizations.weight.original is layer.parametrizations.weight.original


# Fusion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
def test_fusion(bias, device):
    edutorch.manual_seed(0)
    for conv, bn, shape, transpose in (
        (nn.Conv2d(2, 3, 2, bias=bias), nn.BatchNorm2d(3), (2, 2, 4, 4), False),
        (nn.ConvTranspose1d(2, 3, 2, bias=bias), nn.BatchNorm1d(3, affine=False), (2, 2, 4), True),
        (nn.Linear(2, 3, bias=bias), nn.BatchNorm1d(3), (4, 2), False),
    ):
        net = nn.Sequential(conv, bn).double().to(device)
        x = edutorch.randn(*shape, dtype=edutorch.float64, device=device)
        net(x * 3 + 1)
        with pytest.raises(AssertionError, match="Fusion only for eval"):
            utils.fuse_conv_bn_eval(*net)
        net.eval()
        if isinstance(conv, nn.Linear):
            fused = utils.fuse_linear_bn_eval(*net)
        else:
            fused = utils.fuse_conv_bn_eval(*net, transpose)
        assert edutorch.allclose(fused(x), net(x))
        assert isinstance(fused.weight, nn.Parameter) and type(fused) is type(conv)
    with pytest.raises(AssertionError, match="must not be None"):
        utils.fuse_linear_bn_eval(
            nn.Linear(2, 2).eval(), nn.BatchNorm1d(2, track_running_stats=False).eval()
        )
    with pytest.raises(AssertionError, match=r"linear\.out_features=2 and bn\.num_features=3"):
        utils.fuse_linear_bn_eval(nn.Linear(2, 2).eval(), nn.BatchNorm1d(3).eval())


# Others --------------------------------------------------------------------------------------


def test_single_functions():
    assert utils.skip_init(nn.Linear, 3, 2).weight.shape == (2, 3)
    with pytest.raises(RuntimeError, match="Expected a Module"):
        utils.skip_init(int)
    with pytest.raises(RuntimeError, match="must support a 'device' arg"):
        utils.skip_init(nn.ReLU)
    with pytest.warns(UserWarning, match="deprecated"):
        actual = utils.stateless.functional_call(
            nn.Linear(1, 1, bias=False), {"weight": edutorch.tensor([[2.0]])}, edutorch.ones(1)
        )
    assert actual.tolist() == [2.0]


def test_all_names_of_pytorch_are_here(torch):
    for module in ("", ".rnn", ".parametrize", ".parametrizations", ".fusion"):
        theirs = importlib.import_module(f"torch.nn.utils{module}")
        ours = importlib.import_module(f"edutorch.nn.utils{module}")
        assert [name for name in theirs.__all__ if not hasattr(ours, name)] == []


def test_parametrizations_without_an_inverse_are_chained():
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    for _ in range(3):
        parametrize.register_parametrization(layer, "weight", Double())
    assert edutorch.equal(layer.weight, 8 * before)
    assert edutorch.equal(layer.parametrizations.weight.original, before)
