"""Units of execution, and the position of an operand's elements relative to a kernel's domain."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .values import CHEAP_FUNCTIONS, Value, contiguous_steps, operands_of

__all__ = [
    "Group", "Unit", "is_aligned", "indent", "merge_axes", "is_one_per_row",
    "is_row_shape", "readers", "reduction_level", "compute_stages", "steps_along",
]  # fmt: skip

MAX_ROW_SIZE = 8192
"""Longer rows are not reduced by one thread: such a reduction is computed in parts."""


class Unit:
    """One step of the program: a kernel, or a single value.

    Attributes:
        values: in topological order.
        first, last: the indices of its first and last value in the program.
        needs: the units that it reads from.
    """

    def __init__(self, value: Value, order: int) -> None:
        self.values = [value]
        self.first = self.last = order
        self.needs: set[Unit] = set()

    fused = False


class Group(Unit):
    """A group of values that become one kernel.

    Attributes:
        domain: the shape over which it iterates.
        split: the number of leading axes that enumerate rows; None while still undetermined.
        level: the level of each value, "full", "row" or "last".
    """

    fused = True

    def __init__(self, value: Value, order: int) -> None:
        super().__init__(value, order)
        self.domain = value.shape if value.kind == "element" else value.operands[0].shape
        self.split: int | None = None  # a reduction decides it
        self.level: dict[Value, str] = {}

    @property
    def size(self) -> int:
        return math.prod(self.domain)

    def external_operands(self) -> list[Value]:
        """Return the distinct arrays and numbers that it reads from other units."""
        # A value that only the kernel itself reads is never written to memory.
        inside = set(self.values)
        operands = (operand for value in self.values for operand in operands_of(value))
        return list(dict.fromkeys(operand for operand in operands if operand.base not in inside))

    def results(self, outputs: set[Value]) -> list[Value]:
        """Return the values that are read outside."""
        inside = set(self.values)
        return [
            value for value in self.values
            if value in outputs or any(reader not in inside for reader in readers(value))
        ]  # fmt: skip


def readers(value: Value) -> Iterator[Value]:
    """Yield the values computed from a value, or from a view of it."""
    for user in value.users:
        if user.kind == "view":
            yield from readers(user)
        else:
            yield user


def steps_along(value: Value, domain: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the strides of an operand along the domain's axes (0 where it broadcasts)."""
    _, steps = value.layout
    missing_axes = len(domain) - len(value.shape)  # broadcasting adds axes in front
    if missing_axes < 0:
        return None
    result = [0] * missing_axes
    for size, step, whole in zip(value.shape, steps, domain[missing_axes:], strict=True):
        if size != whole and size != 1:
            return None
        result.append(0 if size == 1 else step)  # a stride of 0 repeats the one element
    return tuple(result)


def is_aligned(value: Value, domain: tuple[int, ...]) -> bool:
    """Whether an operand's element at each position is its base's element at that position."""
    steps = steps_along(value, domain)
    expected = (
        0 if size == 1 else step
        for size, step in zip(domain, contiguous_steps(domain), strict=True)
    )
    return (
        # The size, too: a view of a part would be aligned by its strides alone.
        value.layout[0] == 0 and steps == tuple(expected) and value.base.size == math.prod(domain)
    )


def is_one_per_row(value: Value, domain: tuple[int, ...], split: int) -> bool:
    """Whether an operand has one element for each row of the domain."""
    steps = steps_along(value, domain)
    rows = domain[:split]  # x / x.sum(1, keepdims=True): the sum has the shape (rows, 1)
    expected = tuple(
        0 if size == 1 else step for size, step in zip(rows, contiguous_steps(rows), strict=True)
    )
    covers_rows = value.base.size == math.prod(rows) and value.layout[0] == 0
    return steps is not None and covers_rows and steps == expected + (0,) * (len(domain) - split)


def is_row_shape(shape: tuple[int, ...], group: Group) -> bool:
    """Whether a shape has one element for each row."""
    assert group.split is not None
    rows = group.domain[: group.split]
    ones = (1,) * (len(group.domain) - group.split)  # with keepdims
    return shape in (rows, rows + ones)


def reduction_level(group: Group, value: Value) -> tuple[str | None, int | None]:
    """Return the level of a reduction in a kernel, and the kernel's split then."""
    axes, rank = value.settings["axes"], len(group.domain)
    if not rank:
        return "row", 0
    are_leading = axes == tuple(range(len(axes)))
    are_trailing = axes == tuple(range(rank - len(axes), rank))
    split = rank - len(axes)
    columns = math.prod(group.domain[split:])
    # One thread reduces the row, in a buffer that fits in its cache.
    if are_trailing and group.split in (None, split) and columns <= MAX_ROW_SIZE:
        return "row", split
    # Only sums are combined from parts, by `np.add.reduce` in the program.
    if value.function != "sum":
        return None, group.split
    if len(axes) == rank:  # over everything: each thread sums a part
        return "last", group.split
    # The gradient of a bias: blocks of rows are summed, and then the blocks.
    if are_leading and group.split in (None, len(axes)):
        return "last", len(axes)
    return None, group.split


def compute_stages(group: Group) -> dict[Value, int]:
    """Return the index of the loop in which (for a row's scalar: before which) a value is known."""
    stage: dict[Value, int] = {}
    for value in group.values:
        operand_stages = [
            stage[operand.base] for operand in operands_of(value) if operand.base in group.level
        ]
        # A row's sum is known after the loop that reads the row.
        after = value.kind == "reduce" and group.level[value] == "row"
        stage[value] = max(operand_stages, default=0) + after
    for value in reversed(group.values):
        # A mask of a row is computed where it is read, and needs no memory until then.
        inside = [reader for reader in value.users if reader in stage]
        if value.function in CHEAP_FUNCTIONS and group.level[value] == "full" and inside:
            latest = min(stage[reader] - (reader.kind == "reduce") for reader in inside)
            stage[value] = max(stage[value], latest)
    return stage


def indent(lines: list[str]) -> list[str]:
    """Indent lines."""
    return [f"    {line}" for line in lines]


def merge_axes(sizes: tuple[int, ...], steps: tuple[int, ...]) -> list[tuple[int, int]]:
    """Merge axes with a common stride; return pairs of a size and its stride, without size 1.

    >>> merge_axes((2, 3, 4), (12, 4, 1)), merge_axes((2, 3), (0, 1))
    ([(24, 1)], [(2, 0), (3, 1)])
    """
    pairs: list[tuple[int, int]] = []
    for size, step in zip(sizes, steps, strict=True):
        if size == 1:
            continue
        if pairs and pairs[-1][1] == step * size:  # the two axes are one run in memory
            pairs[-1] = (pairs[-1][0] * size, step)
        else:
            pairs.append((size, step))
    return pairs
