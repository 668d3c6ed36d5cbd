"""Sizes of a program that also runs where computing is slow."""

from __future__ import annotations

import os
from typing import TypeVar

from ..backends.platform import IS_BROWSER

T = TypeVar("T")


def small(value: T, *, otherwise: T) -> T:
    """Return a value for a browser tab, or another where computing is fast.

    NumPy in a tab has no BLAS: products of matrices take 50 times as long. If the environment
    variable EDUTORCH_SMALL is set, it decides instead: 1 for `value`, 0 for `otherwise`.

    Args:
        value: what a browser tab computes with.
        otherwise: what every other Python computes with.

    >>> small(150, otherwise=900)
    900
    """
    wanted = os.environ.get("EDUTORCH_SMALL")
    return value if (wanted == "1" if wanted else IS_BROWSER) else otherwise
