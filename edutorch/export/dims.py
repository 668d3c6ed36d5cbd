"""Dynamic axes: `Dim` names one, and `dynamic_shapes` says which axes of which inputs have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.tensor import Tensor
from ..errors import InvalidValueError
from ..utils._pytree import tree_flatten
from .errors import ExportError
from .formulas import Call, Formula, Size, evaluate, symbols_of

__all__ = ["AxisMap", "Dim", "Symbol", "dims", "parse_dynamic_shapes"]

UNBOUNDED = 2**62
"""The largest size where a `Dim` has no `max`."""


class Hint:
    """`Dim.AUTO`, `Dim.DYNAMIC` or `Dim.STATIC`: an axis without a name of its own.

    Args:
        name: "AUTO" (dynamic if the program allows it), "DYNAMIC" (an error if it does not) or
            "STATIC".
    """

    def __init__(self, name: str, min: int | None = None, max: int | None = None) -> None:
        self.name, self.min, self.max = name, min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> Hint:
        """Return the same hint with a range."""
        return Hint(self.name, min, max)

    def __repr__(self) -> str:
        return f"Dim.{self.name}"


class Dim:
    """The name and the range of a dynamic axis; axes with the same name have the same size.

    Args:
        name: an identifier, such as "batch".
        min: the smallest size.
        max: the largest size; None for no limit.

    Raises: InvalidValueError: the name is no identifier, or the range is empty.

    >>> from edutorch.export import Dim
    >>> Dim("batch", min=1, max=64), 2 * Dim("half")
    (Dim('batch', min=1, max=64), 2*half)
    """

    AUTO = Hint("AUTO")
    DYNAMIC = Hint("DYNAMIC")
    STATIC = Hint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise InvalidValueError("Dim", f"the name must be an identifier, got {name!r}")
        low, high = min or 0, UNBOUNDED if max is None else max
        if high < low:
            raise InvalidValueError("Dim", f"max={high} is smaller than min={low}")
        self.__name__, self.min, self.max = name, low, high

    def __add__(self, other: int) -> DerivedDim:
        return DerivedDim(self, lambda size: Call("add", size, other), f"{self.__name__}+{other}")

    def __sub__(self, other: int) -> DerivedDim:
        return DerivedDim(self, lambda size: Call("sub", size, other), f"{self.__name__}-{other}")

    def __mul__(self, other: int) -> DerivedDim:
        return DerivedDim(self, lambda size: Call("mul", size, other), f"{other}*{self.__name__}")

    __radd__, __rmul__ = __add__, __mul__

    def __repr__(self) -> str:
        limits = f", min={self.min}" if self.min else ""
        limits += f", max={self.max}" if self.max < UNBOUNDED else ""
        return f"Dim({self.__name__!r}{limits})"


class DerivedDim:
    """A size that follows from that of another axis: `2 * Dim("half")`."""

    def __init__(self, root: Dim, formula: Callable[[Formula], Call], text: str) -> None:
        self.root, self.formula, self.__name__ = root, formula, text

    def __add__(self, other: int) -> DerivedDim:
        text = f"{self.__name__}+{other}"
        return DerivedDim(self.root, lambda size: Call("add", self.formula(size), other), text)

    def __sub__(self, other: int) -> DerivedDim:
        text = f"{self.__name__}-{other}"
        return DerivedDim(self.root, lambda size: Call("sub", self.formula(size), other), text)

    def __repr__(self) -> str:
        return self.__name__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Return a `Dim` for each name, all with the same range.

    >>> from edutorch.export import dims
    >>> dims("height", "width", max=64)
    (Dim('height', max=64), Dim('width', max=64))
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


# The dynamic axes of a program --------------------------------------------------------------------


@dataclass
class Symbol:
    """A size that may differ from call to call.

    Args:
        size: its name in formulas.
        min, max: its range.
        example: its size among the example inputs.
        is_automatic: whether it may become static (`Dim.AUTO`).
    """

    size: Size
    min: int
    max: int
    example: int
    is_automatic: bool = False


@dataclass
class AxisMap:
    """Which axes are dynamic: a formula for (leaf of the arguments, axis), and its symbols."""

    formulas: dict[tuple[int, int], Formula]
    symbols: dict[str, Symbol]

    def without(self, names: set[str]) -> AxisMap:
        """Return the axes without some symbols: they become static."""
        formulas = {
            axis: formula for axis, formula in self.formulas.items()
            if not names & {size.name for size in symbols_of(formula)}
        }  # fmt: skip
        symbols = {name: s for name, s in self.symbols.items() if name not in names}
        return AxisMap(formulas, symbols)

    def merged(self) -> AxisMap:
        """Return the axes with automatic symbols of the same example size made one."""
        first: dict[int, str] = {}
        renamed: dict[Formula, Formula] = {}
        for name, symbol in self.symbols.items():
            if symbol.is_automatic:
                renamed[symbol.size] = Size(first.setdefault(symbol.example, name))
        formulas = {axis: renamed.get(f, f) for axis, f in self.formulas.items()}
        used = {size.name for formula in formulas.values() for size in symbols_of(formula)}
        return AxisMap(formulas, {n: s for n, s in self.symbols.items() if n in used})


def parse_dynamic_shapes(dynamic_shapes: Any, names: Sequence[str], args: Sequence[Any]) -> AxisMap:
    """Return the dynamic axes of the arguments.

    Args:
        dynamic_shapes: by name of the argument, or in their order; for each tensor a dict from
            axes to dims, a list with one entry for each axis, or None.
        names: the names of the arguments.
        args: the arguments; they may be containers of tensors.

    Raises: ExportError: it does not fit the arguments.
    """
    axes = AxisMap({}, {})
    if dynamic_shapes is None:
        return axes
    dynamic_shapes = spread(dynamic_shapes, names)
    if isinstance(dynamic_shapes, Mapping):
        unknown = set(dynamic_shapes) - set(names)
        if unknown:
            text = ", ".join(sorted(map(str, unknown)))
            raise ExportError(
                f"dynamic_shapes names {text}, which is no argument",
                {"arguments": ", ".join(names)},
            )
        specs = [dynamic_shapes.get(name) for name in names]
    else:
        specs = list(dynamic_shapes)
        if len(specs) != len(names):
            raise ExportError(
                f"dynamic_shapes has {len(specs)} entries for {len(names)} arguments",
                {"arguments": ", ".join(names)},
            )
    leaf = 0
    for name, spec, value in zip(names, specs, args, strict=True):
        add_axes(axes, spec, value, name, leaf)
        leaf += len(tree_flatten(value)[0])
    return axes


def spread(shapes: Any, names: Sequence[str]) -> Any:
    """Return `dynamic_shapes` with one entry for each of the arguments `*args`.

    PyTorch has a sequence for all of them: {"args": (…, …)} or ((…, …),).
    """
    if isinstance(shapes, Mapping):
        result: dict[str, Any] = {}
        for name, spec in shapes.items():
            is_star = name not in names and f"{name}_0" in names
            result |= {f"{name}_{i}": s for i, s in enumerate(spec)} if is_star else {name: spec}
        return result
    shapes = list(shapes)
    is_star = bool(names) and names[0].endswith("_0") and len(shapes) == 1
    if is_star and isinstance(shapes[0], tuple | list) and len(shapes[0]) == len(names):
        first = shapes[0][0]
        return (
            list(shapes[0])
            if first is None or isinstance(first, Mapping | tuple | list)
            else shapes
        )
    return shapes


def add_axes(axes: AxisMap, spec: Any, value: Any, name: str, leaf: int) -> None:
    """Add the dynamic axes of one argument, whose first tensor is leaf number `leaf`."""
    if spec is None:
        return
    if isinstance(value, Tensor):
        entries = spec.items() if isinstance(spec, Mapping) else enumerate(spec)
        for axis, dim in entries:
            if not isinstance(axis, int) or not -value.ndim <= axis < value.ndim:
                raise ExportError(
                    f"dynamic_shapes names axis {axis} of `{name}`, which has {value.ndim} axes",
                    {name: tuple(value.shape)},
                )
            add_axis(axes, dim, (leaf, axis % value.ndim), value.shape[axis], name)
        return
    children = list(value.values()) if isinstance(value, Mapping) else list(value)
    if isinstance(spec, Mapping) and isinstance(value, Mapping):
        specs = [spec.get(key) for key in value]
    else:
        specs = list(spec)
    if len(specs) != len(children):
        raise ExportError(
            f"dynamic_shapes of `{name}` has {len(specs)} entries, not {len(children)}"
        )
    for index, (child_spec, child) in enumerate(zip(specs, children, strict=True)):
        add_axes(axes, child_spec, child, f"{name}_{index}", leaf)
        leaf += len(tree_flatten(child)[0])


def add_axis(axes: AxisMap, dim: Any, key: tuple[int, int], example: int, name: str) -> None:
    """Add one dynamic axis."""
    if dim is None or isinstance(dim, int) or (isinstance(dim, Hint) and dim.name == "STATIC"):
        return
    if isinstance(dim, Hint):
        size = Size(f"{name}_{key[1]}")
        low, high = dim.min or 0, UNBOUNDED if dim.max is None else dim.max
        symbol = Symbol(size, low, high, example, dim.name == "AUTO")
    elif isinstance(dim, Dim | DerivedDim):
        root = dim if isinstance(dim, Dim) else dim.root
        size = Size(root.__name__)
        symbol = Symbol(size, root.min, root.max, root_size(dim, size, example, name))
    else:
        raise ExportError(f"dynamic_shapes of `{name}` wants a Dim, got {type(dim).__name__}")
    axes.symbols.setdefault(size.name, symbol)
    known = axes.symbols[size.name]
    if known.example != symbol.example:
        raise ExportError(
            f"`{size.name}` is {known.example} in one example input and {symbol.example} in "
            f"`{name}`", hint="give axes of different sizes dims with different names",
        )  # fmt: skip
    if not known.min <= known.example <= known.max:
        raise ExportError(
            f"the example input `{name}` has size {known.example} where `{size.name}` goes from "
            f"{known.min} to {known.max}"
        )
    axes.formulas[key] = dim.formula(size) if isinstance(dim, DerivedDim) else size


def root_size(dim: Dim | DerivedDim, size: Size, example: int, name: str) -> int:
    """Return the size of the root of a dim that makes an axis as large as the example."""
    if isinstance(dim, Dim):
        return example
    formula = dim.formula(size)
    for candidate in range(example + 4096):
        if evaluate(formula, {size: candidate}) == example:
            return candidate
    raise ExportError(f"the size {example} of `{name}` is no {dim!r}")
