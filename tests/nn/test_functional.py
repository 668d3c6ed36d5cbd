"""Functions of nn.functional without a module of their own, against PyTorch."""

from __future__ import annotations

import pytest

import edutorch
from edutorch.nn import functional as F
from tests.nn.compare import assert_close, ours_of


def compare_calls(torch, device, call, *shapes):
    """Call with random tensors in both libraries; compare results and gradients."""
    torch.manual_seed(4)
    theirs = [torch.randn(shape, dtype=torch.float64).requires_grad_() for shape in shapes]
    ours = [ours_of(their, device, True) for their in theirs]
    expected, actual = call(torch.nn.functional, *theirs), call(F, *ours)
    assert_close(actual, expected)
    (expected**3).sum().backward()
    (actual**3).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a.grad, b.grad, "gradient")


@pytest.mark.parametrize(
    ("pad", "settings"),
    [
        ((1, 2), {}), ((1, 2, 0, 3), {"value": 1.5}), ((-1, 2, 0, -2), {}), ((0, 0, -3, 0), {}),
        ((2, 1), {"mode": "reflect"}), ((3, 4), {"mode": "replicate"}),
        ((2, 3), {"mode": "circular"}),
    ],
)  # fmt: skip
def test_pad(pad, settings, device, torch):
    compare_calls(torch, device, lambda f, x: f.pad(x, pad, **settings), (2, 5, 6))


def test_pad_refuses_what_does_not_fit():
    x = edutorch.ones(2, 3)
    for pad, mode, text in (
        ((1,), "constant", "two numbers for each axis"), ((1,) * 6, "constant", "two numbers"),
        ((-4, 0), "constant", "cuts off more"), ((3, 0), "reflect", "less than the size"),
        ((4, 0), "circular", "more than the size"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=text):
            F.pad(x, pad, mode)
    with pytest.raises(NotImplementedError, match="unknown mode"):
        F.pad(x, (1, 1), "mirror")


@pytest.mark.parametrize("settings", [{}, {"p": 1.0, "dim": 0}, {"p": 3.0, "dim": -1}])
def test_normalize(settings, device, torch):
    compare_calls(torch, device, lambda f, x: f.normalize(x, **settings), (3, 4))


def test_one_hot(device, torch):
    classes = torch.tensor([[0, 2], [1, 0]])
    for count in (-1, 5):
        expected = torch.nn.functional.one_hot(classes, count)
        actual = F.one_hot(ours_of(classes, device), count)
        assert actual.tolist() == expected.tolist()
        assert actual.dtype is edutorch.int64


@pytest.mark.parametrize("name", ["leaky_relu", "elu", "selu", "silu", "relu", "relu6", "hardtanh"])
def test_activations_in_place(name, device, torch):
    x = torch.randn(3, 4)
    mine = ours_of(x, device)
    result = getattr(F, name)(mine, inplace=True)
    assert result is mine
    assert_close(mine, getattr(torch.nn.functional, name)(x), rtol=1e-6)


def test_an_activation_in_place_keeps_its_gradient(device):
    x = edutorch.tensor([-1.0, 2.0], requires_grad=True)
    y = x * 3
    F.silu(y, inplace=True)
    z = x * 3
    F.silu(z).sum().backward()
    expected = x.grad.tolist()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx(expected)


def test_linear_sums_its_bias_over_all_rows(device, torch):
    compare_calls(torch, device, lambda f, *args: f.linear(*args), (2, 3, 4), (5, 4), (5,))


def test_convolution_of_a_batch_larger_than_a_block(device, torch, monkeypatch):
    """The batch is split into blocks; the result must not depend on their size."""
    from edutorch.nn.functional import conv

    monkeypatch.setattr(conv, "BLOCK_SIZE", {"cpu": 200, "strict": 200})
    settings = {"stride": 2, "padding": 1}
    compare_calls(
        torch, device, lambda f, *a: f.conv2d(*a, **settings), (5, 2, 6, 7), (3, 2, 3, 3), (3,)
    )
    compare_calls(torch, device, lambda f, *a: f.conv_transpose2d(*a), (5, 2, 3, 4), (2, 3, 3, 3))


@pytest.mark.parametrize(
    "settings", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": (2, 1)}, {"groups": 2}]
)
def test_second_derivatives_of_a_convolution(settings, device, torch):
    groups = settings.get("groups", 1)

    def penalty(f, x, w, grad):
        y = f.conv2d(x, w, **settings)
        gx, gw = grad((y * y * y).sum(), (x, w), create_graph=True)
        return (gx * gx).sum() + (gw * gw * gw).sum()

    torch.manual_seed(5)
    theirs = [
        torch.randn(s, dtype=torch.float64).requires_grad_()
        for s in ((2, 4, 6, 5), (2, 4 // groups, 3, 2))
    ]
    ours = [ours_of(their, device, True) for their in theirs]
    penalty(torch.nn.functional, *theirs, torch.autograd.grad).backward()
    penalty(F, *ours, edutorch.autograd.grad).backward()
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a.grad, b.grad, rtol=1e-6)


@pytest.mark.parametrize(
    "layer",
    [
        lambda f, x: f.max_pool2d(x, 3, 2, 1), lambda f, x: f.avg_pool2d(x, 3, 2, 1),
        lambda f, x: f.batch_norm(x, None, None, training=True), lambda f, x: f.layer_norm(x, (5,)),
        lambda f, x: f.gelu(x), lambda f, x: f.silu(x), lambda f, x: f.elu(x),
        lambda f, x: f.leaky_relu(x), lambda f, x: f.pad(x, (1, 2, -1, 0)),
    ],
)  # fmt: skip
def test_second_derivatives_of_layers(layer, device, torch):
    torch.manual_seed(6)
    other = torch.randn(2, 3, 6, 5, dtype=torch.float64).requires_grad_()
    x = ours_of(other, device, True)
    for library, f, input in ((torch, torch.nn.functional, other), (edutorch, F, x)):
        (g,) = library.autograd.grad((layer(f, input) ** 3).sum(), input, create_graph=True)
        (g * g).sum().backward()
    assert_close(x.grad, other.grad, rtol=1e-6)


def test_the_gradients_are_those_of_the_numbers(device):
    """Against finite differences, for where PyTorch is not installed."""
    x = edutorch.randn(2, 2, 5, 4, dtype=edutorch.float64, requires_grad=True)
    w = edutorch.randn(3, 2, 3, 2, dtype=edutorch.float64, requires_grad=True)
    b = edutorch.randn(3, dtype=edutorch.float64, requires_grad=True)
    assert edutorch.autograd.gradcheck(
        lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 0)), (x, w, b)
    )
    assert edutorch.autograd.gradcheck(lambda x, w: F.conv_transpose2d(x, w), (x, w[:2]))
    assert edutorch.autograd.gradcheck(lambda x: F.avg_pool2d(x, 2, 1), (x,))
    assert edutorch.autograd.gradcheck(lambda x: F.gelu(x), (x,))


def test_distances_of_rows_that_are_not_finite_or_all_zero():
    inf = float("inf")
    x = edutorch.tensor([[0.0, 0.0], [1e30, 2e30], [inf, 1.0]])
    for p in (1.5, 2.0, 3.0, inf):
        longest = 2e30 if p == inf else 1e30 * (1 + 2**p) ** (1 / p)
        near, *far = F.pdist(x, p).tolist()
        assert near == pytest.approx(longest, rel=1e-6) and far == [inf, inf]
        assert F.pairwise_distance(x[0], x[0], p, eps=0.0).item() == 0
