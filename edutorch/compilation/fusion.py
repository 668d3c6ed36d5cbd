"""Decides which values become one kernel.

A kernel goes along all places of one shape, its domain, row by row. Values join it when

* each place needs only numbers of the same place ("full"), or of the same row ("row": what a
  reduction along the last axes leaves), or of arrays from outside that broadcast;
* nothing outside the kernel stands between two of its values: it runs as a whole;
* a reduction along the first axes, or along all, may end it ("last": nobody inside reads it).
"""

from __future__ import annotations

from .fusion_groups import (
    Group,
    Unit,
    at_its_place,
    in_order,
    of_its_row,
    of_its_row_shape,
    readers,
    reduced_level,
    steps_in,
)
from .scalar_functions import FUNCTIONS
from .symbols import NUMBERS
from .values import CHEAP, Program, Value, operands_of, steps_of

__all__ = ["Fusion", "fusable", "grouped"]

MOST_ARRAYS = 40
MOST_VALUES = 1000
DEEPEST = 4
"""So many values may wait for each other."""
LARGE = 256
"""From here on an array is worth the wide registers of the processor."""


def fusable(value: Value) -> str | None:
    """Return why a value cannot be part of a kernel, None if it can."""
    if value.kind not in ("element", "reduce"):
        return f"a {value.kind}"
    kinds = [each.dtype for each in operands_of(value)] + [value.dtype]
    strange = [kind for kind in kinds if kind is not None and kind not in NUMBERS]
    if strange:
        return f"numbers of type {strange[0]} are left to NumPy"
    if value.kind == "element":
        function = FUNCTIONS[value.function]
        if value.function == "power" and easy_power(value):
            return None
        if not function.vector and value.size >= LARGE:
            return f"{value.function} is computed for one number at a time only: NumPy is faster"
        return "no numbers" if not value.size else None
    if not value.operands[0].size:
        return "no numbers"
    return None


def easy_power(value: Value) -> bool:
    """Say whether a power is a few products or a root."""
    exponent = value.operands[1]
    return not isinstance(exponent, Value) and float(exponent) in (1.0, 2.0, 3.0, 0.5, -1.0)


class Fusion:
    """Goes through the values in order and lets each join a kernel where it can."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.unit_of: dict[Value, Unit] = {}
        self.units: list[Unit] = []
        self.reasons: dict[Value, str] = {}
        self.waiting: set[Value] = set()
        self.depth: dict[Value, int] = {}  # of values that wait for others that wait
        self.wanted = {each.base for each in operands_of(program.outputs)}
        self.places = {value: i for i, value in enumerate(program.values)}

    def run(self) -> list[Unit]:
        """Return the units, in the order in which they began."""
        for value in self.program.values:
            if value.kind == "view":
                continue
            if self.waits(value):
                self.waiting.add(value)
            else:
                self.settle(value)
        return self.units

    def waits(self, value: Value) -> bool:
        """Say whether a value is computed wherever its only reader is.

        Masks and constants are, and what only backward needs: a slope like y - y² costs less
        than to keep it from the forward pass on.
        """
        if value.kind != "element" or len(value.users) != 1 or fusable(value) is not None:
            return False
        (reader,) = value.users
        if fusable(reader) is not None or value in self.wanted:
            return False
        depth = 1 + max((self.depth.get(each, 0) for each in operands_of(value)), default=0)
        self.depth[value] = depth if depth <= DEEPEST else 0
        if value.function in CHEAP:
            return depth <= 2 * DEEPEST
        late = value.node is not None and value.node.meta.get("phase") == "backward"
        cheap = FUNCTIONS[value.function].costs < 10 and value.shape != ()
        return late and cheap and self.depth[value] > 0

    def settle(self, value: Value) -> None:
        """Let a value join a kernel, or begin one, or be alone."""
        reason = fusable(value)
        if reason is None and self.join(value):
            return
        unit = (Group if reason is None else Unit)(value, self.places[value])
        waiting = [each for each in operands_of(value) if each in self.waiting]
        if isinstance(unit, Group):
            self.level_alone(unit, value)
            for each in waiting:
                if each in self.waiting and self.placed(unit, each):
                    unit.values = [*self.arrived(each), *unit.values]
        else:
            self.reasons[value] = str(reason)
        for each in waiting:
            if each in self.waiting:
                self.waiting.discard(each)
                self.settle(each)
        self.add(unit)

    def arrived(self, value: Value) -> list[Value]:
        """Return a value that waited, and those that it waited with, as part of a kernel now."""
        self.waiting.discard(value)
        found = [self.arrived(each) for each in operands_of(value) if each in self.waiting]
        return [*(each for part in found for each in part), value]

    def placed(self, group: Group, value: Value) -> bool:
        """Find the level of a value, and of those that wait for it, in a kernel; False: none."""
        before = dict(group.level), group.split
        for each in operands_of(value):
            if each in self.waiting and not self.placed(group, each):
                group.level, group.split = before
                return False
        found = self.place(group, value)
        if found is None:
            group.level, group.split = before
            return False
        group.level[value], group.split = found
        return True

    def level_alone(self, group: Group, value: Value) -> None:
        """Say what the first value of a kernel is to it."""
        group.level[value] = "full"
        if value.kind == "reduce":
            level, split = reduced_level(group, value)
            group.level[value], group.split = level or "alone", split

    def add(self, unit: Unit) -> None:
        """Enter a unit."""
        self.units.append(unit)
        for value in unit.values:
            self.unit_of[value] = unit
        for value in unit.values:
            unit.needs |= self.needed(value) - {unit}

    def needed(self, value: Value) -> set[Unit]:
        """The units that a value reads from."""
        found: set[Unit] = set()
        for each in operands_of(value):
            if each.base in self.waiting:
                found |= self.needed(each.base)
            elif each.base in self.unit_of:
                found.add(self.unit_of[each.base])
        return found

    def join(self, value: Value) -> bool:
        """Let a value join a kernel that it reads from, or that reads what it reads."""
        needs = self.needed(value)
        candidates = [unit for unit in needs if isinstance(unit, Group)]
        candidates.sort(key=lambda unit: -unit.last)
        candidates += [
            neighbour for neighbour in self.neighbours(value) if neighbour not in candidates
        ]
        home: Group | None = None
        for group in candidates:
            if home is not None:
                self.merge(home, group)
                continue
            if any(self.leads(need, group) for need in needs - {group}):
                continue
            if not self.placed(group, value):
                continue
            for each in self.arrived(value):
                group.values.append(each)
                self.unit_of[each] = group
            group.last = self.places[value]
            group.needs |= needs - {group}
            home = group
        return home is not None

    def neighbours(self, value: Value) -> list[Group]:
        """Kernels along the same domain that read an array which the value reads."""
        if value.kind != "element":
            return []
        found: list[Group] = []
        for operand in operands_of(value):
            if operand.shape != value.shape or operand.dtype is None:
                continue
            for reader in readers(operand.base):
                unit = self.unit_of.get(reader)
                if not isinstance(unit, Group) or unit.domain != value.shape or unit in found:
                    continue
                if value.shape or unit.needs <= self.needed(value):  # else one waits for the other
                    found.append(unit)
        return found[-3:]

    def leads(self, unit: Unit, group: Unit) -> bool:
        """Say whether `unit` needs a result of `group`, at once or by others."""
        stack, seen = [unit], {unit}
        while stack:
            each = stack.pop()
            if each is group:
                return True
            if each.last < group.first:
                continue
            for need in each.needs:
                if need not in seen:
                    seen.add(need)
                    stack.append(need)
        return False

    def place(self, group: Group, value: Value) -> tuple[str, int | None] | None:
        """Return the level that a value would have in a kernel, and where rows then begin."""
        if len(group.values) >= MOST_VALUES:
            return None
        inside = [each for each in operands_of(value) if each.base in group.level]
        if any(group.level[each.base] in ("last", "alone") for each in inside):
            return None
        if value.kind == "reduce":
            (operand,) = value.operands
            if operand.shape != group.domain or not self.readable(group, operand, "full"):
                return None
            level, split = reduced_level(group, value)
            return (level, split) if level is not None else None
        if value.shape == group.domain:
            if all(self.readable(group, each, "full") for each in inside):
                return "full", group.split
            return None
        if group.split is None or not of_its_row_shape(value.shape, group):
            return None
        if not inside and value not in self.waiting:
            return None
        if all(self.readable(group, each, "row", value.shape) for each in inside):
            return "row", group.split
        return None

    def readable(
        self, group: Group, operand: Value, level: str, shape: tuple[int, ...] | None = None
    ) -> bool:
        """Say whether a value of the kernel's own is at hand where another one needs it."""
        own = group.level.get(operand.base)
        if own is None:
            return steps_in(operand, group.domain if shape is None else shape) is not None
        if own == "full":
            return level == "full" and at_its_place(operand, group.domain)
        if level == "row":
            return at_its_place(operand, shape or operand.shape)
        return group.split is not None and of_its_row(operand, group.domain, group.split)

    def merge(self, home: Group, other: Group) -> None:
        """Make two kernels one, if the value that joined the first reads from both."""
        if other is home or other.domain != home.domain or "alone" in other.level.values():
            return
        splits = {each for each in (home.split, other.split) if each is not None}
        if len(splits) > 1 or len(home.values) + len(other.values) > MOST_VALUES:
            return
        if not (self.compatible(home, other, splits) and self.compatible(other, home, splits)):
            return
        between = (home.needs | other.needs) - {home, other}
        if any(self.leads(each, home) or self.leads(each, other) for each in between):
            return
        home.values = sorted({*home.values, *other.values}, key=self.place_of)
        home.level |= other.level
        home.split = next(iter(splits), None)
        home.first, home.last = min(home.first, other.first), max(home.last, other.last)
        home.needs = between
        for value in other.values:
            self.unit_of[value] = home
        self.units.remove(other)
        for unit in self.units:
            if other in unit.needs:
                unit.needs.discard(other)
                if unit is not home:
                    unit.needs.add(home)

    def compatible(self, one: Group, other: Group, splits: set[int]) -> bool:
        """Say whether all that one kernel reads from the other is at hand within the other."""
        split = next(iter(splits), 0)
        for value in one.values:
            whole = value.kind == "reduce" or one.level[value] == "full"
            for each in operands_of(value):
                level = other.level.get(each.base)
                if level is None:
                    continue
                if level == "last" or (level == "full" and not whole):
                    return False
                if level == "full" and not at_its_place(each, one.domain):
                    return False
                if level == "row" and whole and not of_its_row(each, one.domain, split):
                    return False
                if level == "row" and not whole and not at_its_place(each, value.shape):
                    return False
        return True

    def place_of(self, value: Value) -> int:
        """Return which value of the program it is."""
        return self.places[value]


def grouped(program: Program, fuse: bool = True) -> tuple[list[Unit], dict[Value, str]]:
    """Return the units of a program in an order in which they can run, and why values are alone."""
    if not fuse:
        values = [value for value in program.values if value.kind != "view"]
        units = [Unit(value, order) for order, value in enumerate(values)]
        return units, {}
    fusion = Fusion(program)
    wanted = {each.base for each in operands_of(program.outputs)}
    units: list[Unit] = []
    for unit in fusion.run():
        reason = not_worth_it(unit, wanted) if isinstance(unit, Group) else None
        if reason is None:
            units.append(unit)
            continue
        for value in unit.values:
            alone = Unit(value, fusion.place_of(value))
            fusion.unit_of[value] = alone
            fusion.reasons[value] = reason
            units.append(alone)
    units = [unit for unit in units if not joins_its_product(unit, program, wanted)]
    for unit in units:
        unit.needs = set().union(*(fusion.needed(value) for value in unit.values)) - {unit}
    return in_order(units), fusion.reasons


def joins_its_product(unit: Unit, program: Program, wanted: set[Value]) -> bool:
    """Let a product begin with the bias that is all that is added to it: that saves a pass.

    Returns: whether the sum is now the product itself, and needs no step of its own.
    """
    (value, *others) = unit.values
    if others or value.kind != "element" or value.function != "add" or not value.shape:
        return False
    for whole, bias in (value.operands, value.operands[::-1]):
        if not (isinstance(whole, Value) and isinstance(bias, Value) and bias.kind == "input"):
            continue
        y = whole.base
        fits = y.kind == "product" and len(y.operands) == 2 and at_its_place(whole, value.shape)
        alone = y not in wanted and list(readers(y)) == [value]
        if fits and alone and bias.shape == y.shape[1:] == value.shape[-1:]:
            y.operands = (*y.operands, bias)
            bias.users.append(y)
            become_view(value, y, program)
            return True
    return False


def become_view(value: Value, y: Value, program: Program) -> None:
    """Make a value the same numbers as `y`, in its own shape; views of it show `y`, too."""
    text = "{}" if value.shape == y.shape else f"{{}}.reshape({value.shape})"
    for operand in value.operands:
        if isinstance(operand, Value):
            operand.users = [user for user in operand.users if user is not value]
    value.kind, value.function, value.operands = "view", None, (y,)
    value.settings = {"base": y, "offset": 0, "steps": steps_of(value.shape), "text": text}
    y.users.append(value)
    for each in program.values:
        if each.kind == "view" and each.settings["base"] is value:
            each.settings = each.settings | {"base": y}


def dear(value: Value) -> bool:
    """Say whether a function takes so long in NumPy that it is worth a kernel of its own."""
    if value.kind != "element" or value.size < LARGE:
        return False
    function = FUNCTIONS[value.function]
    return function.vector and function.costs >= 10


def not_worth_it(group: Group, wanted: set[Value]) -> str | None:
    """Return why a kernel is not generated for a group, None if it is."""
    if len(group.values) < 2 and not dear(group.values[0]):
        return "nothing next to it to fuse with"
    if "alone" in group.level.values():
        return "a reduction along axes in the middle"
    arrays = len({each.base for each in group.outside()}) + len(group.results(wanted))
    if arrays > MOST_ARRAYS and group.domain != ():
        return f"{arrays} arrays are too many for one kernel"
    return None
