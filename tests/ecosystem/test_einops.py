"""The real einops: its functions on our tensors, its layers, and a compiled function."""

import numpy as np
import pytest
import torch
from torch import nn

einops = pytest.importorskip("einops")

from einops.layers import torch as layers  # noqa: E402


@pytest.fixture
def images():
    return np.random.default_rng(0).standard_normal((2, 6, 4, 3), np.float32)


REARRANGED = [
    ("b h w c -> b c h w", {}),
    ("b (h h1) (w w1) c -> b h w (c h1 w1)", {"h1": 2, "w1": 2}),
    ("b h w c -> (b h) w c", {}),
    ("... c -> c ...", {}),
    ("b h w c -> b (h w c)", {}),
    ("b h w c -> 1 b h () w c", {}),
]
REDUCED = [
    ("b h w c -> b c", "mean"),
    ("b (h 2) (w 2) c -> b h w c", "max"),
    ("b h w c -> ", "sum"),
    ("b h w c -> h w", "min"),
    ("b h w c -> b 1 1 c", "prod"),
]


@pytest.mark.parametrize(("pattern", "sizes"), REARRANGED)
def test_rearrange_as_in_numpy_and_its_gradient(images, pattern, sizes):
    x = torch.from_numpy(images).requires_grad_()
    y = einops.rearrange(x, pattern, **sizes)
    expected = einops.rearrange(images, pattern, **sizes)
    assert tuple(y.shape) == expected.shape
    assert np.array_equal(y.detach().numpy(), expected)
    weights = torch.arange(float(y.numel())).reshape(y.shape)
    (y * weights).sum().backward()
    left, right = pattern.split(" -> ")
    if "()" not in right:
        inverse = einops.rearrange(weights, f"{right} -> {left}", **sizes, **lengths(left, images))
        assert torch.equal(x.grad, inverse)


def lengths(pattern, images):
    """Return the lengths of axes that a pattern names alone."""
    names = pattern.split()
    if "(" in pattern or "..." in pattern:
        return {}
    return dict(zip(names, images.shape, strict=True))


@pytest.mark.parametrize(("pattern", "reduction"), REDUCED)
def test_reduce_as_in_numpy_and_its_gradient(images, pattern, reduction):
    y = einops.reduce(torch.from_numpy(images), pattern, reduction)
    np.testing.assert_allclose(
        y.numpy(), einops.reduce(images, pattern, reduction), rtol=1e-4, atol=1e-6
    )
    x = torch.from_numpy(images[:1, :4, :2]).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: einops.reduce(x, pattern, reduction), [x])


def test_repeat_pack_unpack_and_einsum(images):
    x = torch.from_numpy(images)
    assert torch.equal(einops.repeat(x, "b h w c -> b (h 2) w c"), x.repeat_interleave(2, 1))
    packed, shapes = einops.pack([x, x[:, 0], x[:, 0, 0]], "b * c")
    assert tuple(packed.shape) == (2, 6 * 4 + 4 + 1, 3)
    parts = einops.unpack(packed, shapes, "b * c")
    assert all(
        torch.equal(part, whole)
        for part, whole in zip(parts, (x, x[:, 0], x[:, 0, 0]), strict=True)
    )
    product = einops.einsum(x, x, "b h w c, b h w d -> b c d")
    torch.testing.assert_close(product, torch.einsum("bhwc,bhwd->bcd", x, x))
    assert einops.parse_shape(x, "b _ w _") == {"b": 2, "w": 4}
    assert np.array_equal(einops.asnumpy(x), images)


def test_a_wrong_pattern_is_explained(images):
    x = torch.from_numpy(images)
    with pytest.raises(einops.EinopsError, match="Shape mismatch"):
        einops.rearrange(x, "b (h n) w c -> b h n w c", n=5)
    with pytest.raises(einops.EinopsError, match="Wrong shape"):
        einops.rearrange(x, "b h w -> b w h")


def make_network():
    return nn.Sequential(
        layers.Rearrange("b h w c -> b c h w"),
        nn.Conv2d(3, 4, 3, padding=1),
        layers.Reduce("b c (h 2) (w 2) -> b c h w", "max"),
        layers.EinMix("b c h w -> b h d", weight_shape="c w d", bias_shape="d", c=4, w=2, d=5),
        layers.Rearrange("b h d -> b (h d)"),
        nn.Linear(15, 1),
    )


def test_layers_learn_and_load_what_was_saved(images):
    torch.manual_seed(0)
    x, target = torch.from_numpy(images), torch.tensor([[1.0], [-1.0]])
    network = make_network()
    assert [*network.state_dict()] == [
        "1.weight", "1.bias", "3.weight", "3.bias", "5.weight", "5.bias",
    ]  # fmt: skip
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    losses = []
    for _ in range(30):
        loss = nn.functional.mse_loss(network(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    other = make_network()
    other.load_state_dict(network.state_dict())
    assert torch.equal(other(x), network(x))


def test_compiled_functions_and_shapes_without_values(images):
    x = torch.from_numpy(images)

    def patches(x):
        return einops.rearrange(x, "b (h p) (w q) c -> b (h w) (p q c)", p=2, q=2).tanh()

    expected = patches(x)
    assert torch.equal(torch.compile(patches, fullgraph=True)(x), expected)
    assert patches(x.to("meta")).shape == expected.shape
