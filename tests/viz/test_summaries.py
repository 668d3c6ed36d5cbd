"""A tensor in a few numbers, on every device."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import edutorch
from edutorch.viz.tensors.summaries import LONGEST_LIST, number_text, summarize

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "uint8"])
def test_numbers_agree_with_numpy(device, dtype):
    values = np.random.default_rng(0).uniform(0, 9, (7, 11))
    tensor = edutorch.tensor(values.tolist()).to(getattr(edutorch, dtype))
    exact = np.asarray(tensor.tolist(), "f8")
    stats = summarize(tensor._array)
    assert stats.size == 77
    assert not stats.bad
    assert (stats.text == "") == ("float" in dtype)
    assert (stats.min, stats.max) == (exact.min(), exact.max())
    assert stats.mean == pytest.approx(exact.mean(), rel=1e-5)
    assert stats.norm == pytest.approx(np.linalg.norm(exact), rel=1e-5)


def test_a_tensor_that_is_not_contiguous(device):
    tensor = edutorch.arange(60.0).reshape(6, 10).transpose(0, 1)
    assert summarize(tensor._array).norm == pytest.approx(np.linalg.norm(np.arange(60.0)))


def test_bools_are_counted():
    stats = summarize(np.arange(10) > 6)
    assert stats.mean == pytest.approx(0.3)
    assert stats.text == "30% true"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (range(10), "[0, 1, 2, 3, 4, …]"),
        (range(6), "[0, 1, 2, 3, 4, 5]"),
        (range(100, 120), "[100, 101, 102, …]"),
        ([5, 123456789, 987654321, 1, 2], "[5, 123456789, …]"),
        ([2**62] * 9, "[+4.6e18, …]"),
        ([-1] * 5, "[-1, -1, -1, -1, -1]"),
    ],
)
def test_of_many_integers_the_first_are_written_and_never_their_mean(values, text):
    written = summarize(np.array(values)).text
    assert written == text
    assert len(written) <= LONGEST_LIST


def test_the_standard_deviation_of_very_large_numbers():
    stats = summarize(np.array([1e200, -1e200] * 3))
    assert stats.std == pytest.approx(1e200)
    assert summarize(np.full(10, 3.0)).std == pytest.approx(0, abs=1e-6)


def test_complex_numbers_by_their_size():
    stats = summarize(np.full((3, 3), 3 + 4j))
    assert (stats.mean, stats.norm, stats.bad) == (5, 15, False)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("size", [3, 300])
def test_one_wrong_number_is_found(wrong, size):
    values = np.zeros(size, "f4")
    values[size // 2] = wrong
    assert summarize(values).bad


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_squares_outside_the_range_of_float32(scale):
    stats = summarize(np.full(100, scale, "f4"))
    assert not stats.bad
    assert stats.norm == pytest.approx(10 * scale, rel=1e-5)
    assert stats.mean == pytest.approx(scale, rel=1e-5)


def test_all_zero():
    stats = summarize(np.zeros((5, 5), "f4"))
    assert (stats.mean, stats.norm, stats.bad) == (0, 0, False)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (8.0, "8"),
        (-0.123456, "-0.1235"),
        ([1.0, -2.5], "[1, -2.5]"),
        ([[1, 2], [3, 4]], "[1, 2, 3, 4]"),
        ([True, False], "[True, False]"),
        ([], "[]"),
        (1e-30, "1e-30"),
    ],
)
def test_tiny_tensors_are_printed_whole(device, values, text):
    assert summarize(edutorch.tensor(values)._array).text == text


def test_five_numbers_are_not():
    assert summarize(np.zeros(5, "f4")).text == ""


def test_the_numbers_of_a_rule_may_be_scalars_of_numpy():
    assert summarize(np.float32(2.5)).text == "2.5"


def test_numbers_are_written_as_the_page_writes_them():
    for value, text in json.loads((GOLDEN / "numbers.json").read_text()):
        assert number_text(float(value)) == text
        assert len(text) <= 7


@pytest.mark.parametrize("size", [1.0, 1e-13, 1e-25, 1e-38, 1e13, 1e25, 1e37])
def test_numbers_of_any_size_have_a_norm_and_a_histogram(size):
    """Their squares may leave the range of float32."""
    values = (np.linspace(-1, 3, 64) * size).astype("f4")
    exact = values.astype("f8")
    stats = summarize(values, bars=True)
    assert not stats.bad
    assert stats.norm == pytest.approx(np.linalg.norm(exact), rel=1e-5)
    assert stats.mean == pytest.approx(exact.mean(), rel=1e-5)
    assert stats.std == pytest.approx(exact.std(), rel=1e-4)
    assert stats.bars == (4,) * 16
    assert summarize(values).bars == ()
    assert (stats.min, stats.max) == (values.min(), values.max())
    below = summarize(-values, bars=True)  # the largest of them is the least
    assert below.norm == pytest.approx(stats.norm) and below.bars == (4,) * 16


def test_nothing_but_zeros_is_one_bar():
    stats = summarize(np.zeros(9, "f4"), bars=True)
    assert stats[:5] == (9, 0, 0, 0, 0) and stats.bars == (9, *[0] * 15)


@pytest.mark.parametrize(("values", "wanted"), [
    ([], (0, math.nan, math.nan, math.nan, 0.0)), ([3.0, -4.0], (2, -0.5, -4, 3, 5)),
    ([math.nan, 1.0], (2, math.nan, math.nan, 1, math.nan)), ([3 + 4j], (1, 5, 5, 5, 5)),
    ([True, False], (2, 0.5, 0, 1, 1)), ([1e200, 1e200], (2, 1e200, 1e200, 1e200, 2**0.5 * 1e200)),
])  # fmt: skip
def test_four_numbers_are_summed_exactly(values, wanted):
    stats = summarize(np.array(values))
    np.testing.assert_allclose(stats[:2], wanted[:2])
    assert stats.norm == pytest.approx(wanted[4], nan_ok=True)
    assert stats.bad == (bool(values) and math.isnan(wanted[4]))
    if not stats.bad:
        np.testing.assert_allclose(stats[2:4], wanted[2:4])
    assert stats.few == (() if 3 + 4j in values else tuple(values) if not stats.bad else stats.few)
