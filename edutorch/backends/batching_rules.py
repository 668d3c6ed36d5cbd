"""Batching rules: the functions of NumPy for batched arrays, which keep the hidden axis 0.

Most functions fall into a family with one rule. Elementwise ones need the hidden axes of
their operands aligned, reductions count their axes from one on, linear algebra and
Fourier transforms accept axes in front anyway. For a function without a rule there is the
general one: run it once per example and stack the results (`run_per_example`, counted in
`LOOPED`).
"""

from __future__ import annotations

import math
import operator
import string
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EdutorchError
from .array_surface import NamespaceSurface
from .numpy import Array

if TYPE_CHECKING:
    from .batching import BatchedBackend


# Errors: operations that cannot be batched -----------------------------------------------------

LOOPED: Counter[str] = Counter()
"""How often a function or an op was run once per example, by its name."""


class VmapError(EdutorchError, RuntimeError):
    """An operation that cannot be batched."""


class NotBatchableError(VmapError):
    """An operation that has to run once per example: its control flow depends on elements."""


def unsupported_error(op: str) -> VmapError:
    return VmapError(
        op,
        f"vmap: It looks like you're calling .{op}() on a Tensor. We don't support vmap over "
        f"calling .{op}() on a Tensor, please try to rewrite what you're doing with other "
        "operations",
        hint="inside of vmap a tensor stands for all examples at once; where(condition, a, b) "
        "chooses for each of them",
    )


def branching_error() -> NotBatchableError:
    return NotBatchableError(
        "bool",
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
        "flow. We don't support that yet",
        hint="the examples may go different ways; use where(condition, a, b), which computes both",
    )


def in_place_error() -> NotBatchableError:
    return NotBatchableError(
        "in-place",
        "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a "
        "Tensor `other` in extra_args that has more elements than `self`. This happened due to "
        "`other` being vmapped over but `self` not being vmapped over in a vmap",
        hint="write x = x + y instead of x += y, or start from a tensor that belongs to the "
        "batch: y.new_zeros(shape) instead of zeros(shape)",
    )


def dynamic_shape_error(what: str) -> VmapError:
    return VmapError(
        "vmap",
        "vmap: We do not support batching operators that can support dynamic shape. Attempting "
        f"to batch over {what}",
        hint="each example would get a result of another size; use where(condition, a, b) or "
        "masked_fill, which keep the shape",
    )


def different_shapes_error(shapes: list[tuple[int, ...]]) -> VmapError:
    return VmapError(
        "vmap",
        "vmap: the result has another shape for each example, and such results cannot be stacked",
        {"shapes": ", ".join(str(shape) for shape in shapes[:4])},
        "use where(condition, a, b) instead of picking by a mask",
    )


Sizes = int | tuple[int, ...] | list[int]
"""A shape, or the one size of it; likewise axes and repetitions."""

Axes = Sizes | None
"""The axes of a function: one, several, or all of them."""


def as_tuple(sizes: Sizes) -> tuple[int, ...]:
    if isinstance(sizes, int | np.integer):
        return (int(sizes),)
    return tuple(sizes)


RULES: dict[str, Callable[..., Any]] = {}
"""The rule of each function: it takes the level, the function's name, and the arguments."""


def rule(*names: str) -> Callable[[Any], Any]:
    """Register a function as the rule of `names`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


class BatchedNamespace(NamespaceSurface):
    """The module `xp` for generic code inside one level of `vmap`."""

    def _member(self, name: str) -> Any:
        function = operator.attrgetter(name)(self._owner.inner.xp)
        if name in RULES:
            return partial(RULES[name], self._owner, name)
        if isinstance(getattr(np, name, None), np.ufunc):
            return Ufunc(self._owner, name)
        if callable(function) and not isinstance(function, type):
            return partial(run_per_example, self._owner, name)
        return function


class Values:
    """The arrays inside several operands, aligned to broadcast.

    `arrays` are these operands with the hidden axis in front and as many axes as the
    largest (or `ndim`) behind it; numbers stay numbers.
    """

    def __init__(self, level: BatchedBackend, operands: Sequence[Any], ndim: int = 0) -> None:
        values = [level.inside(operand) for operand in operands]
        sizes = [value.ndim - 1 for value in values if hasattr(value, "strides")]
        self.ndim = max(ndim, *sizes)
        self.arrays = [
            with_axes(value, self.ndim) if hasattr(value, "strides") else value for value in values
        ]
        self.backend = level.highest(values)

    def find(self, name: str) -> Callable[..., Any]:
        """Return a function of the arrays' library."""
        return operator.attrgetter(name)(self.backend.xp)


def with_axes(values: Array, ndim: int) -> Any:
    """Insert axes of size 1 behind the hidden one until there are `ndim` others."""
    missing = ndim + 1 - values.ndim
    if missing <= 0:
        return values
    return values.reshape((values.shape[0], *(1,) * missing, *values.shape[1:]))


def wrap_result(level: BatchedBackend, result: object) -> Any:
    """Hide the first axis of each array in a result."""
    if isinstance(result, tuple):
        parts = [wrap_result(level, part) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    return level.wrap(result) if hasattr(result, "strides") else result


def axes_inside(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Count axes from the front, behind the hidden one.

    Raises: AxisError: there is no such axis.
    """
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise np.exceptions.AxisError(axis, ndim)
    return tuple(axis % ndim + 1 for axis in axes)


def unwrap(level: BatchedBackend, array: Array) -> tuple[Any, int, Callable[[str], Any]]:
    """Return an operand's array, the axes of one example, and how to find functions for it."""
    values = level.inside(array)
    xp = level.highest([values]).xp
    return values, values.ndim - 1, lambda name: operator.attrgetter(name)(xp)


# Elementwise ----------------------------------------------------------------------------


@rule("where", "clip", "isclose", "real", "imag", "angle", "around", "round", "conj", "i0", "sinc",
      "nan_to_num", "iscomplex", "isreal", "fix", "real_if_close")  # fmt: skip
def elementwise(
    level: BatchedBackend, name: str, *operands: Any, out: Array | None = None, **settings: Any
) -> Any:
    """Elementwise: the operands broadcast behind their hidden axes."""
    if name == "where" and len(operands) == 1:
        return run_per_example(level, name, *operands)
    if not any(hasattr(operand, "strides") for operand in operands):
        return operator.attrgetter(name)(level.inner.xp)(*operands, **settings)
    values = Values(level, operands)
    y = wrap_result(level, values.find(name)(*values.arrays, **settings))
    if out is None:
        return y
    out[...] = y
    return out


class Ufunc:
    """A ufunc such as `xp.add`, with its `reduce` and `accumulate`."""

    def __init__(self, level: BatchedBackend, name: str) -> None:
        self.call = partial(elementwise, level, name)
        self.reduce = partial(reduction, level, f"{name}.reduce")
        self.accumulate = partial(cumulation, level, f"{name}.accumulate")

    def __call__(self, *operands: Any, **settings: Any) -> Any:
        return self.call(*operands, **settings)


@rule("copyto")
def copyto(
    level: BatchedBackend, name: str, dst: Array, src: Array, where: Array | bool = True
) -> None:
    """Write where a condition is true."""
    dst[...] = src if where is True else elementwise(level, "where", where, src, dst)


# Reductions and cumulative sums ---------------------------------------------------------


@rule("sum", "prod", "max", "min", "amax", "amin", "mean", "any", "all", "argmax", "argmin",
      "count_nonzero", "std", "var", "nanmax", "nanmin", "nansum")  # fmt: skip
def reduction(
    level: BatchedBackend, name: str, array: Array, axis: Axes = None, *, keepdims: bool = False,
    **settings: Any,
) -> Any:  # fmt: skip
    """Reduce axes of the examples; `axis=None` means all but the hidden one."""
    values, ndim, find = unwrap(level, array)
    if keepdims and name != "count_nonzero":
        settings["keepdims"] = True
    if axis is None and name.endswith(".reduce") and ndim:
        axis = tuple(range(ndim))
    if axis is None or axis == () or not ndim:
        size = math.prod(values.shape[1:])
        flat = values.reshape((values.shape[0], size))
        y = find(name)(flat, axis=1, **settings)
        return level.wrap(y.reshape((-1, *(1,) * ndim)) if keepdims else y)
    first, *more = axes_inside(as_tuple(axis), ndim)
    axis = (first, *more) if more else first
    return level.wrap(find(name)(values, axis=axis, **settings))


@rule("cumsum", "cumprod", "nancumsum", "sort", "argsort", "diff", "flip", "roll", "repeat")
def cumulation(
    level: BatchedBackend, name: str, array: Array, *args: Any, axis: Axes = None, **settings: Any
) -> Any:
    """Compute along one axis, whose length may change; without one, along the flattened example."""
    settings = dict(settings)
    positions = {"roll": "shift", "repeat": "repeats", "diff": "n"}
    if name in positions and args:
        settings[positions[name]], *args = args  # type: ignore[assignment]
    axis = args[0] if args else axis
    values, ndim, find = unwrap(level, array)
    if any(hasattr(setting, "strides") for setting in settings.values()):
        return run_per_example(level, name, array, axis=axis, **settings)
    if axis is None and name in ("sort", "argsort", "diff"):
        axis = -1
    if axis is None and name == "flip":
        axis = tuple(range(ndim))
    if axis is None:
        flat = values.reshape((values.shape[0], -1 if values.size else 0))
        y = find(name)(flat, axis=1, **settings)
        return level.wrap(y.reshape(values.shape) if name == "roll" else y)
    if isinstance(axis, (tuple, list)):
        return level.wrap(find(name)(values, axis=axes_inside(axis, ndim), **settings))
    return level.wrap(find(name)(values, axis=axes_inside(as_tuple(axis), ndim)[0], **settings))


# Linear algebra, Fourier transforms and products ----------------------------------------


@rule("tril", "triu", "ascontiguousarray", "linalg.cholesky", "linalg.svd", "linalg.qr",
      "linalg.eigh", "linalg.eig", "linalg.eigvals", "linalg.eigvalsh", "linalg.inv", "linalg.det",
      "linalg.slogdet", "linalg.pinv", "linalg.matrix_rank", "linalg.matrix_power")  # fmt: skip
def native(level: BatchedBackend, name: str, array: Array, *args: Any, **settings: Any) -> Any:
    """Functions of the last axes, which accept further axes in front."""
    values, _, find = unwrap(level, array)
    return wrap_result(level, find(name)(values, *args, **settings))


@rule("linalg.solve")
def solve(level: BatchedBackend, name: str, a: Array, b: Array) -> Any:
    """Linear equations; a vector is treated as a column."""
    values, ndim = Values(level, [a]), level.inside(b).ndim - 1
    right = level.inside(b)[..., None] if ndim == 1 else level.inside(b)
    pair = Values(level, [level.wrap(values.arrays[0]), level.wrap(right)])
    y = pair.find(name)(*(level.full(array) for array in pair.arrays))
    return level.wrap(y[..., 0] if ndim == 1 else y)


@rule(*(f"fft.{transform}" for transform in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")))
def fourier(
    level: BatchedBackend, name: str, array: Array, n: int | None = None, axis: int = -1,
    **settings: Any,
) -> Any:  # fmt: skip
    """A transform along one axis."""
    values, ndim, find = unwrap(level, array)
    return level.wrap(find(name)(values, n, axis=axes_inside((axis,), ndim)[0], **settings))


@rule(
    *(
        f"fft.{transform}"
        for transform in ("fftn", "ifftn", "rfftn", "irfftn", "fftshift", "ifftshift")
    )
)
def fourier_of_several(
    level: BatchedBackend, name: str, array: Array, s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None, **settings: Any,
) -> Any:  # fmt: skip
    """A transform along several axes, the last ones if only their sizes are given."""
    values, ndim, find = unwrap(level, array)
    if axes is None:
        axes = range(ndim if s is None else len(s))
        axes = [axis - len(axes) for axis in axes]
    inner_axes = axes_inside(tuple(axes), ndim)
    if name.endswith("shift"):
        return level.wrap(find(name)(values, inner_axes))
    return level.wrap(find(name)(values, s, axes=inner_axes, **settings))


@rule("matmul", "dot")
def matmul(level: BatchedBackend, name: str, left: Array, right: Array) -> Any:
    """The matrix product. Many rows times one shared matrix are a single product."""
    a, b = level.inside(left), level.inside(right)
    row, column = a.ndim == 2, b.ndim == 2
    if a.ndim == 1 or b.ndim == 1:
        raise ValueError("matmul: an operand has no axis")
    a, b = (a[:, None] if row else a), (b[..., None] if column else b)
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"matmul: {left.shape} and {right.shape} do not fit")
    values = Values(level, [level.wrap(a), level.wrap(b)])
    product = values.find("matmul")
    if b.shape[0] == 1 and b.ndim == 3 and a.shape[0] > 1:
        lead = a.shape[:-1]
        y = product(a.reshape((math.prod(lead), a.shape[-1])), b[0]).reshape((*lead, b.shape[-1]))
    elif a.shape[-1] == 1:
        y = values.find("multiply")(*values.arrays)
    else:
        y = product(*values.arrays)
    if column:
        y = y[..., 0]
    return level.wrap(y[..., 0] if row and column else y[..., 0, :] if row else y)


@rule("einsum")
def einsum(level: BatchedBackend, name: str, equation: str, *operands: Any, **settings: Any) -> Any:
    """Sums of products: the hidden axis is one more letter."""
    text = equation.replace(" ", "")
    terms, arrow, output = text.partition("->")
    if not arrow:
        letters = sorted(set(terms) - set(",."))
        once = "".join(letter for letter in letters if terms.count(letter) == 1)
        output = ("..." if "..." in terms else "") + once
    free = next(ascii_letter for ascii_letter in string.ascii_letters if ascii_letter not in text)
    values = [level.inside(operand) for operand in operands]
    own = [value.shape[0] > 1 for value in values]
    inputs = [(free + t if o else t) for t, o in zip(terms.split(","), own, strict=True)]
    arrays = [value if o else value[0, ...] for value, o in zip(values, own, strict=True)]
    backend = level.highest(arrays)
    result = free + output if any(own) else output
    y = backend.xp.einsum(f"{','.join(inputs)}->{result}", *arrays, **settings)
    return level.wrap(y if any(own) else y[None])


# The general rule -----------------------------------------------------------------------


def run_per_example(level: BatchedBackend, name: str, *args: Any, **settings: Any) -> Any:
    """Run a function once per example, or only once if all share the arguments."""
    operands = [array for value in (*args, *settings.values()) for array in list_arrays(value)]
    own = any(level.inside(array).shape[0] > 1 for array in operands)
    if own and name in DYNAMIC:
        raise dynamic_shape_error(name)
    LOOPED[name] += own
    results = []
    for number in range(level.size if own else 1):
        one = [level.example(argument, number) for argument in args]
        named = {key: level.example(setting, number) for key, setting in settings.items()}
        arrays = [array for value in (*one, *named.values()) for array in list_arrays(value)]
        results.append(operator.attrgetter(name)(level.highest(arrays).xp)(*one, **named))
    return stack_results(level, results)


DYNAMIC = {"nonzero", "unique", "argwhere", "flatnonzero", "compress", "extract", "trim_zeros"}
"""Functions whose result has a size that depends on the elements."""


def list_arrays(value: object) -> list[Any]:
    """Return the arrays in a value or a sequence."""
    values = value if isinstance(value, (tuple, list)) else [value]
    return [
        array for array in values if hasattr(array, "strides") and not isinstance(array, np.generic)
    ]


def stack_results(level: BatchedBackend, results: Sequence[Any]) -> Any:
    """Stack the results of the examples."""
    first = results[0]
    if isinstance(first, (tuple, list)):
        parts = [stack_results(level, examples) for examples in zip(*results, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if not hasattr(first, "shape"):
        results = [level.inner.xp.asarray(result) for result in results]
    if len({result.shape for result in results}) > 1:
        raise different_shapes_error([result.shape for result in results])
    backend = level.highest(results) if not isinstance(first, np.generic) else level.inner
    return level.wrap(backend.xp.stack([*results]))
