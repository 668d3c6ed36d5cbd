"""The ways to find a value between pixels."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ...errors import InvalidValueError


class InterpolationMode(Enum):
    """How a value between pixels is computed; `box`, `hamming` and `lanczos` for PIL images only.

    >>> InterpolationMode("bilinear")
    <InterpolationMode.BILINEAR: 'bilinear'>
    """

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


PIL_FILTERS = {
    InterpolationMode.NEAREST: 0, InterpolationMode.NEAREST_EXACT: 0, InterpolationMode.LANCZOS: 1,
    InterpolationMode.BILINEAR: 2, InterpolationMode.BICUBIC: 3, InterpolationMode.BOX: 4,
    InterpolationMode.HAMMING: 5,
}  # fmt: skip
"""PIL's number of each mode."""

FROM_PIL = {number: mode for mode, number in PIL_FILTERS.items() if mode.value != "nearest-exact"}


def to_mode(op: str, interpolation: Any) -> InterpolationMode:
    """Return a mode that is named by itself, by its text, or by PIL's constant.

    Raises: InvalidValueError: there is no such mode.

    >>> to_mode("resize", 3)
    <InterpolationMode.BICUBIC: 'bicubic'>
    """
    if isinstance(interpolation, InterpolationMode):
        return interpolation
    if interpolation in FROM_PIL:
        return FROM_PIL[interpolation]
    try:
        return InterpolationMode(interpolation)
    except ValueError:
        raise InvalidValueError(
            op, "there is no such interpolation", {"interpolation": repr(interpolation)},
            "use one of InterpolationMode: " + ", ".join(mode.name for mode in InterpolationMode),
        ) from None  # fmt: skip
