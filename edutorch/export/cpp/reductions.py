"""Entries for reductions and products."""

from __future__ import annotations

from typing import Any

from ...fx.node import Node
from .elementwise import converted
from .table import Unsupported, entry
from .values import Value, cpp_type, rank_of, sizes


def axes_of(input: Value, dim: Any) -> str:
    """Return the reduced axes; None, and no axes at all, stand for all."""
    if dim is None or dim == ():
        return sizes(range(rank_of(input)))
    return sizes(dim) if rank_of(input) else "{}"


def register(name: str, numpy_name: str, function: str, has_result_type: bool) -> None:
    """Add the entries of a reduction, and of NumPy's."""

    @entry(f"op:{name}", f"numpy:{numpy_name}")
    def reduction(
        node: Node, input: Value, dim: Any = None, keepdim: bool = False, *,
        axis: Any = None, keepdims: bool = False, dtype: Any = None, **settings: Any,
    ) -> str:  # fmt: skip
        axes = axes_of(input, axis if dim is None else dim)
        keeps = "true" if keepdim or keepdims else "false"
        argument = cpp_type(node.meta["dtype"]) if has_result_type else ""
        template = f"<{argument}>" if argument else ""
        called = function if has_result_type else f"{function}"
        return f"edu::{called}{template}({input}, {axes}, {keeps})"


for _name, _numpy_name, _function, _typed in (
    ("sum", "sum", "sum", True), ("mean", "mean", "mean", True), ("prod", "prod", "prod", True),
    ("amax", "amax", "extreme<true>", False), ("amin", "amin", "extreme<false>", False),
    ("argmax", "argmax", "arg_extreme<true>", False),
    ("argmin", "argmin", "arg_extreme<false>", False), ("max", "max", "extreme<true>", False),
    ("min", "min", "extreme<false>", False),
):  # fmt: skip
    register(_name, _numpy_name, _function, _typed)


@entry("edutorch:call_method")
def call_method(node: Node, name: str, input: Value, *args: Any, **named: Any) -> str:
    """A method of an array: reductions."""
    functions = {"sum": "sum", "mean": "mean", "prod": "prod", "max": "extreme<true>",
                 "min": "extreme<false>"}  # fmt: skip
    if name not in functions or set(named) - {"axis", "keepdims"}:
        raise Unsupported(f"the method {name!r} of an array")
    axes = axes_of(input, args[0] if args else named.get("axis"))
    keeps = "true" if named.get("keepdims") else "false"
    typed = "" if "<" in functions[name] else f"<{cpp_type(node.meta['dtype'])}>"
    return f"edu::{functions[name]}{typed}({input}, {axes}, {keeps})"


@entry("numpy:reduce")
def ufunc_reduce(node: Node, input: Value, axis: Any = 0, **settings: Any) -> str:
    """`numpy.add.reduce`, and the same of three other functions."""
    own = getattr(getattr(node.target, "__self__", None), "__name__", "?")
    names = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}
    if own not in names:
        raise Unsupported(f"numpy.{own}.reduce")
    axes = tuple(range(rank_of(input))) if axis is None else axis
    return call_method(node, names[own], input, axes, keepdims=settings.get("keepdims", False))


@entry("op:cumsum")
def cumsum(node: Node, input: Value, dim: int, dtype: Any = None) -> str:
    """Running sums along an axis."""
    return f"edu::cumsum<{cpp_type(node.meta['dtype'])}>({input}, {dim})"


# Products -----------------------------------------------------------------------------------------


@entry("op:matmul", "op:mm", "op:bmm", "op:mv", "op:dot", "numpy:matmul", "numpy:dot")
def matmul(node: Node, input: Value, other: Value) -> str:
    """A product of matrices."""
    first, second = (converted(value, node.meta["dtype"]) for value in (input, other))
    return f"edu::matmul({first}, {second})"


@entry("op:linear")
def linear(node: Node, input: Value, weight: Value, bias: Value | None = None) -> str:
    """x · wᵀ + b."""
    return f"edu::linear({input}, {weight}, {bias or '{}'})"
