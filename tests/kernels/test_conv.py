"""Convolution without columns is the same sum as with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

import edutorch
from edutorch.backends import reference_only
from edutorch.backends.kernel_registry import slot_of
from edutorch.errors import ShapeError
from edutorch.kernels import make
from edutorch.kernels.cpu import conv, conv_gradients
from edutorch.kernels.cpu.conv_common import plan_convolution
from edutorch.kernels.cpu.conv_taps import meeting_taps
from edutorch.nn.functional.conv import (
    conv2d,
    conv_nd,
    conv_transpose_nd,
    conv_weight_grad,
    resolve_window,
)

TOLERANCE = {np.float32: 2e-6, np.float64: 1e-14}


@pytest.fixture(scope="module")
def kernels():
    return {
        "conv2d": conv.conv2d(),
        "conv_nd": conv.conv_nd(),
        "conv_transpose_nd": conv.conv_transpose_nd(),
        "conv_weight_grad": conv_gradients.conv_weight_grad(),
        "bias": conv_gradients.conv2d_bias(),
    }


def definition(op, *arguments):
    """What the definition computes in float64."""
    wide = (a.astype("d") if isinstance(a, np.ndarray) else a for a in arguments)
    with reference_only():
        return op.op.forward(np, *wide)


def assert_near(result, expected, dtype, terms):
    assert result.dtype == dtype
    assert result.shape == expected.shape
    scale = np.abs(expected).max() + np.sqrt(terms)
    assert np.abs(result - expected).max() <= TOLERANCE[dtype] * scale


@st.composite
def cases(draw):
    """Draw n, groups, channels and filters of each, and for each axis size, kernel, … ."""
    rank = draw(st.integers(1, 3))
    small = st.integers(1, 3)
    axes = []
    for _ in range(rank):
        kernel, stride, dilation = draw(small), draw(small), draw(st.integers(1, 2))
        reach = dilation * (kernel - 1) + 1
        padding = draw(st.integers(0, 3))
        size = draw(st.integers(max(1, reach - 2 * padding), 11))
        axes.append((size, kernel, stride, padding, dilation))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    channels, filters = draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 7, 16, 37, 70]))
    return draw(st.integers(1, 7)), groups, channels, filters, axes


@settings(max_examples=40, deadline=None)
@given(case=cases(), dtype=st.sampled_from([np.float32, np.float64]), bias=st.booleans())
def test_the_three_faces(kernels, case, dtype, bias):
    n, groups, channels, filters, axes = case
    size, kernel, stride, padding, dilation = map(tuple, zip(*axes, strict=True))
    generator = np.random.default_rng(n)

    def random(*shape):
        return generator.normal(size=shape).astype(dtype)

    x = random(n, groups * channels, *size)
    w = random(groups * filters, channels, *kernel)
    b = random(groups * filters) if bias else None
    arguments = x, w, b, stride, padding, dilation, groups
    expected = definition(conv_nd, *arguments)
    y = kernels["conv_nd"](*arguments)
    few = expected[:, 0].size < conv.MIN_POSITIONS
    assert (y is None) == few
    if few:
        return
    assert_near(y, expected, dtype, w[0].size)
    _, stride, pads, dilation = resolve_window(w.shape, stride, padding, dilation)
    g = random(*y.shape)
    arguments = g, w, size, stride, pads, dilation, groups
    expected = definition(conv_transpose_nd, *arguments)
    assert_near(kernels["conv_transpose_nd"](*arguments), expected, dtype, w[:, 0].size)
    arguments = x, g, kernel, stride, pads, dilation, groups
    expected = definition(conv_weight_grad, *arguments)
    assert_near(kernels["conv_weight_grad"](*arguments), expected, dtype, g[:, 0].size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, 5, 7), (40, 3, 28, 28), (2, 70, 5, 4, 3)])
def test_the_bias(kernels, shape, dtype):
    g = np.random.default_rng(0).normal(size=shape).astype(dtype)
    axes = 0, *range(2, g.ndim)
    assert_near(kernels["bias"](g), g.astype("d").sum(axes), dtype, g[:, 0].size)
    g[1, 2] = np.inf
    np.testing.assert_array_equal(np.isfinite(kernels["bias"](g)), np.isfinite(g.sum(axes)))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("shape", "filters", "settings"),
    [
        ((5, 20, 26, 27), (24, 20, 3, 3), (1, 1, 1, 1)),  # tiles of one image
        ((33, 48, 5, 5), (100, 48, 3, 3), (1, "same", 1, 1)),  # several images in a tile
        ((2, 3, 70, 61), (8, 3, 7, 7), (2, 3, 1, 1)),  # four phases
        ((3, 24, 40, 40), (24, 1, 3, 3), (1, 1, 1, 24)),  # every channel by itself
    ],
)
def test_cut_among_threads(kernels, shape, filters, settings, threads):
    generator = np.random.default_rng(0)
    x, w = (generator.normal(size=dims).astype("f") for dims in (shape, filters))
    before = edutorch.get_num_threads()
    edutorch.set_num_threads(threads)
    try:
        y = kernels["conv2d"](x, w, None, *settings)
        assert_near(y, definition(conv2d, x, w, None, *settings), np.float32, w[0].size)
        _, stride, pads, dilation = resolve_window(w.shape, *settings[:3])
        back = y, w, shape[2:], stride, pads, dilation, settings[3]
        dx = kernels["conv_transpose_nd"](*back)
        assert_near(dx, definition(conv_transpose_nd, *back), np.float32, w[:, 0].size)
        back = x, y, filters[2:], stride, pads, dilation, settings[3]
        dw = kernels["conv_weight_grad"](*back)
        assert_near(dw, definition(conv_weight_grad, *back), np.float32, y[:, 0].size)
        assert dw.tobytes() == kernels["conv_weight_grad"](*back).tobytes()
        assert y.tobytes() == kernels["conv2d"](x, w, None, *settings).tobytes()
    finally:
        edutorch.set_num_threads(before)


@pytest.mark.parametrize(("n", "bare"), [(12, True), (11, False), (1, True), (7, True)])
def test_nothing_beside_the_images_is_read(n, bare):
    """Six images of 4 x 4 are handled together; of eleven, five are left over."""
    plan, _ = plan_convolution("conv2d", (n, 3, 4, 4), (8, 3, 1, 1), 1, 0, 1)
    assert plan.frame.unpadded is bare
    last = plan.starts.max() + plan.offsets.max()
    assert last < plan.images * 3 * 4 * 4
    assert n % plan.images == 0 or not bare


def test_other_memory(kernels):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(4, 9, 9, 6)).astype("f").transpose(0, 3, 1, 2)
    w = generator.normal(size=(3, 3, 6, 8)).astype("f").transpose(3, 2, 0, 1)
    x.flags.writeable = w.flags.writeable = False
    settings = 1, 0, 1, 1
    y = kernels["conv2d"](x, w, None, *settings)
    assert_near(y, definition(conv2d, x, w, None, *settings), np.float32, 54)
    g = np.broadcast_to(np.float32(1), y.shape)
    back = g, w, (9, 9), (1, 1), ((0, 0), (0, 0)), (1, 1), 1
    assert_near(
        kernels["conv_transpose_nd"](*back), definition(conv_transpose_nd, *back), np.float32, 72
    )
    back = x, g, (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1), 1
    assert_near(
        kernels["conv_weight_grad"](*back), definition(conv_weight_grad, *back), np.float32, 196
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_where_the_definition_has_it(kernels, value):
    generator = np.random.default_rng(0)
    x, w = generator.normal(size=(2, 3, 8, 8)), generator.normal(size=(5, 3, 3, 3))
    x[1, 2, 0, 0] = value
    pads = ((1, 1), (1, 1))
    once = (1, 1)
    y = kernels["conv2d"](x, w, None, 1, 1, 1, 1)
    np.testing.assert_allclose(y, definition(conv2d, x, w, None, 1, 1, 1, 1), atol=1e-13)
    g = generator.normal(size=y.shape)
    back = x, g, (3, 3), once, pads, once, 1
    np.testing.assert_allclose(
        kernels["conv_weight_grad"](*back), definition(conv_weight_grad, *back), atol=1e-12
    )
    g[0, 0, 7, 7] = value
    back = g, w, (8, 8), once, pads, once, 1
    np.testing.assert_allclose(
        kernels["conv_transpose_nd"](*back), definition(conv_transpose_nd, *back), atol=1e-13
    )
    w[0, 0, 0, 0] = value
    assert kernels["conv_transpose_nd"](g, w, (8, 8), once, pads, once, 1) is None


SMALL = [((1, 1), 3, 1, 1), ((2, 2), 5, 1, 2), ((2, 1), 3, 2, 1), ((1, 3), 5, 1, 2)]
"""The sizes of an image, then of the filters, their stride and padding; some taps meet padding."""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("size", "taps", "stride", "padding"), SMALL)
def test_taps_that_meet_padding_alone(kernels, size, taps, stride, padding, dtype):
    assert meeting_taps(size, (taps, taps), (stride,) * 2, ((padding,) * 2,) * 2, (1, 1))
    generator = np.random.default_rng(0)
    x, w = generator.normal(size=(16, 32, *size)), generator.normal(size=(64, 32, taps, taps))
    x, w = x.astype(dtype), w.astype(dtype)
    case = x, w, None, stride, padding, 1, 1
    y = kernels["conv2d"](*case)
    assert_near(y, definition(conv2d, *case), dtype, 32 * taps**2)
    steps, pads = (stride,) * 2, ((padding,) * 2,) * 2
    g = generator.normal(size=y.shape).astype(dtype)
    case = x, g, (taps, taps), steps, pads, (1, 1), 1
    grad_weight = kernels["conv_weight_grad"](*case)
    assert_near(grad_weight, definition(conv_weight_grad, *case), dtype, 16)
    assert not grad_weight.all()
    case = g, w, size, steps, pads, (1, 1), 1
    grad_input = kernels["conv_transpose_nd"](*case)
    assert_near(grad_input, definition(conv_transpose_nd, *case), dtype, 64 * taps**2)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_padding_times_what_is_not_finite_is_the_definitions(kernels, value):
    x, w = np.ones((16, 32, 1, 1), "f"), np.ones((64, 32, 3, 3), "f")
    w[0, 0, 0, 0] = value
    y = kernels["conv2d"](x, w, None, 1, 1, 1, 1)
    np.testing.assert_array_equal(y, definition(conv2d, x, w, None, 1, 1, 1, 1))
    assert np.isnan(y[:, 0]).all()
    assert np.isfinite(y[:, 1:]).all()


def test_mistakes_and_other_types_are_the_definitions_business(kernels):
    x, w = np.zeros((2, 4, 8, 8), "f"), np.zeros((6, 4, 3, 3), "f")
    run = kernels["conv2d"]
    assert run(x[:, :3], w, None, 1, 0, 1, 1) is None
    assert run(x, w.astype("d"), None, 1, 0, 1, 1) is None
    assert run(x.astype("f2"), w.astype("f2"), None, 1, 0, 1, 1) is None
    assert run(x[:0], w, None, 1, 0, 1, 1) is None
    with pytest.raises(ShapeError, match="Kernel size can't be greater than actual input size"):
        run(x[:, :, :2], w, None, 1, 0, 1, 1)
    with pytest.raises(ShapeError, match="6 output channels cannot be cut into 4 groups"):
        run(x, w[:, :1], None, 1, 0, 1, 4)


def test_a_layer_learns_by_kernels_as_by_definitions():
    for key in ("conv2d", "conv_transpose_nd", "conv_weight_grad"):
        slot = slot_of(key)
        assert slot is not None
        make(slot)
    x = edutorch.randn(8, 3, 16, 16)

    def gradients():
        edutorch.manual_seed(0)
        layers = edutorch.nn.Sequential(
            edutorch.nn.Conv2d(3, 16, 3, stride=2, padding=1),
            edutorch.nn.ConvTranspose2d(16, 3, 4, stride=2, padding=1),
        )
        image = x.clone().requires_grad_()
        layers(image).square().sum().backward()
        return [image.grad, *(parameter.grad for parameter in layers.parameters())]

    fast = gradients()
    with reference_only():
        slow = gradients()
    for one, other in zip(fast, slow, strict=True):
        assert edutorch.allclose(one, other, rtol=1e-4, atol=1e-3)
