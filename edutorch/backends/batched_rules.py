"""The functions of NumPy for batched arrays: each leaves the hidden axis 0 alone.

Most functions fall into a family with one rule. Elementwise ones need the hidden axes of
their operands in one place, reductions count their axes from one on, linear algebra and
Fourier transforms take axes in front anyway. For a function without a rule there is the
general one: run it once per example and stack the results (`looped`, counted in `LOOPED`).
"""

from __future__ import annotations

import math
import operator
import string
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .batched_words import LOOPED, different_shapes, dynamic

if TYPE_CHECKING:
    from .batched import BatchedBackend

RULES: dict[str, Callable[..., Any]] = {}
"""The rule of each function: it is called with the level, the function's name, and its arguments."""


def rule(*names: str) -> Callable[[Any], Any]:
    """Make a function the rule of `names`."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


class BatchedModule:
    """What generic code sees as `xp` inside of one level of `vmap`."""

    def __init__(self, level: BatchedBackend, prefix: str = "") -> None:
        self._level, self._prefix = level, prefix
        if not prefix:
            self.linalg, self.fft = BatchedModule(level, "linalg."), BatchedModule(level, "fft.")

    def __getattr__(self, name: str) -> Any:
        full = self._prefix + name
        found = operator.attrgetter(full)(self._level.inner.xp)
        known = RULES.get(full)
        if known is not None:
            found = partial(known, self._level, full)
        elif isinstance(getattr(np, name, None), np.ufunc) and not self._prefix:
            found = Ufunc(self._level, full)
        elif callable(found) and not isinstance(found, type):
            found = partial(looped, self._level, full)
        setattr(self, name, found)
        return found


class Values:
    """The arrays inside of several operands, made ready to meet each other.

    `arrays` are those operands with the hidden axis in front and as many axes as the
    largest (or `ndim`) behind it; numbers stay numbers.
    """

    def __init__(self, level: BatchedBackend, operands: Sequence[Any], ndim: int = 0) -> None:
        values = [level.inside(each) for each in operands]
        sizes = [each.ndim - 1 for each in values if hasattr(each, "strides")]
        self.ndim = max(ndim, *sizes)
        self.arrays = [
            with_axes(each, self.ndim) if hasattr(each, "strides") else each for each in values
        ]
        self.backend = level.highest(values)

    def find(self, name: str) -> Callable[..., Any]:
        """Return a function of the library that the arrays are from."""
        return operator.attrgetter(name)(self.backend.xp)


def with_axes(values: Any, ndim: int) -> Any:
    """Insert axes of size 1 behind the hidden one until there are `ndim` others."""
    missing = ndim + 1 - values.ndim
    if missing <= 0:
        return values
    return values.reshape((values.shape[0], *(1,) * missing, *values.shape[1:]))


def outside(level: BatchedBackend, result: Any) -> Any:
    """Hide the first axis of each array in a result."""
    if isinstance(result, tuple):
        parts = [outside(level, each) for each in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    return level.wrap(result) if hasattr(result, "strides") else result


def axes_inside(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Count axes from the front, behind the hidden one.

    Raises: AxisError: there is no such axis.
    """
    for each in axes:
        if not -ndim <= each < ndim:
            raise np.exceptions.AxisError(each, ndim)
    return tuple(each % ndim + 1 for each in axes)


def inside(level: BatchedBackend, array: Any) -> tuple[Any, int, Callable[[str], Any]]:
    """Return an operand's array, the axes of one example, and how to find functions for it."""
    values = level.inside(array)
    xp = level.highest([values]).xp
    return values, values.ndim - 1, lambda name: operator.attrgetter(name)(xp)


# Elementwise -----------------------------------------------------------------------------


@rule("where", "clip", "isclose", "real", "imag", "angle", "around", "round", "conj", "i0", "sinc",
      "nan_to_num", "iscomplex", "isreal", "fix", "real_if_close")  # fmt: skip
def elementwise(
    level: BatchedBackend, name: str, *operands: Any, out: Any = None, **settings: Any
) -> Any:
    """Each number by itself: the operands broadcast behind their hidden axes."""
    if name == "where" and len(operands) == 1:
        return looped(level, name, *operands)
    if not any(hasattr(each, "strides") for each in operands):
        return operator.attrgetter(name)(level.inner.xp)(*operands, **settings)
    values = Values(level, operands)
    y = outside(level, values.find(name)(*values.arrays, **settings))
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
def copyto(level: BatchedBackend, name: str, dst: Any, src: Any, where: Any = True) -> None:
    """Write where a condition is true."""
    dst[...] = src if where is True else elementwise(level, "where", where, src, dst)


# Reductions and running sums -------------------------------------------------------------


@rule("sum", "prod", "max", "min", "amax", "amin", "mean", "any", "all", "argmax", "argmin",
      "count_nonzero", "std", "var", "nanmax", "nanmin", "nansum")  # fmt: skip
def reduction(
    level: BatchedBackend, name: str, array: Any, axis: Any = None, *, keepdims: bool = False,
    **settings: Any,
) -> Any:  # fmt: skip
    """Axes of the examples combined; `axis=None` means all but the hidden one."""
    values, ndim, find = inside(level, array)
    if keepdims and name != "count_nonzero":
        settings["keepdims"] = True
    if axis is None and name.endswith(".reduce") and ndim:
        axis = tuple(range(ndim))
    if axis is None or axis == () or not ndim:
        size = math.prod(values.shape[1:])
        flat = values.reshape((values.shape[0], size))
        y = find(name)(flat, axis=1, **settings)
        return level.wrap(y.reshape((-1, *(1,) * ndim)) if keepdims else y)
    axes = axes_inside(axis if isinstance(axis, tuple) else (axis,), ndim)
    return level.wrap(find(name)(values, axis=axes if len(axes) > 1 else axes[0], **settings))


@rule("cumsum", "cumprod", "nancumsum", "sort", "argsort", "diff", "flip", "roll", "repeat")
def cumulation(
    level: BatchedBackend, name: str, array: Any, *args: Any, axis: Any = None, **settings: Any
) -> Any:
    """Along one axis, whose length may change; without one, along the flattened example."""
    settings = dict(settings)
    positions = {"roll": "shift", "repeat": "repeats", "diff": "n"}
    if name in positions and args:
        settings[positions[name]], *args = args  # type: ignore[assignment]
    axis = args[0] if args else axis
    values, ndim, find = inside(level, array)
    if any(hasattr(each, "strides") for each in settings.values()):
        return looped(level, name, array, axis=axis, **settings)
    if axis is None and name in ("sort", "argsort", "diff"):
        axis = -1
    if axis is None and name == "flip":
        axis = tuple(range(ndim))
    if axis is None:
        flat = values.reshape((values.shape[0], -1 if values.size else 0))
        y = find(name)(flat, axis=1, **settings)
        return level.wrap(y.reshape(values.shape) if name == "roll" else y)
    axes = axes_inside(axis if isinstance(axis, (tuple, list)) else (axis,), ndim)
    return level.wrap(find(name)(values, axis=axes if len(axes) != 1 else axes[0], **settings))


# Shapes --------------------------------------------------------------------------------------


@rule("reshape")
def reshape(level: BatchedBackend, name: str, array: Any, shape: Any, *_: Any, **__: Any) -> Any:
    """The numbers of each example in another shape."""
    values = level.inside(array)
    sizes = [operator.index(each) for each in (shape if hasattr(shape, "__len__") else (shape,))]
    have, known = math.prod(values.shape[1:]), math.prod(each for each in sizes if each != -1)
    if -1 in sizes and known:
        sizes[sizes.index(-1)] = have // known
    if math.prod(sizes) != have or -1 in sizes:
        raise ValueError(f"cannot reshape array of size {have} into shape {tuple(sizes)}")
    return level.wrap(values.reshape((values.shape[0], *sizes)))


@rule("ravel")
def ravel(level: BatchedBackend, name: str, array: Any, *_: Any) -> Any:
    """The numbers of each example in a row."""
    return reshape(level, name, array, (math.prod(level.inside(array).shape[1:]),))


@rule("transpose")
def transpose(level: BatchedBackend, name: str, array: Any, axes: Any = None) -> Any:
    """The axes in another order."""
    values, ndim, _ = inside(level, array)
    if axes is not None and len(axes) != ndim:
        raise ValueError("axes don't match array")
    order = tuple(range(ndim, 0, -1)) if axes is None else axes_inside(axes, ndim)
    return level.wrap(values.transpose((0, *order)))


@rule("swapaxes", "moveaxis")
def moved(level: BatchedBackend, name: str, array: Any, first: Any, second: Any) -> Any:
    """Axes exchanged, or moved to other places."""
    values, ndim, find = inside(level, array)
    pairs = [(each,) if isinstance(each, int) else tuple(each) for each in (first, second)]
    places = [axes_inside(each, ndim) for each in pairs]
    if name == "swapaxes":
        return level.wrap(values.swapaxes(places[0][0], places[1][0]))
    return level.wrap(find(name)(values, *places))


@rule("expand_dims")
def expand_dims(level: BatchedBackend, name: str, array: Any, axis: Any) -> Any:
    """New axes of size 1."""
    values, ndim, find = inside(level, array)
    axes = axis if isinstance(axis, tuple) else (axis,)
    return level.wrap(find(name)(values, axes_inside(axes, ndim + len(axes))))


@rule("squeeze")
def squeeze(level: BatchedBackend, name: str, array: Any, axis: Any = None) -> Any:
    """Axes of size 1 removed."""
    values, ndim, find = inside(level, array)
    if axis is None:
        axes = tuple(i + 1 for i, size in enumerate(values.shape[1:]) if size == 1)
    else:
        axes = axes_inside(axis if isinstance(axis, tuple) else (axis,), ndim)
    return level.wrap(find(name)(values, axis=axes) if axes else values)


@rule("broadcast_to")
def broadcast_to(level: BatchedBackend, name: str, array: Any, shape: Any) -> Any:
    """Axes of size 1 stretched."""
    return level.broadcast_to(level.wrap(level.inside(array)), tuple(shape))


@rule("broadcast_arrays")
def broadcast_arrays(level: BatchedBackend, name: str, *arrays: Any) -> Any:
    """All stretched to one shape."""
    shape = np.broadcast_shapes(*(each.shape for each in arrays))
    return tuple(broadcast_to(level, name, each, shape) for each in arrays)


@rule("concatenate", "stack")
def joined_along(
    level: BatchedBackend, name: str, arrays: Sequence[Any], axis: int | None = 0, **settings: Any
) -> Any:
    """Several arrays behind each other, or along a new axis."""
    values = [level.inside(each) for each in arrays]
    if len({each.shape[0] for each in values}) > 1:
        values = [level.full(each) for each in values]
    ndim = values[0].ndim - 1 + (name == "stack")
    (axis,) = axes_inside((operator.index(axis or 0),), ndim)
    backend = level.highest(values)
    values = [each if backend.level == 0 else backend.lifted(each) for each in values]
    return level.wrap(operator.attrgetter(name)(backend.xp)(values, axis=axis, **settings))


@rule("tile")
def tile(level: BatchedBackend, name: str, array: Any, reps: Any) -> Any:
    """Each example several times."""
    reps = (reps,) if isinstance(reps, int) else tuple(reps)
    values = Values(level, [array], len(reps))
    reps = (1,) * (values.ndim - len(reps)) + reps
    return level.wrap(values.find(name)(values.arrays[0], (1, *reps)))


@rule("atleast_1d")
def atleast_1d(level: BatchedBackend, name: str, array: Any) -> Any:
    """A number becomes a row of one."""
    return level.wrap(Values(level, [array], 1).arrays[0])


@rule("diagonal")
def diagonal(
    level: BatchedBackend, name: str, array: Any, offset: int = 0, axis1: int = 0, axis2: int = 1
) -> Any:
    """The diagonal of two axes."""
    return level.diagonal(level.wrap(level.inside(array)), offset, axis1, axis2)


@rule("tril", "triu", "ascontiguousarray", "linalg.cholesky", "linalg.svd", "linalg.qr",
      "linalg.eigh", "linalg.eig", "linalg.eigvals", "linalg.eigvalsh", "linalg.inv", "linalg.det",
      "linalg.slogdet", "linalg.pinv", "linalg.matrix_rank", "linalg.matrix_power")  # fmt: skip
def native(level: BatchedBackend, name: str, array: Any, *args: Any, **settings: Any) -> Any:
    """Functions of the last axes, which take others in front as they are."""
    values, _, find = inside(level, array)
    return outside(level, find(name)(values, *args, **settings))


@rule("linalg.solve")
def solve(level: BatchedBackend, name: str, a: Any, b: Any) -> Any:
    """Linear equations; one right side is a column."""
    values, ndim = Values(level, [a]), level.inside(b).ndim - 1
    right = level.inside(b)[..., None] if ndim == 1 else level.inside(b)
    pair = Values(level, [level.wrap(values.arrays[0]), level.wrap(right)])
    y = pair.find(name)(*(level.full(each) for each in pair.arrays))
    return level.wrap(y[..., 0] if ndim == 1 else y)


@rule(*(f"fft.{kind}" for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")))
def fourier(
    level: BatchedBackend, name: str, array: Any, n: Any = None, axis: int = -1, **settings: Any
) -> Any:
    """A transform along one axis."""
    values, ndim, find = inside(level, array)
    return level.wrap(find(name)(values, n, axis=axes_inside((axis,), ndim)[0], **settings))


@rule(*(f"fft.{kind}" for kind in ("fftn", "ifftn", "rfftn", "irfftn", "fftshift", "ifftshift")))
def fourier_of_several(
    level: BatchedBackend, name: str, array: Any, s: Any = None, axes: Any = None, **settings: Any
) -> Any:
    """A transform along several axes, the last ones if only their sizes are given."""
    values, ndim, find = inside(level, array)
    if axes is None:
        axes = range(ndim if s is None else len(s))
        axes = [each - len(axes) for each in axes]
    places = axes_inside(tuple(axes), ndim)
    if name.endswith("shift"):
        return level.wrap(find(name)(values, places))
    return level.wrap(find(name)(values, s, axes=places, **settings))


# Products ------------------------------------------------------------------------------------


@rule("matmul", "dot")
def matmul(level: BatchedBackend, name: str, left: Any, right: Any) -> Any:
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
        once = "".join(each for each in letters if terms.count(each) == 1)
        output = ("..." if "..." in terms else "") + once
    free = next(each for each in string.ascii_letters if each not in text)
    values = [level.inside(each) for each in operands]
    own = [each.shape[0] > 1 for each in values]
    inputs = [(free + t if o else t) for t, o in zip(terms.split(","), own, strict=True)]
    arrays = [each if o else each[0, ...] for each, o in zip(values, own, strict=True)]
    backend = level.highest(arrays)
    result = free + output if any(own) else output
    y = backend.xp.einsum(f"{','.join(inputs)}->{result}", *arrays, **settings)
    return level.wrap(y if any(own) else y[None])


# Picking, making, asking ------------------------------------------------------------------


@rule("take")
def take(level: BatchedBackend, name: str, array: Any, indices: Any, axis: Any = None) -> Any:
    """Slices along an axis."""
    array = level.lifted(array) if not hasattr(array, "backend") else array
    if axis is None:
        return ravel(level, name, array)[indices]
    return array[(slice(None),) * (axis % array.ndim) + (indices,)]


@rule("take_along_axis")
def take_along_axis(level: BatchedBackend, name: str, array: Any, indices: Any, axis: int) -> Any:
    """One number per place of `indices`, along an axis."""
    values = Values(level, [array, indices])
    a, index = (level.full(each) for each in values.arrays)
    return level.wrap(values.find(name)(a, index, axis=axes_inside((axis,), values.ndim)[0]))


@rule("searchsorted", "isin")
def looked_up(
    level: BatchedBackend, name: str, first: Any, second: Any, *args: Any, **settings: Any
) -> Any:
    """Where numbers belong, or whether they occur, in one row that all examples share."""
    table, wanted = (first, second) if name == "searchsorted" else (second, first)
    row = level.inside(level.lifted(table))
    if row.shape[0] > 1 or any(hasattr(each, "backend") for each in (*args, *settings.values())):
        return looped(level, name, first, second, *args, **settings)
    values = level.inside(level.lifted(wanted))
    pair = [row[0, ...], values.reshape(values.size)]
    find = operator.attrgetter(name)(level.highest(pair).xp)
    found = find(*(pair if name == "searchsorted" else pair[::-1]), *args, **settings)
    return level.wrap(found.reshape(values.shape))


@rule("zeros", "ones", "empty", "full")
def made(level: BatchedBackend, name: str, shape: Any, *args: Any, **settings: Any) -> Any:
    """A new array with memory for each example, to be written to."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(hasattr(each, "strides") for each in args):
        y = made(level, "empty", shape, dtype=args[0].dtype, **settings)
        y[...] = args[0]
        return y
    find = getattr(level.inner.xp, name)
    return level.wrap(find((level.size, *sizes), *args, **settings))


@rule("zeros_like", "ones_like", "empty_like", "full_like")
def made_like(
    level: BatchedBackend, name: str, array: Any, *args: Any, dtype: Any = None, shape: Any = None
) -> Any:
    """The same in the shape and the type of another array."""
    kind = array.dtype if dtype is None else dtype
    shape = array.shape if shape is None else shape
    return made(level, name.removesuffix("_like"), shape, *args, dtype=kind)


@rule("arange", "linspace", "eye", "identity", "tri", "logspace")
def shared(level: BatchedBackend, name: str, *args: Any, **settings: Any) -> Any:
    """A new array that all examples share."""
    if any(hasattr(each, "backend") for each in (*args, *settings.values())):
        return looped(level, name, *args, **settings)
    return level.lifted(getattr(level.inner.xp, name)(*args, **settings))


@rule("asarray", "array", "asanyarray")
def asarray(
    level: BatchedBackend, name: str, value: Any, dtype: Any = None, copy: Any = None, **_: Any
) -> Any:
    """An array of this level from whatever is given."""
    if not hasattr(value, "backend"):
        return level.lifted(level.inner.xp.asarray(value, dtype=dtype))
    y = level.wrap(level.inside(value))
    y = y if dtype is None else y.astype(dtype, copy=False)
    return y.copy() if name == "array" or copy else y


@rule("result_type", "can_cast", "finfo", "iinfo", "iscomplexobj", "isrealobj", "isscalar", "ndim",
      "shape")  # fmt: skip
def asked(level: BatchedBackend, name: str, *args: Any) -> Any:
    """Questions about types and shapes."""
    if name in ("ndim", "shape"):
        return getattr(args[0], name)
    kinds = [each.dtype if hasattr(each, "backend") else each for each in args]
    if name in ("iscomplexobj", "isrealobj"):
        return (kinds[0].kind == "c") == (name == "iscomplexobj")
    return getattr(np, name)(*kinds)


# The general rule --------------------------------------------------------------------------


def looped(level: BatchedBackend, name: str, *args: Any, **settings: Any) -> Any:
    """Run a function once per example, or only once if all share what it is given."""
    given = [each for value in (*args, *settings.values()) for each in listed(value)]
    own = any(level.inside(each).shape[0] > 1 for each in given)
    if own and name in DYNAMIC:
        raise dynamic(name)
    LOOPED[name] += own
    results = []
    for number in range(level.size if own else 1):
        one = [level.example(each, number) for each in args]
        named = {key: level.example(each, number) for key, each in settings.items()}
        arrays = [each for value in (*one, *named.values()) for each in listed(value)]
        results.append(operator.attrgetter(name)(level.highest(arrays).xp)(*one, **named))
    return joined(level, results)


DYNAMIC = {"nonzero", "unique", "argwhere", "flatnonzero", "compress", "extract", "trim_zeros"}
"""Functions whose result has a size that depends on the numbers."""


def listed(value: Any) -> list[Any]:
    """Return the arrays in a value or a sequence."""
    found = value if isinstance(value, (tuple, list)) else [value]
    return [each for each in found if hasattr(each, "strides") and not isinstance(each, np.generic)]


def joined(level: BatchedBackend, results: Sequence[Any]) -> Any:
    """Stack what the examples gave."""
    first = results[0]
    if isinstance(first, (tuple, list)):
        parts = [joined(level, each) for each in zip(*results, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else type(first)(parts)
    if not hasattr(first, "shape"):
        results = [level.inner.xp.asarray(each) for each in results]
    if len({each.shape for each in results}) > 1:
        raise different_shapes([each.shape for each in results])
    backend = level.highest(results) if not isinstance(first, np.generic) else level.inner
    return level.wrap(backend.xp.stack([*results]))
