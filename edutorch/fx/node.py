"""The nodes of a graph: one step of a computation each."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Node", "map_aggregate", "map_arg"]

Argument = Annotated[Any, "Argument"]
"""An argument of a node: another node, a plain value, or a tuple, list, dict or slice of these."""

Target = str | Callable[..., Any]
"""What a node calls or refers to: see `Node`."""

OPCODES = ("placeholder", "get_attr", "call_function", "call_module", "call_method", "output")


class Node:
    """One step of a `Graph`.

    The meaning of `target` depends on `op`:

        placeholder     the name of an argument
        get_attr        the path of a parameter, buffer or constant
        call_function   the function itself
        call_module     the path of a module
        call_method     the name of a method of the first argument
        output          "output"; args[0] is what the function returns

    `args` and `kwargs` hold other nodes (also nested in tuples, lists, dicts and slices)
    and plain Python values. `meta` holds metadata of the value: "shape", "dtype", …

    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(relu, (x,))
    >>> y.all_input_nodes, list(x.users)
    ([x], [relu])
    """

    def __init__(
        self, graph: Graph, name: str, op: str, target: Target, args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None, return_type: object = None,
    ) -> None:  # fmt: skip
        if op not in OPCODES:
            raise ValueError(f"Node: op must be one of {', '.join(OPCODES)}, got {op!r}")
        if op == "call_function" and not callable(target):
            raise ValueError(f"Node: the target of call_function must be callable, got {target!r}")
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._inputs: dict[Node, None] = {}
        self._update(tuple(args), dict(kwargs or {}))

    # Position in the list ---------------------------------------------------------------

    @property
    def next(self) -> Node:
        """The next node."""
        return self._next

    @property
    def prev(self) -> Node:
        """The previous node."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move node `x` right before this one."""
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move node `x` right behind this one."""
        self._next.prepend(x)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev
        self._prev = self._next = self

    # Arguments ----------------------------------------------------------------------------

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._update(tuple(args), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._update(self._args, dict(kwargs))

    def _update(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Set the arguments, and update the users of the nodes among them."""
        for node in self._inputs:  # users are kept up to date here, and nowhere else
            node.users.pop(self, None)
        self._args, self._kwargs = args, kwargs
        # A dict keeps the order and drops duplicates.
        self._inputs = dict.fromkeys((*nodes_in(args), *nodes_in(kwargs)))
        for node in self._inputs:
            node.users[self] = None

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, without duplicates."""
        return list(self._inputs)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace one positional argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Replace one keyword argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before index `idx`."""
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Replace `old_input` by `new_input` in the arguments of this node."""

        def changed(node: Node) -> Node:
            return new_input if node is old_input else node

        self._update(map_arg(self._args, changed), map_arg(self._kwargs, changed))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, *,
        propagate_meta: bool = False,
    ) -> list[Node]:  # fmt: skip
        """Replace this node by another one in all its users; return the users changed.

        Args:
            delete_user_cb: returns True for a user that shall change.
            propagate_meta: copy this node's `meta` to the other one.
        """
        changed = [user for user in tuple(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        if propagate_meta:
            replace_with.meta.update(self.meta)
        return changed

    def is_impure(self) -> bool:
        """Return True if the node must stay even if its value is not used."""
        if self.op in ("placeholder", "output"):
            return True
        return bool(self.meta.get("random")) or self.target in IMPURE

    # Text -----------------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """The line of the user's code that it comes from, if it is known."""
        return self.meta.get("line")

    def format_node(self) -> str:
        """Return the node as one line of text."""
        if self.op == "placeholder":
            default = f"(default={self._args[0]!r})" if self._args else ""
            head = f"%{self.name} : [num_users={len(self.users)}] = placeholder"
            return f"{head}[target={self.target}]{default}"
        if self.op == "output":
            return f"return {arg_text(self._args[0])}"
        head = f"%{self.name} : [num_users={len(self.users)}] = {self.op}"
        target = target_name(self.target)
        if self.op == "get_attr":
            return f"{head}[target={target}]"
        args = ", ".join(arg_text(argument) for argument in self._args)
        comma = "," if len(self._args) == 1 else ""
        kwargs = ", ".join(f"{key}: {arg_text(value)}" for key, value in self._kwargs.items())
        return f"{head}[target={target}](args = ({args}{comma}), kwargs = {{{kwargs}}})"

    def __repr__(self) -> str:
        return self.name


IMPURE: set[Any] = set()
"""Functions with side effects (see `fx.has_side_effect`)."""


def target_name(target: Target) -> str:
    """Return the qualified name of a target, such as torch.relu or operator.add."""
    if isinstance(target, str):
        return target
    name = short_name(target, repr(target))
    if hasattr(target, "op"):
        return f"torch.{name}"
    module = getattr(target, "__module__", None) or ""
    if module in ("_operator", "operator"):
        return f"operator.{name}"
    return name if module in ("builtins", "") else f"{module}.{name}"


def short_name(target: Target, default: str) -> str:
    """Return the name of a target without its module; of an op, the function that users know."""
    op = getattr(target, "op", None)
    return getattr(op, "public_name", None) or getattr(target, "__name__", default)


def arg_text(value: Argument) -> str:
    """Return an argument as text, with % before each node."""

    def leaf_text(leaf: object) -> str:
        if isinstance(leaf, tuple):  # a named one
            return arg_text(tuple(leaf))
        return f"%{leaf.name}" if isinstance(leaf, Node) else repr(leaf)

    return nested_text(value, leaf_text)


def nested_text(
    value: Argument, leaf_text: Callable[[Any], str], key_text: Callable[[Any], str] = str
) -> str:
    """Return nested tuples, lists, dicts and slices as text, given that of leaves and keys.

    A named tuple is a leaf: what it needs is the name of its class.
    """

    def text_of(item: Argument) -> str:
        return nested_text(item, leaf_text, key_text)

    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({', '.join(map(text_of, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, dict):
        pairs = (f"{key_text(key)}: {text_of(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, slice):
        return f"slice({', '.join(map(text_of, (value.start, value.stop, value.step)))})"
    return leaf_text(value)


def nodes_in(value: Argument) -> Iterator[Node]:
    """Yield every node inside an argument."""
    return (leaf for leaf in flatten(value) if isinstance(leaf, Node))


def flatten(a: Argument) -> list[Any]:
    """Return the leaves of nested tuples, lists, dicts and slices."""
    leaves: list[Any] = []
    map_aggregate(a, leaves.append)
    return leaves


def map_aggregate(a: Argument, fn: Callable[[Any], Any]) -> Any:
    """Apply `fn` to every leaf of nested tuples, lists, dicts and slices.

    >>> fx.map_aggregate((1, [2, {"a": 3}]), lambda value: value * 10)
    (10, [20, {'a': 30}])
    """
    if isinstance(a, tuple):
        parts = [map_aggregate(item, fn) for item in a]
        container: Any = type(a)
        return container(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(item, fn) for item in a]
    if isinstance(a, dict):
        return {key: map_aggregate(item, fn) for key, item in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(bound, fn) for bound in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Node], Any]) -> Any:
    """Apply `fn` to every node in nested tuples, lists, dicts and slices.

    >>> x = fx.Graph().placeholder("x")
    >>> fx.map_arg((x, 1), lambda node: node.name)
    ('x', 1)
    """
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


INFIX = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/",
    operator.floordiv: "//", operator.mod: "%", operator.pow: "**", operator.matmul: "@",
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">",
    operator.ge: ">=", operator.and_: "&", operator.or_: "|", operator.xor: "^",
    operator.lshift: "<<", operator.rshift: ">>",
}  # fmt: skip
PREFIX = {operator.neg: "-", operator.pos: "+", operator.invert: "~"}
"""Python's operators by function."""
