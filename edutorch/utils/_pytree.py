"""Trees of containers: flattening and rebuilding nested tuples, lists and dicts.

    leaves, spec = tree_flatten({"a": x, "b": (y, z)})      # [x, y, z], {'a': *, 'b': (*, *)}
    tree_unflatten(leaves, spec)                            # the same tree again

Named tuples keep their class. Everything that is not such a container is a leaf, also None.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = [
    "LeafSpec", "TreeSpec", "tree_all", "tree_any", "tree_flatten", "tree_leaves", "tree_map",
    "tree_map_", "tree_map_only", "tree_structure", "tree_unflatten",
]  # fmt: skip


@dataclass(frozen=True)
class TreeSpec:
    """The structure of a tree: its container's type and context, and its children's structures.

    >>> tree_structure((1, [2, 3])).num_leaves
    3
    """

    type: type | None
    context: Any  # the keys of a dict, the factory of a defaultdict, the length of a deque
    children_specs: tuple[TreeSpec, ...]

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return (
            1
            if self.is_leaf()
            else sum(children_spec.num_leaves for children_spec in self.children_specs)
        )

    @property
    def num_children(self) -> int:
        """The number of children of the outermost container."""
        return len(self.children_specs)

    def is_leaf(self) -> bool:
        """Return True if it is not a container."""
        return self.type is None

    def __repr__(self) -> str:
        inside = [repr(children_spec) for children_spec in self.children_specs]
        if self.type is None:
            return "*"
        if self.type in DICTS:
            keys = self.context[1]
            pairs = zip(keys, inside, strict=True)
            return "{" + ", ".join(f"{key!r}: {child}" for key, child in pairs) + "}"
        if self.type is list:
            return f"[{', '.join(inside)}]"
        name = "" if self.type is tuple else self.type.__name__
        comma = "," if self.type is tuple and len(inside) == 1 else ""
        return f"{name}({', '.join(inside)}{comma})"


def LeafSpec() -> TreeSpec:
    """Return the structure of a tree that is a single leaf.

    >>> LeafSpec()
    *
    """
    return LEAF


LEAF = TreeSpec(None, None, ())
DICTS = (dict, OrderedDict, defaultdict)


def is_namedtuple(value: object) -> bool:
    """Return True for a named tuple (or a result such as that of `max`)."""
    return isinstance(value, tuple) and type(value) is not tuple and hasattr(value, "_fields")


def container_children(tree: Any) -> tuple[list[Any], Any] | None:
    """Return a container's children and the context to rebuild it; None for a leaf."""
    # The exact type: a subclass of dict or list may not be rebuilt from its items.
    node_type = type(tree)
    if node_type in (tuple, list) or is_namedtuple(tree):
        return list(tree), None
    if node_type in DICTS:
        return list(tree.values()), (getattr(tree, "default_factory", None), tuple(tree))
    if node_type is deque:
        return list(tree), tree.maxlen
    return None


def rebuild_container(spec: TreeSpec, children: list[Any]) -> Any:
    """Rebuild a container from its children."""
    node_type: Any = spec.type
    if node_type in DICTS:
        factory, keys = spec.context
        items = dict(zip(keys, children, strict=True))
        if node_type is defaultdict:
            return defaultdict(factory, items)
        return node_type(items)  # type: ignore[arg-type]
    if node_type in (tuple, list):
        return node_type(children)
    return deque(children, spec.context) if node_type is deque else node_type(*children)


def tree_flatten(
    tree: object, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a tree, from left to right, and its structure.

    Args:
        is_leaf: returns True for a container that is to be treated as a leaf.

    >>> tree_flatten({"a": 1, "b": (2, [3])})
    ([1, 2, 3], {'a': *, 'b': (*, [*])})
    """
    node = None if is_leaf is not None and is_leaf(tree) else container_children(tree)
    if node is None:
        return [tree], LEAF
    children, context = node
    leaves: list[Any] = []
    specs = []
    for child in children:
        below, spec = tree_flatten(child, is_leaf)
        leaves += below
        specs.append(spec)
    return leaves, TreeSpec(type(tree), context, tuple(specs))


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Rebuild a tree from its leaves and its structure.

    Raises: ValueError: the number of leaves differs from the structure's.

    >>> tree_unflatten([1, 2, 3], tree_structure((0, [0, 0])))
    (1, [2, 3])
    """
    leaf_list = list(leaves)
    if len(leaf_list) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten: the tree {treespec} has {treespec.num_leaves} leaves, "
            f"but {len(leaf_list)} were given"
        )
    return build_tree(treespec, iter(leaf_list))


def build_tree(spec: TreeSpec, leaves: Iterator[Any]) -> Any:
    """Return a tree made of the next leaves.

    It is no inner function: one that calls itself is a cycle, and would keep all leaves, the arrays
    of a checkpoint among them, until Python collects garbage.
    """
    if spec.is_leaf():
        return next(leaves)
    return rebuild_container(spec, [build_tree(child, leaves) for child in spec.children_specs])


def tree_leaves(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of a tree.

    >>> tree_leaves([1, (2, 3)])
    [1, 2, 3]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """Return the structure of a tree.

    >>> tree_structure([1, (2, 3)])
    [*, (*, *)]
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any],
    tree: object,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Apply `func` to each leaf (and the corresponding leaves of `rests`); return the new tree.

    Raises: ValueError: the trees have different structures.

    >>> tree_map(lambda a, b: a + b, {"x": 1, "y": [2]}, {"x": 10, "y": [20]})
    {'x': 11, 'y': [22]}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = []
    for rest in rests:
        below, other = tree_flatten(rest, is_leaf)
        if other != spec:
            raise ValueError(f"tree_map: the trees differ: {spec} and {other}")
        others.append(below)
    return tree_unflatten([func(*parts) for parts in zip(leaves, *others, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: object, *rests: Any) -> Any:
    """Call `func` on each leaf, and return the tree unchanged.

    >>> tree_map_(print, [1, 2])
    1
    2
    [1, 2]
    """
    tree_map(func, tree, *rests)
    return tree


def tree_map_only(
    leaf_type: type | tuple[type, ...], func: Callable[[Any], Any], tree: object
) -> Any:
    """Apply `func` to each leaf of a type (or of one of several types); return the new tree.

    >>> tree_map_only(int, lambda n: -n, [1, "a"])
    [-1, 'a']
    """
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, leaf_type) else leaf, tree)


def tree_all(pred: Callable[[Any], bool], tree: object) -> bool:
    """Return True if `pred` is true for every leaf.

    >>> tree_all(lambda n: n > 0, [1, (2, 3)])
    True
    """
    return all(pred(tree_leaf) for tree_leaf in tree_leaves(tree))


def tree_any(pred: Callable[[Any], bool], tree: object) -> bool:
    """Return True if `pred` is true for any leaf.

    >>> tree_any(lambda n: n > 2, [1, (2, 3)])
    True
    """
    return any(pred(tree_leaf) for tree_leaf in tree_leaves(tree))
