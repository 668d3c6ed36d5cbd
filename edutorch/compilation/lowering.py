"""Lowers a graph to a program: each node is decomposed where possible."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..fx import Graph, Node, map_arg, primitives
from ..fx.node import Argument
from ..nn.functional.pooling import max_pool_indices, max_pool_scatter
from ..ops import matmul
from .batch_matmul_pass import stack_products
from .decompositions import (
    DECOMPOSITIONS,
    SYMBOLIC_ERRORS,
    count_valid_rows,
    evaluate_symbolically,
)
from .symbols import (
    KERNEL_DTYPES,
    REPLACEMENTS,
    SymbolicArray,
    UnsupportedDefinitionError,
    lower_mean,
    lower_reduction,
    make_view,
)
from .values import FUNCTIONS, Program, Value

__all__ = ["build_program"]

NEVER_DECOMPOSED = {"clone"}
"""Ops that are not decomposed: a clone has to be a real copy."""


HOST_DECOMPOSITIONS = {"nll_loss", "nll_grad"}
"""Decompositions that count on the host how many classes are not ignored."""


DECOMPOSABLE = {
    primitives.cast, primitives.take, np.matmul, np.where, np.sum, np.max, np.min, np.mean,
    np.zeros_like, np.ones_like, np.full_like, np.reshape, np.transpose, np.broadcast_to,
    *(getattr(np, name, None) for name in FUNCTIONS), *REPLACEMENTS,
} - {None}  # fmt: skip
"""Array functions in graphs that are not ops, but are supported by symbols."""


class ProgramBuilder:
    """Walks the nodes in order and adds the values of each."""

    def __init__(self, graph: Graph, on_device: bool = False, kept: Collection[Any] = ()) -> None:
        self.graph, self.on_device, self.kept = graph, on_device, kept
        self.program = Program()
        self.value_of_node: dict[Node, Any] = {}  # by node
        self.known_values: dict[Any, Value] = {}
        self.node: Any = None

    def build(self) -> Program:
        """Return the program."""
        for node in self.graph.nodes:
            self.node = node
            if node.op == "placeholder":
                self.value_of_node[node] = self.input(node)
            elif node.op == "get_attr":
                self.value_of_node[node] = self.constant(node)
            elif node.op == "output":
                self.program.output_nodes = list(node.args[0])
                self.program.outputs = list(self.operands(node.args[0]))
            else:
                self.value_of_node[node] = self.lower_call(node)
        self.program.writes = dict(getattr(self.graph, "writes", None) or {})
        # Users are known afterwards, which the next passes need.
        self.program.remove_unused_values()
        if stack_products(self.program):
            self.program.remove_unused_values()
        self.program.duplicate_cheap_values()  # after the stacking, which looks for shared operands
        self.program.remove_unused_values()
        self.program.assign_names()
        return self.program

    def input(self, node: Node) -> Value:
        value = Value("input", node.target, (), *shape_and_dtype(node), node=node)
        self.program.inputs.append(value)
        return value

    def constant(self, node: Node) -> Any:
        array = self.graph.constants[str(node.target)]
        if not hasattr(array, "dtype"):  # a constant that is no array is passed on as it is
            return array
        # A number: part of the kernel's text, not an array.
        if isinstance(array, np.ndarray) and not array.ndim and array.dtype in KERNEL_DTYPES:
            return self.make_value("element", "fill", (array[()],), (), array.dtype)
        value = Value("constant", array, (), array.shape, array.dtype, node=node)
        self.program.values.append(value)
        return value

    def operands(self, args: Argument) -> Any:
        """Return arguments with values in place of nodes, at any depth."""
        return map_arg(args, self.value_of_node.__getitem__)

    def make_value(
        self, kind: str, function: Callable[..., Any] | str, operands: tuple[Any, ...],
        shape: tuple[int, ...], dtype: np.dtype | None, settings: dict[str, Any] | None = None,
    ) -> Value:  # fmt: skip
        """Add a value; return the same one for the same operands (common subexpressions)."""
        operands = tuple(operands)
        settings = settings or {}
        key = None  # calls are never merged: they may draw random numbers, or return their argument
        if kind in ("element", "reduce", "view", "product") or function is count_valid_rows:
            key_settings = settings.get("axes"), settings.get("keepdims"), settings.get("text")
            key = (kind, function, tuple(map(operand_key, operands)), shape, dtype, key_settings)
            if key in self.known_values:
                return self.known_values[key]
        if kind == "constant":  # decompositions add the same cached array each time
            key = kind, id(function)
            if key in self.known_values:
                return self.known_values[key]
        value = Value(kind, function, operands, tuple(shape), dtype, settings, self.node)
        self.program.values.append(value)
        if key is not None:
            self.known_values[key] = value
        return value

    def lower_call(self, node: Node) -> Any:
        """Add the values of a node."""
        args, kwargs = self.operands(node.args), self.operands(node.kwargs)
        if not self.on_device and (pooled := pooled_input(node)) is not None:
            # One kernel has both steps of this gradient, as in eager mode.
            whole = primitives.gradients_of("max_pool", "input")
            values = args[0], self.value_of_node[pooled], *kwargs["settings"], {}
            return self.make_value("call", whole, values, *shape_and_dtype(node))
        # A definition with several results was decomposed.
        if node.target is operator.getitem and isinstance(args[0], tuple):
            return args[0][args[1]]
        definition = getattr(node.target, "op", None)
        if definition is None and (
            node.target in DECOMPOSABLE or getattr(node.target, "rule", "") in DECOMPOSITIONS
        ):
            definition = node.target
        # What draws numbers, and what computes with Python numbers, is called as it is.
        is_fixed = (
            node.meta.get("random") or node.meta.get("number") or node.target is operator.getitem
        )
        if definition is not None and not is_fixed:
            # A definition that fails half-way has added values already.
            before = len(self.program.values)
            try:
                result = self.decompose(node, definition, args, kwargs)
            except UnsupportedDefinitionError as reason:
                self.discard_after(before)
                self.program.reasons[node.name] = str(reason)
            else:
                if matches_meta(result, node):  # the captured run says what NumPy really returned
                    return result
                self.discard_after(before)
                self.program.reasons[node.name] = "its definition gives another dtype or shape"
        elif not is_fixed:
            is_rule = hasattr(node.target, "rule")
            self.program.reasons[node.name] = (
                "one kernel computes all its gradients" if is_rule else "it is no op of ours"
            )
        if node.target is np.matmul:  # by the op: it knows the kernel, and threads
            return self.make_value("call", matmul, (*args, kwargs), *shape_and_dtype(node))
        kind = "number" if node.meta.get("number") else "call"
        if node.target is operator.getitem:
            kind = "part"
        return self.make_value(kind, node.target, (*args, kwargs), *shape_and_dtype(node))

    def discard_after(self, count: int) -> None:
        """Discard the values of a node whose decomposition failed."""
        discarded = {id(value) for value in self.program.values[count:]}
        del self.program.values[count:]
        self.known_values = {  # else a later node would be given a value that is gone
            key: known_value
            for key, known_value in self.known_values.items()
            if id(known_value) not in discarded
        }

    def decompose(self, node: Node, op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Return the value of a node, decomposed into operations that can be fused.

        Raises: UnsupportedDefinitionError: it cannot be decomposed.
        """
        first: Any = args[0] if args else None
        if hasattr(op, "rule"):
            return DECOMPOSITIONS[op.rule](self.make_value, *args).value
        if not hasattr(op, "family"):
            return evaluate_symbolically(op, args, kwargs, self.make_value)
        if op.family.makes_view and isinstance(first, Value) and len(args) == 1:
            return self.lower_view(node, op, first, kwargs)
        if op.name in self.kept or node in self.kept:
            raise UnsupportedDefinitionError("it has a kernel of its own")
        if op.name in NEVER_DECOMPOSED:
            raise UnsupportedDefinitionError("a copy is wanted for its own sake")
        if op.name in ("sum", "mean") and kwargs.get("dtype") is None:
            if first.size == 0:  # of nothing: the definition warns as NumPy does
                raise UnsupportedDefinitionError("there are no elements")
            # Their definitions take care of the precision of sums, and kernels do so by themselves.
            settings = {"axis": kwargs.get("dim"), "keepdims": kwargs.get("keepdim", False)}
            x = SymbolicArray(first, self.make_value)
            y = (
                lower_mean(x, **settings)
                if op.name == "mean"
                else lower_reduction(x, "sum", **settings)
            )
            return y.value
        if op.name in DECOMPOSITIONS and not (self.on_device and op.name in HOST_DECOMPOSITIONS):
            before = len(self.program.values)
            arguments = dict(zip(op.inputs, args, strict=False)) | kwargs
            values = [
                arguments.get(name, parameter.default)
                for name, parameter in op.signature.parameters.items()
            ]
            try:
                return DECOMPOSITIONS[op.name](self.make_value, *values).value
            except UnsupportedDefinitionError:  # then perhaps its own definition is suitable
                self.discard_after(before)
        return evaluate_symbolically(partial(op.forward, np), args, kwargs, self.make_value)

    def lower_view(self, node: Node, op: Any, value: Value, settings: dict[str, Any]) -> Value:
        """Return a view, made by the op's own definition."""
        try:
            view = make_view(
                self.make_value,
                value,
                lambda x: op.forward(np, x, **settings),
                f"{node.name}({{}})",
            )
        except SYMBOLIC_ERRORS as error:
            raise UnsupportedDefinitionError(f"no view ({error})") from None
        if view is None:
            raise UnsupportedDefinitionError("it copies elements into another order")
        return view


def pooled_input(node: Node) -> Node | None:
    """Return the input of the max pooling whose gradient a node ends, or None for other nodes."""
    if getattr(node.target, "op", None) is not max_pool_scatter.op or len(node.args) != 2:
        return None
    taps = node.args[1]
    is_of_taps = isinstance(taps, Node) and getattr(taps.target, "op", None) is max_pool_indices.op
    if not is_of_taps or taps.kwargs.get("settings") != node.kwargs.get("settings"):
        return None
    pooled = taps.args[0]
    is_same_shape = tuple(pooled.meta["shape"]) == tuple(node.kwargs["shape"])
    return pooled if is_same_shape else None


def shape_and_dtype(node: Node) -> tuple[tuple[int, ...], Any]:
    """Return the shape and dtype of a node's value; a number or a tuple has none."""
    meta = node.meta
    if meta.get("number") or meta.get("tuple") or "shape" not in meta:
        return (), None
    return tuple(meta["shape"]), np.dtype(meta["dtype"])


def matches_meta(result: Value | tuple[Value, ...], node: Node) -> bool:
    """Whether a value has the shape and dtype of the node's metadata."""
    if isinstance(result, tuple):
        return bool(node.meta.get("tuple"))
    shape, dtype = shape_and_dtype(node)
    return result.shape == shape and result.dtype == dtype


def operand_key(operand: object) -> Any:
    """Return the key by which equal operands are recognized."""
    if isinstance(operand, Value):
        return id(operand)
    if isinstance(operand, np.generic):  # bits, because nan != nan, and 0.0 == -0.0
        return operand.dtype.char, operand.tobytes()
    return type(operand), repr(operand)  # 1, 1.0 and True are equal in Python


def build_program(graph: Graph, on_device: bool = False, kept: Collection[Any] = ()) -> Program:
    """Lower a graph to a program.

    Args:
        on_device: its arrays are not NumPy's: nothing may read their elements.
        kept: ops (by name) and nodes that stay one call each.

    >>> import edutorch
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> x.meta.update(shape=(3,), dtype=np.dtype("float32"))
    >>> y = graph.call_function(edutorch.sigmoid, (x,))
    >>> y.meta.update(x.meta)
    >>> _ = graph.output((y,))
    >>> [value.function for value in build_program(graph).values]
    ['negative', 'exp', 'add', 'reciprocal']
    """
    return ProgramBuilder(graph, on_device, kept).build()
