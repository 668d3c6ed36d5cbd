"""Borders, pooling, folding and norms as layers, against PyTorch: text, state and numbers."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import nn
from tests.nn.compare import assert_close, compare_modules, ours_of
from tests.nn.functions import refuses
from tests.nn.test_layers import name_of

LINE, IMAGE, VOLUME = (2, 4, 7), (2, 4, 5, 6), (1, 4, 5, 6, 4)
BORDERS = [
    (f"{kind}Pad{rank}d", args, {}, shape)
    for kind in ("Constant", "Zero", "Reflection", "Replication", "Circular")
    for rank, shape in ((1, LINE), (2, IMAGE), (3, VOLUME))
    for width in (1, (2, 1, 0, 2, 1, 1)[: 2 * rank])
    for args in [(width, 1.5) if kind == "Constant" else (width,)]
]
CASES = [
    *BORDERS,
    ("MaxPool3d", (2,), {"stride": 1, "padding": 1}, VOLUME),
    ("AvgPool3d", ((2, 1, 2),), {"ceil_mode": True}, VOLUME),
    ("AdaptiveAvgPool3d", ((2, None, 3),), {}, VOLUME),
    ("AdaptiveMaxPool1d", (3,), {}, LINE),
    ("AdaptiveMaxPool2d", ((3, None),), {}, IMAGE),
    ("AdaptiveMaxPool3d", (2,), {}, VOLUME[1:]),
    ("LPPool1d", (2, 3), {"stride": 2}, LINE),
    ("LPPool2d", (2, (2, 3)), {"ceil_mode": True}, IMAGE),
    ("LPPool3d", (4, 2), {}, VOLUME),
    ("LocalResponseNorm", (3,), {"alpha": 0.1, "k": 2.0}, IMAGE),
    ("Unfold", ((2, 3),), {"padding": 1, "stride": 2}, IMAGE),
    ("Fold", ((4, 5), 2), {}, (2, 8, 12)),
    ("ChannelShuffle", (2,), {}, IMAGE),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, IMAGE),
    ("UpsamplingBilinear2d", (), {"size": (7, 3)}, IMAGE),
    ("ConvTranspose3d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1}, VOLUME),
    ("ConvTranspose3d", (4, 6, 2), {"groups": 2, "dilation": 2}, VOLUME[1:]),
    ("BatchNorm3d", (4,), {}, VOLUME),
    ("InstanceNorm3d", (4,), {"affine": True}, VOLUME),
]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_layer_equals_pytorch(case, device, torch):
    name, args, settings, shape = case
    torch.manual_seed(1)
    theirs = getattr(torch.nn, name)(*args, **settings).double()
    ours = getattr(nn, name)(*args, **settings).double()
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = torch.rand(shape, dtype=torch.float64) + 0.5 * (not name.startswith("LP")) * torch.randn(
        shape, dtype=torch.float64
    )
    compare_modules(ours, theirs, [x], device)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_undoes_pooling(rank, device, torch):
    x = torch.randn(1, 2, *(6, 4, 4)[:rank], dtype=torch.float64)
    results = []
    for library, image in ((torch.nn, x), (nn, ours_of(x, device))):
        pool = getattr(library, f"MaxPool{rank}d")(2, 2, return_indices=True)
        back = getattr(library, f"MaxUnpool{rank}d")(2, 2)
        results += [back(*pool(image), output_size=image.shape), repr(back)]
    assert_close(results[2], results[0])
    assert results[3] == results[1]


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_pooling(rank, device, torch):
    u = torch.rand(1, 2, rank, dtype=torch.float64)
    x = torch.randn(1, 2, *(7, 8, 9)[:rank], dtype=torch.float64)
    name = f"FractionalMaxPool{rank}d"
    theirs = getattr(torch.nn, name)(2, output_ratio=0.5, return_indices=True, _random_samples=u)
    ours = getattr(nn, name)(
        2, output_ratio=0.5, return_indices=True, _random_samples=ours_of(u, device)
    )
    assert_close(ours(ours_of(x, device)), theirs(x))
    assert repr(ours) == repr(theirs)


def test_refusals():
    refuses(lambda: nn.FractionalMaxPool2d(2), "either output_size or output_ratio")
    refuses(lambda: nn.FractionalMaxPool2d(2, output_ratio=1.5), "between 0 and 1")
    refuses(lambda: nn.ZeroPad2d((1, 2, 3)), "expected one number or 4")
    refuses(lambda: nn.BatchNorm3d(2)(edutorch.ones(1, 2, 3, 3)), "expected 5D input")
