"""Trees of containers: flattening and rebuilding nested tuples, lists and dicts.

    leaves, spec = tree_flatten({"a": x, "b": (y, z)})      # [x, y, z], {'a': *, 'b': (*, *)}
    tree_unflatten(leaves, spec)                            # the same tree again

Named tuples keep their class. Everything that is not such a container is a leaf, also None, unless
its class is registered: `register_pytree_node` says how objects of it are taken apart and rebuilt.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias

from ..errors import InvalidValueError

__all__ = [
    "GetAttrKey", "LeafSpec", "MappingKey", "SequenceKey", "TreeSpec", "is_namedtuple", "keystr",
    "register_constant", "register_dataclass", "register_pytree_node", "tree_all", "tree_all_only",
    "tree_any", "tree_any_only", "tree_flatten", "tree_flatten_with_path", "tree_is_leaf",
    "tree_iter", "tree_leaves", "tree_map", "tree_map_", "tree_map_only", "tree_map_only_",
    "tree_map_with_path", "tree_structure", "tree_unflatten", "treespec_pprint",
]  # fmt: skip

# PyTorch's names of types, for annotations of others.
PyTree: TypeAlias = Any
Context: TypeAlias = Any
FlattenFunc: TypeAlias = Callable[[Any], tuple[list[Any], Context]]
UnflattenFunc: TypeAlias = Callable[[Iterable[Any], Context], Any]
Types: TypeAlias = type | tuple[type, ...]


class NodeDef(NamedTuple):
    """How objects of a registered class are taken apart and rebuilt."""

    type: type
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    flatten_with_keys_fn: Callable[[Any], Any] | None = None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
"""The containers: those of Python and the registered classes."""


@dataclass(frozen=True)
class TreeSpec:
    """The structure of a tree: its container's type and context, and its children's structures.

    >>> tree_structure((1, [2, 3])).num_leaves
    3
    """

    type: type | None
    context: Any  # the keys of a dict, the factory of a defaultdict, the length of a deque
    children_specs: tuple[TreeSpec, ...]

    def __post_init__(self) -> None:
        if self.type is namedtuple:  # so PyTorch says it, with the class as the context
            object.__setattr__(self, "type", self.context)
            object.__setattr__(self, "context", None)

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
        if is_registered(self.type):
            return f"{self.type.__name__}({', '.join([repr(self.context), *inside])})"
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
CONTAINERS = (tuple, list, deque, namedtuple, *DICTS)


def _get_node_type(tree: object) -> Any:
    """Return the type of a container, as `SUPPORTED_NODES` has it: one for all named tuples."""
    return namedtuple if is_namedtuple(tree) else type(tree)


def is_registered(cls: type) -> bool:
    """Return True for a class that was registered, and is no container of Python."""
    return cls in SUPPORTED_NODES and cls not in CONTAINERS


def is_namedtuple(value: object) -> bool:
    """Return True for a named tuple (or a result such as that of `max`)."""
    return isinstance(value, tuple) and type(value) is not tuple and hasattr(value, "_fields")


def container_children(tree: Any) -> tuple[list[Any], Any] | None:
    """Return a container's children and the context to rebuild it; None for a leaf."""
    # The exact type: a subclass of dict or list may not be rebuilt from its items.
    node_type = type(tree)
    if node_type in (tuple, list) or (is_namedtuple(tree) and not is_registered(node_type)):
        return list(tree), None
    if node_type in DICTS:
        return list(tree.values()), (getattr(tree, "default_factory", None), tuple(tree))
    if node_type is deque:
        return list(tree), tree.maxlen
    if is_registered(node_type):
        children, context = SUPPORTED_NODES[node_type].flatten_fn(tree)
        return list(children), context
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
    if is_registered(node_type):
        return SUPPORTED_NODES[node_type].unflatten_fn(children, spec.context)
    return deque(children, spec.context) if node_type is deque else node_type(*children)


for _type in CONTAINERS:
    SUPPORTED_NODES[_type] = NodeDef(
        _type, container_children, lambda children, context, cls=_type: rebuild_container(
            TreeSpec(cls, context, ()), list(children)
        ),
    )  # type: ignore[arg-type]  # fmt: skip


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
    leaf_type: Types | Callable[[Any], bool], /, func: Callable[[Any], Any], tree: object,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:  # fmt: skip
    """Apply `func` to each leaf of a type (or of several, or for which a function is true).

    >>> tree_map_only(int, lambda n: -n, [1, "a"])
    [-1, 'a']
    """
    wanted = leaf_test(leaf_type)
    return tree_map(lambda leaf: func(leaf) if wanted(leaf) else leaf, tree, is_leaf=is_leaf)


def leaf_test(leaf_type: Any) -> Callable[[Any], bool]:
    """Return a function that tells whether a leaf is of a type; a function stays as it is."""
    if callable(leaf_type) and not isinstance(leaf_type, type):
        return leaf_type
    return lambda leaf: isinstance(leaf, leaf_type)


def tree_map_only_(
    leaf_type: Types | Callable[[Any], bool], /, func: Callable[[Any], Any], tree: object,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:  # fmt: skip
    """Call `func` on each leaf of a type, and return the tree unchanged."""
    tree_map_only(leaf_type, func, tree, is_leaf)
    return tree


def tree_iter(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """Iterate over the leaves of a tree."""
    return iter(tree_leaves(tree, is_leaf))


def tree_is_leaf(tree: object, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Return True if a value is a leaf, not a container.

    >>> tree_is_leaf(3), tree_is_leaf([3])
    (True, False)
    """
    return (is_leaf is not None and is_leaf(tree)) or container_children(tree) is None


def tree_all(
    pred: Callable[[Any], bool], tree: object, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Return True if `pred` is true for every leaf.

    >>> tree_all(lambda n: n > 0, [1, (2, 3)])
    True
    """
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf))


def tree_any(
    pred: Callable[[Any], bool], tree: object, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Return True if `pred` is true for any leaf.

    >>> tree_any(lambda n: n > 2, [1, (2, 3)])
    True
    """
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf))


def tree_all_only(leaf_type: Types, /, pred: Callable[[Any], bool], tree: object) -> bool:
    """Return True if `pred` is true for every leaf of a type."""
    return all(pred(leaf) for leaf in tree_leaves(tree) if isinstance(leaf, leaf_type))


def tree_any_only(leaf_type: Types, /, pred: Callable[[Any], bool], tree: object) -> bool:
    """Return True if `pred` is true for any leaf of a type."""
    return any(pred(leaf) for leaf in tree_leaves(tree) if isinstance(leaf, leaf_type))


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return the structure as text."""
    return repr(treespec)


# Registered classes -------------------------------------------------------------------------------


def register_pytree_node(
    cls: type, flatten_fn: FlattenFunc, unflatten_fn: UnflattenFunc, *,
    serialized_type_name: str | None = None, to_dumpable_context: Any = None,
    from_dumpable_context: Any = None, flatten_with_keys_fn: Any = None,
) -> None:  # fmt: skip
    """Let objects of a class be containers.

    Args:
        flatten_fn: returns (children, context) of an object.
        unflatten_fn: makes an object of children and context.
        flatten_with_keys_fn: as flatten_fn, with a list of (key, child).

    Raises: ValueError: the class is registered, or is a container already.

    >>> from edutorch.utils._pytree import register_pytree_node
    >>> class Pair:
    ...     def __init__(self, a, b): self.a, self.b = a, b
    >>> register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda c, _: Pair(*c))
    >>> tree_map(lambda x: 2 * x, {"p": Pair(1, 2)})["p"].b
    4
    """
    if cls in SUPPORTED_NODES:
        raise InvalidValueError(
            "register_pytree_node", f"{cls} is already registered as pytree node."
        )
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def _register_pytree_node(
    cls: type, flatten_fn: FlattenFunc, unflatten_fn: UnflattenFunc, to_str_fn: Any = None,
    maybe_from_str_fn: Any = None, **settings: Any,
) -> None:  # fmt: skip
    """Do the same as `register_pytree_node`, which replaces it."""
    register_pytree_node(cls, flatten_fn, unflatten_fn, **settings)


_private_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    """Let objects of a class be leaves again."""
    del SUPPORTED_NODES[cls]


def register_dataclass(
    cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:  # fmt: skip
    """Let objects of a dataclass be containers of their fields.

    Args:
        field_names: by default all; the others must have defaults.
        drop_field_names: fields to leave out.
    """
    names = field_names or [field.name for field in fields(cls)]
    names = [name for name in names if name not in (drop_field_names or ())]
    register_pytree_node(
        cls,
        lambda value: ([getattr(value, name) for name in names], None),
        lambda children, _: cls(**dict(zip(names, children, strict=True))),
        flatten_with_keys_fn=lambda value: (
            [(GetAttrKey(name), getattr(value, name)) for name in names], None,
        ),
    )  # fmt: skip


def register_constant(cls: type) -> None:
    """Let objects of a class be part of the structure: containers without leaves."""
    register_pytree_node(cls, lambda value: ([], value), lambda _, value: value)


# Paths --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SequenceKey:
    """The step to an element of a list or tuple: `[0]`."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return that element."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """The step to a value of a dict: `['a']`."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return that value."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """The step to an attribute: `.x`."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return that attribute."""
        return getattr(obj, self.name)


KeyPath: TypeAlias = tuple[Any, ...]


def keystr(kp: KeyPath) -> str:
    """Return a path as it is written in Python: "['a'][0]"."""
    return "".join(map(str, kp))


def child_keys(tree: Any, count: int) -> list[Any]:
    """Return the step to each child of a container.

    Raises: ValueError: a registered class has no `flatten_with_keys_fn`.
    """
    node = SUPPORTED_NODES[type(tree)] if is_registered(type(tree)) else None
    if node is not None and node.flatten_with_keys_fn is None:
        raise InvalidValueError(
            "tree_flatten_with_path", f"Did not find a flatten_with_keys_fn for type: {node.type}",
            hint="pass flatten_with_keys_fn to register_pytree_node",
        )  # fmt: skip
    if node is not None and node.flatten_with_keys_fn is not None:
        return [key for key, _ in node.flatten_with_keys_fn(tree)[0]]
    if type(tree) in DICTS:
        return [MappingKey(key) for key in tree]
    if is_namedtuple(tree):
        return [GetAttrKey(name) for name in tree._fields]
    return [SequenceKey(index) for index in range(count)]


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], list[Any]]:
    """Return the items of a dict, each with its step, and the keys: PyTorch's private helper.

    transformers registers its outputs, which are dicts, with it.
    """
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def tree_flatten_with_path(
    tree: object, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return (path, leaf) for each leaf of a tree, and its structure.

    >>> from edutorch.utils._pytree import keystr, tree_flatten_with_path
    >>> [(keystr(path), leaf) for path, leaf in tree_flatten_with_path({"a": (1, [2])})[0]]
    [("['a'][0]", 1), ("['a'][1][0]", 2)]
    """
    return list(leaf_paths(tree, (), is_leaf)), tree_structure(tree, is_leaf)


def leaf_paths(
    tree: Any, path: KeyPath, is_leaf: Callable[[Any], bool] | None
) -> Iterator[tuple[KeyPath, Any]]:
    """Yield (path, leaf) for each leaf below a path."""
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    node = container_children(tree)
    assert node is not None
    for key, child in zip(child_keys(tree, len(node[0])), node[0], strict=True):
        yield from leaf_paths(child, (*path, key), is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: object, *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:  # fmt: skip
    """Apply `func(path, leaf, …)` to each leaf; return the new tree.

    >>> from edutorch.utils._pytree import keystr, tree_map_with_path
    >>> tree_map_with_path(lambda path, leaf: keystr(path), {"a": [1, 2]})
    {'a': ["['a'][0]", "['a'][1]"]}
    """
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    results = [func(*pair, *rest) for pair, *rest in zip(pairs, *others, strict=True)]
    return tree_unflatten(results, spec)


# Private names of PyTorch, which libraries use for dicts of their own -----------------------------


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], Context]:
    """Return the values of a dict, and its keys."""
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Context) -> dict[Any, Any]:
    """Return a dict of these values, with the keys in `context`."""
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Context]:
    """Return (step, value) for each value of a dict, and its keys."""
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


_is_leaf = tree_is_leaf
