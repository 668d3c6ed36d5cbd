"""Operator fusion: decides which values become one kernel.

A kernel iterates over all positions of one shape, its domain, row by row. Values join it if

* each position needs only elements at the same position ("full"), or of the same row ("row": the
  result of a reduction along the last axes), or of external arrays that broadcast;
* no unit outside the kernel is needed between two of its values: it runs as a whole;
* a reduction along the first axes, or along all, may end it ("last": not read inside).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..core.op import Op
from ..fx import Node
from .fusion_groups import (
    Group,
    Unit,
    is_aligned,
    is_one_per_row,
    is_row_shape,
    readers,
    reduction_level,
    steps_along,
)
from .symbols import FLOAT_DTYPES, KERNEL_DTYPES
from .values import (
    CHEAP_FUNCTIONS,
    FUNCTIONS,
    Program,
    Value,
    contiguous_steps,
    function_of_range,
    operands_of,
    topological_order,
)

__all__ = ["Fusion", "fusion_obstacle", "group_values", "has_own_kernel", "nodes_with_own_kernel"]

Obstacle = Callable[[Value], str | None]

MAX_ARRAYS = 40
MAX_VALUES = 1000
MAX_DEFERRED_DEPTH = 4
"""The longest chain of values that are deferred for each other."""
MIN_VECTOR_SIZE = 256
"""From so many elements on, vectorization pays."""
MIN_THREADED_SIZE = 32_768
"""From so many elements on, a kernel runs on two threads."""


def fusion_obstacle(value: Value) -> str | None:
    """Return why a value cannot be part of a kernel, or None if it can."""
    if value.kind not in ("element", "reduce"):
        return f"a {value.kind}"
    dtypes = [operand.dtype for operand in operands_of(value)] + [value.dtype]
    # float16, complex, int32: numba would promote in another way than NumPy.
    unsupported = [dtype for dtype in dtypes if dtype is not None and dtype not in KERNEL_DTYPES]
    if unsupported:
        return f"the dtype {unsupported[0]} is left to NumPy"
    if value.kind == "element":
        function = FUNCTIONS[value.function]
        # x ** 2 is x * x, so the slow `pow` is not called.
        if value.function == "power" and is_simple_power(value):
            return None
        is_slow = not function.vector and function_of_range(value) is None
        if is_slow and value.size >= MIN_VECTOR_SIZE:
            return f"{value.function} is not vectorized in kernels: NumPy is faster"
        # An empty array is not worth a kernel.
        return "no elements" if not value.size else None
    if not value.operands[0].size:
        return "no elements"
    return None


def is_simple_power(value: Value) -> bool:
    """Whether a power is a few products, a root or a reciprocal."""
    exponent = value.operands[1]
    return not isinstance(exponent, Value) and float(exponent) in (1.0, 2.0, 3.0, 0.5, -1.0)


class Fusion:
    """Greedy fusion: visits the values in order and adds each to a kernel if possible."""

    def __init__(self, program: Program, obstacle: Obstacle = fusion_obstacle) -> None:
        self.program, self.obstacle = program, obstacle
        self.unit_of: dict[Value, Unit] = {}
        self.units: list[Unit] = []
        self.reasons: dict[Value, str] = {}
        self.deferred: set[Value] = set()
        self.depth: dict[Value, int] = {}  # of chains of deferred values
        self.outputs = {output.base for output in operands_of(program.outputs)}
        self.positions = {value: i for i, value in enumerate(program.values)}

    def run(self) -> list[Unit]:
        """Return the units, in the order of their creation."""
        for value in self.program.values:
            # A view is no work: it is part of how its reader finds the elements.
            if value.kind == "view":
                continue
            if self.is_deferred(value):
                self.deferred.add(value)
            else:
                self.assign_unit(value)
        return self.units

    def is_deferred(self, value: Value) -> bool:
        """Whether a value is deferred to the kernel of its only reader.

        Masks and constants are, drawn numbers, and what only backward needs: to compute a
        derivative like y - y² costs less than to store it in the forward pass.
        """
        if value.kind != "element" or len(value.users) != 1 or self.obstacle(value) is not None:
            return False
        (reader,) = value.users  # with two readers, deferring would compute it twice
        if self.obstacle(reader) is not None or value in self.outputs:
            return False
        if value.is_drawn:  # its reader is the only one that computes it
            return True
        depth = 1 + max((self.depth.get(operand, 0) for operand in operands_of(value)), default=0)
        # 0 means that the next value of the chain may be deferred again.
        self.depth[value] = depth if depth <= MAX_DEFERRED_DEPTH else 0
        if value.function in CHEAP_FUNCTIONS:
            return depth <= 2 * MAX_DEFERRED_DEPTH
        is_backward = value.node is not None and value.node.meta.get("phase") == "backward"
        # An exp costs more than to load its result.
        is_cheap = FUNCTIONS[value.function].costs < 10 and value.shape != ()
        return is_backward and is_cheap and self.depth[value] > 0

    def assign_unit(self, value: Value) -> None:
        """Add a value to a kernel, or start one, or make it a unit of its own."""
        reason = self.obstacle(value)
        if reason is None and self.join_group(value):
            return
        # A unit of one value is a kernel only if others join.
        unit = (Group if reason is None else Unit)(value, self.positions[value])
        waiting = [operand for operand in operands_of(value) if operand in self.deferred]
        if isinstance(unit, Group):
            self.set_first_level(unit, value)
            for operand in waiting:
                # It may have been placed by the operand before.
                if operand in self.deferred and self.place_with_deferred(unit, operand):
                    unit.values = [*self.take_deferred(operand), *unit.values]
        else:
            self.reasons[value] = str(reason)
        for operand in waiting:
            if operand in self.deferred:
                self.deferred.discard(operand)
                self.assign_unit(operand)
        self.add_unit(unit)

    def take_deferred(self, value: Value) -> list[Value]:
        """Return a value and the deferred values that it needs, no longer deferred."""
        self.deferred.discard(value)
        deferred = [
            self.take_deferred(operand)
            for operand in operands_of(value)
            if operand in self.deferred
        ]
        return [*(operand for part in deferred for operand in part), value]

    def place_with_deferred(self, group: Group, value: Value) -> bool:
        """Set the levels of a value and its deferred operands in a kernel; False if impossible."""
        # Restored if it fails: the levels of the operands are set on the way.
        before = dict(group.level), group.split
        for operand in operands_of(value):
            if operand in self.deferred and not self.place_with_deferred(group, operand):
                group.level, group.split = before
                return False
        level = self.find_level(group, value)
        if level is None:
            group.level, group.split = before
            return False
        group.level[value], group.split = level
        return True

    def set_first_level(self, group: Group, value: Value) -> None:
        """Set the level of a kernel's first value."""
        group.level[value] = "full"
        if value.kind == "reduce":
            level, split = reduction_level(group, value)
            group.level[value], group.split = level or "alone", split

    def add_unit(self, unit: Unit) -> None:
        """Register a unit."""
        self.units.append(unit)
        for value in unit.values:
            self.unit_of[value] = unit
        for value in unit.values:
            # After all values are known to be inside.
            unit.needs |= self.needed_units(value) - {unit}

    def needed_units(self, value: Value) -> set[Unit]:
        """Return the units that a value reads from."""
        units: set[Unit] = set()
        for operand in operands_of(value):
            if operand.base in self.deferred:
                units |= self.needed_units(operand.base)
            elif operand.base in self.unit_of:
                units.add(self.unit_of[operand.base])
        return units

    def join_group(self, value: Value) -> bool:
        """Add a value to a kernel that it reads from, or that reads the same array."""
        needs = self.needed_units(value)
        candidates = [unit for unit in needs if isinstance(unit, Group)]
        # The newest first: there is the least between it and this value.
        candidates.sort(key=lambda unit: -unit.last)
        candidates += [  # siblings, such as the three gates of a cell that read the same x
            neighbour for neighbour in self.neighbor_groups(value) if neighbour not in candidates
        ]
        joined_group: Group | None = None
        for group in candidates:
            if joined_group is not None:
                # The value reads from both, so they can be one kernel.
                self.merge(joined_group, group)
                continue
            # A kernel runs as a whole, so nothing that it needs may wait for it.
            if any(self.depends_on(need, group) for need in needs - {group}):
                continue
            if not self.place_with_deferred(group, value):
                continue
            for member in self.take_deferred(value):
                group.values.append(member)
                self.unit_of[member] = group
            group.last = self.positions[value]
            group.needs |= needs - {group}
            joined_group = group
        return joined_group is not None

    def neighbor_groups(self, value: Value) -> list[Group]:
        """Return kernels with the same domain that read an array which the value reads."""
        if value.kind != "element":
            return []
        groups: list[Group] = []
        for operand in operands_of(value):
            if operand.shape != value.shape or operand.dtype is None:
                continue
            for reader in readers(operand.base):
                unit = self.unit_of.get(reader)
                if not isinstance(unit, Group) or unit.domain != value.shape or unit in groups:
                    continue
                if value.shape or unit.needs <= self.needed_units(
                    value
                ):  # else they would depend on each other
                    groups.append(unit)
        return groups[-3:]  # the newest only: else the search would be quadratic

    def depends_on(self, unit: Unit, group: Unit) -> bool:
        """Whether `unit` depends on `group`, directly or indirectly."""
        stack, seen = [unit], {unit}
        while stack:
            current = stack.pop()
            if current is group:
                return True
            if current.last < group.first:  # it was finished before the kernel began
                continue
            for need in current.needs:
                if need not in seen:
                    seen.add(need)
                    stack.append(need)
        return False

    def find_level(self, group: Group, value: Value) -> tuple[str, int | None] | None:
        """Return the level that a value would have in a kernel, and the kernel's split then."""
        if len(group.values) >= MAX_VALUES:
            return None
        inside = [inner for inner in operands_of(value) if inner.base in group.level]
        # Such a result is complete only after the kernel.
        if any(group.level[inner.base] in ("last", "alone") for inner in inside):
            return None
        if value.kind == "reduce":
            (operand,) = value.operands
            # A reduction inside runs over the kernel's own rows.
            if operand.shape != group.domain or not self.is_readable(group, operand, "full"):
                return None
            level, split = reduction_level(group, value)
            return (level, split) if level is not None else None
        if value.shape == group.domain:
            if all(self.is_readable(group, inner, "full") for inner in inside):
                return "full", group.split
            return None
        if group.split is None or not is_row_shape(value.shape, group):
            return None
        if not inside and value not in self.deferred:  # it would not save a pass over memory
            return None
        if all(self.is_readable(group, inner, "row", value.shape) for inner in inside):
            return "row", group.split
        return None

    def is_readable(
        self, group: Group, operand: Value, level: str, shape: tuple[int, ...] | None = None
    ) -> bool:
        """Whether an operand is available where a value of the given level needs it."""
        own = group.level.get(operand.base)
        if own is None:  # from outside: it has to broadcast to the domain
            return steps_along(operand, group.domain if shape is None else shape) is not None
        if own == "full":
            return level == "full" and is_aligned(operand, group.domain)
        if level == "row":  # both are one number for each row
            return is_aligned(operand, shape or operand.shape)
        return group.split is not None and is_one_per_row(operand, group.domain, group.split)

    def merge(self, home: Group, other: Group) -> None:
        """Merge a kernel into another one that has just got a value which reads from both."""
        if other is home or other.domain != home.domain or "alone" in other.level.values():
            return
        # Rows of one length only.
        splits = {needed for needed in (home.split, other.split) if needed is not None}
        if len(splits) > 1 or len(home.values) + len(other.values) > MAX_VALUES:
            return
        if not (
            self.is_compatible(home, other, splits) and self.is_compatible(other, home, splits)
        ):
            return
        # No unit may have to run between the two.
        between = (home.needs | other.needs) - {home, other}
        if any(
            self.depends_on(needed, home) or self.depends_on(needed, other) for needed in between
        ):
            return
        home.values = sorted({*home.values, *other.values}, key=self.position_of)
        home.level |= other.level
        home.split = next(iter(splits), None)
        home.first, home.last = min(home.first, other.first), max(home.last, other.last)
        home.needs = between
        for value in other.values:
            self.unit_of[value] = home
        self.units.remove(other)
        for unit in self.units:  # who waited for the other kernel waits for this one
            if other in unit.needs:
                unit.needs.discard(other)
                if unit is not home:
                    unit.needs.add(home)

    def is_compatible(self, one: Group, other: Group, splits: set[int]) -> bool:
        """Whether everything that one kernel reads from the other is available in a merged one."""
        split = next(iter(splits), 0)
        for value in one.values:
            reads_all = value.kind == "reduce" or one.level[value] == "full"
            for operand in operands_of(value):
                level = other.level.get(operand.base)
                if level is None:
                    continue
                if level == "last" or (level == "full" and not reads_all):
                    return False
                if level == "full" and not is_aligned(operand, one.domain):
                    return False
                if level == "row" and reads_all and not is_one_per_row(operand, one.domain, split):
                    return False
                if level == "row" and not reads_all and not is_aligned(operand, value.shape):
                    return False
        return True

    def position_of(self, value: Value) -> int:
        """Return the index of a value in the program."""
        return self.positions[value]


def group_values(
    program: Program, fuse: bool = True, obstacle: Obstacle = fusion_obstacle
) -> tuple[list[Unit], dict[Value, str]]:
    """Return the units of a program in topological order, and why values were not fused.

    Args:
        obstacle: returns why a value cannot be part of a kernel: that depends on the device.
    """
    if not fuse:
        values = [value for value in program.values if value.kind != "view"]
        units = [Unit(value, order) for order, value in enumerate(values)]
        return units, {}
    fusion = Fusion(program, obstacle)
    outputs = {output.base for output in operands_of(program.outputs)}
    units: list[Unit] = []
    for unit in fusion.run():
        reason = reason_against_kernel(unit, outputs) if isinstance(unit, Group) else None
        if reason is None:
            units.append(unit)
            continue
        for value in unit.values:
            alone = Unit(value, fusion.position_of(value))
            fusion.unit_of[value] = alone
            fusion.reasons[value] = reason
            units.append(alone)
    # After the grouping: a bias may have a better place in a kernel.
    units = [unit for unit in units if not fold_bias_into_product(unit, program, outputs)]
    for unit in units:
        unit.needs = set().union(*(fusion.needed_units(value) for value in unit.values)) - {unit}
    return topological_order(units, lambda unit: unit.needs, lambda unit: unit.last), fusion.reasons


def nodes_with_own_kernel(units: list[Unit]) -> set[Node]:
    """Return the nodes whose op has a kernel of its own that is better than the generated ones.

    That kernel knows more than the generated one of a reduction, or of the windows of a pooling:
    how to divide a long row, or other axes than the last ones. An elementwise op is the same in
    both, but the generated kernel writes into planned memory; where NumPy would compute it, the own
    kernel does, on all threads.

    A node that shares a kernel with another op is none of them, unless one of its reductions could
    not be fused, as those of batch norm: then it would take more passes through the memory.
    """
    candidates: set[Node] = set()
    shared: set[Node | None] = set()
    for unit in units:
        nodes = {value.node for value in unit.values}
        if len(nodes) > 1:
            shared |= nodes
        for value in unit.values:
            is_more = value.kind == "reduce" or reads_own_views(value) or is_numpy_loop(value, unit)
            if is_more and value.node is not None and has_own_kernel(value.node):
                candidates.add(value.node)
    alone = {unit.values[0] for unit in units if not isinstance(unit, Group)}
    return candidates - (shared - {value.node for value in alone if value.kind == "reduce"})


def is_numpy_loop(value: Value, unit: Unit) -> bool:
    """Whether NumPy would compute a function of many elements, on one thread."""
    is_alone = value.kind == "element" and not isinstance(unit, Group)
    return is_alone and not FUNCTIONS[value.function].vector and value.size >= MIN_THREADED_SIZE


def reads_own_views(value: Value) -> bool:
    """Whether a value reads views that its op makes itself, as a pooling does."""
    return any(
        operand.kind == "view" and operand.node is value.node for operand in operands_of(value)
    )


def has_own_kernel(node: Node, of_any_size: bool = False) -> bool:
    """Whether a kernel would compute the op of a node at its size: see `kernels/cpu/`."""
    op: Op | None = getattr(node.target, "op", None)
    if op is None or op.slot is None or op.variadic or not isinstance(node.args[0], Node):
        return False
    operands = [operand.meta for operand in node.args if isinstance(operand, Node)]
    if not any(np.dtype(meta.get("dtype", bool)) in FLOAT_DTYPES for meta in operands):
        return False
    return of_any_size or math.prod(operands[0].get("shape", ())) >= op.slot.min_size


def fold_bias_into_product(unit: Unit, program: Program, outputs: set[Value]) -> bool:
    """Fold the addition of a bias into the matrix product, which saves a pass.

    Returns: whether the sum is now a view of the product, and needs no unit of its own.
    """
    (value, *others) = unit.values
    if others or value.kind != "element" or value.function != "add" or not value.shape:
        return False
    for whole, bias in (value.operands, value.operands[::-1]):
        if not (isinstance(whole, Value) and isinstance(bias, Value) and bias.kind == "input"):
            continue
        y = whole.base
        is_plain_product = (
            y.kind == "product" and len(y.operands) == 2 and is_aligned(whole, value.shape)
        )
        # The product without the bias is not needed by anybody.
        is_private = y not in outputs and list(readers(y)) == [value]
        if is_plain_product and is_private and bias.shape == y.shape[1:] == value.shape[-1:]:
            y.operands = (*y.operands, bias)
            bias.users.append(y)  # it is read by the product now
            turn_into_view(value, y, program)
            return True
    return False


def turn_into_view(value: Value, y: Value, program: Program) -> None:
    """Turn a value into a view of `y` in its own shape, and rebase the views of it."""
    text = "{}" if value.shape == y.shape else f"{{}}.reshape({value.shape})"
    for operand in value.operands:
        if isinstance(operand, Value):
            operand.users = [user for user in operand.users if user is not value]
    value.kind, value.function, value.operands = "view", None, (y,)
    value.settings = {"base": y, "offset": 0, "steps": contiguous_steps(value.shape), "text": text}
    y.users.append(value)
    for other_value in program.values:  # a view refers to the owner of the memory
        if other_value.kind == "view" and other_value.settings["base"] is value:
            other_value.settings = other_value.settings | {"base": y}


def is_expensive(value: Value) -> bool:
    """Whether a function is so slow in NumPy that it is worth a kernel of its own."""
    if value.kind != "element" or value.size < MIN_VECTOR_SIZE:
        return False
    if value.size >= MIN_THREADED_SIZE:  # NumPy has one thread
        return True
    function = FUNCTIONS[value.function]
    # Our vectorized exp is faster than NumPy's even alone.
    return function.vector and function.costs >= 10


def reason_against_kernel(group: Group, outputs: set[Value]) -> str | None:
    """Return why no kernel is generated for a group, or None if one is."""
    # One NumPy call and one kernel would read and write the same.
    if len(group.values) < 2 and not is_expensive(group.values[0]):
        return "nothing next to it to fuse with"
    if "alone" in group.level.values():
        return "a reduction along axes in the middle"
    arrays = len({operand.base for operand in group.external_operands()}) + len(
        group.results(outputs)
    )
    # Each array is an argument of the kernel, and the time to compile it grows with them.
    if arrays > MAX_ARRAYS and group.domain != ():
        return f"{arrays} arrays are too many for one kernel"
    return None
