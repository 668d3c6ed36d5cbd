"""Programs as JSON: the nodes, the signature and the ranges. Reading it calls nothing.

A node's function is named (`functions.py`), and its arguments are JSON; what JSON lacks is an
object with a single key: {"node": "x"}, {"tuple": [1, 2]}, {"dtype": "float32"}.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import dtypes
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from .errors import ExportError, ProgramFileError
from .formulas import OPERATORS, Call, Formula, Size
from .functions import function_named, name_of_function

__all__ = [
    "decode_graph", "decode_spec", "decode_value", "encode_graph", "encode_spec", "encode_value",
]  # fmt: skip

MOST_DEPTH = 64
"""How deep a value in a file may be nested."""


# Values -------------------------------------------------------------------------------------------


def encode_value(value: Any) -> Any:
    """Return an argument as JSON.

    Raises: ExportError: a file cannot hold it.
    """
    match value:
        case Node():
            return {"node": value.name}
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return value if math.isfinite(value) else {"float": str(value)}
        case complex():
            return {"complex": [encode_value(value.real), encode_value(value.imag)]}
        case tuple():
            return {"tuple": [encode_value(item) for item in value]}
        case list():
            return [encode_value(item) for item in value]
        case slice():
            bounds = (value.start, value.stop, value.step)
            return {"slice": [encode_value(bound) for bound in bounds]}
        case dict() if all(isinstance(key, str) for key in value):
            return {"dict": [[key, encode_value(item)] for key, item in value.items()]}
    if value is ...:
        return {"ellipsis": True}
    if isinstance(value, dtypes.dtype):
        return {"dtype": value.name}
    if isinstance(value, np.dtype):
        return {"dtype": dtypes.of(value).name}
    raise ExportError(f"a file cannot hold an argument of type {type(value).__name__}: {value!r}")


def decode_value(value: Any, nodes: Mapping[str, Node], depth: int = 0) -> Any:
    """Return the argument of a JSON value.

    Raises: ProgramFileError: it is none.
    """
    if depth > MOST_DEPTH:
        raise ProgramFileError("an argument is nested too deeply")
    if value is None or isinstance(value, bool | int | float | str):
        return value

    def inner(item: Any) -> Any:
        return decode_value(item, nodes, depth + 1)

    if isinstance(value, list):
        return [inner(item) for item in value]
    if isinstance(value, dict) and len(value) == 1:
        ((tag, content),) = value.items()
        decoder = DECODERS.get(tag)
        if tag == "node" and isinstance(content, str) and content in nodes:
            return nodes[content]
        if decoder is not None:
            try:
                return decoder(content, inner)
            except (TypeError, ValueError, KeyError, AttributeError):
                raise ProgramFileError(f"an argument is damaged: {tag}") from None
    raise ProgramFileError(f"an argument is damaged: {str(value)[:60]}")


def decode_dtype(name: str) -> dtypes.dtype:
    """Return the dtype of a name."""
    return next(dtype for dtype in (*dtypes.ALL, *STORAGE_DTYPES) if dtype.name == name)


STORAGE_DTYPES = (dtypes.uint16, dtypes.uint32, dtypes.uint64)

Inner = Callable[[Any], Any]

DECODERS: dict[str, Callable[[Any, Inner], Any]] = {
    "float": lambda content, inner: {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[content],
    "complex": lambda content, inner: complex(*(inner(part) for part in content)),
    "tuple": lambda content, inner: tuple(inner(item) for item in content),
    "slice": lambda content, inner: slice(*(inner(bound) for bound in content)),
    "dict": lambda content, inner: {str(key): inner(item) for key, item in content},
    "ellipsis": lambda content, inner: ...,
    "dtype": lambda content, inner: decode_dtype(content),
}


def encode_spec(spec: TreeSpec) -> Any:
    """Return the structure of arguments or results as JSON; its leaves are numbers."""
    return encode_value(tree_unflatten(range(spec.num_leaves), spec))


def decode_spec(value: Any) -> TreeSpec:
    """Return the structure of a JSON value."""
    return tree_flatten(decode_value(value, {}))[1]


# Formulas in shapes -------------------------------------------------------------------------------


def encode_formula(formula: Formula | None) -> Any:
    """Return a formula as JSON: a number, a name, or [operator, left, right]."""
    if isinstance(formula, Size):
        return formula.name
    if isinstance(formula, Call):
        return [formula.op, encode_formula(formula.left), encode_formula(formula.right)]
    return formula


def decode_formula(value: Any, depth: int = 0) -> Any:
    """Return the formula of a JSON value.

    Raises: ProgramFileError: it is none.
    """
    if value is None or type(value) in (int, float):
        return value
    if isinstance(value, str) and value.isidentifier():
        return Size(value)
    is_call = isinstance(value, list) and len(value) == 3 and value[0] in OPERATORS
    if is_call and depth < MOST_DEPTH:
        return Call(value[0], *(decode_formula(side, depth + 1) for side in value[1:]))
    raise ProgramFileError(f"a shape is damaged: {str(value)[:60]}")


# Graphs -------------------------------------------------------------------------------------------


def encode_graph(module: GraphModule) -> dict[str, Any]:
    """Return the graph of a module, and those of its branches, as JSON."""
    nodes = []
    for node in module.graph.nodes:
        target = node.target if isinstance(node.target, str) else name_of_function(node.target)
        nodes.append({
            "name": node.name, "op": node.op, "target": target, "args": encode_value(node.args),
            "kwargs": encode_value(dict(node.kwargs)), "meta": encode_meta(node),
        })  # fmt: skip
    branches = {
        name: encode_graph(branch) for name, branch in module.named_children()
        if isinstance(branch, GraphModule)
    }  # fmt: skip
    return {"nodes": nodes, "branches": branches}


def encode_meta(node: Node) -> dict[str, Any]:
    """Return what a file keeps of a node's metadata."""
    meta: dict[str, Any] = {
        key: node.meta[key]
        for key in ("line", "module", "phase", "number", "tuple", "random")
        if node.meta.get(key)
    }
    if "shape" in node.meta:
        meta["shape"] = [encode_formula(size) for size in node.meta["shape"]]
        meta["dtype"] = dtypes.of(node.meta["dtype"]).name
    return meta


def decode_meta(meta: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a node."""
    decoded: dict[str, Any] = {"line": None}
    for key in ("line", "module", "phase"):
        text = meta.get(key)
        # The line becomes a comment in the code of the graph: nothing may follow it.
        if isinstance(text, str) and text.isprintable():
            decoded[key] = text
    decoded |= {key: True for key in ("number", "tuple", "random") if meta.get(key)}
    if "shape" in meta:
        decoded["shape"] = tuple(decode_formula(size) for size in meta["shape"])
        decoded["dtype"] = decode_dtype(meta["dtype"]).numpy
    return decoded


def decode_graph(data: dict[str, Any], depth: int = 0) -> GraphModule:
    """Return the module of a graph.

    Raises: ProgramFileError: it is damaged, or calls what no program calls.
    """
    if depth > MOST_DEPTH:
        raise ProgramFileError("branches are nested too deeply")
    branches = {
        safe_name(name): decode_graph(branch, depth + 1)
        for name, branch in data["branches"].items()
    }
    graph = Graph()
    nodes: dict[str, Node] = {}
    for row in data["nodes"]:
        name = safe_name(row["name"])
        args, kwargs = decode_value(row["args"], nodes), decode_value(row["kwargs"], nodes)
        if not isinstance(args, tuple) or not all(map(str.isidentifier, kwargs)):
            raise ProgramFileError(f"the arguments of {name} are damaged")
        op, target = row["op"], decode_target(row, branches)
        if name in nodes:
            raise ProgramFileError(f"two nodes are called {name}")
        node = graph.create_node(op, target, args, kwargs, name)
        if node.name != name and op != "output":
            raise ProgramFileError(f"no node can be called {name}")
        node.meta.update(decode_meta(row["meta"]))
        nodes[name] = node
    graph.output_node()
    graph.lint()
    return GraphModule(dict(branches), graph)


def decode_target(row: dict[str, Any], branches: Mapping[str, GraphModule]) -> Any:
    """Return the target of a node."""
    op, target = row["op"], row["target"]
    if op == "call_function":
        function = function_named(target)
        if function is None:
            raise ProgramFileError(
                f"it calls {str(target)[:60]!r}, which is no function of programs",
                "a newer edutorch may have written it",
            )
        return function
    if op == "placeholder":
        return safe_name(target)
    if op == "output" or (op == "get_attr" and target in branches):
        return target
    raise ProgramFileError(f"a node is damaged: {str(op)[:20]} {str(target)[:60]!r}")


def safe_name(name: Any) -> str:
    """Return a name if it can be one in Python: graphs become code.

    Raises: ProgramFileError: it cannot.
    """
    is_name = isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
    if not is_name or keyword.iskeyword(name):
        raise ProgramFileError(f"a name is damaged: {str(name)[:60]!r}")
    return name
