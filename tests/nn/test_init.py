"""The distributions of nn.init, against PyTorch's."""

from __future__ import annotations

import math

import pytest

import edutorch
from edutorch import nn
from edutorch.nn import init

WIDE = (200, 300)


@pytest.mark.parametrize(
    ("fill", "settings"),
    [
        ("uniform_", {"a": -2.0, "b": 3.0}), ("normal_", {"mean": 1.0, "std": 2.0}),
        ("trunc_normal_", {"mean": 0.5, "std": 1.0, "a": 0.0, "b": 1.0}),
        ("xavier_uniform_", {"gain": 2.0}), ("xavier_normal_", {}),
        ("kaiming_uniform_", {"a": math.sqrt(5)}), ("kaiming_uniform_", {"mode": "fan_out"}),
        ("kaiming_normal_", {"nonlinearity": "tanh"}), ("kaiming_normal_", {}),
    ],
)  # fmt: skip
def test_distributions(fill, settings, device, torch):
    torch.manual_seed(0)
    expected = getattr(torch.nn.init, fill)(torch.empty(WIDE), **settings)
    actual = getattr(init, fill)(edutorch.empty(*WIDE), **settings)
    assert actual.mean().item() == pytest.approx(expected.mean().item(), abs=0.03)
    assert actual.std().item() == pytest.approx(expected.std().item(), rel=0.03)
    if "uniform" in fill or "trunc" in fill:
        limits = actual.min().item(), actual.max().item()
        assert limits == pytest.approx(
            (expected.min().item(), expected.max().item()), rel=1e-2, abs=1e-3
        )


@pytest.mark.parametrize(
    ("fill", "shape", "settings"),
    [
        ("eye_", (3, 4), {}), ("ones_", (2,), {}), ("zeros_", (2,), {}),
        ("constant_", (2,), {"val": 0.3}), ("dirac_", (4, 2, 3, 3), {}),
        ("dirac_", (4, 2, 3), {"groups": 2}),
    ],
)  # fmt: skip
def test_constants(fill, shape, settings, device, torch):
    expected = getattr(torch.nn.init, fill)(torch.empty(shape), **settings)
    assert getattr(init, fill)(edutorch.empty(*shape), **settings).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("name", "args"),
    [("Linear", (50, 400)), ("Conv2d", (8, 64, 5)), ("ConvTranspose2d", (64, 8, 5))],
)
def test_layers_start_as_pytorchs(name, args, device, torch):
    ours, theirs = getattr(nn, name)(*args), getattr(torch.nn, name)(*args)
    limit = theirs.weight.abs().max().item()
    assert ours.weight.abs().max().item() == pytest.approx(limit, rel=0.01)
    assert ours.weight.std().item() == pytest.approx(theirs.weight.std().item(), rel=0.05)
    assert limit / 2 < ours.bias.abs().max().item() < limit * 1.01


def test_parameters_are_filled_without_a_graph():
    weight = nn.Parameter(edutorch.empty(2, 2))
    assert init.ones_(weight) is weight
    assert weight.requires_grad and weight.is_leaf


def test_the_same_seed_gives_the_same_layer(device):
    edutorch.manual_seed(7)
    one = nn.Linear(3, 2)
    edutorch.manual_seed(7)
    assert nn.Linear(3, 2).weight.tolist() == one.weight.tolist()


def test_gains(torch):
    for name in ("linear", "relu", "tanh", "sigmoid", "selu", "conv2d"):
        assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert init.calculate_gain("leaky_relu", 0.3) == torch.nn.init.calculate_gain("leaky_relu", 0.3)


def test_what_cannot_be_initialised():
    with pytest.raises(RuntimeError, match="fewer than 2 dimensions"):
        init.kaiming_normal_(edutorch.empty(3))
    with pytest.raises(ValueError, match="fan_in"):
        init.kaiming_normal_(edutorch.empty(3, 3), mode="fan")
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("swish")
    with pytest.raises(ValueError, match="almost no normal number"):
        init.trunc_normal_(edutorch.empty(3), a=50.0, b=51.0)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (6, 2, 2), (2, 3, 3, 3), (0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_orthogonal(shape, dtype, device):
    edutorch.manual_seed(3)
    weight = edutorch.empty(*shape, dtype=getattr(edutorch, dtype), device=device)
    weight.requires_grad_()
    assert init.orthogonal_(weight, gain=2.0) is weight and weight.requires_grad
    matrix = weight.detach().cpu().reshape(shape[0], -1) if shape[0] else weight.detach().cpu()
    short = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    expected = 4 * edutorch.eye(short.shape[0], dtype=weight.dtype, device="cpu")
    assert edutorch.allclose(short, expected, atol=1e-4)
    with pytest.raises(RuntimeError, match="2 or more"):
        init.orthogonal_(weight.flatten()[:3])


@pytest.mark.parametrize("sparsity", [0.0, 0.25, 1.0])
def test_sparse(sparsity, device):
    edutorch.manual_seed(3)
    weight = init.sparse_(edutorch.empty(10, 4, device=device), sparsity, std=0.5)
    zeros = (weight == 0).sum(0).tolist()
    assert zeros == [{0.0: 0, 0.25: 3, 1.0: 10}[sparsity]] * 4
    with pytest.raises(RuntimeError, match="2 dimensions"):
        init.sparse_(edutorch.empty(3), 0.5)
