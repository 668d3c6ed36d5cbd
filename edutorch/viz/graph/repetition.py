"""Repetitions in a graph, folded into one box: equal blocks, or the cell of an unrolled loop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .grouping import Group, groups_bottom_up
from .model import Graph

ALIKE = 3
"""The least number of equal neighbours that are folded into one box."""

LONGEST_UNIT = 64
"""The largest number of members of the repeated unit."""


def fold_repetition(root: Group, graph: Graph, most: int) -> None:
    """Put runs of equal members into groups: "Block ×12".

    Equal means the same ops on the same shapes. If more than `most` members are left, shapes are
    ignored: in a loop that concatenates its results, they grow with each iteration.
    """
    for with_shapes in (True, False):
        signatures: dict[object, int] = {}
        for group in groups_bottom_up(root):
            if with_shapes or (len(group.members) > most and group.kind != "repeat"):
                find_repetition(group, graph, signatures, with_shapes)


def find_repetition(
    group: Group, graph: Graph, signatures: dict[object, int], with_shapes: bool
) -> None:
    """Put the runs of equal members of one group into groups."""
    member_signatures = [
        signature(member, graph, signatures, with_shapes) for member in group.members
    ]
    members: list[int | Group] = []
    position = 0
    for start, unit, count in find_runs(member_signatures):
        members += group.members[position:start]
        position = start + unit * count
        members.append(repeat_group(group, group.members[start:position], unit, graph))
    group.members = members + group.members[position:]


def signature(
    member: int | Group, graph: Graph, signatures: dict[object, int], with_shapes: bool
) -> int:
    """Return an integer that is equal for equal members."""
    if isinstance(member, Group):
        inside = tuple(signature(inner, graph, signatures, with_shapes) for inner in member.members)
        mark: object = (member.kind, member.type, inside)
    else:
        node = graph.nodes[member]
        mark = (node.label, *((node.shape, node.dtype) if with_shapes else ()))
    return signatures.setdefault(mark, len(signatures))


def find_runs(signatures: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the repetitions in a sequence as (start, length of the unit, count).

    >>> find_runs([5, 1, 2, 1, 2, 1, 2, 9])
    [(1, 2, 3)]
    """
    row = np.asarray(signatures)
    repeats: list[tuple[int, int, int]] = []
    taken = np.zeros(len(row), bool)
    for unit in range(1, min(LONGEST_UNIT, len(row) // ALIKE) + 1):
        same = row[:-unit] == row[unit:]
        for start, length in true_runs(same & ~taken[:-unit] & ~taken[unit:]):
            count = length // unit + 1
            if count >= ALIKE:
                repeats.append((start, unit, count))
                taken[start : start + unit * count] = True
    return sorted(repeats)


def true_runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Return (start, length) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False]))))
    return [(int(a), int(b - a)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def repeat_group(around: Group, members: Sequence[int | Group], unit: int, graph: Graph) -> Group:
    """Return the group of a repetition, with each iteration as a member."""
    count = len(members) // unit
    name = unit_name(members, unit, graph)
    key = f"{key_of(members[0], graph)}×{count}"
    group = Group(key, f"{name} ×{count}", "repeat", path=around.path, type=name)
    if unit == 1:
        group.members = list(members)
        return group
    for index in range(count):
        part = list(members[index * unit : (index + 1) * unit])
        group.members.append(
            Group(f"{group.key}/{index + 1}", f"{name} {index + 1}", "part", part, around.path)
        )
    return group


def unit_name(members: Sequence[int | Group], unit: int, graph: Graph) -> str:
    """Return the name of a unit, from its modules or else its ops: "Block", "matmul … tanh"."""
    first, second = members[:unit], members[unit : 2 * unit]
    module_pairs = [
        (first_time, second_time)
        for first_time, second_time in zip(first, second, strict=True)
        if isinstance(first_time, Group)
        and isinstance(second_time, Group)
        and first_time.kind == "module"
    ]
    if module_pairs:  # the same module each time, or another of the same class
        names = [
            title_of(first_time)
            if first_time.path == second_time.path and first_time.type != "model"
            else first_time.type or first_time.title
            for first_time, second_time in module_pairs
        ]
        names = list(dict.fromkeys(names))
        if len(names) == 1:
            return names[0]
        names = [name.split(" · ")[0] for name in names]
    else:
        names = [
            member.title if isinstance(member, Group) else graph.nodes[member].label
            for member in first
        ]
    return " + ".join(names) if len(names) <= 2 else f"{names[0]} … {names[-1]}"


def title_of(group: Group) -> str:
    """Return a module's title without the call number."""
    name, dot, class_name = group.title.partition(" · ")
    return name.partition("#")[0] + dot + class_name


def key_of(member: int | Group, graph: Graph) -> str:
    return member.key if isinstance(member, Group) else f"@{graph.nodes[member].id}"
