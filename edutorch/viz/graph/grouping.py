"""Groups in a graph: calls of modules and library functions, what repeats, parts of what is long.

A group is a box that can be open or closed (`fold.py`). Groups lie in each other: a layer in its
block, the block in the model, twelve equal blocks in one "×12" (`repetition.py`). They follow the
order of computation, so that a module which is called five times makes five groups.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .model import Graph, GraphNode, Scope, enclosing

MOST_LEAVES, MOST_SHARED = 8, 3
"""More leaves than this, all for one op or group, become one box; so do the parameters that several
calls share."""

LEAST_PART = 2
"""A part of something long has at least so many members."""

FEW_ROWS = 20
"""What is long is cut into about so many parts."""

OWN_LEAVES = re.compile("dropout|gumbel|rrelu", re.IGNORECASE)
"""Words of the library that make a tensor themselves: a mask of random numbers is no data."""


@dataclass(slots=True)
class Group:
    """Some nodes that can be shown as one. `members` are numbers of nodes and other groups.

    `key` names it, also in the next graph of the same loop: a module's path or a function's name
    with "()", with the number of the call from the second on ("cell#2").
    """

    key: str
    title: str
    kind: Literal["module", "function", "repeat", "part", "leaves"]
    members: list[int | Group] = field(default_factory=list)
    path: str = ""  # of the module
    type: str = ""  # the module's class, or the function
    size: int = 0  # how many nodes it holds
    last: int = -1  # the node whose result leaves it: it stands for the group
    steps: int = 0  # how many ops it holds

    def groups(self) -> Iterator[Group]:
        """Yield the groups among the members."""
        return (member for member in self.members if isinstance(member, Group))

    @property
    def is_word(self) -> bool:
        """Whether the reader knows it by its name: it is opened by a click only."""
        return self.kind == "function" or (
            self.kind == "module"
            and (self.steps > 1 or "Norm" in self.type)
            and self.type in library_modules()
            and not any(group.kind == "module" for group in self.groups())
        )

    @property
    def is_layer(self) -> bool:
        """Whether it is the call of a module that is one op with its parameters."""
        return (
            self.kind == "module" and self.steps == 1
            and not self.is_word and not any(self.groups())
        )  # fmt: skip


@functools.cache
def library_modules() -> frozenset[str]:
    """Return the names of the library's layers; what only holds layers is not among them."""
    from ... import nn

    containers = {"Module", "Sequential", "ModuleList", "ModuleDict"}
    found = {name for name, value in vars(nn).items()
             if isinstance(value, type) and issubclass(value, nn.Module)}  # fmt: skip
    return frozenset(found - containers)


def by_call(graph: Graph) -> Group:
    """Return the group of everything, in it the calls of modules and functions with their ops."""
    root = Group("", "", "module")
    known: dict[tuple[Scope, ...], Group] = {(): root}
    for number, scopes in calls_in(graph):
        for end in range(1, len(scopes) + 1):
            call = scopes[:end]
            if call not in known:
                known[call] = call_group(call[-1], known[call[:-1]], graph)
                known[call[:-1]].members.append(known[call])
        known[scopes].members.append(number)
    for group in bottom_up(root):
        count_steps(group)
    dissolve(root, graph)
    return root


def count_steps(group: Group) -> None:
    group.steps = sum(member.steps if isinstance(member, Group) else 1 for member in group.members)


def calls_in(graph: Graph) -> Iterator[tuple[int, tuple[Scope, ...]]]:
    """Yield each op, by number, with the calls around it.

    A graph that was read from a tensor knows of each op only its module: there, ops of one module
    that follow each other are one call.
    """
    steps = [(number, node) for number, node in enumerate(graph.nodes) if is_step(node)]
    if not any(node.scopes for _, node in steps):
        yield from calls_by_module(steps)
        return
    whole = {node.scopes[0] for _, node in steps if node.scopes}
    alone = len([scope for scope in whole if scope.name == "" and scope.kind == "module"]) == 1
    for number, node in steps:
        scopes = node.scopes
        if alone and scopes and scopes[0].kind == "module" and scopes[0].name == "":
            scopes = scopes[1:]  # the one call of the only model: the picture is of nothing else
        yield number, scopes


def calls_by_module(
    steps: Iterable[tuple[int, GraphNode]],
) -> Iterator[tuple[int, tuple[Scope, ...]]]:
    calls: dict[str, int] = {}
    opened: list[Scope] = []
    for number, node in steps:
        wanted = enclosing(node.module)[::-1]
        depth = 0
        while depth < min(len(wanted), len(opened)) and opened[depth].name == wanted[depth]:
            depth += 1
        del opened[depth:]
        for path in wanted[len(opened) :]:
            calls[path] = calls.get(path, 0) + 1
            opened.append(Scope("module", path, calls[path]))
        yield number, tuple(opened)


def call_group(scope: Scope, around: Group, graph: Graph) -> Group:
    """Return the still empty group of a call."""
    call = "" if scope.call == 1 else f"#{scope.call}"
    if scope.kind == "function":
        return Group(f"{scope.name}(){call}", scope.name, "function", path=around.path,
                     type=scope.name)  # fmt: skip
    kind = graph.modules.get(scope.name, "")
    if not scope.name:  # the model itself, which was called several times
        return Group(f"model{call or '#1'}", f"call {scope.call}", "module", type="model")
    return Group(
        scope.name + call, module_title(scope.name, kind, call), "module", [], scope.name, kind
    )


def module_title(path: str, kind: str, call: str = "") -> str:
    """Name a module by the end of its path that tells: `fc · Linear`, `layer1.0 · Block`.

    >>> module_title("net.layer1.0", "Block", "#2")
    'layer1.0#2 · Block'
    """
    parts = path.split(".")
    start = len(parts) - 1
    while start and parts[start].isdigit():
        start -= 1
    name = ".".join(parts[start:]) + call
    return f"{name} · {kind}" if kind and kind != name else name


def dissolve(root: Group, graph: Graph) -> None:
    """Take away a function's group that says no more than the one op in it."""
    for group in bottom_up(root):
        members: list[int | Group] = []
        for member in group.members:
            if isinstance(member, Group) and member.kind == "function" and len(member.members) == 1:
                inner = member.members[0]
                plain = isinstance(inner, int) and graph.nodes[inner].label == member.type
                if plain or isinstance(inner, Group):
                    member = inner
            members.append(member)
        group.members = members


def bottom_up(root: Group) -> list[Group]:
    """Return all groups, each behind those inside it."""
    found, waiting = [], [root]
    while waiting:
        group = waiting.pop()
        found.append(group)
        waiting.extend(group.groups())
    return found[::-1]


def is_step(node: GraphNode) -> bool:
    """Whether a node was computed, and is not the gradient that a leaf gets."""
    if node.kind == "gradient":
        return not node.label.endswith(".grad")
    return node.kind in ("op", "output", "failed")


# What is very long ---------------------------------------------------------------------------


def cut(group: Group, most: int, graph: Graph) -> None:
    """Cut a group with more than `most` members into parts, and these into larger parts."""
    level = 0
    while len(group.members) > most:
        level += 1
        members = group.members
        few = min(most, FEW_ROWS)
        size = min(FEW_ROWS, max(LEAST_PART, -(-len(members) // few)))
        count = -(-len(members) // size)
        ends = [len(members) * number // count for number in range(count + 1)]
        ends = [not_behind_leaf(end, members, graph) for end in ends]
        group.members = []
        for number, (start, end) in enumerate(itertools.pairwise(ends), start=1):
            part = members[start:end]
            if len(part) == 1:
                group.members += part
            elif part:
                key = f"{group.key}/{level}.{number}"
                group.members.append(Group(key, part_title(part, graph), "part", part, group.path))


def part_title(members: Sequence[int | Group], graph: Graph) -> str:
    """Name a part by what is computed first and last in it: `matmul … tanh`."""
    names = [
        member.title.partition(" … ")[0] if isinstance(member, Group) else graph.nodes[member].label
        for member in members
        if is_computed(member, graph)
    ]
    if not names:
        return f"{len(members)} inputs"
    if isinstance(last := members[-1], Group):
        names[-1] = last.title.rpartition(" … ")[2]
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"


def not_behind_leaf(end: int, members: Sequence[int | Group], graph: Graph) -> int:
    """Move the end of a part forward, so that a leaf is not parted from its user."""
    start = end
    while 0 < end < len(members) and not is_computed(members[end - 1], graph):
        end -= 1
    return end or start


def is_computed(member: int | Group, graph: Graph) -> bool:
    return member.kind != "leaves" if isinstance(member, Group) else is_step(graph.nodes[member])


# Leaves --------------------------------------------------------------------------------------


def place_leaves(root: Group, graph: Graph, large: bool = False) -> None:
    """Put each leaf into the innermost group that holds all who use it.

    Data stays where everybody sees it, at the top, unless each of many repetitions has its own.
    """
    home, above = homes(root)
    users = users_of(graph)
    chains: dict[int, list[Group]] = {}  # by leaf: the group it belongs to, and those around it
    for number in range(len(graph.nodes)):
        if number not in home:
            used = [chain(home[user], above) for user in users.get(number, ()) if user in home]
            chains[number] = chain(common(root, used), above) if used else [root]
    data = {number for number in chains if graph.nodes[number].kind == "leaf"}
    with_data = {group.key for number in data for group in chains[number]}
    comers: dict[str, dict[int, list[int]]] = {}  # by group: what stands before which member
    for number, groups in chains.items():
        stays = is_each_time(groups, with_data) or is_own(graph.nodes[number], groups[-1])
        if number in data and not stays:
            groups = [root]
        first = min(users.get(number, ()), default=-1)
        comers.setdefault(groups[-1].key, {}).setdefault(first, []).append(number)
    for group in bottom_up(root):
        group.members = bundled(
            seated(group.members, comers.get(group.key, {})), group, graph, users, large
        )


def homes(root: Group) -> tuple[dict[int, Group], dict[str, Group]]:
    """Return the group that each node is in, and the one around each group."""
    above: dict[str, Group] = {}
    home: dict[int, Group] = {}
    for group in bottom_up(root):
        for member in group.members:
            if isinstance(member, Group):
                above[member.key] = group
            else:
                home[member] = group
    return home, above


def users_of(graph: Graph) -> dict[int, list[int]]:
    """Return the nodes that use each node, all by number; of a leaf's gradient, who makes it."""
    numbers = {node.id: number for number, node in enumerate(graph.nodes)}
    users: dict[int, list[int]] = {}
    for edge in graph.edges:
        source, target = numbers[edge.source], numbers[edge.target]
        users.setdefault(source, []).append(target)
        if graph.nodes[target].kind == "gradient" and not is_step(graph.nodes[target]):
            users.setdefault(target, []).append(source)
    return users


def is_each_time(groups: list[Group], with_data: set[str]) -> bool:
    """Return True if data belongs to one time of a repetition, the others having their own."""
    for group, inner in itertools.pairwise(groups):
        if group.kind == "repeat":
            first, second = group.members[:2]
            return inner is not first or (isinstance(second, Group) and second.key in with_data)
    return False


def is_own(node: GraphNode, group: Group) -> bool:
    """Return True if a tensor was made by the library inside a group that is called a word."""
    unnamed = node.label in ("data", "leaf")  # what a user holds has the variable's name
    return unnamed and group.is_word and OWN_LEAVES.search(group.type) is not None


def seated(members: list[int | Group], comers: dict[int, list[int]]) -> list[int | Group]:
    """Put each leaf in front of its first user; those who are used deeper inside come first."""
    if not comers:
        return members
    row: list[int | Group] = []
    for member in members:
        if isinstance(member, int):
            row += comers.pop(member, ())
        row.append(member)
    return [leaf for leaves in comers.values() for leaf in leaves] + row


def bundled(
    members: list[int | Group],
    around: Group,
    graph: Graph,
    users: dict[int, list[int]],
    large: bool,
) -> list[int | Group]:
    """Make one box of very many leaves that only one member uses: what is stacked, or joined.

    In a large graph also of the parameters that several calls share.
    """
    leaves = [member for member in members if isinstance(member, int)
              and not is_step(graph.nodes[member])]  # fmt: skip
    if len(leaves) <= MOST_SHARED:
        return members
    place = {number: at for at, member in enumerate(members) for number in numbers_in(member)}
    bundles: dict[frozenset[int], list[int]] = {}
    for leaf in leaves:
        used = frozenset(place.get(user, -1) for user in users.get(leaf, ()))
        bundles.setdefault(used, []).append(leaf)
    heads: dict[int, Group] = {}
    hidden: set[int] = set()
    for used, some in bundles.items():
        most = MOST_LEAVES if len(used) == 1 else MOST_SHARED if large else len(some)
        if -1 not in used and len(some) > most:
            kinds = {graph.nodes[leaf].kind for leaf in some}
            word = "parameters" if kinds == {"parameter"} else "inputs"
            key = f"{around.key}/{word}@{graph.nodes[some[0]].id}"
            heads[some[0]] = Group(key, f"{len(some)} {word}", "leaves", list(some), around.path)
            hidden |= set(some)
    return [
        heads.get(member, member) if isinstance(member, int) else member
        for member in members
        if not isinstance(member, int) or member in heads or member not in hidden
    ]


def numbers_in(member: int | Group) -> Iterator[int]:
    """Yield the numbers of all nodes in a member."""
    waiting: list[int | Group] = [member]
    while waiting:
        each = waiting.pop()
        if isinstance(each, int):
            yield each
        else:
            waiting.extend(each.members)


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
        if any(other is not level[0] for other in level):
            break
        group = level[0]
    return group


# What stands for a group ---------------------------------------------------------------------


def measure(root: Group, graph: Graph) -> None:
    """Say of each group how much it holds, and which node stands for it.

    That is the one whose result leaves the group, of several the last that has a gradient. A
    BatchNorm ends with its running statistics, but those are not what it computes.
    """
    home, above = homes(root)
    numbers = {node.id: number for number, node in enumerate(graph.nodes)}
    used: dict[int, list[int]] = {}
    for edge in graph.edges:
        used.setdefault(numbers[edge.source], []).append(numbers[edge.target])
    best: dict[str, tuple[bool, bool, bool, int]] = {}
    for number, node in enumerate(graph.nodes):
        users = [chain(home[user], above) for user in used.get(number, ())]
        for depth, group in enumerate(chain(home[number], above)):
            leaves = not users or any(
                len(theirs) <= depth or theirs[depth] is not group for theirs in users
            )
            rank = (is_step(node), leaves and (bool(users) or node.kind == "output"),
                    node.differentiable, number)  # fmt: skip
            best[group.key] = max(best.get(group.key, rank), rank)
    for group in bottom_up(root):
        count_steps_and_nodes(group, graph)
        group.last = best[group.key][3] if group.key in best else -1


def count_steps_and_nodes(group: Group, graph: Graph) -> None:
    group.size = sum(member.size if isinstance(member, Group) else 1 for member in group.members)
    group.steps = sum(
        member.steps if isinstance(member, Group) else is_step(graph.nodes[member])
        for member in group.members
    )
