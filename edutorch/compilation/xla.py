"""`backend="jax"`: the same graph, compiled and run by XLA.

A definition takes the array library as its first argument; here that is JAX's NumPy. JAX arrays
are immutable, and some definitions write into arrays that they have just created. So each array is
wrapped in a `Cell`, in which a write replaces the array.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ..backends.numpy import Array, Namespace
from ..errors import EdutorchError, missing_extra
from ..fx import Graph, Node, map_aggregate, map_arg, primitives

__all__ = ["Xla", "XlaError"]


class XlaError(EdutorchError, NotImplementedError):
    """A graph does something that XLA does not support."""


def import_jax() -> Any:
    """Return JAX.

    Raises: MissingExtraError: it is not installed.
    """
    try:
        import jax
    except ImportError:
        raise missing_extra("jax", 'compile(backend="jax")', "jax is not installed") from None
    return jax


class Cell:
    """A mutable reference to a JAX array, with the interface of a NumPy array."""

    __slots__ = ("array", "is_view")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, array: Array, is_view: bool = False) -> None:
        self.array, self.is_view = array, is_view

    shape = property(lambda self: self.array.shape)
    ndim = property(lambda self: self.array.ndim)
    size = property(lambda self: self.array.size)
    dtype = property(lambda self: np.dtype(self.array.dtype))
    itemsize = property(lambda self: self.dtype.itemsize)
    T = property(lambda self: Cell(self.array.T))
    real = property(lambda self: Cell(self.array.real))
    imag = property(lambda self: Cell(self.array.imag))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.array, name)
        return (
            (lambda *a, **k: wrap_cells(method(*unwrap(a), **unwrap(k))))
            if callable(method)
            else method
        )

    def __getitem__(self, index: object) -> Cell:
        return Cell(self.array[unwrap(index)], is_view=True)

    def __setitem__(self, index: object, values: object) -> None:
        if self.is_view:
            # JAX's `x[i]` is a copy: the write would be lost.
            raise XlaError("compile", "a definition writes into a part of an array")
        # The cell gets a new array; whoever shares the cell sees it.
        self.array = self.array.at[unwrap(index)].set(unwrap(values))

    def __len__(self) -> int:
        return len(self.array)

    def __bool__(self) -> bool:
        return bool(self.array)


def _operators() -> None:
    for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
        function = getattr(operator, f"__{name}__")
        setattr(Cell, f"__{name}__", lambda a, b, f=function: wrap_cells(f(a.array, unwrap(b))))
        setattr(Cell, f"__r{name}__", lambda a, b, f=function: wrap_cells(f(unwrap(b), a.array)))
    for name in "lt le gt ge eq ne".split():
        function = getattr(operator, name)
        setattr(Cell, f"__{name}__", lambda a, b, f=function: wrap_cells(f(a.array, unwrap(b))))
    for name in "neg pos abs invert".split():
        function = getattr(operator, name)
        setattr(Cell, f"__{name}__", lambda a, f=function: wrap_cells(f(a.array)))


_operators()


def unwrap(x: object) -> Any:
    """Unwrap cells, at any depth."""
    return map_aggregate(x, lambda leaf: leaf.array if isinstance(leaf, Cell) else leaf)


def wrap_cells(x: object) -> Any:
    """Wrap arrays in cells, at any depth: qr and eigh return named tuples."""
    return map_aggregate(x, wrap_cell)


def wrap_cell(x: object) -> Any:
    is_array = not isinstance(x, Cell) and hasattr(x, "dtype") and hasattr(x, "shape")
    return Cell(x) if is_array else x


class Functions:
    """JAX's NumPy on cells: the `xp` that definitions get."""

    def __init__(self, library: Namespace) -> None:
        self._library = library

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._library, name)
        if isinstance(attribute, type) or not callable(attribute):
            return Functions(attribute) if type(attribute).__name__ == "module" else attribute
        return Function(attribute)


class Function:
    """One function of it; a ufunc has `reduce`, too."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return wrap_cells(self.function(*unwrap(args), **unwrap(kwargs)))

    def reduce(self, *args: Any, **kwargs: Any) -> Any:
        """Reduce along an axis."""
        return wrap_cells(self.function.reduce(*unwrap(args), **unwrap(kwargs)))


class Xla:
    """A graph as a function that XLA has compiled: `outputs = lowered(inputs)`.

    Raises: MissingExtraError: JAX is not installed. XlaError: the graph draws random numbers, or
        an op needs something that JAX has not.
    """

    def __init__(self, graph: Graph) -> None:
        self.jax = import_jax()
        self.graph = graph
        for node in graph.nodes:  # refused now, not at the first call
            if node.meta.get("random"):
                raise XlaError(
                    "compile",
                    f"`{node.name}` draws random numbers, which come from NumPy's generators",
                    {"backend": "jax", "line": node.meta.get("line") or "unknown"},
                    'draw them outside of the function, or use backend="edutorch"',
                )
        self._xp = Functions(self.jax.numpy)
        self._compiled = self.jax.jit(self._traced)  # traced at the first call

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Compute the outputs, as NumPy arrays."""
        with enable_x64(self.jax):  # or JAX would convert float64 to float32
            outputs = self._compiled(list(inputs))
            wanted = self.graph.output_node().args[0]
            return [as_numpy(output, node) for output, node in zip(outputs, wanted, strict=True)]

    run = __call__

    @property
    def code(self) -> str:
        """The graph as JAX traces it (a jaxpr)."""
        with enable_x64(self.jax):
            examples = [
                0.0 if node.meta.get("number")
                else self.jax.ShapeDtypeStruct(node.meta["shape"], node.meta["dtype"])
                for node in self.graph.nodes if node.op == "placeholder"
            ]  # fmt: skip
            return str(self.jax.make_jaxpr(self._traced)(examples))

    def explain(self) -> str:
        """Return a note: XLA decides itself what to fuse."""
        return "XLA fuses by itself; `code` is what it was given"

    def _traced(self, inputs: list[Any]) -> list[Any]:
        """Run the graph's definitions once, on JAX's tracers."""
        values: dict[Any, Any] = {}
        arguments = iter(inputs)
        for node in self.graph.nodes:
            if node.op == "placeholder":
                value = next(arguments)
                values[node] = value if node.meta.get("number") else Cell(value)
            elif node.op == "get_attr":
                values[node] = wrap_cells(
                    self.jax.numpy.asarray(self.graph.constants[str(node.target)])
                )
            elif node.op == "output":
                return [unwrap(self._at(values, argument)) for argument in node.args[0]]
            else:
                values[node] = self._node(node, values)
        raise XlaError("compile", "the graph has no output")

    def _at(self, values: dict[Any, Any], x: object) -> Any:
        return map_arg(x, values.__getitem__)

    def _node(self, node: Node, values: dict[Any, Any]) -> Any:
        args, kwargs = self._at(values, node.args), self._at(values, node.kwargs)
        target: Any = node.target
        op = getattr(target, "op", None)
        try:
            # The index may hold cells.
            if op is not None and op.name == "getitem":
                return Cell(args[0].array[unwrap(kwargs["index"])])
            # Definitions ask for strides, and a tracer has none.
            if op is not None and op.name in SHAPE_OPS:
                return Cell(
                    SHAPE_OPS[op.name](self.jax.numpy, args[0].array, tuple(node.meta["shape"]))
                )
            if op is not None:
                return wrap_cells(op.forward(self._xp, *args, **kwargs))
            return wrap_cells(self._function(target)(*args, **kwargs))
        except (*JAX_ERRORS, self.jax.errors.JAXTypeError) as error:
            reason = str(error).splitlines()[0]
            raise XlaError(
                "compile",
                f"`{node.name}` cannot be run by XLA: {reason}",
                {"backend": "jax", "line": node.meta.get("line") or "unknown"},
                'leave it out of the compiled function, or use backend="edutorch"',
            ) from error

    def _function(self, target: Callable[..., Any]) -> Callable[..., Any]:
        """Return the JAX counterpart of a function that is not an op."""
        replacement = JAX_PRIMITIVES.get(target)
        if replacement is not None:
            return replacement
        if hasattr(target, "rule"):  # a derivative rule: the definition, not our kernel
            return target.definition
        if target is operator.getitem or target.__module__ in ("_operator", "operator"):
            return lambda *args: wrap_cells(target(*unwrap(args)))
        if (
            target.__module__ == "math"
            or isinstance(target, np.ufunc)
            or hasattr(np, target.__name__)
        ):
            return getattr(self._xp, MATH.get(target.__name__, target.__name__))
        raise XlaError("compile", f"{target.__name__} has no counterpart in JAX")


JAX_ERRORS = (TypeError, AttributeError, NotImplementedError, LookupError, ValueError)
MATH = {"pow": "power", "asin": "arcsin", "acos": "arccos", "atan": "arctan"}
SHAPE_OPS: dict[str, Callable[..., Any]] = {
    "expand": lambda xp, x, shape: xp.broadcast_to(x, shape),
    **dict.fromkeys(
        ("reshape", "view", "unsqueeze", "squeeze", "flatten"),
        lambda xp, x, shape: xp.reshape(x, shape),
    ),
}
"""Ops whose definition depends on NumPy's memory layout; the graph has the result's shape."""


def copy_with(x: Cell, index: object, values: object) -> Cell:
    """Return a copy with values set at an index."""
    return Cell(x.array.at[unwrap(index)].set(unwrap(values)))


def copy_with_added(x: Cell, index: object, values: object) -> Cell:
    """Return a copy with values added at an index, which may repeat."""
    return Cell(x.array.at[unwrap(index)].add(unwrap(values)))


JAX_PRIMITIVES: dict[Any, Callable[..., Any]] = {
    primitives.set_item: copy_with,
    primitives.scatter_add: copy_with_added,
    primitives.take: lambda x, index: Cell(x.array[unwrap(index)]),
    primitives.copy: lambda x: Cell(x.array),
    primitives.cast: lambda x, dtype: Cell(x.array.astype(dtype)),
    # 0 * x has the shape and the dtype.
    primitives.fill_like: lambda x, values: Cell(0 * x.array + unwrap(values)),
    primitives.item: lambda x: x.array.reshape(()),
    primitives.as_array: lambda number, dtype: Cell(0 * np.zeros((), dtype) + unwrap(number)),
    math.pow: operator.pow,
}
"""The JAX counterparts of graph functions that are not ops."""


def as_numpy(value: Array, node: Node) -> Any:
    """Return an output as a NumPy array; a copy, because JAX's memory is read-only."""
    meta = getattr(node, "meta", {})
    return value.item() if meta.get("number") else np.array(value)


def enable_x64(jax: ModuleType) -> Any:
    """Enable float64 and int64 in JAX inside the block."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    import jax.experimental  # where it was before JAX 0.8

    return jax.experimental.enable_x64(True)
