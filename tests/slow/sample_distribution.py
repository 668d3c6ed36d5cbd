"""Whether two functions that draw random numbers draw them from the same distribution.

Each is called again and again, from other seeds. A call is summed up in a few moments, which are
independent from call to call, whatever depends on what within one; and the means of these over all
calls are compared, as in Welch's test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.slow.sample_comparison import Leaf, flatten

CALLS = 40
DEVIATIONS = 6.5
"""How many standard errors two means may lie apart: by chance, once in ten million samples."""

MOMENTS = ("mean", "mean square", "zeros", "least", "greatest")
"""What is compared of a tensor, of real and imaginary parts each."""


def moments(leaf: Leaf) -> list[float]:
    """Return what sums up a tensor: moments of its elements, squeezed into (-1, 1).

    Squeezed they have moments also where a distribution has none.
    """
    array = leaf.array
    parts = [array.real, array.imag] if array.dtype.kind == "c" else [array]
    result: list[float] = []
    for part in parts:
        values = part.astype(np.float64).reshape(-1)
        squeezed = values / (1.0 + np.abs(values))
        result += [
            squeezed.mean(), np.square(squeezed).mean(), (values == 0).mean(), squeezed.min(),
            squeezed.max(),
        ]  # fmt: skip
    return result


def drawn(function: Callable[[int], Any]) -> np.ndarray:
    """Return the moments of all parts of all calls: (call, moment)."""
    return np.array(
        [
            [
                value
                for leaf in flatten(function(seed))
                if leaf.array.size and leaf.array.dtype.kind not in "USO"
                for value in moments(leaf)
            ]
            for seed in range(1, CALLS + 1)
        ]
    )


def difference(
    ours: Callable[[int], Any], theirs: Callable[[int], Any], tolerance: float
) -> str | None:
    """Return in a few words how two distributions differ, or None.

    Args:
        ours, theirs: functions of a seed.
        tolerance: for the rounding of elements.
    """
    with np.errstate(all="ignore"):
        got, wanted = drawn(ours), drawn(theirs)
        if got.shape != wanted.shape:
            return f"distribution: {got.shape} moments for {wanted.shape}"
        if not got.size:
            return None
        error = np.sqrt((got.var(axis=0, ddof=1) + wanted.var(axis=0, ddof=1)) / CALLS)
        means = got.mean(axis=0), wanted.mean(axis=0)
        apart = np.abs(means[0] - means[1])
    same = (means[0] == means[1]) | (np.isnan(means[0]) & np.isnan(means[1]))
    wrong = ~same & ~(apart <= DEVIATIONS * error + tolerance)
    if not wrong.any():
        return None
    index = int(np.argmax(wrong))
    part, moment = divmod(index, len(MOMENTS))
    leaf = flatten(theirs(1))[0]
    is_imaginary = part == 1 and leaf.array.dtype.kind == "c"
    name = f"{'imaginary ' if is_imaginary else ''}{MOMENTS[moment]}"
    return f"distribution: {name} {means[0][index]:.4g} for {means[1][index]:.4g}"
