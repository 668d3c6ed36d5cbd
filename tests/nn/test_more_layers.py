"""Layers of sequences and volumes, resizing, gates, distances, attention against PyTorch."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import nn
from tests.nn.compare import assert_close, compare_modules, ours_of
from tests.nn.test_layers import name_of

SEQUENCE, IMAGE, VOLUME = (2, 4, 9), (2, 4, 5, 6), (2, 4, 5, 6, 4)
CASES = [
    ("Conv1d", (4, 6, 3), {}, SEQUENCE),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 2, "dilation": 2, "groups": 2}, SEQUENCE),
    ("Conv1d", (4, 6, 4), {"padding": "same", "bias": False}, SEQUENCE[1:]),
    ("Conv1d", (4, 6, 3), {"padding": 2, "padding_mode": "circular"}, SEQUENCE),
    ("Conv3d", (4, 6, 2), {}, VOLUME),
    ("Conv3d", (4, 6, (3, 2, 1)), {"stride": (2, 1, 2), "padding": (1, 0, 1)}, VOLUME),
    ("Conv3d", (4, 6, 2), {"dilation": (2, 1, 1), "groups": 2, "padding": "same"}, VOLUME),
    ("Conv3d", (4, 6, 3), {"padding": 1, "padding_mode": "replicate"}, VOLUME[1:]),
    ("ConvTranspose1d", (4, 6, 3), {}, SEQUENCE),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1}, SEQUENCE),
    ("ConvTranspose1d", (4, 6, 2), {"groups": 2, "dilation": 2}, SEQUENCE[1:]),
    ("MaxPool1d", (3,), {"stride": 2, "padding": 1}, SEQUENCE),
    ("MaxPool1d", (2,), {"ceil_mode": True}, SEQUENCE[1:]),
    ("AvgPool1d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, SEQUENCE),
    ("AvgPool1d", (2,), {"ceil_mode": True}, SEQUENCE[1:]),
    ("AdaptiveAvgPool1d", (4,), {}, SEQUENCE),
    ("AdaptiveAvgPool1d", (1,), {}, SEQUENCE),
    ("InstanceNorm1d", (4,), {}, SEQUENCE),
    ("InstanceNorm2d", (4,), {"affine": True, "track_running_stats": True}, IMAGE),
    ("InstanceNorm2d", (4,), {"eps": 1e-2}, IMAGE[1:]),
    ("Mish", (), {}, (3, 4)),
    ("Hardswish", (), {}, (3, 4)),
    ("PReLU", (), {}, (3, 4)),
    ("PReLU", (4,), {"init": 0.1}, IMAGE),
    ("GLU", (), {"dim": 1}, IMAGE),
    ("PixelShuffle", (2,), {}, IMAGE),
    ("PixelUnshuffle", (2,), {}, (2, 3, 4, 6)),
    ("Upsample", (), {"scale_factor": 2}, IMAGE),
    ("Upsample", (), {"size": (3, 11)}, IMAGE),
    ("Upsample", (), {"size": 7, "mode": "nearest-exact"}, SEQUENCE),
    ("Upsample", (), {"scale_factor": 1.7, "mode": "linear"}, SEQUENCE),
    ("Upsample", (), {"scale_factor": (2, 0.5), "mode": "bilinear"}, IMAGE),
    ("Upsample", (), {"size": (9, 1), "mode": "bilinear", "align_corners": True}, IMAGE),
    ("Upsample", (), {"size": 3, "mode": "trilinear", "align_corners": False}, VOLUME),
]


@pytest.mark.parametrize("case", CASES, ids=name_of)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_layer_equals_pytorch(case, training, device, torch):
    name, args, settings, shape = case
    torch.manual_seed(1)
    theirs = getattr(torch.nn, name)(*args, **settings).double().train(training)
    ours = getattr(nn, name)(*args, **settings).double().train(training)
    compare_modules(ours, theirs, [torch.randn(shape, dtype=torch.float64) * 2], device)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())


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


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("name", "settings", "count"),
    [("MarginRankingLoss", {"margin": 0.3}, 2), ("HingeEmbeddingLoss", {}, 1),
     ("CosineEmbeddingLoss", {"margin": 0.1}, 2), ("TripletMarginLoss", {"p": 3.0}, 3),
     ("TripletMarginLoss", {"swap": True}, 3)],
)  # fmt: skip
def test_ranking_losses(name, settings, count, reduction, device, torch):
    torch.manual_seed(2)
    rows = name in ("CosineEmbeddingLoss", "TripletMarginLoss")
    inputs = [torch.randn((6, 3) if rows else (6,), dtype=torch.float64) for _ in range(count)]
    if count < 3:
        inputs.append(torch.tensor([1, -1, 1, 1, -1, -1], dtype=torch.float64))
    settings = {**settings, "reduction": reduction}
    ours, theirs = getattr(nn, name)(**settings), getattr(torch.nn, name)(**settings)
    compare_modules(ours, theirs, inputs, device, differentiable=range(count))


@pytest.mark.parametrize(
    ("name", "settings"),
    [("CosineSimilarity", {}), ("CosineSimilarity", {"dim": 0, "eps": 1e-6}),
     ("PairwiseDistance", {}), ("PairwiseDistance", {"p": 1.0, "keepdim": True})],
)  # fmt: skip
def test_distances(name, settings, device, torch):
    torch.manual_seed(2)
    inputs = [torch.randn(4, 3, dtype=torch.float64) for _ in range(2)]
    ours, theirs = getattr(nn, name)(**settings), getattr(torch.nn, name)(**settings)
    compare_modules(ours, theirs, inputs, device, differentiable=(0, 1))


@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "float", "scale", "gqa"])
def test_attention(kind, device, torch):
    torch.manual_seed(3)
    heads = 2 if kind == "gqa" else 4
    shapes = [(2, 4, 3, 5), (2, heads, 6, 5), (2, heads, 6, 2)]
    theirs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    ours = [ours_of(each, device, True) for each in theirs]
    seen = torch.rand(3, 6) > 0.4
    seen[1] = False  # a query that may see nothing
    masks = {
        "bool": seen,
        "float": torch.where(seen, torch.randn(3, 6).double(), float("-inf")),
    }
    settings = {"causal": {"is_causal": True}, "scale": {"scale": 0.3},
        "gqa": {"enable_gqa": True}}.get(kind, {})  # fmt: skip
    mask = masks.get(kind)
    attend = torch.nn.functional.scaled_dot_product_attention
    expected = attend(*theirs, attn_mask=mask, **settings)
    own_mask = None if mask is None else ours_of(mask, device)
    found = nn.functional.scaled_dot_product_attention(*ours, attn_mask=own_mask, **settings)
    assert_close(found, expected)
    expected.square().sum().backward()
    (found * found).sum().backward()
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
