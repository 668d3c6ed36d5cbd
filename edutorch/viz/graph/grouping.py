"""Groups of a graph: calls of modules and library functions, repetitions, parts of long groups.

A group is a box that can be open or closed (`fold.py`). Groups are nested: a layer in its block,
the block in the model, twelve equal blocks in one "×12" (`repetition.py`). They follow the order
of computation, so that a module which is called five times makes five groups.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .model import Graph, GraphNode, Scope, enclosing_paths

MOST_LEAVES, MOST_SHARED = 8, 3
"""More leaves than this with the same users become one box: leaves of a single op or group, and
parameters that several calls share."""

LEAST_PART = 2
"""The least number of members of a part."""

FEW_ROWS = 20
"""A long group is cut into about so many parts."""

OWN_LEAVES = re.compile("dropout|gumbel|rrelu", re.IGNORECASE)
"""Library layers and functions that make a tensor themselves: a random mask is no data."""


@dataclass(slots=True)
class Group:
    """Nodes that can be shown as one box. `members` are indices of nodes and other groups.

    `key` identifies it, also in the next graph of the same loop: a module's path or a function's
    name with "()", with the number of the call from the second on ("cell#2").
    """

    key: str
    title: str
    kind: Literal["module", "function", "repeat", "part", "leaves"]
    members: list[int | Group] = field(default_factory=list)
    path: str = ""  # of the module
    type: str = ""  # the module's class, or the function
    size: int = 0  # number of nodes
    last: int = -1  # the node whose result leaves the group: its values are shown
    steps: int = 0  # number of ops

    def groups(self) -> Iterator[Group]:
        """Yield the groups among the members."""
        return (member for member in self.members if isinstance(member, Group))

    @property
    def is_word(self) -> bool:
        """Whether it is a library function or layer, which only a click opens."""
        return self.kind == "function" or (
            self.kind == "module"
            and (self.steps > 1 or any(name in self.type for name in OTHERWISE_NAMED))
            and self.type in library_modules()
            and not any(group.kind == "module" for group in self.groups())
        )

    @property
    def is_layer(self) -> bool:
        """Whether it is a call of a module that runs one op with its parameters."""
        return (
            self.kind == "module" and self.steps == 1
            and not self.is_word and not any(self.groups())
        )  # fmt: skip


OTHERWISE_NAMED = ("Norm", "Embedding")
"""In the class names of layers whose only op has another name than they."""


@functools.cache
def library_modules() -> frozenset[str]:
    """Return the class names of the library's layers, without pure containers."""
    from ... import nn

    containers = {"Module", "Sequential", "ModuleList", "ModuleDict"}
    module_names = {name for name, value in vars(nn).items()
             if isinstance(value, type) and issubclass(value, nn.Module)}  # fmt: skip
    return frozenset(module_names - containers)


def group_by_call(graph: Graph) -> Group:
    """Return the root group, with the calls of modules and functions as nested groups."""
    root = Group("", "", "module")
    group_of: dict[tuple[Scope, ...], Group] = {(): root}
    for index, scopes in iter_calls(graph):
        for end in range(1, len(scopes) + 1):
            call = scopes[:end]
            if call not in group_of:
                group_of[call] = call_group(call[-1], group_of[call[:-1]], graph)
                group_of[call[:-1]].members.append(group_of[call])
        group_of[scopes].members.append(index)
    for group in groups_bottom_up(root):
        count_steps(group)
    dissolve_wrappers(root, graph)
    return root


def count_steps(group: Group) -> None:
    group.steps = sum(member.steps if isinstance(member, Group) else 1 for member in group.members)


def iter_calls(graph: Graph) -> Iterator[tuple[int, tuple[Scope, ...]]]:
    """Yield the index of each op with the calls around it.

    A graph that was read from a tensor has only the module of each op: there, consecutive ops of
    one module are one call.
    """
    steps = [(index, node) for index, node in enumerate(graph.nodes) if is_step(node)]
    if not any(node.scopes for _, node in steps):
        yield from calls_by_module(steps)
        return
    outer_scopes = {node.scopes[0] for _, node in steps if node.scopes}
    has_one_model = (
        len([scope for scope in outer_scopes if scope.name == "" and scope.kind == "module"]) == 1
    )
    for index, node in steps:
        scopes = node.scopes
        if has_one_model and scopes and scopes[0].kind == "module" and scopes[0].name == "":
            scopes = scopes[1:]  # the only call of the only model: no group for the whole picture
        yield index, scopes


def calls_by_module(
    steps: Iterable[tuple[int, GraphNode]],
) -> Iterator[tuple[int, tuple[Scope, ...]]]:
    calls: dict[str, int] = {}
    opened: list[Scope] = []
    for index, node in steps:
        paths = enclosing_paths(node.module)[::-1]
        depth = 0
        while depth < min(len(paths), len(opened)) and opened[depth].name == paths[depth]:
            depth += 1
        del opened[depth:]
        for path in paths[len(opened) :]:
            calls[path] = calls.get(path, 0) + 1
            opened.append(Scope("module", path, calls[path]))
        yield index, tuple(opened)


def call_group(scope: Scope, parent: Group, graph: Graph) -> Group:
    """Return an empty group for a call."""
    call = "" if scope.call == 1 else f"#{scope.call}"
    if scope.kind == "function":
        return Group(f"{scope.name}(){call}", scope.name, "function", path=parent.path,
                     type=scope.name)  # fmt: skip
    class_name = graph.modules.get(scope.name, "")
    if not scope.name:  # the model itself, which was called several times
        return Group(f"model{call or '#1'}", f"call {scope.call}", "module", type="model")
    return Group(
        scope.name + call,
        module_title(scope.name, class_name, call),
        "module",
        path=scope.name,
        type=class_name,
    )


def module_title(path: str, class_name: str, call: str = "") -> str:
    """Return the title of a module: the last name in its path, with indices, and its class.

    >>> module_title("net.layer1.0", "Block", "#2")
    'layer1.0#2 · Block'
    """
    parts = path.split(".")
    start = len(parts) - 1
    while start and parts[start].isdigit():
        start -= 1
    name = ".".join(parts[start:]) + call
    return f"{name} · {class_name}" if class_name and class_name != name else name


def dissolve_wrappers(root: Group, graph: Graph) -> None:
    """Replace the group of a function by its only member if that has the same name."""
    for group in groups_bottom_up(root):
        members: list[int | Group] = []
        for member in group.members:
            if isinstance(member, Group) and member.kind == "function" and len(member.members) == 1:
                inner = member.members[0]
                is_same_op = isinstance(inner, int) and graph.nodes[inner].label == member.type
                if is_same_op or isinstance(inner, Group):
                    member = inner
            members.append(member)
        group.members = members


def groups_bottom_up(root: Group) -> list[Group]:
    """Return all groups, inner ones before outer ones."""
    groups, pending = [], [root]
    while pending:
        group = pending.pop()
        groups.append(group)
        pending.extend(group.groups())
    return groups[::-1]


def is_step(node: GraphNode) -> bool:
    """Whether a node was computed, and is not the gradient of a leaf."""
    if node.kind == "gradient":
        return not node.label.endswith(".grad")
    return node.kind in ("op", "output", "failed")


# Long groups -----------------------------------------------------------------------------------


def cut_group(group: Group, most: int, graph: Graph) -> None:
    """Cut a group with more than `most` members into parts, and again into larger parts."""
    level = 0
    while len(group.members) > most:
        level += 1
        members = group.members
        part_count = min(most, FEW_ROWS)
        size = min(FEW_ROWS, max(LEAST_PART, -(-len(members) // part_count)))
        count = -(-len(members) // size)
        ends = [len(members) * index // count for index in range(count + 1)]
        ends = [keep_leaf_with_user(end, members, graph) for end in ends]
        group.members = []
        for part_number, (start, end) in enumerate(itertools.pairwise(ends), start=1):
            part = members[start:end]
            if len(part) == 1:
                group.members += part
            elif part:
                key = f"{group.key}/{level}.{part_number}"
                group.members.append(Group(key, part_title(part, graph), "part", part, group.path))


def part_title(members: Sequence[int | Group], graph: Graph) -> str:
    """Return the title of a part, from its first and last op: `matmul … tanh`."""
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


def keep_leaf_with_user(end: int, members: Sequence[int | Group], graph: Graph) -> int:
    """Move the end of a part forward, so that no leaf is separated from its user."""
    start = end
    while 0 < end < len(members) and not is_computed(members[end - 1], graph):
        end -= 1
    return end or start


def is_computed(member: int | Group, graph: Graph) -> bool:
    return member.kind != "leaves" if isinstance(member, Group) else is_step(graph.nodes[member])


# Leaves --------------------------------------------------------------------------------------


def place_leaves(root: Group, graph: Graph, large: bool = False) -> None:
    """Put each leaf into the innermost group that holds all of its users.

    Data stays at the top level, unless each of many repetitions has its own.
    """
    home, above = parent_groups(root)
    users = users_of(graph)
    chains: dict[int, list[Group]] = {}  # by leaf: the group it belongs to, and those around it
    for index in range(len(graph.nodes)):
        if index not in home:
            used = [
                enclosing_groups(home[user], above) for user in users.get(index, ()) if user in home
            ]
            chains[index] = (
                enclosing_groups(innermost_common_group(root, used), above) if used else [root]
            )
    data = {index for index in chains if graph.nodes[index].kind == "leaf"}
    with_data = {group.key for index in data for group in chains[index]}
    leaves_before: dict[str, dict[int, list[int]]] = {}  # by group and member
    for index, groups in chains.items():
        stays = is_per_repetition(groups, with_data) or is_library_tensor(
            graph.nodes[index], groups[-1]
        )
        if index in data and not stays:
            groups = [root]
        first = min(users.get(index, ()), default=-1)
        leaves_before.setdefault(groups[-1].key, {}).setdefault(first, []).append(index)
    for group in groups_bottom_up(root):
        group.members = bundle_leaves(
            insert_leaves(group.members, leaves_before.get(group.key, {})),
            group,
            graph,
            users,
            large,
        )


def parent_groups(root: Group) -> tuple[dict[int, Group], dict[str, Group]]:
    """Return the group of each node, and the parent of each group."""
    above: dict[str, Group] = {}
    group_of: dict[int, Group] = {}
    for group in groups_bottom_up(root):
        for member in group.members:
            if isinstance(member, Group):
                above[member.key] = group
            else:
                group_of[member] = group
    return group_of, above


def users_of(graph: Graph) -> dict[int, list[int]]:
    """Return the users of each node, by index; for a leaf's gradient, the node that computes it."""
    index_of = {node.id: index for index, node in enumerate(graph.nodes)}
    users: dict[int, list[int]] = {}
    for edge in graph.edges:
        source, target = index_of[edge.source], index_of[edge.target]
        users.setdefault(source, []).append(target)
        if graph.nodes[target].kind == "gradient" and not is_step(graph.nodes[target]):
            users.setdefault(target, []).append(source)
    return users


def is_per_repetition(groups: list[Group], with_data: set[str]) -> bool:
    """Whether data belongs to one repetition, while the others have their own."""
    for group, inner in itertools.pairwise(groups):
        if group.kind == "repeat":
            first, second = group.members[:2]
            return inner is not first or (isinstance(second, Group) and second.key in with_data)
    return False


def is_library_tensor(node: GraphNode, group: Group) -> bool:
    """Whether the library made a tensor inside one of its own layers or functions."""
    unnamed = node.label in ("data", "leaf")  # what a user holds has the variable's name
    return unnamed and group.is_word and OWN_LEAVES.search(group.type) is not None


def insert_leaves(members: list[int | Group], comers: dict[int, list[int]]) -> list[int | Group]:
    """Insert each leaf before its first user; leaves used deeper inside come first."""
    if not comers:
        return members
    row: list[int | Group] = []
    for member in members:
        if isinstance(member, int):
            row += comers.pop(member, ())
        row.append(member)
    return [leaf for leaves in comers.values() for leaf in leaves] + row


def bundle_leaves(
    members: list[int | Group],
    around: Group,
    graph: Graph,
    users: dict[int, list[int]],
    large: bool,
) -> list[int | Group]:
    """Group many leaves that only one member uses, such as the inputs of `stack` or `cat`.

    In a large graph also group the parameters that several calls share.
    """
    leaves = [member for member in members if isinstance(member, int)
              and not is_step(graph.nodes[member])]  # fmt: skip
    if len(leaves) <= MOST_SHARED:
        return members
    member_of = {index: i for i, member in enumerate(members) for index in node_indices(member)}
    bundles: dict[frozenset[int], list[int]] = {}
    for leaf in leaves:
        used_by = frozenset(member_of.get(user, -1) for user in users.get(leaf, ()))
        bundles.setdefault(used_by, []).append(leaf)
    heads: dict[int, Group] = {}
    hidden: set[int] = set()
    for used_by, bundle in bundles.items():
        most = MOST_LEAVES if len(used_by) == 1 else MOST_SHARED if large else len(bundle)
        if -1 not in used_by and len(bundle) > most:
            node_kinds = {graph.nodes[leaf].kind for leaf in bundle}
            word = "parameters" if node_kinds == {"parameter"} else "inputs"
            key = f"{around.key}/{word}@{graph.nodes[bundle[0]].id}"
            title = f"{len(bundle)} {word}"
            heads[bundle[0]] = Group(key, title, "leaves", list(bundle), around.path)
            hidden |= set(bundle)
    return [
        heads.get(member, member) if isinstance(member, int) else member
        for member in members
        if not isinstance(member, int) or member in heads or member not in hidden
    ]


def node_indices(member: int | Group) -> Iterator[int]:
    """Yield the indices of all nodes in a member."""
    pending: list[int | Group] = [member]
    while pending:
        item = pending.pop()
        if isinstance(item, int):
            yield item
        else:
            pending.extend(item.members)


def enclosing_groups(group: Group, above: dict[str, Group]) -> list[Group]:
    """Return a group and the groups around it, the outermost first."""
    groups = [group]
    while groups[-1].key in above:
        groups.append(above[groups[-1].key])
    return groups[::-1]


def innermost_common_group(root: Group, chains: Sequence[list[Group]]) -> Group:
    """Return the innermost group that is in every chain."""
    group = root
    for level in zip(*chains, strict=False):
        if any(other is not level[0] for other in level):
            break
        group = level[0]
    return group


# Sizes and representatives --------------------------------------------------------------------


def measure_groups(root: Group, graph: Graph) -> None:
    """Set the size of each group, and the node that represents it.

    That is the node whose result leaves the group; of several, the last one that has a gradient. A
    BatchNorm ends with its running statistics, which are not its result.
    """
    group_of, above = parent_groups(root)
    index_of = {node.id: index for index, node in enumerate(graph.nodes)}
    used: dict[int, list[int]] = {}
    for edge in graph.edges:
        used.setdefault(index_of[edge.source], []).append(index_of[edge.target])
    best: dict[str, tuple[bool, bool, bool, int]] = {}
    for index, node in enumerate(graph.nodes):
        users = [enclosing_groups(group_of[user], above) for user in used.get(index, ())]
        for depth, group in enumerate(enclosing_groups(group_of[index], above)):
            leaves = not users or any(
                len(theirs) <= depth or theirs[depth] is not group for theirs in users
            )
            rank = (is_step(node), leaves and (bool(users) or node.kind == "output"),
                    node.differentiable, index)  # fmt: skip
            best[group.key] = max(best.get(group.key, rank), rank)
    for group in groups_bottom_up(root):
        count_steps_and_nodes(group, graph)
        group.last = best[group.key][3] if group.key in best else -1


def count_steps_and_nodes(group: Group, graph: Graph) -> None:
    group.size = sum(member.size if isinstance(member, Group) else 1 for member in group.members)
    group.steps = sum(
        member.steps if isinstance(member, Group) else is_step(graph.nodes[member])
        for member in group.members
    )
