"""Summary statistics of tensors: mean, min, max, norm, and whether all elements are finite.

A `Stats` is plain data. It never keeps the array, so that watching a network does not keep its
memory alive.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import backends
from ...backends.numpy import Array
from .thumbnails import Thumbnail, thumbnail_of

TINY = 4
"""Tensors of at most so many elements are printed in full."""

BARS = 16
SAMPLE = 65_536
"""The largest number of elements counted in a histogram."""

UNKNOWN = "—"
"""The text of an unknown value."""

FIRST, LONGEST_LIST = 8, 20
"""The largest number of integers written from a long tensor, and of characters for them."""


class Stats(NamedTuple):
    """Statistics of one array of `size` elements.

    `bad`: whether there is a NaN or an infinity. `text`: the elements themselves if there are at
    most four, the first of many integers, the share of true ones of many bools, else "". The norm
    is the Euclidean one. `few`: the elements of `text` as numbers, if they are real. `bars`: the
    histogram over sixteen equal bins, and `thumbnail`: a small picture, both only on request.
    """

    size: int
    mean: float
    min: float
    max: float
    norm: float
    bad: bool = False
    text: str = ""
    few: tuple[float, ...] = ()
    bars: tuple[int, ...] = ()
    thumbnail: Thumbnail | None = None

    @property
    def std(self) -> float:
        """The standard deviation (of the whole population)."""
        root_mean_square = self.norm / math.sqrt(self.size)  # whose square may be too large
        return math.sqrt(max(0.0, root_mean_square - abs(self.mean))) * math.sqrt(
            root_mean_square + abs(self.mean)
        )


def summarize(array: Array, bars: bool = False, pixels: bool = True) -> Stats:
    """Return the `Stats` of an array of any backend (of complex numbers, their magnitudes).

    Args:
        bars: compute a histogram too (of a sample, if the array is large).
        pixels: with `bars`, keep a thumbnail of what can be drawn.

    >>> import numpy
    >>> summarize(numpy.array([3.0, -4.0]))  # doctest: +NORMALIZE_WHITESPACE
    Stats(size=2, mean=-0.5, min=-4.0, max=3.0, norm=5.0, bad=False, text='[3, -4]',
          few=(3.0, -4.0), bars=(), thumbnail=None)
    """
    whole, array = array, stored_elements(array)
    size = array.size
    if not size and whole.size and not hasattr(whole, "stored"):  # on `meta`
        return Stats(0, math.nan, math.nan, math.nan, 0.0, text="unknown")
    if size <= TINY:
        on_host = backends.of(array).to_numpy(array) if backends.is_array(array) else array
        return _summarize_tiny(on_host.ravel().tolist(), array.ndim)
    text = text_of_many(array) if array.dtype.kind in "biu" else ""
    if array.dtype.kind == "c":
        array = abs(array)
    if array.dtype.kind != "f" or array.dtype.itemsize < 4:
        array = array.astype("float32")  # half precision, bfloat16, integers and bools
    flat = array.ravel()
    low, high = least(flat), most(flat)
    if not (math.isfinite(low) and math.isfinite(high)):
        with np.errstate(invalid="ignore"):  # ∞ - ∞
            return Stats(size, total(flat) / size, low, high, math.nan, bad=True, text=text)
    # Squares of very large or small values overflow or underflow in float32: scale them to at
    # most 1 first.
    peak = max(abs(low), abs(high))
    scale = 1.0 if 1e-12 < peak < 1e12 or peak == 0 else peak
    flat = flat if scale == 1.0 else flat / scale
    mean, square = total(flat) / size, (flat @ flat).item()
    norm = math.sqrt(square) * scale
    if not bars:
        return Stats(size, mean * scale, low, high, norm, text=text)
    counts = histogram(flat, low / scale, high / scale)
    thumbnail = thumbnail_of(array, low, high) if pixels else None
    return Stats(size, mean * scale, low, high, norm, text=text, bars=counts, thumbnail=thumbnail)


def stored_elements(array: Array) -> Array:
    """Return the elements that an array, or a NumPy scalar, has in memory: mostly all of them.

    Those of a sparse array are the ones that it stores, those of one inside `vmap` are those of the
    whole batch, and an array on the device `meta` has none.
    """
    if array.__class__ is np.ndarray:
        return array
    array = getattr(array, "all_examples", array)
    array = getattr(array, "stored", array)
    if isinstance(array, np.generic):
        return np.asarray(array)
    if backends.is_array(array) and not backends.of(array).has_elements:
        return np.empty(0, array.dtype)
    return array


def text_of_many(array: Array) -> str:
    """Return the first of many integers, or the share of true bools, as text.

    The mean of class labels would be meaningless.

    >>> import numpy
    >>> text_of_many(numpy.arange(10)), text_of_many(numpy.arange(8) > 5)
    ('[0, 1, 2, 3, 4, …]', '25% true')
    """
    flat = array.ravel()
    if array.dtype.kind == "b":
        return f"{flat.sum().item() / flat.size:.0%} true"
    texts = [elements_text([element], 0) for element in flat[:FIRST].tolist()]
    if flat.size <= FIRST and len(", ".join(texts)) <= LONGEST_LIST - len("[]"):
        return f"[{', '.join(texts)}]"
    while len(texts) > 1 and len(", ".join(texts)) > LONGEST_LIST - len("[, …]"):
        del texts[-1]
    first = texts[0]
    if len(first) > LONGEST_LIST - len("[, …]"):
        first = number_text(float(first))
    return f"[{', '.join([first, *texts[1:]])}, …]"


def make_reduction(ufunc: np.ufunc, method: str) -> Callable[[Any], float]:
    """Return a reduction to one number without the overhead of NumPy's methods."""
    reduce = ufunc.reduce

    def one(flat: Array) -> float:
        value = reduce(flat) if flat.__class__ is np.ndarray else getattr(flat, method)()
        return value.item()

    return one


least, most = make_reduction(np.minimum, "min"), make_reduction(np.maximum, "max")
total = make_reduction(np.add, "sum")


def histogram(flat: Array, low: float, high: float) -> tuple[int, ...]:
    """Count the elements in each of BARS equal bins."""
    sample = flat[:: -(-flat.size // SAMPLE)].astype("float64")
    xp = backends.of(flat).xp if backends.is_array(flat) else np
    # `xp.histogram` computes the same, with much more overhead for its arguments.
    bars = ((sample - low) * (BARS / ((high - low) or 1.0))).astype("int64")
    counts = xp.bincount(xp.minimum(bars, BARS - 1), minlength=BARS)
    return tuple(counts.tolist())


def bar_text(counts: Sequence[int]) -> str:
    """Return a histogram as a line of text: ▁ for few, █ for most, a space for none.

    >>> bar_text([0, 1, 8, 4])
    ' ▁█▄'
    """
    peak = max(counts, default=0)
    marks = "▁▂▃▄▅▆▇█"
    return "".join(
        " " if not count else marks[max(0, -(-count * 8 // peak) - 1)] for count in counts
    )


def _summarize_tiny(values: Sequence[Any], ndim: int) -> Stats:
    """Summarize up to four elements, which is faster in Python than in any array library."""
    text = elements_text(values, ndim)
    reals = [abs(value) if isinstance(value, complex) else float(value) for value in values]
    if not reals:
        return Stats(0, math.nan, math.nan, math.nan, 0.0, text=text)
    bad = not all(math.isfinite(value) for value in reals)
    return Stats(
        size=len(reals),
        mean=sum(reals) / len(reals),
        min=min(reals),
        max=max(reals),
        norm=math.nan if bad else math.hypot(*reals),
        bad=bad,
        text=text,
        few=() if any(isinstance(value, complex) for value in values) else tuple(reals),
    )


def elements_text(values: Sequence[Any], ndim: int) -> str:
    """Return all elements of a tiny tensor as text: `8`, `[0.5, -1.2e-7]`."""

    def one(value: Array) -> str:
        if not isinstance(value, float):
            return str(value) if isinstance(value, int) else f"{value:.3g}"
        if len(values) == 1:
            return f"{value:.4g}"
        text = f"{value:.3g}"
        return text if len(text) <= 7 else number_text(value)

    text = ", ".join(one(value) for value in values)
    return text if ndim == 0 else f"[{text}]"


def number_text(value: float) -> str:
    """Return a number with its sign in at most 7 characters, so that no box has to grow.

    The page writes the same texts; tests/golden/numbers.json keeps both equal.

    >>> number_text(0.0123), number_text(-1234.56), number_text(2.5e-7), number_text(float("inf"))
    ('+0.0123', '-1234.6', '+2.5e-7', '+inf')
    """
    if math.isnan(value):
        return "nan"
    return ("-" if value < 0 else "+") + magnitude_text(value)


def magnitude_text(value: float) -> str:
    """Return |value| in at most 6 characters."""
    size = abs(value)
    if not math.isfinite(size):
        return str(size)
    if size == 0 or 0.001 <= size < 999999.5:
        texts = [f"{size:.{decimals}f}" for decimals in (4, 3, 2, 1, 0)]
    else:
        texts = [re.sub(r"e\+?(-?)0*", r"e\1", f"{size:.{digits}e}") for digits in (1, 0)]
    return next((text for text in texts if len(text) <= 6), texts[-1])
