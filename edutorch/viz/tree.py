"""Groups in a graph: the calls of modules, what repeats, and parts of what is very long.

A group is a box that can be open or closed (`fold.py`). Groups lie in each other: a
layer in its block, the block in the model, twelve equal blocks in one "×12". They follow
the order of computation, so that a module which is called five times makes five groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .graph import Graph, GraphNode, enclosing

ALIKE = 3
"""So many equal neighbours become one box that says how many they are."""

LONGEST_UNIT = 64
"""What repeats has at most so many members."""

SMALL = 60
"""In a graph of so few nodes, a first lesson's, each step is shown: nothing is repetition."""

CROWD = 60
"""A group with more members than this is cut into parts."""


@dataclass(slots=True)
class Group:
    """Some nodes that can be shown as one. `members` are numbers of nodes and other groups.

    `key` names it, also in the next graph of the same loop: a module's path, with the number of
    the call from the second on ("cell#2").
    """

    key: str
    title: str
    kind: Literal["module", "repeat", "part"]
    members: list[int | Group] = field(default_factory=list)
    path: str = ""  # of the module
    size: int = 0  # how many nodes it holds
    last: int = -1  # the node that was computed last: it stands for the group

    def groups(self) -> Iterator[Group]:
        """Yield the groups among the members."""
        return (each for each in self.members if isinstance(each, Group))


def grouped(graph: Graph) -> Group:
    """Return the group of everything, with all groups inside it."""
    root = by_module(graph)
    if len(graph.nodes) > SMALL:
        signatures: dict[object, int] = {}
        for group in bottom_up(root):
            find_repetition(group, graph, signatures)
    place_leaves(root, graph)
    if len(graph.nodes) > SMALL:
        for group in bottom_up(root):
            cut(group)
    for group in bottom_up(root):
        group.size = sum(each.size if isinstance(each, Group) else 1 for each in group.members)
        group.last = last_of(group, graph)
    return root


def bottom_up(root: Group) -> list[Group]:
    """Return all groups, each behind those inside it."""
    found, waiting = [], [root]
    while waiting:
        group = waiting.pop()
        found.append(group)
        waiting.extend(group.groups())
    return found[::-1]


def is_op(node: GraphNode) -> bool:
    return node.kind in ("op", "output", "gradient", "failed")


# Calls of modules ----------------------------------------------------------------------------


def by_module(graph: Graph) -> Group:
    """Put each op into the call of the module that it ran in."""
    root = Group("", "", "module")
    opened = [root]
    calls: dict[str, int] = {}
    for number, node in enumerate(graph.nodes):
        if not is_op(node):
            continue
        wanted = enclosing(node.module)[::-1]
        depth = 0
        while depth < min(len(wanted), len(opened) - 1) and opened[depth + 1].path == wanted[depth]:
            depth += 1
        del opened[depth + 1 :]
        for path in wanted[depth:]:
            calls[path] = calls.get(path, 0) + 1
            call = "" if calls[path] == 1 else f"#{calls[path]}"
            title = module_title(path, opened[-1].path, graph.modules.get(path), call)
            group = Group(path + call, title, "module", path=path)
            opened[-1].members.append(group)
            opened.append(group)
        opened[-1].members.append(number)
    return root


def module_title(path: str, around: str, kind: str | None, call: str) -> str:
    name = path[len(around) :].lstrip(".") + call
    return f"{name} · {kind}" if kind and kind != name else name


# Repetition ----------------------------------------------------------------------------------


def find_repetition(group: Group, graph: Graph, signatures: dict[object, int]) -> None:
    """Put runs of equal members into groups of their own: "Block ×12"."""
    marks = [signature(each, graph, signatures) for each in group.members]
    members: list[int | Group] = []
    position = 0
    for start, unit, times in runs(marks):
        members += group.members[position:start]
        position = start + unit * times
        members.append(repeat(group, group.members[start:position], unit, graph))
    group.members = members + group.members[position:]


def signature(member: int | Group, graph: Graph, known: dict[object, int]) -> int:
    """Return a number that is the same for members that look the same."""
    if isinstance(member, Group):
        inside = tuple(signature(each, graph, known) for each in member.members)
        mark: object = (member.kind, graph.modules.get(member.path), inside)
    else:
        node = graph.nodes[member]
        mark = (node.label, node.shape, node.dtype)
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
    first = members[0]
    name = unit_name(members[:unit], graph)
    made = Group(f"{key_of(first, graph)}×{times}", f"{name} ×{times}", "repeat", path=around.path)
    if unit == 1:
        made.members = list(members)
        return made
    for number in range(times):
        part = list(members[number * unit : (number + 1) * unit])
        made.members.append(
            Group(f"{made.key}/{number + 1}", f"{name} {number + 1}", "part", part, around.path)
        )
    return made


def unit_name(members: Sequence[int | Group], graph: Graph) -> str:
    """Name what repeats by its parts: "Block", "cell + exp", "matmul … tanh"."""
    names = [
        graph.modules.get(each.path) or each.title if isinstance(each, Group)
        else graph.nodes[each].label
        for each in members
    ]  # fmt: skip
    return " + ".join(names) if len(names) <= 2 else f"{names[0]} … {names[-1]}"


def key_of(member: int | Group, graph: Graph) -> str:
    return member.key if isinstance(member, Group) else f"@{graph.nodes[member].id}"


# What is very long ---------------------------------------------------------------------------


def cut(group: Group) -> None:
    """Cut a group with very many members into parts, and these into larger parts."""
    level = 0
    while len(group.members) > CROWD:
        level += 1
        starts = range(0, len(group.members), CROWD)
        group.members = [
            Group(f"{group.key}/{level}.{number}", f"part {number} of {len(starts)}", "part",
                  group.members[start : start + CROWD], group.path)
            for number, start in enumerate(starts, start=1)
        ]  # fmt: skip


# Leaves --------------------------------------------------------------------------------------


def place_leaves(root: Group, graph: Graph) -> None:
    """Put each leaf into the innermost group that holds all who use it.

    Data stays where everybody sees it, at the top, unless each of many repetitions has its own.
    """
    above: dict[str, Group] = {}
    home: dict[int, Group] = {}
    for group in reversed(bottom_up(root)):
        for member in group.members:
            if isinstance(member, Group):
                above[member.key] = group
            else:
                home[member] = group
    users = users_of(graph)
    chains: dict[int, list[Group]] = {}  # by leaf: the group it belongs to, and those around it
    for number, node in enumerate(graph.nodes):
        if not is_op(node):
            used = [chain(home[user], above) for user in users.get(number, ())]
            chains[number] = chain(common(root, used), above) if used else [root]
    data = [each for each in chains if graph.nodes[each].kind == "leaf"]
    with_data = {group.key for number in data for group in chains[number]}
    comers: dict[str, dict[int, list[int]]] = {}  # by group: what stands before which member
    for number, groups in chains.items():
        if graph.nodes[number].kind == "leaf" and not is_each_time(groups, with_data):
            groups = [root]
        first = min(users.get(number, ()), default=-1)
        comers.setdefault(groups[-1].key, {}).setdefault(first, []).append(number)
    for group in bottom_up(root):
        group.members = seated(group.members, comers.get(group.key, {}))


def users_of(graph: Graph) -> dict[int, list[int]]:
    """Return the nodes that use each node, all by number."""
    numbers = {node.id: number for number, node in enumerate(graph.nodes)}
    users: dict[int, list[int]] = {}
    for edge in graph.edges:
        users.setdefault(numbers[edge.source], []).append(numbers[edge.target])
    return users


def is_each_time(groups: list[Group], with_data: set[str]) -> bool:
    """Say whether data belongs to one time of a repetition, the others having their own."""
    for group, inner in itertools.pairwise(groups):
        if group.kind == "repeat":
            first, second = group.members[:2]
            return inner is not first or (isinstance(second, Group) and second.key in with_data)
    return False


def seated(members: list[int | Group], comers: dict[int, list[int]]) -> list[int | Group]:
    """Put each leaf in front of its first user; those who are used deeper inside come first."""
    if not comers:
        return members
    row: list[int | Group] = []
    for member in members:
        if isinstance(member, int):
            row += comers.pop(member, ())
        row.append(member)
    return [each for leaves in comers.values() for each in leaves] + row


def chain(group: Group, above: dict[str, Group]) -> list[Group]:
    """Return a group and all around it, the outermost first."""
    found = [group]
    while found[-1].key in above:
        found.append(above[found[-1].key])
    return found[::-1]


def common(root: Group, chains: Sequence[list[Group]]) -> Group:
    """Return the innermost group that is in every chain."""
    group = root
    for level in zip(*chains, strict=False):
        if any(each is not level[0] for each in level):
            break
        group = level[0]
    return group


def last_of(group: Group, graph: Graph) -> int:
    """Return the op that was computed last in a group whose inner groups know theirs."""
    ops = [
        each.last if isinstance(each, Group) else each
        for each in group.members
        if isinstance(each, Group) or is_op(graph.nodes[each])
    ]
    return max(ops, default=-1)
