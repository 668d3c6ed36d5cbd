"""Writes a captured graph (`fx.capture`) as a function of a TorchScript program.

Each node becomes a statement: an operator of PyTorch's where ours is the same (`torch.relu`), or
one of ours by name (`ops.edutorch.max_pool`). What the graph reads besides its arguments is an
attribute of the module, or a constant. A number that differs between two captures of different
batch sizes is written as a multiple of the batch size.
"""

from __future__ import annotations

import ast
import operator
import sys
from typing import Any

import numpy as np

from .. import dtypes
from ..core.registry import REGISTRY
from ..core.tensor import Tensor
from ..fx.captured_graph import Captured, Input
from ..fx.node import Node
from ..nn import functional
from ..nn.modules.module import Module
from ..ops import tensor
from ..utils._pytree import tree_unflatten
from .dtype_numbers import DTYPE_NUMBERS
from .errors import NotSupportedError
from .operators import find_operator
from .statics import member_node
from .trace_forms import TRACE_FORMS, named_values
from .type_expressions import parse_type

LOAD = ast.Load()
POOLS = {"max_pool": "max_pool", "avg_pool": "avg_pool"}
"""Ops whose name in PyTorch ends with the number of dimensions: `max_pool2d`."""


def operator_space(name: str, target: Any) -> str:
    """Return "torch" for an op that PyTorch calls by the same name with the same arguments."""
    homes = (sys.modules["edutorch"], functional)
    is_public = any(getattr(home, name, None) is target for home in homes)
    return "torch" if is_public and find_operator(f"torch.{name}") else "ops.edutorch"


class GraphWriter:
    """Writes one captured graph.

    Args:
        captured: the graph.
        module: the module that was traced, or None for a function.
        names: the parameters of the function.
        batch: the batch sizes of two captures, and the other capture; None for one capture.
    """

    def __init__(
        self, captured: Captured, module: Module | None, names: list[str],
        batch: tuple[int, int, Captured] | None = None,
    ) -> None:  # fmt: skip
        self.captured, self.module, self.names = captured, module, names
        self.batch = batch
        self.constants: list[Tensor] = []
        self.body: list[ast.stmt] = []
        self.values: dict[Node, ast.expr] = {}
        self.paths = {} if module is None else tensor_paths(module)
        self.others: list[Any] = []
        self.taken = set(names) | {"self", "torch", "ops"}

    def run(self) -> ast.FunctionDef:
        """Return the function.

        Raises: NotSupportedError: the graph draws random numbers, or holds an unknown step.
        """
        nodes = list(self.captured.graph.nodes)
        self.others = [] if self.batch is None else list(self.batch[2].graph.nodes)
        sources = iter(self.captured.inputs)
        for index, node in enumerate(nodes):
            other = self.others[index] if self.others else None
            if node.op == "placeholder":
                self.values[node] = self.input(next(sources))
            elif node.op == "get_attr":
                self.values[node] = self.constant(node, other)
            elif node.op == "call_function":
                self.step(node, other)
            elif node.op == "output":
                self.finish(node)
        parameters = [ast.arg("self")] if self.module is not None else []
        parameters += [ast.arg(name, parse_type("Tensor")) for name in self.names]
        arguments = ast.arguments([], parameters, None, [], [], None, [])
        return ast.fix_missing_locations(ast.FunctionDef("forward", arguments, self.body, [], None))

    # What is read ------------------------------------------------------------------------------

    def constant(self, node: Node, other: Node | None) -> ast.expr:
        """Return a constant of the graph; one whose shape has the batch in it is made anew.

        Raises: NotSupportedError: it depends on the batch in another way.
        """
        array = self.captured.graph.constants[str(node.target)]
        if other is None or self.batch is None:
            return self.constant_tensor(array)
        second = self.batch[2].graph.constants[str(other.target)]
        if array.shape == second.shape and np.array_equal(array, second):
            return self.constant_tensor(array)
        values = {*array.ravel()[:1].tolist(), *second.ravel()[:1].tolist()}
        is_filled = len(values) == 1 and (array == next(iter(values))).all()
        if not is_filled or array.ndim != second.ndim or array.dtype != second.dtype:
            raise NotSupportedError("jit.trace", "a constant depends on the size of the batch")
        shape = ast.List(self.pair(list(array.shape), list(second.shape)), LOAD)
        dtype = ast.keyword("dtype", self.argument(array.dtype, None))
        return call("torch", "full", [shape, number(values.pop())], [dtype])

    def input(self, source: Input) -> ast.expr:
        """Return the expression of an input of the graph."""
        if source.kind == "argument" and source.index < len(self.names):
            return ast.Name(self.names[source.index], LOAD)
        if source.kind == "tensor":
            path = self.paths.get(id(source.tensor))
            if path is None:
                return self.constant_tensor(source.tensor)
            result: ast.expr = ast.Name("self", LOAD)
            for part in path:
                result = member_node(result, part)
            return result
        raise NotSupportedError(
            "jit.trace", f"the function reads {source.name}, which a trace cannot hold",
            hint="give it as an argument, or register it as a buffer",
        )  # fmt: skip

    def constant_tensor(self, value: Any) -> ast.expr:
        """Return a tensor that is stored with the program: `CONSTANTS.c0`."""
        tensor = value if isinstance(value, Tensor) else to_tensor(value)
        self.constants.append(tensor.detach())
        return ast.Attribute(ast.Name("CONSTANTS", LOAD), f"c{len(self.constants) - 1}", LOAD)

    # Steps ----------------------------------------------------------------------------------------

    def step(self, node: Node, other: Node | None) -> None:
        """Write one step of the graph."""
        name = self.free_name(node.name)
        target: Any = node.target
        args = self.pair(node.args, None if other is None else other.args)
        named = self.pair(node.kwargs, None if other is None else other.kwargs)
        if target is operator.getitem:
            value: ast.expr = ast.Subscript(args[0], args[1], LOAD)
        elif target.__name__ == "getitem" or target.__name__ == "take":
            value = ast.Subscript(args[0], as_index((*args, *named.values())[1]), LOAD)
        elif target.__name__ == "set_item":
            self.write(name, call("torch", "clone", [args[0]]), node)
            place = ast.Subscript(ast.Name(name, LOAD), as_index(args[1]), ast.Store())
            self.body.append(ast.Assign([place], args[2]))
            self.values[node] = ast.Name(name, LOAD)
            return
        else:
            value = self.call(node, args, named)
        self.write(name, value, node)
        self.values[node] = ast.Name(name, LOAD)

    def write(self, name: str, value: ast.expr, node: Node) -> None:
        self.body.append(ast.Assign([ast.Name(name, ast.Store())], value))

    def free_name(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def call(self, node: Node, args: list[ast.expr], named: dict[str, ast.expr]) -> ast.expr:
        """Return the call of an op, or of a primitive."""
        target: Any = node.target
        name = target.__name__
        if name in PRIMITIVES and target.__module__ == "edutorch.fx.primitives":
            return call("torch", PRIMITIVES[name], args)
        if name == "convert_dtype":
            return call("torch", "to", [*args, *named.values()][:2])
        if name not in REGISTRY or REGISTRY[name].function is not target:
            raise NotSupportedError(
                "jit.trace", f"a step of the computation, {name}, has no place in an archive",
                {"line": node.meta.get("line") or "?"},
                "trace the module in eval mode; random numbers are not traced",
            )  # fmt: skip
        if name in TRACE_FORMS:
            return TRACE_FORMS[name](node, named_values(name, args, named))
        keywords = [ast.keyword(key, value) for key, value in named.items()]
        if name in POOLS and isinstance(node.args[0], Node):
            rank = len(node.args[0].meta.get("shape", ())) - 2
            if 1 <= rank <= 3:
                return call("torch", f"{POOLS[name]}{rank}d", args, keywords)
        return call(operator_space(name, target), name, args, keywords)

    def pair(self, value: Any, other: Any) -> Any:
        """Return arguments as expressions, beside those of the other capture."""
        if isinstance(value, dict):
            return {key: self.argument(item, other and other[key]) for key, item in value.items()}
        others = [None] * len(value) if other is None else other
        return [self.argument(item, part) for item, part in zip(value, others, strict=True)]

    def argument(self, value: Any, other: Any) -> Any:
        """Return one argument as an expression."""
        if isinstance(value, Node):
            return self.values[value]
        if isinstance(value, slice):
            parts = [self.argument(part, None) for part in (value.start, value.stop, value.step)]
            none = [isinstance(part, ast.Constant) and part.value is None for part in parts]
            return ast.Slice(*(None if n else p for n, p in zip(none, parts, strict=True)))
        if isinstance(value, tuple | list):
            items = self.pair(list(value), None if other is None else list(other))
            return ast.List(items, LOAD) if isinstance(value, list) else ast.Tuple(items, LOAD)
        if isinstance(value, dtypes.dtype):
            return ast.Constant(DTYPE_NUMBERS[value])
        if isinstance(value, np.dtype):
            code = next(n for d, n in DTYPE_NUMBERS.items() if d.numpy == value)
            return ast.Constant(code)
        if isinstance(value, np.ndarray | np.generic):
            return self.constant_tensor(value)
        if isinstance(value, int) and type(other) is int and value != other:
            return self.multiple(value, other)
        return number(value)

    def multiple(self, value: int, other: int) -> ast.expr:
        """Return a size as a multiple of the batch size: `2 * torch.size(x, 0)`.

        Raises: NotSupportedError: it is no multiple.
        """
        assert self.batch is not None
        first, second, _ = self.batch
        factor = value // first
        if factor * first != value or factor * second != other:
            raise NotSupportedError("jit.trace", f"{value} and {other} are no multiples of a batch")
        size = call("torch", "size", [ast.Name(self.names[0], LOAD), ast.Constant(0)])
        return size if factor == 1 else ast.BinOp(ast.Constant(factor), ast.Mult(), size)

    # What is returned -----------------------------------------------------------------------------

    def finish(self, node: Node) -> None:
        """Write what the function writes in place, and what it returns."""
        outputs = [self.values[item] for item in node.args[0]]  # type: ignore[union-attr]
        for use, value in zip(self.captured.outputs, outputs, strict=True):
            if use.kind == "write":
                target = self.input(self.captured.inputs[use.index])
                self.body.append(ast.Expr(call("torch", "copy_", [target, value])))
        results = {
            use.index: value
            for use, value in zip(self.captured.outputs, outputs, strict=True)
            if use.kind == "result"
        }
        leaves: list[ast.expr] = []
        for position, (form, value) in enumerate(self.captured.leaves):
            if form == "tensor":
                leaves.append(results.get(position, outputs[value]))
            elif form == "input":
                leaves.append(self.input(self.captured.inputs[value]))
            elif form == "same":
                leaves.append(leaves[value])
            else:
                leaves.append(number(value))
        result = tree_unflatten(leaves, self.captured.spec)
        self.body.append(ast.Return(as_expression(result)))


PRIMITIVES = {"copy": "clone", "cast": "to", "as_array": "scalar_tensor"}
"""Steps of a graph that are not ops, and the operators that do the same."""


def to_tensor(value: Any) -> Tensor:
    """Return an array as a tensor."""
    return tensor(np.array(value))


def tensor_paths(module: Module) -> dict[int, list[str]]:
    """Return where each parameter and buffer of a module is, by its id."""
    paths: dict[int, list[str]] = {}
    for prefix, part in module.named_modules():
        for table in (part._parameters, part._buffers):
            for name, value in table.items():
                if value is not None:
                    paths.setdefault(id(value), [*filter(None, prefix.split(".")), name])
    return paths


def number(value: Any) -> ast.expr:
    """Return a plain value as an expression."""
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        name = ast.Name("nan" if value != value else "inf", LOAD)
        return ast.UnaryOp(ast.USub(), name) if value < 0 else name
    if isinstance(value, dtypes.dtype):
        return ast.Constant(DTYPE_NUMBERS[value])
    if not isinstance(value, bool | int | float | str | None) and value is not Ellipsis:
        raise NotSupportedError("jit.trace", f"a {type(value).__name__} has no place in a program")
    return ast.Constant(value)


def as_index(node: ast.expr) -> ast.expr:
    """Return an index as it stands inside of brackets."""
    return node


def as_expression(value: Any) -> ast.expr:
    """Return nested containers of expressions as one expression."""
    if isinstance(value, ast.expr):
        return value
    if isinstance(value, dict):
        keys: list[ast.expr | None] = [number(key) for key in value]
        return ast.Dict(keys, [as_expression(item) for item in value.values()])
    if isinstance(value, list):
        return ast.List([as_expression(item) for item in value], LOAD)
    if isinstance(value, tuple):
        return ast.Tuple([as_expression(item) for item in value], LOAD)
    return number(value)


def call(
    space: str, name: str, args: list[ast.expr], keywords: list[ast.keyword] | None = None
) -> ast.Call:
    """Return `space.name(args)`."""
    owner = ast.parse(space, mode="eval").body
    return ast.Call(ast.Attribute(owner, name, LOAD), args, keywords or [])
