"""A tensor in a few numbers: mean, min, max, norm, and whether all is finite.

A `Stats` is plain data. It never keeps the array, so watching a network does
not keep its memory alive.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import backends
from .thumbnails import Thumbnail, thumbnail_of

TINY = 4
"""Up to so many numbers are printed whole."""

BARS = 16
SAMPLE = 65_536
"""A histogram looks at no more numbers than this."""

UNKNOWN = "—"
"""Stands where a number is not known."""

FIRST, LONGEST_LIST = 8, 20
"""Of many integers the first ones are written, so many at most, in so many characters."""


class Stats(NamedTuple):
    """What a picture says about one array of `size` numbers.

    `bad`: there is a NaN or an infinity in it. `text`: the numbers themselves,
    when there are at most four of them, the first of many integers, how many of many bools are
    true, else "". The norm is the Euclidean one.
    `few`: the same as numbers, if they are real. `bars`: how many numbers fall into each
    sixteenth of the range, and `thumbnail`: a small picture, both where somebody asked.
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


def summarize(array: Any, bars: bool = False, pixels: bool = True) -> Stats:
    """Return the `Stats` of an array of any backend (complex numbers by their size).

    Args:
        bars: count for a histogram too (of a sample, if there are very many numbers).
        pixels: and keep a few pixels of what can be drawn.

    >>> import numpy
    >>> summarize(numpy.array([3.0, -4.0]))  # doctest: +NORMALIZE_WHITESPACE
    Stats(size=2, mean=-0.5, min=-4.0, max=3.0, norm=5.0, bad=False, text='[3, -4]',
          few=(3.0, -4.0), bars=(), thumbnail=None)
    """
    array = getattr(array, "all_examples", array)  # inside of vmap
    size = array.size
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
    # Squares of very large or small numbers leave the range of float32: take the sums
    # of numbers that are at most 1 in size instead.
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


def text_of_many(array: Any) -> str:
    """Write the first of many integers, or how many of many bools are true.

    The mean of class labels tells nobody anything.

    >>> import numpy
    >>> text_of_many(numpy.arange(10)), text_of_many(numpy.arange(8) > 5)
    ('[0, 1, 2, 3, 4, …]', '25% true')
    """
    flat = array.ravel()
    if array.dtype.kind == "b":
        return f"{flat.sum().item() / flat.size:.0%} true"
    texts = [whole([each], 0) for each in flat[:FIRST].tolist()]
    if flat.size <= FIRST and len(", ".join(texts)) <= LONGEST_LIST - len("[]"):
        return f"[{', '.join(texts)}]"
    while len(texts) > 1 and len(", ".join(texts)) > LONGEST_LIST - len("[, …]"):
        del texts[-1]
    first = texts[0] if len(texts[0]) <= LONGEST_LIST - len("[, …]") else number(float(texts[0]))
    return f"[{', '.join([first, *texts[1:]])}, …]"


def by_ufunc(ufunc: np.ufunc, method: str) -> Callable[[Any], float]:
    """Return a reduction to one number that saves what NumPy's methods ask before they begin."""
    reduce = ufunc.reduce

    def one(flat: Any) -> float:
        found = reduce(flat) if flat.__class__ is np.ndarray else getattr(flat, method)()
        return found.item()

    return one


least, most = by_ufunc(np.minimum, "min"), by_ufunc(np.maximum, "max")
total = by_ufunc(np.add, "sum")


def histogram(flat: Any, low: float, high: float) -> tuple[int, ...]:
    """Count the numbers in each of BARS equal parts of the range."""
    sample = flat[:: -(-flat.size // SAMPLE)].astype("float64")
    xp = backends.of(flat).xp if backends.is_array(flat) else np
    # `xp.histogram` would find the same, after many questions about its arguments.
    bars = ((sample - low) * (BARS / ((high - low) or 1.0))).astype("int64")
    counts = xp.bincount(xp.minimum(bars, BARS - 1), minlength=BARS)
    return tuple(counts.tolist())


def bar_text(counts: Sequence[int]) -> str:
    """Draw a histogram in a line of text: ▁ for few, █ for most, a space for none.

    >>> bar_text([0, 1, 8, 4])
    ' ▁█▄'
    """
    peak = max(counts, default=0)
    marks = "▁▂▃▄▅▆▇█"
    return "".join(
        " " if not count else marks[max(0, -(-count * 8 // peak) - 1)] for count in counts
    )


def _summarize_tiny(values: Sequence[Any], ndim: int) -> Stats:
    """Four numbers are quicker in Python than in any array library."""
    text = whole(values, ndim)
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


def whole(values: Sequence[Any], ndim: int) -> str:
    """Write all numbers of a tiny tensor: `8`, `[0.5, -1.2e-7]`."""

    def one(value: Any) -> str:
        if not isinstance(value, float):
            return str(value) if isinstance(value, int) else f"{value:.3g}"
        if len(values) == 1:
            return f"{value:.4g}"
        text = f"{value:.3g}"
        return text if len(text) <= 7 else number(value)

    text = ", ".join(one(value) for value in values)
    return text if ndim == 0 else f"[{text}]"


def number(value: float) -> str:
    """Write a number in at most 7 characters, with its sign, so that no box has to grow.

    The page writes the same texts; tests/golden/numbers.json holds both to it.

    >>> number(0.0123), number(-1234.56), number(2.5e-7), number(float("inf"))
    ('+0.0123', '-1234.6', '+2.5e-7', '+inf')
    """
    if math.isnan(value):
        return "nan"
    return ("-" if value < 0 else "+") + number_size(value)


def number_size(value: float) -> str:
    """Write |value| in at most 6 characters."""
    size = abs(value)
    if not math.isfinite(size):
        return str(size)
    if size == 0 or 0.001 <= size < 999999.5:
        texts = [f"{size:.{decimals}f}" for decimals in (4, 3, 2, 1, 0)]
    else:
        texts = [re.sub(r"e\+?(-?)0*", r"e\1", f"{size:.{digits}e}") for digits in (1, 0)]
    return next((text for text in texts if len(text) <= 6), texts[-1])
