"""Activations and dropout against PyTorch, and their in-place forms."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import edutorch
from edutorch import nn
from edutorch.nn import functional as F
from tests.nn.compare import assert_close, ours_of

CALLS = [
    ("relu", {}), ("relu6", {}), ("leaky_relu", {"negative_slope": 0.2}), ("elu", {"alpha": 0.5}),
    ("selu", {}), ("celu", {}), ("celu", {"alpha": 0.3}), ("silu", {}), ("mish", {}), ("gelu", {}),
    ("hardtanh", {}), ("hardtanh", {"min_val": -0.3, "max_val": 2.0}), ("hardswish", {}),
    ("hardsigmoid", {}), ("hardshrink", {}), ("hardshrink", {"lambd": 1.0}), ("softshrink", {}),
    ("softshrink", {"lambd": 0.1}), ("tanhshrink", {}), ("softsign", {}), ("softplus", {}),
    ("logsigmoid", {}), ("threshold", {"threshold": 0.3, "value": -2.0}), ("rrelu", {}),
    ("softmin", {"dim": 1}), ("softmax", {"dim": 0}), ("log_softmax", {"dim": -1}),
    ("glu", {"dim": 1}), ("tanh", {}), ("sigmoid", {}),
]  # fmt: skip

SHAPES = [(5, 4), (0, 4), (3, 2, 4)]
ROUNDED = {"rtol": 1e-6, "atol": 1e-7}  # some of PyTorch's constants are in float32


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("name", "settings"), CALLS, ids=str)
def test_activations(name, settings, shape, device, torch):
    torch.manual_seed(1)
    theirs = (torch.randn(shape, dtype=torch.float64) * 2).requires_grad_()
    x = ours_of(theirs, device, requires_grad=True)
    expected = getattr(torch.nn.functional, name)(theirs, **settings)
    y = getattr(F, name)(x, **settings)
    assert_close(y, expected, **ROUNDED)
    weights = np.cos(np.arange(expected.numel())).reshape(tuple(expected.shape))
    (expected * torch.tensor(weights)).sum().backward()
    (y * edutorch.tensor(weights, device=device)).sum().backward()
    assert_close(x.grad, theirs.grad, **ROUNDED)


IN_PLACE = [
    (name, settings) for name, settings in CALLS
    if name in "relu relu6 leaky_relu elu selu celu silu mish hardtanh hardswish hardsigmoid "
    "threshold rrelu".split()
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings"), IN_PLACE, ids=str)
def test_in_place(name, settings, device):
    """The result is in the input's memory, with the gradient of the form that copies."""
    values = np.linspace(-4.0, 7.5, 24).reshape(4, 6)
    x = edutorch.tensor(values, device=device, requires_grad=True)
    expected = getattr(F, name)(x, **settings)
    (wanted,) = edutorch.autograd.grad((expected * expected).sum(), x)
    y = x * 1
    assert getattr(F, name)(y, **settings, inplace=True) is y
    (gradient,) = edutorch.autograd.grad((y * y).sum(), x)
    np.testing.assert_allclose(y.detach().cpu().numpy(), expected.detach().cpu().numpy())
    np.testing.assert_allclose(gradient.cpu().numpy(), wanted.cpu().numpy(), rtol=1e-12)
    twin = getattr(F, f"{name}_", None)
    if twin is not None:
        again = x.detach().clone()
        assert twin(again, **settings) is again
        np.testing.assert_array_equal(again.cpu().numpy(), y.detach().cpu().numpy())
    with pytest.raises(RuntimeError, match="leaf"):
        getattr(F, name)(x, **settings, inplace=True)


def test_every_twin_of_pytorch_is_there(torch):
    theirs = {name for name in vars(torch.nn.functional) if name.endswith("_") and name[0] != "_"}
    assert {name for name in theirs if callable(getattr(torch.nn.functional, name))} <= set(dir(F))


def test_slopes_on_the_limits_are_pytorchs(torch):
    for name in ("relu6", "hardtanh", "relu"):
        x = edutorch.tensor([0.0, 6.0, -1.0, 1.0], requires_grad=True)
        other = torch.tensor([0.0, 6.0, -1.0, 1.0], requires_grad=True)
        getattr(F, name)(x).sum().backward()
        getattr(torch.nn.functional, name)(other).sum().backward()
        assert_close(x.grad, other.grad, name)


def test_limits_of_integers(device):
    y = F.relu6(edutorch.tensor([-3, 2, 9], device=device))
    assert y.dtype is edutorch.int64
    assert y.tolist() == [0, 2, 6]


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 2), (2, 3, 2, 2)], ids=str)
def test_a_softmax_without_dim_warns(name, shape, torch):
    theirs = torch.linspace(-1, 2, int(np.prod(shape)), dtype=torch.float64).reshape(shape)
    with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name}"):
        y = getattr(F, name)(ours_of(theirs, "cpu"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = getattr(torch.nn.functional, name)(theirs)
    assert_close(y, expected)


def test_softmax_in_another_type():
    for function in (F.softmax, F.log_softmax, F.softmin):
        y = function(edutorch.ones(2, 2), dim=1, _stacklevel=3, dtype=edutorch.float64)
        assert y.dtype is edutorch.float64


def test_gumbel_softmax(device):
    edutorch.manual_seed(3)
    logits = edutorch.tensor([[0.0, 1.0, 2.0]]).repeat(4000, 1).requires_grad_()
    hard = F.gumbel_softmax(logits, tau=0.7, hard=True)
    assert set(hard.detach().round(decimals=5).flatten().tolist()) == {0.0, 1.0}
    shares = hard.detach().mean(0).tolist()
    assert shares == pytest.approx(F.softmax(logits[0], 0).tolist(), abs=0.03)
    hard[:, 0].sum().backward()
    assert (logits.grad != 0).any()
    soft = F.gumbel_softmax(logits.detach(), dim=1)
    assert soft.sum(1).tolist() == pytest.approx([1.0] * 4000, rel=1e-5)
    with pytest.warns(UserWarning, match="eps"):
        F.gumbel_softmax(logits, eps=1e-5)


def test_random_slopes(device):
    edutorch.manual_seed(0)
    x = edutorch.full((1000,), -1.0, requires_grad=True)
    y = F.rrelu(x, 0.2, 0.4, training=True)
    y.sum().backward()
    slopes = (-y).detach()
    assert 0.2 <= slopes.min().item() < 0.21 and 0.39 < slopes.max().item() <= 0.4
    np.testing.assert_allclose(x.grad.cpu().numpy(), slopes.cpu().numpy(), rtol=1e-6)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda x: F.celu(x, 0.0), ZeroDivisionError, "alpha cannot be 0"),
    (lambda x: F.softshrink(x, -1.0), RuntimeError, "must not be negative"),
    (lambda x: F.rrelu(x, 0.5, 0.1), RuntimeError, "Lower bound"),
    (lambda x: F.hardtanh(x, 1.0, -1.0), ValueError, "min_val cannot be greater"),
    (lambda x: F.alpha_dropout(x, 1.5, True), ValueError, "between 0 and 1"),
    (lambda x: F.dropout1d(x), RuntimeError, "2D or 3D"),
    (lambda x: F.feature_alpha_dropout(x, 0.5, True), RuntimeError, "at least 2 dimensions"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_settings_that_mean_nothing(call, error, text, torch):
    with pytest.raises(error, match=text):
        call(edutorch.ones(3))


def test_methods():
    x = edutorch.tensor([-1.0, 0.2])
    assert x.hardshrink().tolist() == [-1.0, 0.0]
    assert x.prelu(edutorch.tensor([0.5])).tolist() == pytest.approx([-0.5, 0.2])


# Dropout -------------------------------------------------------------------------------------


def test_alpha_dropout_keeps_mean_and_variance(device):
    edutorch.manual_seed(0)
    x = edutorch.randn(200, 200)
    for p in (0.1, 0.5):
        y = F.alpha_dropout(x, p, training=True)
        assert y.mean().item() == pytest.approx(0, abs=0.02)
        assert y.var().item() == pytest.approx(1, abs=0.03)
    assert F.alpha_dropout(x) is x
    assert F.alpha_dropout(x, 1.0, True).abs().max().item() == 0


@pytest.mark.parametrize(("name", "shape", "kept"), [
    ("dropout1d", (50, 4, 6), 2), ("dropout1d", (50, 6), 1), ("dropout2d", (50, 4, 3, 2), 2),
    ("dropout3d", (50, 4, 3, 2, 2), 2), ("dropout3d", (50, 3, 2, 2), 1),
    ("feature_alpha_dropout", (50, 4, 3), 2),
], ids=str)  # fmt: skip
def test_whole_channels_are_left_out(name, shape, kept, device):
    edutorch.manual_seed(0)
    y = getattr(F, name)(edutorch.ones(*shape), 0.5, True)
    flat = y.reshape(int(np.prod(shape[:kept])), -1)
    assert (flat == flat[:, :1]).all()
    assert len(set(flat[:, 0].tolist())) == 2
    z = edutorch.ones(*shape)
    assert getattr(F, name)(z, 0.5, True, True) is z
    assert not (z == 1).all()


def test_images_without_a_batch_warn():
    with pytest.warns(UserWarning, match="3D input to dropout2d"):
        F.dropout2d(edutorch.ones(2, 3, 4))
    with pytest.warns(UserWarning, match="dropout3d"):
        F.dropout3d(edutorch.ones(2, 3, 4))


def test_a_softmax_module_warns_too():
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        nn.Softmax()(edutorch.ones(2, 2))
