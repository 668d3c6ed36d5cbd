"""Layers of sequences and volumes, resizing, gates, distances, attention against PyTorch."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import nn
from tests.nn.compare import assert_close, ours_of

SECOND = [("Conv1d", (2, 2, 2), (1, 2, 4)), ("ConvTranspose1d", (2, 2, 2), (1, 2, 3)),
    ("Conv3d", (1, 2, 2), (1, 1, 3, 2, 2)), ("InstanceNorm1d", (2,), (2, 2, 3)),
    ("Mish", (), (3,)), ("GLU", (), (2, 4)), ("PReLU", (), (2, 3)),
    ("MaxPool1d", (2,), (1, 1, 4)), ("AvgPool1d", (2,), (1, 1, 4)),
    ("Upsample", (None, 2, "bilinear"), (1, 1, 2, 3))]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "shape"), SECOND)
def test_differentiable_twice(name, args, shape, device):
    edutorch.manual_seed(4)
    layer = getattr(nn, name)(*args).double().to(device)
    x = edutorch.randn(*shape, dtype=edutorch.float64, device=device, requires_grad=True)
    assert edutorch.autograd.gradgradcheck(lambda x: layer(x), (x,))


@pytest.mark.parametrize("case", ["plain", "causal", "bool", "float", "scale", "gqa"])
def test_attention(case, device, torch):
    torch.manual_seed(3)
    heads = 2 if case == "gqa" else 4
    shapes = [(2, 4, 3, 5), (2, heads, 6, 5), (2, heads, 6, 2)]
    theirs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    ours = [ours_of(their, device, True) for their in theirs]
    seen = torch.rand(3, 6) > 0.4
    seen[1] = False  # a query that may see nothing
    masks = {
        "bool": seen,
        "float": torch.where(seen, torch.randn(3, 6).double(), float("-inf")),
    }
    settings = {"causal": {"is_causal": True}, "scale": {"scale": 0.3},
        "gqa": {"enable_gqa": True}}.get(case, {})  # fmt: skip
    mask = masks.get(case)
    attend = torch.nn.functional.scaled_dot_product_attention
    expected = attend(*theirs, attn_mask=mask, **settings)
    own_mask = None if mask is None else ours_of(mask, device)
    result = nn.functional.scaled_dot_product_attention(*ours, attn_mask=own_mask, **settings)
    assert_close(result, expected)
    expected.square().sum().backward()
    (result * result).sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        assert_close(mine.grad, other.grad)


F = nn.functional
WRONG = [
    (lambda x: F.conv1d(x, edutorch.ones(2, 5, 2)), "expected 5 input channels, got 4"),
    (lambda x: F.conv3d(x, edutorch.ones(2, 4, 2, 2, 2)), "expected (n c d h w)"),
    (lambda x: F.glu(x), "Halving dimension must be even"),
    (lambda x: F.prelu(x, edutorch.ones(3)), "expected 1 slope or 4"),
    (lambda x: F.pixel_shuffle(x, 3), "should be a multiple of 3² = 9"),
    (lambda x: F.interpolate(x), "either size or scale_factor"),
    (lambda x: F.interpolate(x, 3, 2.0), "only one of size or scale_factor"),
    (lambda x: F.interpolate(x, 3, mode="bilinear"), "needs 4 axes"),
    (lambda x: F.interpolate(x, 3, align_corners=True), "align_corners option can only"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises((RuntimeError, ValueError)) as caught:
        call(edutorch.ones(2, 4, 9))
    assert message in str(caught.value)


def test_batch_norm_without_running_averages_trains():
    layer = nn.BatchNorm1d(3, track_running_stats=False)
    y = layer(edutorch.randn(8, 3))
    assert layer.num_batches_tracked is None
    assert abs(y.mean(0)).max() < 1e-6


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_takes_a_transposed_gradient_of_one_image(device, training):
    """As where tokens follow. PyTorch 2.13 reads it as if it were contiguous."""
    edutorch.manual_seed(4)
    layer = nn.BatchNorm2d(8).to(device).train(training)
    x = edutorch.randn(1, 8, 4, 4, device=device, requires_grad=True)
    g = edutorch.randn(1, 4, 4, 8, device=device).permute(0, 3, 1, 2)
    wanted = (x, layer.weight, layer.bias)
    transposed = edutorch.autograd.grad(layer(x), wanted, g)
    for ours, expected in zip(
        transposed, edutorch.autograd.grad(layer(x), wanted, g.contiguous()), strict=True
    ):
        assert edutorch.allclose(ours, expected, atol=1e-5)
    assert edutorch.allclose(transposed[2], g.sum((0, 2, 3)), atol=1e-5)
