"""Which ops have a kernel, in which file it is made, and from what size on it is worth its call.

A key is the name of an op (its forward), or `op/input` (the derivative rule of that input). The
kernel of `gelu` is made by the function `gelu` of `kernels/cpu/<file>.py`, that of `gelu/input` by
`gelu_input`. Called with what the definition gets after `xp`, it returns the result, or None where
the case is not its own: then the definition runs.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["KERNELS", "Row"]


class Row(NamedTuple):
    """One kernel: for fewer numbers than `least` in its first array, it is not asked."""

    file: str
    least: int


KERNELS: dict[str, Row] = {}
