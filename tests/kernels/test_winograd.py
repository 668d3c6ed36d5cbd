"""Convolution with 16 products where there were 36 is the same sum, to nearly as many digits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

import edutorch
from edutorch.backends import reference_only
from edutorch.kernels.cpu import conv, conv_gradients, winograd
from edutorch.kernels.cpu.winograd import FILTER, IMAGE, OUTPUT, is_worthwhile, make_tiling
from edutorch.nn.functional.conv import conv2d, conv_transpose_nd, conv_weight_grad


@pytest.fixture(scope="module")
def used_winograd():
    return winograd.winograd_convolution(), winograd.winograd_weight_gradient()


def definition(op, *arguments):
    """What the definition computes in float64."""
    wide = (a.astype("d") if isinstance(a, np.ndarray) else a for a in arguments)
    with reference_only(), np.errstate(all="ignore"):
        return op.op.forward(np, *wide)


def random(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("f")


def error(result, expected):
    """How far numbers are off, where the largest is 1."""
    return np.abs(result - expected).max() / np.abs(expected).max()


def test_the_matrices():
    """Winograd's identity, along one axis: the answer of image times filter is the response."""
    d, w = random(4).astype("d"), random(3).astype("d")
    y = np.array(OUTPUT) @ ((np.array(FILTER) @ w) * (np.array(IMAGE) @ d))
    np.testing.assert_allclose(y, [d[:3] @ w, d[1:] @ w])


def test_tiles_cover_every_place_once():
    tiling = make_tiling((5, 4), (5, 3), (1, 0))
    assert (tiling.tiles, tiling.row) == (6, 2)
    positions = tiling.targets[tiling.targets >= 0]
    assert sorted(positions) == list(range(15))
    first = tiling.image_positions[:16].reshape(4, 4)
    assert first.tolist() == [[-1] * 4, [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 5), channels=st.sampled_from([32, 64, 96, 160]),
    count=st.sampled_from([32, 64, 96]), size=st.tuples(st.integers(3, 13), st.integers(3, 13)),
    pads=st.tuples(st.integers(0, 3), st.integers(0, 3)), bias=st.booleans(),
)  # fmt: skip
def test_the_three_faces(used_winograd, n, channels, count, size, pads, bias):
    respond, sum_weight_gradients = used_winograd
    x, w = random((n, channels, *size)), random((count, channels, 3, 3), 1)
    b = random(count, 2) if bias else None
    expected = definition(conv2d, x, w, b, 1, pads, 1, 1)
    y = np.full(expected.shape, np.nan, "f")
    assert respond(x, w, b, pads, y, flip_filters=False)
    assert error(y, expected) < 2e-6
    both, g = tuple((p, p) for p in pads), random(y.shape, 3)
    back = np.full(x.shape, np.nan, "f")
    assert respond(g, w, None, tuple(2 - p for p in pads), back, flip_filters=True)
    assert error(back, definition(conv_transpose_nd, g, w, size, (1, 1), both, (1, 1), 1)) < 2e-6
    by_filters = np.full(w.shape, np.nan, "f")
    assert sum_weight_gradients(x, g, pads, by_filters)
    assert (
        error(by_filters, definition(conv_weight_grad, x, g, (3, 3), (1, 1), both, (1, 1), 1))
        < 2e-6
    )


@pytest.mark.parametrize("case", [(2, 64, 28), (4, 128, 8), (8, 256, 4)])
def test_as_accurate_as_is_said(used_winograd, case):
    """The docstring of `winograd.py` promises a millionth of the largest number."""
    n, channels, size = case
    x, w = random((n, channels, size, size)), random((channels, channels, 3, 3), 1)
    y = np.empty_like(x)
    used_winograd[0](x, w, None, (1, 1), y, flip_filters=False)
    assert error(y, definition(conv2d, x, w, None, 1, 1, 1, 1)) < 1e-6


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("n", "channels", "count", "size"),
    [(3, 64, 64, 12), (8, 160, 64, 4), (1, 128, 64, 17), (4, 32, 32, 24)],
)
def test_cut_among_threads(used_winograd, n, channels, count, size, threads):
    """With few channels, threads share the sums over images: each has some of its own."""
    before = edutorch.get_num_threads()
    x, g = random((n, channels, size, size)), random((n, count, size, size), 1)
    w = random((count, channels, 3, 3), 2)
    edutorch.set_num_threads(threads)
    try:
        y, by_filters = np.empty_like(g), np.empty_like(w)
        for _ in range(2):
            assert used_winograd[0](x, w, None, (1, 1), y, flip_filters=False)
            assert used_winograd[1](x, g, (1, 1), by_filters)
            again = y.copy(), by_filters.copy()
        np.testing.assert_array_equal(again[0], y)
        np.testing.assert_array_equal(again[1], by_filters)
    finally:
        edutorch.set_num_threads(before)
    assert error(y, definition(conv2d, x, w, None, 1, 1, 1, 1)) < 2e-6
    pads = ((1, 1), (1, 1))
    expected = definition(conv_weight_grad, x, g, (3, 3), (1, 1), pads, (1, 1), 1)
    assert error(by_filters, expected) < 2e-6


@pytest.fixture
def used(monkeypatch):
    """Count who is asked, and what they answer."""
    answers = []

    def counted(make):
        def run(*arguments, **settings):
            answers.append(make()(*arguments, **settings))
            return answers[-1]

        return lambda: run

    monkeypatch.setattr(conv, "winograd_convolution", counted(winograd.winograd_convolution))
    monkeypatch.setattr(
        conv_gradients,
        "winograd_weight_gradient",
        counted(winograd.winograd_weight_gradient),
    )
    return answers


def test_the_kernels_of_convolution_use_it(used):
    x, w = random((2, 64, 9, 8)), random((64, 64, 3, 3), 1)
    y = conv.conv2d()(x, w, None, [1, 1], "same", [1, 1], 1)
    assert error(y, definition(conv2d, x, w, None, 1, 1, 1, 1)) < 2e-6
    pads = ((0, 1), (2, 1))
    g = random((2, 64, 8, 9), 2)
    arguments = g, w, (9, 8), (1, 1), pads, (1, 1), 1
    assert (
        error(conv.conv_transpose_nd()(*arguments), definition(conv_transpose_nd, *arguments))
        < 2e-6
    )
    arguments = x, g, (3, 3), (1, 1), pads, (1, 1), 1
    result = conv_gradients.conv_weight_grad()(*arguments)
    assert error(result, definition(conv_weight_grad, *arguments)) < 2e-6
    assert used == [True, True, True]


def test_where_it_is_not_for():
    x, w = random((2, 64, 8, 8)), (64, 64, 3, 3)
    one = (1, 1)
    assert is_worthwhile(x, w, one, one, 1, 128)
    assert not is_worthwhile(x.astype("d"), w, one, one, 1, 128)
    assert not is_worthwhile(x, (64, 64, 5, 5), one, one, 1, 128)
    assert not is_worthwhile(x, w, (2, 1), one, 1, 128)
    assert not is_worthwhile(x, w, one, (1, 2), 1, 128)
    assert not is_worthwhile(x, w, one, one, 2, 128)
    assert not is_worthwhile(x, w, one, one, 1, 127)
    assert not is_worthwhile(x, (64, 48, 3, 3), one, one, 1, 128)
    assert not is_worthwhile(x, (32, 64, 3, 3), one, one, 1, 128, least=64)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["input", "weight"])
def test_what_is_not_finite_stays_where_the_definition_has_it(used, value, where):
    x, w, g = random((2, 64, 9, 9)), random((64, 64, 3, 3), 1), random((2, 64, 9, 9), 2)
    (x if where == "input" else w)[1, 3, 2, 2] = value
    arguments = x, w, None, (1, 1), (1, 1), (1, 1), 1
    expected = definition(conv2d, *arguments)
    np.testing.assert_array_equal(np.isfinite(conv.conv2d()(*arguments)), np.isfinite(expected))
    arguments = x, g, (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1
    result, expected = (
        conv_gradients.conv_weight_grad()(*arguments),
        definition(conv_weight_grad, *arguments),
    )
    np.testing.assert_array_equal(np.isfinite(result), np.isfinite(expected))
    assert used == [False, where == "weight"]


def test_numbers_too_large_to_be_added_up(used):
    """Two neighbours of 3e38 have no sum in float32; the filters make them small enough."""
    x, w = np.full((2, 32, 8, 8), 3e38, "f"), np.full((32, 32, 3, 3), 1e-4, "f")
    arguments = x, w, None, (1, 1), (1, 1), (1, 1), 1
    assert error(conv.conv2d()(*arguments), definition(conv2d, *arguments)) < 2e-6
    assert used == [False]
