"""What repeats in a graph: twelve equal blocks, or the cell of a loop over time, as one box."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .grouping import Group, bottom_up
from .model import Graph

ALIKE = 3
"""So many equal neighbours become one box that says how many they are."""

LONGEST_UNIT = 64
"""What repeats has at most so many members."""


def fold_repetition(root: Group, graph: Graph, most: int) -> None:
    """Put runs of equal members into groups of their own: "Block ×12".

    Equal means the same ops on the same shapes. Where more than `most` members are left, shapes
    are forgotten: in a loop that joins what it has made so far, they grow with each time.
    """
    for with_shapes in (True, False):
        signatures: dict[object, int] = {}
        for group in bottom_up(root):
            if with_shapes or (len(group.members) > most and group.kind != "repeat"):
                find_repetition(group, graph, signatures, with_shapes)


def find_repetition(
    group: Group, graph: Graph, signatures: dict[object, int], with_shapes: bool
) -> None:
    """Put the runs among the members of one group into groups."""
    marks = [signature(member, graph, signatures, with_shapes) for member in group.members]
    members: list[int | Group] = []
    position = 0
    for start, unit, times in runs(marks):
        members += group.members[position:start]
        position = start + unit * times
        members.append(repeat(group, group.members[start:position], unit, graph))
    group.members = members + group.members[position:]


def signature(
    member: int | Group, graph: Graph, known: dict[object, int], with_shapes: bool
) -> int:
    """Return a number that is the same for members that look the same."""
    if isinstance(member, Group):
        inside = tuple(signature(each, graph, known, with_shapes) for each in member.members)
        mark: object = (member.kind, member.type, inside)
    else:
        node = graph.nodes[member]
        mark = (node.label, *((node.shape, node.dtype) if with_shapes else ()))
    return known.setdefault(mark, len(known))


def runs(marks: Sequence[int]) -> list[tuple[int, int, int]]:
    """Find what repeats in a row: (start, length of the unit, how often).

    >>> runs([5, 1, 2, 1, 2, 1, 2, 9])
    [(1, 2, 3)]
    """
    row = np.asarray(marks)
    found: list[tuple[int, int, int]] = []
    taken = np.zeros(len(row), bool)
    for unit in range(1, min(LONGEST_UNIT, len(row) // ALIKE) + 1):
        same = row[:-unit] == row[unit:]
        for start, length in stretches(same & ~taken[:-unit] & ~taken[unit:]):
            times = length // unit + 1
            if times >= ALIKE:
                found.append((start, unit, times))
                taken[start : start + unit * times] = True
    return sorted(found)


def stretches(flags: np.ndarray) -> list[tuple[int, int]]:
    """Return (start, length) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False]))))
    return [(int(a), int(b - a)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def repeat(around: Group, members: Sequence[int | Group], unit: int, graph: Graph) -> Group:
    """Make the group of what repeats; each time is a member."""
    times = len(members) // unit
    name = unit_name(members, unit, graph)
    key = f"{key_of(members[0], graph)}×{times}"
    made = Group(key, f"{name} ×{times}", "repeat", path=around.path, type=name)
    if unit == 1:
        made.members = list(members)
        return made
    for number in range(times):
        part = list(members[number * unit : (number + 1) * unit])
        made.members.append(
            Group(f"{made.key}/{number + 1}", f"{name} {number + 1}", "part", part, around.path)
        )
    return made


def unit_name(members: Sequence[int | Group], unit: int, graph: Graph) -> str:
    """Name what repeats by its modules, or else its ops: "Block", "matmul … tanh"."""
    first, second = members[:unit], members[unit : 2 * unit]
    named = [
        (one, two)
        for one, two in zip(first, second, strict=True)
        if isinstance(one, Group) and isinstance(two, Group) and one.kind == "module"
    ]
    if named:  # the same module each time, or another of the same class
        names = [
            title_of(one) if one.path == two.path and one.type != "model" else one.type or one.title
            for one, two in named
        ]
        names = list(dict.fromkeys(names))
        if len(names) == 1:
            return names[0]
        names = [name.split(" · ")[0] for name in names]
    else:
        names = [
            each.title if isinstance(each, Group) else graph.nodes[each].label for each in first
        ]
    return " + ".join(names) if len(names) <= 2 else f"{names[0]} … {names[-1]}"


def title_of(group: Group) -> str:
    """Return a module's title without the number of the call."""
    name, dot, kind = group.title.partition(" · ")
    return name.partition("#")[0] + dot + kind


def key_of(member: int | Group, graph: Graph) -> str:
    return member.key if isinstance(member, Group) else f"@{graph.nodes[member].id}"
