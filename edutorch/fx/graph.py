"""A computation as a list of nodes, to be read, transformed, drawn, run, or written as code."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import backends
from ..backends.numpy import Array
from ..dtypes import dtype
from ..nn import Module, functional
from .node import (
    INFIX,
    PREFIX,
    Argument,
    Node,
    Target,
    map_aggregate,
    map_arg,
    nested_text,
    short_name,
    target_name,
)

__all__ = ["Graph", "PythonCode"]

PACKAGE = __name__.partition(".")[0]
"""The library itself, whose names generated code uses; what is below it does not import it."""


class Graph:
    """The computation of a function, as an ordered list of `Node`s.

    A captured graph (`fx.capture`) is flat and functional: its functions are ops, and nothing is
    written in place. `constants` holds arrays that never change; `writes` maps outputs to the
    inputs whose memory they update.

    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(mul, (x, 2)))
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %mul : [num_users=1] = call_function[target=torch.mul](args = (%x, 2), kwargs = {})
        return %mul
    """

    def __init__(self, owning_module: Module | None = None, tracer_cls: type | None = None) -> None:
        self.owning_module, self._tracer_cls = owning_module, tracer_cls
        self.constants: dict[str, np.ndarray] = {}
        self.writes: dict[int, int] = {}
        # A ring: the root is before the first and after the last node.
        self._root = Node(self, "", "output", "output")
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}
        self._insert: Callable[[Node], None] = self._root.prepend

    # Nodes ------------------------------------------------------------------------------

    @property
    def nodes(self) -> Nodes:
        """All nodes in order: a list that may be modified during iteration."""
        return Nodes(self)

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes with this op (and this target)."""
        return [
            node for node in self.nodes
            if node.op == op and (target is None or node.target == target)
        ]  # fmt: skip

    def output_node(self) -> Node:
        """Return the output node.

        Raises: RuntimeError: there is none yet.
        """
        last = self._root.prev
        if last is self._root or last.op != "output":
            raise RuntimeError("Graph: it has no output node; end it with graph.output(value)")
        return last

    # Adding ------------------------------------------------------------------------------

    def create_node(
        self, op: str, target: Target, args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None, name: str | None = None, type_expr: object = None,
    ) -> Node:  # fmt: skip
        """Add a node at the current insertion point (see `inserting_before`).

        Raises: ValueError: an argument is a node of another graph.
        """
        wanted = name or (target if isinstance(target, str) else short_name(target, "v"))
        node = Node(self, "", op, target, args or (), kwargs, type_expr)
        for input_node in node.all_input_nodes:
            if input_node.graph is not self:
                node._update((), {})  # else its inputs would list it as a user
                raise ValueError(f"Graph: the argument {input_node.name} belongs to another graph")
        node.name = self._free_name(wanted)
        self._insert(node)
        return node

    def _free_name(self, wanted: str) -> str:
        """Return an unused name that is not a Python keyword or builtin."""
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", snake_case(wanted)) or "v"
        if name[0].isdigit():
            name = f"_{name}"
        stem, _, number = name.rpartition("_")
        if stem and number.isdigit():  # x_1 counts on from x
            base, count = stem, int(number)
        else:
            base, count = name, self._counts.get(name, 0)
        candidate = name
        while candidate in self._names or is_reserved(candidate):
            count += 1
            candidate = f"{base}_{count}"
        self._counts[base] = max(count, self._counts.get(base, 0))
        self._names.add(candidate)
        return candidate

    def placeholder(self, name: str, type_expr: object = None, default_value: object = ...) -> Node:
        """Add a parameter of the function."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, name=name, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: object = None) -> Node:
        """Add a parameter, buffer or constant, by its path."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(
        self, the_function: Callable[..., Any], args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None, type_expr: object = None, name: str | None = None,
    ) -> Node:  # fmt: skip
        """Add a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(
        self, method_name: str, args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None, type_expr: object = None,
    ) -> Node:  # fmt: skip
        """Add a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None, type_expr: object = None,
    ) -> Node:  # fmt: skip
        """Add a call of a module, by its path."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def constant(self, array: np.ndarray, name: str = "constant") -> Node:
        """Add an array that never changes."""
        node = self.create_node("get_attr", "", name=name)
        node.target = node.name
        self.constants[node.name] = array
        node.meta.update(array_meta(array))
        return node

    def output(self, result: Argument, type_expr: object = None) -> Node:
        """Add the output node, which is the last one."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """Add a copy of a node of any graph; `arg_transform` says what its inputs are here."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        copied = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        copied.meta = dict(node.meta)
        name = str(node.target)
        if node.op == "get_attr" and name in node.graph.constants:
            array = node.graph.constants[name]
            if self.constants.get(name, array) is not array:
                copied.target = name = copied.name
            self.constants[name] = array
        return copied

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Add copies of all nodes of `g` that `val_map` lacks; return what `g` returns."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        copied = Graph(self.owning_module, self._tracer_cls)
        copies: dict[Node, Node] = {}
        for node in self.nodes:
            copies[node] = copied.node_copy(node, copies.__getitem__)
            copies[node].name = node.name
        copied._names, copied._counts = set(self._names), dict(self._counts)
        copied.writes = dict(self.writes)
        return copied

    def __reduce__(self) -> Any:
        rows = [
            (node.op, node.name, node.target, map_arg(node.args, Name), map_arg(node.kwargs, Name))
            for node in self.nodes
        ]
        return from_rows, (rows, self.constants, self.writes)

    @contextmanager
    def inserting_before(self, n: Node | None = None) -> Iterator[None]:
        """Inside the block new nodes come before `n` (None: at the very beginning)."""
        before = self._insert
        self._insert = (self._root.next if n is None else n).prepend
        try:
            yield
        finally:
            self._insert = before

    @contextmanager
    def inserting_after(self, n: Node | None = None) -> Iterator[None]:
        """Inside the block new nodes come behind `n`, one after the other."""
        before, behind = self._insert, n or self._root
        last = [behind]

        def insert(node: Node) -> None:
            last[0].append(node)
            last[0] = node

        self._insert = insert
        try:
            yield
        finally:
            self._insert = before

    # Removing -----------------------------------------------------------------------------

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node.

        Raises: RuntimeError: another node uses it.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {', '.join(map(str, to_erase.users))}; "
                "let them use another node first: replace_all_uses_with"
            )
        if to_erase._erased:
            return
        to_erase._update((), {})
        to_erase._unlink()
        to_erase._erased = True
        self._names.discard(to_erase.name)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove nodes without users, from the end on; return True if any was removed."""
        keep = is_impure_node or Node.is_impure
        changed = False
        # From the end on: an input is unused once its user is gone.
        for node in reversed(self.nodes):
            if not node.users and not keep(node) and node.op not in ("placeholder", "output"):
                self.erase_node(node)
                changed = True
        return changed

    # Checking and reading --------------------------------------------------------------------

    def lint(self) -> None:
        """Check that the graph is well formed.

        Raises: RuntimeError: a node is used before it is made, two have one name, …
        """
        seen: set[Node] = set()  # the first use from the end is the last one
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node {node} does not belong to this Graph")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}")
            for input_node in node.all_input_nodes:
                if input_node not in seen:
                    raise RuntimeError(
                        f"Argument '{input_node}' of Node '{node}' was used before it has been "
                        "defined"
                    )
                if node not in input_node.users:
                    raise RuntimeError(f"Node '{input_node}' does not know its user '{node}'")
            if node.op == "output" and node.next is not self._root:
                raise RuntimeError(f"output node {node} is not the last one")
            flat = self.owning_module is None and bool(self.constants)
            if node.op == "get_attr" and flat and node.target not in self.constants:
                raise RuntimeError(f"Node {node} names no constant: {node.target}")
            seen.add(node)
            names.add(node.name)

    def python_code(self, root_module: str = "self") -> PythonCode:
        """Return the graph as Python: the source of a function `forward`, and its globals."""
        return write_function(self, root_module)

    def print_tabular(self) -> None:
        """Print the nodes as a table, with shapes and dtypes where they are known."""
        print(self.table())

    def table(self) -> str:
        """Return the text that `print_tabular` prints."""
        shaped = any("shape" in node.meta for node in self.nodes)
        head = ["opcode", "name", "target", "args", "kwargs"] + ["value"] * shaped
        rows = [head]
        for node in self.nodes:
            kwargs = dict(node.kwargs)
            rows.append([
                node.op, node.name, target_name(node.target), shorten(node.args), shorten(kwargs),
                *([format_value(node)] if shaped else []),
            ])  # fmt: skip
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        rows.insert(1, ["-" * width for width in widths])
        lines = ("  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True)) for r in rows)
        return "\n".join(line.rstrip() for line in lines)

    def __str__(self) -> str:
        lines = [f"    {node.format_node()}" for node in self.nodes]
        return "\n".join(["graph():", *lines])


class Nodes:
    """The nodes of a graph in order; also `reversed(graph.nodes)`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __iter__(self) -> Iterator[Node]:
        node = self.graph._root._next
        while node is not self.graph._root:
            following = node._next  # the loop may erase the node, or insert behind it
            yield node
            node = following if node._erased else node._next

    def __reversed__(self) -> Iterator[Node]:
        node = self.graph._root._prev
        while node is not self.graph._root:
            following = node._prev
            yield node
            node = following if node._erased else node._prev

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(list(self))


class Name(str):
    """The name of a node in a pickle, which cannot contain the node itself."""

    def __new__(cls, node: Node | str) -> Name:
        return str.__new__(cls, getattr(node, "name", node))


def from_rows(
    rows: Sequence[tuple[Any, ...]], constants: dict[str, np.ndarray], writes: dict[int, int]
) -> Graph:
    """Rebuild a graph from its pickled nodes.

    Saved pickles refer to this function and to `Name` by their names, which must not change.
    """
    graph, nodes = Graph(), {}

    def restore_node(value: object) -> Any:
        return nodes[str(value)] if isinstance(value, Name) else value

    for op, name, target, args, kwargs in rows:
        args, kwargs = map_aggregate(args, restore_node), map_aggregate(kwargs, restore_node)
        node = nodes[name] = graph.create_node(op, target, args, kwargs, name)
        node.name = name
    graph.constants, graph.writes = constants, writes
    return graph


def snake_case(name: str) -> str:
    """Convert a name to snake case: LayerNorm becomes layer_norm."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def is_reserved(name: str) -> bool:
    """Return True for keywords, builtins, and names that generated code uses."""
    return keyword.iskeyword(name) or name in vars(builtins) or name in ("self", "torch")


def array_meta(array: Array) -> dict[str, Any]:
    """Return the metadata of an array for a node: shape, dtype, strides and device."""
    device = "cpu" if isinstance(array, np.ndarray) else backends.of(array).device_name
    shape, strides = tuple(array.shape), tuple(array.strides)
    return {"shape": shape, "dtype": array.dtype, "strides": strides, "device": device}


def format_value(node: Node) -> str:
    """Return dtype and shape of a node's value as text, such as float32[3, 4]."""
    if "shape" in node.meta:
        return f"{node.meta['dtype']}{list(node.meta['shape'])}"
    return "number" if node.meta.get("number") else ""


def shorten(value: object, longest: int = 60) -> str:
    """Return the text of arguments, truncated for a table."""
    text = repr(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


# Code -----------------------------------------------------------------------------------------


@dataclass
class PythonCode:
    """`src`: the source of a function `forward`; `globals`: the values of its free names."""

    src: str
    globals: dict[str, Any] = field(default_factory=dict)


class CodeWriter:
    """Turns nodes into statements, and collects the globals that they refer to."""

    def __init__(self, root_module: str, taken: Collection[str] = ()) -> None:
        self.root, self.taken = root_module, taken
        self.globals: dict[str, Any] = {}

    def add_global(self, name: str, value: object) -> str:
        """Return a global name for a value: `name`, with a suffix if that is taken."""
        name = re.sub(r"\W", "_", name) or "value"
        candidate, count = name, 0
        # A local variable of this name would hide the global one.
        while candidate in self.taken or self.globals.get(candidate, value) is not value:
            count += 1
            candidate = f"{name}_{count}"
        self.globals[candidate] = value
        return candidate

    def format_function(self, target: Callable[..., Any]) -> str:
        """Return the path of a function: torch.relu, torch.nn.functional.gelu, …"""
        name = getattr(target, "__name__", type(target).__name__)
        if getattr(builtins, name, None) is target:
            return name
        package = sys.modules[PACKAGE]
        for path, holder in (("torch", package), ("torch.nn.functional", functional)):
            if getattr(holder, name, None) is target:
                self.globals["torch"] = package
                return f"{path}.{name}"
        module = getattr(target, "__module__", "") or ""
        return self.add_global(f"{module.rpartition('.')[2]}_{name}".strip("_"), target)

    def format_value(self, value: Argument) -> str:
        """Return an argument as an expression."""
        return nested_text(value, self.format_leaf, repr)

    def format_leaf(self, value: object) -> str:
        """Return what is no container as an expression: a node, a number, a global name."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple):  # a named one
            name = self.add_global(type(value).__name__, type(value))
            return name + self.format_value(tuple(value))
        if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
            return f"float('{value}')"
        if isinstance(value, dtype):
            self.globals["torch"] = sys.modules[PACKAGE]
            return repr(value)
        if value is None or value is ... or isinstance(value, bool | int | float | complex | str):
            return repr(value)
        return self.add_global(getattr(value, "__name__", type(value).__name__), value)

    def format_attribute(self, path: str) -> str:
        """Return the path of a parameter or module: self.layers, getattr(self.s, "0")."""
        text = self.root
        for part in path.split("."):
            text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
        return text

    def format_arguments(self, node: Node, first: int = 0) -> str:
        """Return the arguments of a call as source."""
        named = [f"{key} = {self.format_value(value)}" for key, value in node.kwargs.items()]
        return ", ".join([*map(self.format_value, node.args[first:]), *named])

    def format_index(self, index: Argument) -> str:
        """Return what stands between brackets: 0, 1:3 instead of (0, slice(1, 3, None))."""
        if isinstance(index, tuple) and index and not hasattr(index, "_fields"):
            comma = "," if len(index) == 1 else ""
            return ", ".join(map(self.format_index, index)) + comma
        if not isinstance(index, slice):
            return self.format_value(index)
        start, stop, step = (
            "" if bound is None else self.format_value(bound)
            for bound in (index.start, index.stop, index.step)
        )
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"

    def format_expression(self, node: Node) -> str:
        """Return the expression that computes a node."""
        target: Any = node.target
        if node.op == "get_attr":
            return self.format_attribute(target)
        if node.op == "call_module":
            return f"{self.format_attribute(target)}({self.format_arguments(node)})"
        if node.op == "call_method":
            return f"{self.format_value(node.args[0])}.{target}({self.format_arguments(node, 1)})"
        if not node.kwargs:
            parts = [self.format_value(argument) for argument in node.args]
            if target in INFIX and len(parts) == 2:
                return f"{parts[0]} {INFIX[target]} {parts[1]}"
            if target in PREFIX and len(parts) == 1:
                return f"{PREFIX[target]}{parts[0]}"
            if getattr(target, "__module__", "") == "_operator" and target.__name__ == "getitem":
                return f"{parts[0]}[{self.format_index(node.args[1])}]"
            if target is getattr and isinstance(node.args[1], str) and len(parts) == 2:
                return f"{parts[0]}.{node.args[1]}"
        return f"{self.format_function(target)}({self.format_arguments(node)})"


def write_function(graph: Graph, root_module: str = "self") -> PythonCode:
    """Return a graph as a function. Values are released after their last use."""
    writer = CodeWriter(root_module, graph._names)
    dead_after = last_uses(graph)
    parameters, lines = [root_module], []
    for node in graph.nodes:
        if node.op == "placeholder":
            parameter = str(node.target)
            stars = parameter[: len(parameter) - len(parameter.lstrip("*"))]
            name = f"{stars}{node.name}"
            default = f" = {writer.format_value(node.args[0])}" if node.args else ""
            is_name = parameter.isidentifier() and not keyword.iskeyword(parameter)
            if parameter != node.name and is_name:
                lines.append(f"{node.name} = {parameter}")  # callers may pass it by that name
                name = parameter
            parameters.append(f"{name}{default}")
            continue
        if node.op == "output":
            line = f"return {writer.format_value(node.args[0])}"
        else:
            line = f"{node.name} = {writer.format_expression(node)}"
            dropped = [dead.name for dead in dead_after.get(node, ())]
            if not node.users:
                dropped.append(node.name)
            line += f";  {' = '.join(dropped)} = None" if dropped else ""
        if node.meta.get("line"):
            previous = node.prev.meta.get("line")
            if node.meta["line"] != previous:
                lines.append(f"# {node.meta['line']}")
        lines.append(line)
    body = "\n".join(f"    {line}" for line in lines or ["pass"])
    return PythonCode(f"def forward({', '.join(parameters)}):\n{body}\n", writer.globals)


def last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """Return, for each node, the values that are not needed after it."""
    seen: set[Node] = set()
    dead_after: dict[Node, list[Node]] = {}
    for node in reversed(graph.nodes):
        for input_node in node.all_input_nodes:
            if input_node not in seen:
                seen.add(input_node)
                dead_after.setdefault(node, []).append(input_node)
    return dead_after


Node.__init__.__globals__["Graph"] = Graph  # for `typing.get_type_hints`
