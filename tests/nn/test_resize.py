"""Interpolation, padding, channel shuffles and rarer convolutions, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import nn
from edutorch.nn import functional as F
from tests.nn.compare import assert_close, ours_of
from tests.nn.functions import assert_refused, compare_calls

IMAGE, LINE, VOLUME = (1, 2, 4, 5), (2, 1, 6), (1, 1, 3, 4, 2)
MODES = {"linear": LINE, "bilinear": IMAGE, "bicubic": IMAGE, "trilinear": VOLUME}


SIZES = [{"size": 7}, {"size": 2}, {"scale_factor": 1.7}, {"scale_factor": 0.6},
    {"scale_factor": 1.7, "recompute_scale_factor": True}]  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "area", *MODES])
def test_interpolate(mode, size, device, torch):
    shapes = [MODES[mode]] if mode in MODES else [LINE, IMAGE, VOLUME]
    for shape in shapes:
        for corners in (None, True, False) if mode in MODES else (None,):
            compare_calls(
                torch, device,
                lambda f, x, c=corners: f.interpolate(x, mode=mode, align_corners=c, **size),
                shape, twice=corners is None and size == {"size": 2},
            )  # fmt: skip


@pytest.mark.parametrize("size", [(2, 3), (7, 9), (4, 2)])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
def test_antialias(mode, size, device, torch):
    for corners in (False,) if mode == "lanczos" else (False, True):
        try:
            torch.nn.functional.interpolate(
                torch.zeros(1, 1, 4, 4), size, mode=mode, antialias=True
            )
        except (NotImplementedError, ValueError):
            pytest.skip("this PyTorch has no such mode")
        compare_calls(
            torch, device,
            lambda f, x, c=corners: f.interpolate(
                x, size, mode=mode, antialias=True, align_corners=c
            ), (1, 2, 8, 7), twice=False,
        )  # fmt: skip


@pytest.mark.parametrize("name", ["upsample", "upsample_nearest", "upsample_bilinear"])
def test_old_names(name, device, torch):
    with pytest.warns(UserWarning, match="deprecated"):
        compare_calls(torch, device, lambda f, x: getattr(f, name)(x, scale_factor=2), IMAGE)


def test_bytes(device, torch):
    x = (torch.arange(24).reshape(1, 1, 4, 6) * 10).to(torch.uint8)
    for mode in ("nearest", "bilinear"):
        expected = torch.nn.functional.interpolate(x, (3, 4), mode=mode)
        actual = F.interpolate(ours_of(x, device), (3, 4), mode=mode)
        assert actual.dtype is edutorch.uint8
        assert np.abs(actual.cpu().numpy().astype(int) - expected.numpy().astype(int)).max() <= 1


def test_half(device, torch):
    x = torch.randn(1, 1, 4, 4, dtype=torch.float16)
    actual = F.interpolate(ours_of(x, device), 3, mode="bilinear")
    assert_close(actual, torch.nn.functional.interpolate(x, 3, mode="bilinear"), atol=4e-3)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize(
    ("shape", "pad"),
    [((2, 1, 5), (2, 1)), ((2, 5), (-1, 2)), ((1, 1, 4, 5), (1, 2, 0, 3)),
     ((1, 4, 5), (-1, 0, 2, -1)), ((1, 1, 3, 4, 3), (1, 2, 0, 1, 2, 1)),
     ((1, 3, 4, 3), (1, -1, 0, 1, -1, 1))],
)  # fmt: skip
def test_pad(shape, pad, mode, device, torch):
    compare_calls(torch, device, lambda f, x: f.pad(x, pad, mode), shape)


def test_channel_shuffle(device, torch):
    compare_calls(torch, device, lambda f, x: f.channel_shuffle(x, 3), (2, 6, 2, 3))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize(
    "settings",
    [{}, {"stride": 2, "padding": 1, "output_padding": 1}, {"dilation": 2, "groups": 2}],
)
def test_conv_transpose(rank, settings, device, torch):
    sizes = (3, 2, 3)[:rank]
    bias = 4 if "groups" in settings else 2
    for shape in ((1, 2, *sizes), (2, *sizes)):
        compare_calls(
            torch, device,
            lambda f, x, w, b: getattr(f, f"conv_transpose{rank}d")(x, w, b, **settings),
            shape, (2, 2, *(2,) * rank), (bias,), twice=len(shape) == rank + 2,
        )  # fmt: skip


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_padding_by_name(rank, padding, device, torch):
    compare_calls(
        torch, device,
        lambda f, x, w: getattr(f, f"conv{rank}d")(x, w, padding=padding, dilation=2),
        (1, 1, *(4, 5, 4)[:rank]), (1, 1, *(2, 3, 2)[:rank]), twice=rank < 3,
    )  # fmt: skip


def test_conv_tbc(device, torch):
    x, w, b = (torch.randn(s, dtype=torch.float64) for s in ((5, 2, 3), (3, 3, 4), (4,)))
    actual = F.conv_tbc(ours_of(x, device), ours_of(w, device), ours_of(b, device), 1)
    assert_close(actual, torch.conv_tbc(x, w, b, 1))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_output_size(rank, device, torch):
    name, size = f"ConvTranspose{rank}d", (6, 5, 6)[:rank]
    theirs = getattr(torch.nn, name)(2, 3, 3, stride=2, padding=1)
    ours = getattr(nn, name)(2, 3, 3, stride=2, padding=1)
    ours.load_state_dict({k: ours_of(v, device) for k, v in theirs.state_dict().items()})
    x = torch.randn(1, 2, *(3,) * rank)
    for wanted in (size, (1, 3, *size)):
        actual = ours(ours_of(x, device), output_size=wanted)
        assert_close(actual, theirs(x, output_size=wanted), rtol=1e-4, atol=1e-5)
    assert_refused(
        lambda: ours(ours_of(x, device), output_size=(9,) * rank), "valid sizes range from"
    )


def test_refusals():
    ones = edutorch.ones
    image = ones(1, 2, 4, 4)
    assert_refused(lambda: F.interpolate(image, 0), "greater than 0")
    assert_refused(lambda: F.interpolate(image, 3, recompute_scale_factor=True), "not meaningful")
    assert_refused(lambda: F.interpolate(image, 3, antialias=True), "antialias is restricted")
    assert_refused(lambda: F.interpolate(image, 3, mode="trilinear"), "needs 5 axes")
    assert_refused(lambda: F.interpolate(image, 3, mode="cubic"), "mode must be one of")
    assert_refused(lambda: F.channel_shuffle(image, 3), "divisible by groups = 3")
    assert_refused(lambda: F.pad(image, (1, 1), "reflect"), "pads all axes behind the channels")
    assert_refused(lambda: F.pad(image, (1, 1, 1, 1), "replicate", 1.0), "doesn't take in value")
    assert_refused(
        lambda: F.conv_transpose1d(ones(1, 2, 3), ones(3, 1, 2)), "expected 3 input channels"
    )
    assert_refused(
        lambda: F.conv_transpose2d(image, ones(2, 1, 2, 2), output_padding=1),
        "must be smaller than either stride or dilation",
    )


def test_pixels_are_rounded_after_the_rows_as_in_pytorch(torch):
    """Overshoot of the rows is cut at 0 and 255 before the columns are resized."""
    pixels = np.random.default_rng(0).integers(0, 256, (1, 3, 17, 11)).astype(np.uint8)
    settings = {"size": (26, 17), "mode": "bicubic", "antialias": True}
    theirs = torch.nn.functional.interpolate(torch.from_numpy(pixels), **settings)
    ours = edutorch.nn.functional.interpolate(edutorch.from_numpy(pixels), **settings)
    assert np.abs(ours.int().numpy() - theirs.int().numpy()).max() <= 1


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("dtype", [edutorch.uint8, edutorch.float32])
def test_channels_last_stays(mode, dtype):
    image = (edutorch.arange(2 * 3 * 5 * 4) % 251).to(dtype).reshape(2, 3, 5, 4)
    turned = image.contiguous(memory_format=edutorch.channels_last)
    expected = F.interpolate(image, (7, 3), mode=mode)
    resized = F.interpolate(turned, (7, 3), mode=mode)
    assert expected.is_contiguous()
    assert resized.is_contiguous(memory_format=edutorch.channels_last)
    assert not resized.is_contiguous()
    # In another order of axes the sums may be rounded in another way.
    np.testing.assert_allclose(resized.numpy(), expected.numpy(), rtol=1e-6, atol=1e-6)


def test_an_unknown_mode_is_not_implemented():
    with pytest.raises(NotImplementedError, match="got 'hamming'"):
        F.interpolate(edutorch.ones(1, 1, 2, 2), 3, mode="hamming")
