"""Makes the program of a graph: each node taken apart where that can be done."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np

from ..fx import primitives
from ..ops import matmul
from .batch_matmul_pass import stacked
from .decompositions import OWN, rows_that_count
from .scalar_functions import FUNCTIONS
from .symbolic_eval import (
    INSTEAD,
    MISTAKES,
    NUMBERS,
    NotPlainError,
    Symbol,
    average,
    reduced,
    taken_apart,
    view_of,
)
from .values import Program, Value

__all__ = ["program_of"]

KEPT_WHOLE = {"clone"}
"""Ops that mean what they say: a copy is wanted for its own sake."""


PLAIN = {
    primitives.cast, primitives.take, np.matmul, np.where, np.sum, np.max, np.min, np.mean,
    np.zeros_like, np.ones_like, np.full_like, np.reshape, np.transpose, np.broadcast_to,
    *(getattr(np, name, None) for name in FUNCTIONS), *INSTEAD,
} - {None}  # fmt: skip
"""Functions of arrays in graphs that are no ops, and that symbols understand."""


class Builder:
    """Walks along the nodes and notes the values of each."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.program = Program()
        self.of: dict[Any, Any] = {}  # by node
        self.known: dict[Any, Value] = {}
        self.node: Any = None

    def build(self) -> Program:
        """Return the program."""
        for node in self.graph.nodes:
            self.node = node
            if node.op == "placeholder":
                self.of[node] = self.input(node)
            elif node.op == "get_attr":
                self.of[node] = self.constant(node)
            elif node.op == "output":
                self.program.wanted = list(node.args[0])
                self.program.outputs = list(self.operands(node.args[0]))
            else:
                self.of[node] = self.called(node)
        self.program.writes = dict(getattr(self.graph, "writes", None) or {})
        self.program.forget_the_unused()
        if stacked(self.program):
            self.program.forget_the_unused()
        self.program.repeat_the_cheap()
        self.program.forget_the_unused()
        self.program.name_all()
        return self.program

    def input(self, node: Any) -> Value:
        value = Value("input", node.target, (), *about(node), node=node)
        self.program.inputs.append(value)
        return value

    def constant(self, node: Any) -> Any:
        array = self.graph.constants[node.target]
        if not isinstance(array, np.ndarray):
            return array
        if not array.ndim and array.dtype in NUMBERS:
            return self.keep("element", "fill", (array[()],), (), array.dtype)
        value = Value("constant", array, (), array.shape, array.dtype, node=node)
        self.program.values.append(value)
        return value

    def operands(self, args: Any) -> Any:
        """Return arguments with values in place of nodes, at any depth."""
        if args in self.of if hasattr(args, "all_input_nodes") else False:
            return self.of[args]
        if isinstance(args, tuple | list):
            return type(args)(self.operands(argument) for argument in args)
        if isinstance(args, dict):
            return {name: self.operands(argument) for name, argument in args.items()}
        if isinstance(args, slice):
            return slice(*map(self.operands, (args.start, args.stop, args.step)))
        return args

    def keep(
        self, kind: str, function: Any, operands: tuple[Any, ...], shape: tuple[int, ...],
        dtype: Any, settings: dict[str, Any] | None = None,
    ) -> Value:  # fmt: skip
        """Note a value; the same one again for the same operands."""
        operands = tuple(operands)
        settings = settings or {}
        key = None
        if kind in ("element", "reduce", "view", "product") or function is rows_that_count:
            fixed = settings.get("axes"), settings.get("keepdims"), settings.get("text")
            key = (kind, function, tuple(map(identity, operands)), shape, dtype, fixed)
            if key in self.known:
                return self.known[key]
        if kind == "constant":
            key = kind, id(function)
            if key in self.known:
                return self.known[key]
        value = Value(kind, function, operands, tuple(shape), dtype, settings, self.node)
        self.program.values.append(value)
        if key is not None:
            self.known[key] = value
        return value

    def called(self, node: Any) -> Any:
        """Note what a node computes."""
        args, kwargs = self.operands(node.args), self.operands(node.kwargs)
        if node.target is operator.getitem and isinstance(args[0], tuple):
            return args[0][args[1]]
        definition = getattr(node.target, "op", None)
        if definition is None and (node.target in PLAIN or getattr(node.target, "rule", "") in OWN):
            definition = node.target
        fixed = (
            node.meta.get("random") or node.meta.get("number") or node.target is operator.getitem
        )
        if definition is not None and not fixed:
            before = len(self.program.values)
            try:
                found = self.apart(node, definition, args, kwargs)
            except NotPlainError as reason:
                self.forget_after(before)
                self.program.reasons[node.name] = str(reason)
            else:
                if fits(found, node):
                    return found
                self.forget_after(before)
                self.program.reasons[node.name] = "its definition gives another type or shape"
        elif not fixed:
            own = hasattr(node.target, "rule")
            self.program.reasons[node.name] = (
                "one kernel computes all its gradients" if own else "it is no op of ours"
            )
        if node.target is np.matmul:
            return self.keep("call", matmul, (*args, kwargs), *about(node))
        kind = "number" if node.meta.get("number") else "call"
        if node.target is operator.getitem:
            kind = "part"
        return self.keep(kind, node.target, (*args, kwargs), *about(node))

    def forget_after(self, count: int) -> None:
        """Take back what was noted of a node that then could not be taken apart."""
        gone = {id(value) for value in self.program.values[count:]}
        del self.program.values[count:]
        self.known = {key: each for key, each in self.known.items() if id(each) not in gone}

    def apart(self, node: Any, op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return the value of a node in steps that can be fused.

        Raises: NotPlainError: there are none.
        """
        first: Any = args[0] if args else None
        if hasattr(op, "rule"):
            return OWN[op.rule](self.keep, *args).value
        if not hasattr(op, "family"):
            return taken_apart(op, args, kwargs, self.keep)
        if op.family == "movement" and isinstance(first, Value) and len(args) == 1:
            return self.moved(node, op, first, kwargs)
        if op.name in KEPT_WHOLE:
            raise NotPlainError("a copy is wanted for its own sake")
        if op.name in ("sum", "mean") and kwargs.get("dtype") is None:
            if first.size == 0:
                raise NotPlainError("there are no numbers")
            how = reduced if op.name == "sum" else average
            settings = {"axis": kwargs.get("dim"), "keepdims": kwargs.get("keepdim", False)}
            y = Symbol(first, self.keep)
            y = how(y, "sum", **settings) if how is reduced else how(y, **settings)
            return y.value
        if op.name in OWN:
            before = len(self.program.values)
            given = dict(zip(op.inputs, args, strict=False)) | kwargs
            values = [
                given.get(name, parameter.default)
                for name, parameter in op.signature.parameters.items()
            ]
            try:
                return OWN[op.name](self.keep, *values).value
            except NotPlainError:
                self.forget_after(before)
        return taken_apart(partial(op.forward, np), args, kwargs, self.keep)

    def moved(self, node: Any, op: Any, value: Value, settings: dict[str, Any]) -> Value:
        """Return a view, found by the op's own definition."""
        try:
            found = view_of(
                self.keep, value, lambda x: op.forward(np, x, **settings), f"{node.name}({{}})"
            )
        except MISTAKES as error:
            raise NotPlainError(f"no view ({error})") from None
        if found is None:
            raise NotPlainError("it copies numbers into another order")
        return found


def about(node: Any) -> tuple[tuple[int, ...], Any]:
    """Return the shape and type of a node's value; a number or a tuple has none."""
    meta = node.meta
    if meta.get("number") or meta.get("tuple") or "shape" not in meta:
        return (), None
    return tuple(meta["shape"]), np.dtype(meta["dtype"])


def fits(found: Any, node: Any) -> bool:
    """Say whether a value has the shape and type that the graph promises."""
    if isinstance(found, tuple):
        return bool(node.meta.get("tuple"))
    shape, dtype = about(node)
    return found.shape == shape and found.dtype == dtype


def identity(operand: Any) -> Any:
    """What makes two operands the same one."""
    if isinstance(operand, Value):
        return id(operand)
    if isinstance(operand, np.generic):
        return operand.dtype.char, operand.tobytes()
    return type(operand), repr(operand)


def program_of(graph: Any) -> Program:
    """Take a graph apart.

    >>> import edutorch
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> x.meta.update(shape=(3,), dtype=np.dtype("float32"))
    >>> y = graph.call_function(edutorch.sigmoid, (x,))
    >>> y.meta.update(x.meta)
    >>> _ = graph.output((y,))
    >>> [each.function for each in program_of(graph).values]
    ['negative', 'exp', 'add', 'reciprocal']
    """
    return Builder(graph).build()
