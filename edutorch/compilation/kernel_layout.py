"""The layout of a kernel: how it walks over its domain, and where it finds its operands.

A domain is cut into rows: as few axes as possible enumerate them, so that each operand has one
stride along a row. What a loop over the rows of a group looks like depends on its reductions:

    single    no axes: numbers
    flat      no reductions: one loop over all elements
    chunks    a sum over everything: chunks of elements, and then the chunks' sums
    rows      reductions along rows: one row after the other
    blocks    sums over the rows: blocks of rows, and then the blocks' sums
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from .fusion_groups import Group, compute_stages, is_aligned, merge_axes, steps_along
from .values import (
    FUNCTIONS,
    POWERS,
    Operand,
    Value,
    contiguous_steps,
    function_of_range,
    operands_of,
)

__all__ = ["CHUNK", "ROWS", "KernelLayout", "KernelText"]

CHUNK = 4096
"""The number of elements that are summed at a time in a sum over everything."""
ROWS = 64
"""The number of rows in a block: rows are summed in blocks, and then the blocks."""


@dataclass(slots=True)
class KernelText:
    """A kernel's code and how it is called: `name(start, stop, sizes…, scalars…, arrays…)`.

    Attributes:
        anonymous_body: the same code with canonical names, equal for all such kernels.
        count: the number of rows (or elements, or chunks) to divide among threads.
        sizes: sizes that are arguments, so that one kernel serves many shapes.
        scalars: Python numbers, computed in each call.
        inputs: the arrays it reads, which are contiguous; views among them are copied first.
        outputs: the arrays it writes.
        partial: by sum over rows or everything, the shape of its partial sums.
        work: the number of elements it touches.
    """

    name: str = ""
    body: str = ""
    anonymous_body: str = ""
    signature: str = ""
    needs: set[str] = field(default_factory=set)
    count: int = 1
    sizes: list[int] = field(default_factory=list)
    scalars: list[Value] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    partial: dict[Value, tuple[int, ...]] = field(default_factory=dict)
    work: int = 0


class KernelLayout:
    """The axes of one kernel, its operands, and the code of its expressions."""

    def __init__(self, group: Group, results: list[Value], shared: dict[Value, Value]) -> None:
        self.group, self.results, self.shared = group, results, shared
        self.domain = group.domain
        self.inside = set(group.values)
        self.kernel = KernelText(work=math.prod(group.domain))
        self.copies: dict[Value, Value] = {}  # of operands that have no one stride along a row
        self.split = group.split
        self.lasts = [value for value in group.values if group.level[value] == "last"]
        self.stage = compute_stages(group)  # the loop of a row in which each value is known
        self.choose_rows()

    def choose_rows(self) -> None:
        """Choose the axes that enumerate rows: as few as give each operand one stride in a row."""
        operands = self.full_operands()
        rank = len(self.domain)
        if self.split is None:
            self.split = next(
                (
                    b
                    for b in range(rank)
                    # The longest rows: fewer turns of the outer loop.
                    if all(self.has_even_steps(operand, b) for operand in operands)
                ),
                rank - 1,  # no split is even for all: then the last axis, and the others are copied
            )
        if rank:
            self.copies = {
                operand: self.copy_to_domain(operand)
                for operand in operands
                if not self.has_even_steps(operand, self.split)
            }
        self.rows = math.prod(self.domain[: self.split]) if rank else 1
        self.columns = math.prod(self.domain[self.split :]) if rank else 1
        # Nothing has to be known of a whole row before it is used.
        has_no_row_level = all(self.group.level[value] != "row" for value in self.group.values)
        by_column = any(not self.is_full_sum(last) for last in self.lasts)
        if not rank:
            self.mode = "single"
        elif has_no_row_level and self.split == 0 and not by_column:
            self.mode = "chunks" if self.lasts else "flat"
        else:
            self.mode = "blocks" if by_column else "rows"

    def is_full_sum(self, value: Value) -> bool:
        """Whether a sum that ends the kernel is over everything."""
        return len(value.settings["axes"]) == len(self.domain)

    def full_operands(self) -> list[Value]:
        """Return the external arrays that are read at each position."""
        operands = []
        for value in self.group.values:
            if self.group.level[value] == "full" or value.kind == "reduce":
                operands += [  # numbers are arguments, not arrays
                    operand
                    for operand in operands_of(value)
                    if operand.base not in self.inside and operand.dtype is not None
                ]
        return list(dict.fromkeys(operands))

    def copy_to_domain(self, value: Value) -> Value:
        """Return a full-size copy, made beforehand, of an operand without one stride in a row."""
        # One copy before the loop, instead of two strides inside of it.
        text = f"np.broadcast_to({{}}, {self.domain})"
        copy = Value("view", text, (value,), self.domain, value.dtype, node=value.node)
        copy.settings = {
            "text": text,
            "offset": 0,
            "steps": contiguous_steps(self.domain),
            "base": copy,
        }
        copy.name = f"{value.name}_whole"
        return copy

    def readable_operand(self, value: Value) -> Value:
        """Return the array that is read for an operand: itself, or its copy."""
        return self.copies.get(value, value)

    def full_steps(self, value: Value) -> tuple[int, tuple[int, ...]]:
        """Return a full operand's offset, and its strides along the domain."""
        steps = steps_along(value, self.domain)
        assert steps is not None
        return value.layout[0], steps

    def has_even_steps(self, value: Value, split: int) -> bool:
        """Whether the elements of a row have one stride in memory."""
        return len(merge_axes(self.domain[split:], self.full_steps(value)[1][split:])) <= 1

    # Arrays -------------------------------------------------------------------------------

    def array_name(self, value: Value) -> str:
        """Return the name of the array that holds a value: another one's if they share it."""
        return self.shared.get(value, value).name

    def row_name(self, value: Value) -> str:
        """Return the name of the part of an array that belongs to the row."""
        return f"{self.array_name(value)}_row"

    def scratch(self) -> list[Value]:
        """Return the values that need a row buffer because they are not results."""
        if self.mode in ("single", "flat"):
            return []
        values: dict[Value, None] = {}
        for value in self.group.values:
            for operand in operands_of(value):
                # A reduction reads a row; an external one is read where it lies, if it moves along
                # the row.
                if value.kind == "reduce" and operand.base not in self.inside:
                    if self.mode == "chunks" or self.row_level(operand) != "row":
                        values[operand] = None  # it is constant along the row
                    continue
                if operand.base not in self.inside or self.group.level[operand.base] != "full":
                    continue
                # A sum over the rows adds each element where it is computed.
                by_column = value in self.lasts and not self.is_full_sum(value)
                # In the same loop it is a variable.
                is_needed_later = self.stage[value] > self.stage[operand.base]
                if (value.kind == "reduce" or is_needed_later) and not by_column:
                    values[operand.base] = None
        return [
            operand
            for operand in values
            # A result has a row already: that of the array.
            if operand not in self.results and not self.is_read_directly(operand)
        ]

    def is_read_directly(self, value: Value) -> bool:
        """Whether a reduction can read an external array directly."""
        return value.base not in self.inside and self.row_level(value) == "row"

    def row_level(self, value: Value) -> str:
        """Return how an external array is read: a "row", one element for "each" row, or "once"."""
        _, steps = self.full_steps(self.readable_operand(value))
        moves = [s != 0 and n > 1 for s, n in zip(steps, self.domain, strict=True)]
        if any(moves[self.split :]):
            return "row"
        return "each" if any(moves) else "once"

    # One operand --------------------------------------------------------------------------

    def add_parameter(self, value: Value) -> str:
        """Make an external operand a parameter, and return its name."""
        if value.dtype is None:
            # The order of the first use, as everywhere: the signature is made of it.
            if value not in self.kernel.scalars:
                self.kernel.scalars.append(value)
            return value.name
        array = value.base
        if array not in self.kernel.inputs:
            self.kernel.inputs.append(array)
        return array.name

    def literal(self, x: Operand, dtype: np.dtype | None) -> str:
        """Return the source code of a number in one of the kernel's dtypes."""
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return str(bool(x))
        number = x.item() if isinstance(x, np.generic) else x  # the code has Python literals
        if isinstance(number, float) and not math.isfinite(number):
            self.kernel.needs.add("nan" if math.isnan(number) else "inf")
        # A plain literal is a float64 for numba.
        if dtype == np.float64 and isinstance(number, float) and math.isfinite(number):
            return repr(number)
        self.kernel.needs.add(str(dtype))
        return f"{dtype}({number!r})"

    def expression(self, value: Value, at: dict[Value, str]) -> str:
        """Return the source code of an elementwise function; `at` has the code of its operands."""
        function, operands = FUNCTIONS[value.function], list(value.operands)
        dtypes = [
            operand.dtype for operand in operands if getattr(operand, "dtype", None) is not None
        ]
        # A comparison computes in the dtype of its operands.
        dtype = value.dtype if value.dtype != bool or not dtypes else dtypes[0]
        texts = []
        for operand in operands:
            if isinstance(operand, Value):
                text = at[operand]
                if operand.dtype is None:
                    # A Python number promotes weakly: float32 + number is float32.
                    text = f"{dtype}({text})"
                    self.kernel.needs.add(str(dtype))
                texts.append(text)
            else:
                texts.append(self.literal(operand, getattr(operand, "dtype", dtype)))
        text = function.kernel
        if value.function == "power" and not isinstance(operands[1], Value):
            # NumPy computes these without `pow` as well: the last bits agree.
            text = POWERS.get(float(operands[1]), text)
        if value.function == "exp" and is_below_maximum(operands[0]):
            self.kernel.needs.add("exp_nonpositive")
            return f"exp_nonpositive({texts[0]})"
        if special := function_of_range(value):
            self.kernel.needs.add(special)
            return f"{special}({texts[0]})"
        if value.function == "cast":
            if value.dtype == bool:  # as in NumPy: all but 0 is True, nan as well
                return f"{texts[0]} != 0"
            self.kernel.needs.add(str(value.dtype))
            return f"{value.dtype}({texts[0]})"
        if function.needs and text == function.kernel and function.needs != "one":
            self.kernel.needs.add(function.needs)
        if "one" in text.split():
            text = text.replace("one", self.literal(1.0, value.dtype))
        return text.format(*texts)


def is_below_maximum(x: Operand) -> bool:
    """Whether a value is x - max(x), as in a softmax, so that it is never positive."""
    if not isinstance(x, Value) or x.function != "subtract":
        return False
    whole, peak = x.operands
    if not isinstance(whole, Value) or not isinstance(peak, Value):
        return False
    maximum = peak.base
    if maximum.kind != "reduce" or maximum.function != "max" or maximum.operands[0] is not whole:
        return False
    axes = maximum.settings["axes"]
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(whole.shape))
    return peak.shape == kept and is_aligned(peak, kept)
