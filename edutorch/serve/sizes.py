"""Which sizes a model takes: for its warm-up, for requests, and for the rows of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Shapes = list[tuple[int, ...]]

ANY = (1, 2**62)
"""The range of a size of which nothing is known."""


class Sizes(NamedTuple):
    """The sizes of a model's inputs.

    Args:
        rows: the fewest and the most rows, or None if the first axes have no size in common.
        shapes: maps a number of rows, and a size for other axes that may have any, to the shape of
            each input.
    """

    rows: tuple[int, int] | None
    shapes: Callable[[int, int], Shapes]


def sizes_of_shapes(inputs: Sequence[tuple[int, ...]]) -> Sizes:
    """Return the sizes of inputs of which only the shapes are known, -1 for any size.

    >>> sizes = sizes_of_shapes([(-1, 3, -1)])
    >>> sizes.rows == ANY, sizes.shapes(2, 16)
    (True, [(2, 3, 16)])
    """
    joined = bool(inputs) and all(shape[:1] == (-1,) for shape in inputs)

    def shapes(rows: int, free_size: int) -> Shapes:
        return [
            tuple(
                size if size != -1 else free_size if axis else rows
                for axis, size in enumerate(shape)
            )
            for shape in inputs
        ]

    return Sizes(ANY if joined else None, shapes)


def sizes_of_program(program: Any) -> Sizes:
    """Return the sizes of an exported program: each `Dim` has its range, and sizes may be formulas.

    A size outside the range of its `Dim` is replaced by the nearest one in it.
    """
    from ..export.formulas import Size, evaluate

    formulas = [node.meta["shape"] for node in program.input_nodes()]
    ranges = {
        Size(name): (max(1, limits.lower), limits.upper)
        for name, limits in program.range_constraints.items()
    }
    firsts = {shape[0] if shape else None for shape in formulas}
    first = next(iter(firsts)) if len(firsts) == 1 else None
    joined = ranges.get(first) if isinstance(first, Size) else None

    def shapes(rows: int, free_size: int) -> Shapes:
        sizes = {
            symbol: max(low, min(high, rows if symbol == first else free_size))
            for symbol, (low, high) in ranges.items()
        }
        return [tuple(int(evaluate(size, sizes)) for size in shape) for shape in formulas]

    return Sizes(joined, shapes)
