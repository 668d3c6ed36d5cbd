"""Plans the memory of a program: which results share a buffer, and which are written in place.

A result is live until its last reader has run. Then its buffer is free for the next one: so a
program needs few buffers, allocated once, and not one array for each step of each call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..fx import primitives
from .fusion_groups import Group, Unit, compute_stages, readers
from .kernel_codegen import kernel_text
from .values import Program, Value, operands_of

__all__ = ["Plan", "in_place_outputs", "peak_bytes", "plan_memory"]

MIN_BUFFER_BYTES = 16_384
"""Below so many bytes NumPy caches memory itself, and a buffer is not worth it."""
ALIGNMENT = 64
FOREVER = 1 << 60


@dataclass(slots=True)
class Plan:
    """The memory assigned to each result.

    Attributes:
        buffers: the size in bytes of each buffer of the workspace.
        buffer: the index of a value's buffer.
        fresh: values that get new memory in each call, because the caller keeps them.
        written: values that are written into an input, with that input.
        shared: by unit, the results that are written over an array that the kernel reads.
        inside: values that are computed inside a concatenation: which one, and at which byte.
        partial: by sum that ends a kernel, the buffer and the shape of its partial sums.
        last: the index of the last unit that needs a value.
    """

    buffers: list[int] = field(default_factory=list)
    buffer: dict[Value, int] = field(default_factory=dict)
    fresh: set[Value] = field(default_factory=set)
    written: dict[Value, Value] = field(default_factory=dict)
    shared: dict[Unit, dict[Value, Value]] = field(default_factory=dict)
    inside: dict[Value, tuple[Value, int]] = field(default_factory=dict)
    partial: dict[Value, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    last: dict[Value, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The size of the workspace."""
        return sum(self.buffers)


class Planner:
    """Visits the units in order and allocates buffers."""

    def __init__(self, program: Program, units: list[Unit]) -> None:
        self.program, self.units = program, units
        self.plan = Plan()
        self.free: set[int] = set()
        self.position = {unit: i for i, unit in enumerate(units)}
        self.unit_of = {value: unit for unit in units for value in unit.values}
        self.outputs = [output.base for output in operands_of(program.outputs)]
        self.plan.last = self.last_uses()

    def run(self) -> Plan:
        self.find_in_place_outputs()  # before buffers are given away: an update in place needs none
        self.find_stacks()
        for position, unit in enumerate(self.units):
            for value in self.stack_parts(unit):
                stack, _ = self.plan.inside[value]
                if stack not in self.plan.buffer:
                    # At the first part: from now on the whole must be there.
                    self.plan.buffer[stack] = self.allocate_buffer(stack.bytes)
            for value in self.results(unit):
                if value in self.plan.fresh or value in self.plan.written:
                    continue
                if value in self.plan.inside:
                    continue
                self.plan.buffer[value] = self.choose_buffer(unit, value, position)
            if isinstance(unit, Group):
                self.allocate_partial_sums(unit)
            done = [  # free only now: the unit itself may read what it has used last
                finished for finished in self.plan.buffer if self.plan.last[finished] == position
            ]
            self.free |= {self.plan.buffer[finished] for finished in done}
        return self.plan

    def last_uses(self) -> dict[Value, int]:
        """Return the last unit that reads a value, or anything that may alias it."""
        last: dict[Value, int] = {}
        values = [*self.program.inputs, *self.program.values]
        # From the end: of a reader, its own last use has to be known.
        for value in reversed(values):
            if value.kind == "view":
                continue
            uses = [self.position[self.unit_of[value]] if value in self.unit_of else -1]
            uses += [FOREVER] * (value in self.outputs)
            for reader in readers(value):
                uses.append(self.position[self.unit_of[reader]])
                if may_alias_input(reader):  # `reshape` of a value may be the value's own memory
                    uses.append(last[reader])
            last[value] = max(uses)
        self.plan.fresh = {
            value for value in values if last.get(value) == FOREVER and value.kind != "input"
        }
        return last

    def results(self, unit: Unit) -> list[Value]:
        """Return the values of a unit that need planned memory."""
        if isinstance(unit, Group):
            return unit.results(set(self.outputs))
        (value,) = unit.values
        is_large = value.bytes >= MIN_BUFFER_BYTES
        # Ufuncs take `out=`, so they can write into a buffer.
        is_ufunc = value.kind == "element" and isinstance(
            getattr(np, value.function, None), np.ufunc
        )
        return (
            [value] if value.shape and (value.kind == "product" or (is_ufunc and is_large)) else []
        )

    def find_in_place_outputs(self) -> None:
        """Find outputs that can be written directly into the input which they replace."""
        taken: set[Value] = set()
        for position, target in self.program.writes.items():
            value, into = self.program.outputs[position], self.program.inputs[target]
            if not isinstance(value, Value) or value not in self.unit_of or into in taken:
                continue
            unit = self.unit_of[value]
            # Returned as well, it would change with the next call.
            is_single = self.outputs.count(value) == 1 and into not in self.outputs
            is_same_type = value.shape == into.shape and value.dtype == into.dtype
            if not (is_single and is_same_type and value in self.results(unit)):
                continue
            reads = [reader for reader in readers(into) if self.unit_of[reader] is unit]
            if self.plan.last[into] > self.position[unit]:  # somebody reads the old value later
                continue
            if reads and not (isinstance(unit, Group) and can_write_over(unit, value, into)):
                continue
            # A view of it would be a view of the parameter.
            if self.may_leak(unit, value):
                continue
            taken.add(into)  # one new value for each input
            self.plan.written[value] = into
            self.plan.fresh.discard(value)
            if reads:
                self.plan.shared.setdefault(unit, {})[value] = into

    def find_stacks(self) -> None:
        """Find values that are only concatenated: they are computed inside the concatenation."""
        for unit in self.units:
            stack = unit.values[0]
            if not is_stack(stack) or stack in self.outputs:
                continue
            first = 0
            for part in stack.operands[0]:
                if self.can_be_inside(part):
                    self.plan.inside[part] = stack, first
                    last = self.plan.last
                    # Whoever reads the part reads the memory of the whole.
                    last[stack] = max(last[stack], last[part])
                first += part.bytes

    def can_be_inside(self, part: Value) -> bool:
        """Whether a part of a concatenation has no other memory assigned."""
        plan, unit = self.plan, self.unit_of.get(part)
        if unit is None or part in plan.inside or part in plan.written or part in self.outputs:
            return False
        if isinstance(unit, Group):
            # A row's scalar is written elsewhere.
            return part in self.results(unit) and unit.level[part] == "full"
        return part.kind == "product" or is_cat(part)

    def stack_parts(self, unit: Unit) -> list[Value]:
        """Return the values of a unit that are computed inside a concatenation."""
        return [value for value in unit.values if value in self.plan.inside]

    def may_leak(self, unit: Unit, value: Value) -> bool:
        """Whether a call might return a view of a value that is written into an input."""
        return any(may_alias_input(reader) for reader in readers(value))

    def choose_buffer(self, unit: Unit, value: Value, position: int) -> int:
        """Return a buffer: one that the kernel reads for the last time, a free or a new one."""
        if isinstance(unit, Group):
            shared = self.plan.shared.setdefault(unit, {})
            for operand in dict.fromkeys(operand.base for operand in unit.external_operands()):
                if operand in self.plan.buffer and operand not in shared.values():
                    is_same_type = operand.shape == value.shape and operand.dtype == value.dtype
                    if (
                        is_same_type
                        and self.plan.last[operand] == position
                        and can_write_over(unit, value, operand)
                    ):
                        shared[value] = operand
                        self.plan.last[operand] = -1  # its buffer is now the result's
                        return self.plan.buffer[operand]
        return self.allocate_buffer(value.bytes)

    def allocate_buffer(self, size: int) -> int:
        """Return the smallest free buffer that is large enough, or else a new one."""
        size = -(-size // ALIGNMENT) * ALIGNMENT  # a multiple of the cache line
        candidates = [
            candidate
            for candidate in self.free
            # A large buffer is kept for large results.
            if size <= self.plan.buffers[candidate] <= 8 * size + 4096
        ]
        if candidates:
            buffer = min(candidates, key=lambda candidate: self.plan.buffers[candidate])
            self.free.discard(buffer)
            return buffer
        self.plan.buffers.append(size)
        return len(self.plan.buffers) - 1

    def allocate_partial_sums(self, unit: Group) -> None:
        """Allocate buffers for the partial sums of a kernel, which are free after it has run."""
        if "last" not in unit.level.values():
            return
        # Only the text knows how many parts there are.
        text = kernel_text(unit, self.results(unit), self.plan.shared.get(unit, {}))
        buffers = []
        for value, shape in text.partial.items():
            buffer = self.allocate_buffer(math.prod(shape) * 8)
            self.plan.partial[value] = buffer, shape
            buffers.append(buffer)
        self.free |= set(buffers)


ALWAYS_NEW = {
    primitives.set_item, primitives.apply_to_copy, primitives.scatter_add, primitives.copy,
    primitives.cast, primitives.item, primitives.draw, primitives.with_region,
    primitives.fill_like, np.concatenate,
}  # fmt: skip


def is_stack(value: Value) -> bool:
    """Whether a value is a concatenation of matrices of its own dtype along the first axis."""
    if value.kind != "call" or value.function is not np.concatenate or len(value.operands) != 2:
        return False
    parts, settings = value.operands
    return not settings and all(
        isinstance(part, Value) and part.dtype == value.dtype and len(part.shape) == 2
        for part in parts
    )


def is_cat(value: Value) -> bool:
    """Whether a value is a concatenation of arrays of its own dtype by the op `cat`."""
    op = getattr(value.function, "op", None)
    if value.kind != "call" or op is None or op.name != "cat":
        return False
    parts = value.operands[0]
    return isinstance(parts, tuple | list) and all(
        isinstance(part, Value) and part.dtype == value.dtype
        and len(part.shape) == len(value.shape)
        for part in parts
    )  # fmt: skip


def may_alias_input(value: Value) -> bool:
    """Whether a call may return one of its arguments, or a view of it."""
    if value.kind == "part":  # an op such as `chunk` returns views
        return True
    if value.kind != "call":
        return False
    op = getattr(value.function, "op", None)
    if isinstance(value.function, np.ufunc) or value.function in ALWAYS_NEW:
        return False
    if hasattr(value.function, "rule"):
        return False
    return op is None or op.family.makes_view or op.linear


def can_write_over(group: Group, value: Value, read: Value) -> bool:
    """Whether a kernel may write a result over an array that it reads.

    Each element must have been read, at its own position only, before the result is written there.
    """
    # A shorter result would be written over elements that are still to be read.
    if group.level[value] != "full" or read.shape != group.domain:
        return False
    stage = compute_stages(group)
    order = {value: i for i, value in enumerate(group.values)}
    for user in group.values:
        for operand in operands_of(user):
            if operand.base is not read:
                continue
            if operand is not read:  # a view reads at other positions
                return False
            if user.kind == "reduce":
                # A sum has read the whole row before.
                reduction_stage = stage[user] - (group.level[user] == "row")
                if reduction_stage >= stage[value]:
                    return False
            # Within a loop, an element is read before it is written, if its reader comes first.
            elif (stage[user], order[user]) > (stage[value], order[value]):
                return False
    return True


def in_place_outputs(program: Program, units: list[Unit]) -> dict[Value, Value]:
    """Return the outputs that can be written into the inputs that they replace, and the inputs."""
    planner = Planner(program, units)
    planner.find_in_place_outputs()
    return planner.plan.written


def plan_memory(program: Program, units: list[Unit]) -> Plan:
    """Plan the memory of units that run in this order."""
    return Planner(program, units).run()


def peak_bytes(program: Program, made: list[list[Value]]) -> int:
    """Return the peak memory in bytes if each step's results live until they are last read.

    Args:
        made: for each step, the values that get memory in it.
    """
    step_of = {value.base: i for i, values in enumerate(made) for value in values}
    outputs = {output.base for output in operands_of(program.outputs)}
    ends: dict[int, int] = {}
    for value in step_of:
        stack: list[Any] = list(value.users)
        seen: set[Value] = set()
        last = FOREVER if value in outputs else step_of[value]  # what is returned stays
        while stack:
            user = stack.pop()
            if user in seen:
                continue
            seen.add(user)
            if user.kind == "view":
                stack += user.users
            elif user in step_of:
                last = max(last, step_of[user])
            else:  # inside a kernel: its results count instead
                stack += user.users
        ends[last] = ends.get(last, 0) + value.bytes
    now = peak = 0
    for i, values in enumerate(made):
        now += sum(value.bytes for value in values)
        peak = max(peak, now)
        now -= ends.get(i, 0)
    return peak
