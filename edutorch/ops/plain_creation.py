"""The fast path of creation functions: sizes and bounds as Python numbers, no option but a dtype.

`zeros(2, 3)` takes 1 µs, of which checks of arguments that nobody passed would be another one. So
each function below has a maker for the usual call, on the CPU and in the usual modes, which
returns None for all that it is not sure of: then the general path runs, and says what is wrong.
The results are the same, to the bit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backends, dtypes
from ..backends import device as devices
from ..backends.numpy import FILL, LINSPACE, Array, Shared, make_full, make_range
from ..core.shapes import Size
from ..core.tensor import PLAIN_TENSORS, Tensor
from ..modes import DEFAULT, NO_GRAD, current
from . import creation, from_data, random

Maker = Callable[[Sequence[Any], np.dtype | None], Array | None]
"""Returns an array for the arguments by position and the dtype; None: it is not a usual call."""


def plain(function: Callable[..., Tensor], *, asks_device: bool = True) -> Callable[[Maker], Maker]:
    """Give a creation function its maker for usual calls, as a decorator of the maker.

    Args:
        asks_device: False for a function whose result is where its argument is.
    """
    name = function.__name__
    is_like, takes_sizes = name.endswith("_like"), name in ("zeros", "ones", "empty")
    # What is drawn or shared is no node of its own in a capture.
    is_recorded, name = is_like or name in creation.CREATIONS, name.removesuffix("_like")

    def decorate(make: Maker) -> Maker:
        def add_plain_path(general: Callable[..., Tensor]) -> Callable[..., Tensor]:
            @functools.wraps(general)
            def create(*args: Any, **named: Any) -> Tensor:
                modes = current()
                # One with a dtype of its own counts as usual; all other options do not.
                if (
                    (modes is DEFAULT or modes is NO_GRAD)
                    and (not named or is_usual(named))
                    and (not asks_device or (default_device() or devices._process_default) is CPU)
                ):
                    try:
                        array = make(args, named["dtype"].numpy if named else None)
                    except (ArithmeticError, MemoryError, TypeError, ValueError):
                        array = None
                    if array is not None:
                        # `core.tensor.fill`, written out: no array here is of a dtype for storage.
                        output = new_tensor()
                        output._array = array
                        output._node = output._grad = output._writes = None
                        output._base = output._hooks = None
                        if is_recorded and creation.recorded is not RECORDED:
                            shape = array.shape
                            made_of = shape if takes_sizes else (shape,) if is_like else args
                            return creation.recorded(name, made_of, {}, output)
                        return output
                return general(*args, **named)

            return create

        function.add_plain_path = add_plain_path  # type: ignore[attr-defined]
        return make

    return decorate


def is_usual(named: dict[str, Any]) -> bool:
    """Return True for a dtype that is computed in, without any other option."""
    dtype = named.get("dtype")
    return len(named) == 1 and dtype.__class__ is dtypes.dtype and not dtype.is_storage


RECORDED = creation.recorded
MANY = FILL.min_size
"""From so many elements on, all threads fill new memory."""

CPU, default_device = devices._CPU, devices._default.get
new_tensor = functools.partial(object.__new__, Tensor)
SEQUENCES = {tuple, list, Size}
SCALARS = {int, float, bool}


def plain_shape(size: Sequence[Any]) -> Sequence[int] | None:
    """Return the shape given as several integers or as one sequence, if it is a small one.

    None: it is another. NumPy refuses what is not an integer, and the general path says so.
    """
    shape = size[0] if len(size) == 1 and size[0].__class__ in SEQUENCES else size
    return None if math.prod(shape) > creation.LARGE else shape


@plain(creation.zeros)
def zeros(size: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    shape = size[0] if len(size) == 1 and size[0].__class__ in SEQUENCES else size
    count = math.prod(shape)
    if count < MANY:
        return np.zeros(shape, dtype or dtypes._default.numpy)
    if count > creation.LARGE:
        return None
    return make_full(np, shape, 0, dtype or dtypes._default.numpy)


@plain(creation.ones)
def ones(size: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    shape = size[0] if len(size) == 1 and size[0].__class__ in SEQUENCES else size
    count = math.prod(shape)
    if count > creation.LARGE:
        return None
    if count >= MANY:
        return make_full(np, shape, 1, dtype or dtypes._default.numpy)
    array = np.empty(shape, dtype or dtypes._default.numpy)
    array.fill(1)
    return array


@plain(creation.empty)
def empty(size: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    shape = plain_shape(size)
    return None if shape is None else np.empty(shape, dtype or dtypes._default.numpy)


@plain(creation.full)
def full(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 2 or args[0].__class__ not in SEQUENCES:
        return None
    shape, value = args
    count = math.prod(shape)
    if value.__class__ not in SCALARS or count > creation.LARGE:
        return None
    if dtype is None and count < MANY and value.__class__ is float:
        array = np.empty(shape, dtypes._default.numpy)
        array.fill(value)
        return array
    if dtype is None:
        is_float = value.__class__ is float
        dtype = dtypes._default.numpy if is_float else dtypes.scalar_type(value).numpy
    return make_full(np, shape, value, dtype)


@plain(creation.eye)
def eye(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 1 or args[0].__class__ is not int:
        return None
    (size,) = args
    if size <= 0 or size * size > creation.LARGE:
        return None
    if size * size < MANY:
        array: Any = np.zeros((size, size), dtype or dtypes._default.numpy)
    else:
        array = make_full(np, (size, size), 0, dtype or dtypes._default.numpy)
    array.reshape(-1)[:: size + 1] = 1
    return array


@plain(creation.arange)
def arange(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 1 or dtype is not None or args[0].__class__ is not int:
        return None
    (count,) = args
    return make_range(count) if 0 <= count <= creation.LARGE else None


@plain(creation.linspace)
def linspace(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 3 or dtype is not None:
        return None
    start, end, steps = args
    if not (start.__class__ in SCALARS and end.__class__ in SCALARS and steps.__class__ is int):
        return None
    if not 1 < steps <= creation.LARGE:
        return None
    start, end = float(start), float(end)
    distance = end - start
    step = distance / (steps - 1)
    if step == 0 or not math.isfinite(distance):
        return None
    if steps >= LINSPACE.min_size:
        made = (LINSPACE.run or LINSPACE)(start, step, end, steps, dtypes._default.numpy)
        if made is not None:
            return made
    # As `numpy.linspace` does, without the search for a type.
    values = np.arange(steps, dtype=np.float64)
    values *= step
    if start:
        values += start
    values[-1] = end
    return values.astype(dtypes._default.numpy)


def plain_array(args: Sequence[Any]) -> Array | None:
    """Return the array of the only argument, if that is a tensor with contiguous memory."""
    if len(args) != 1 or args[0].__class__ not in PLAIN_TENSORS:
        return None
    array = args[0]._array
    return array if array.__class__ is np.ndarray and array.flags.c_contiguous else None


@plain(creation.zeros_like, asks_device=False)
def zeros_like(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 1 or args[0].__class__ not in PLAIN_TENSORS:
        return None
    array = args[0]._array
    if array.__class__ is not np.ndarray or not array.flags.c_contiguous:
        return None
    if array.size < MANY:
        return np.zeros(array.shape, dtype or array.dtype)
    return make_full(np, array.shape, 0, dtype or array.dtype)


@plain(creation.ones_like, asks_device=False)
def ones_like(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    array = plain_array(args)
    return None if array is None else make_full(np, array.shape, 1, dtype or array.dtype)


@plain(creation.empty_like, asks_device=False)
def empty_like(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    array = plain_array(args)
    return None if array is None else np.empty(array.shape, dtype or array.dtype)


@plain(from_data.from_numpy, asks_device=False)
def from_numpy(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 1 or dtype is not None or args[0].__class__ is not np.ndarray:
        return None
    (array,) = args
    if array.dtype not in dtypes._BY_NUMPY:
        return None
    if not array.flags.c_contiguous and min(array.strides) < 0:
        return None
    return array.view(Shared)


def draw(distribution: str, size: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    """Return samples of the default generator."""
    shape = None if dtype is not None else plain_shape(size)
    if shape is None:
        return None
    generator = random._GENERATORS.get("cpu") or random.default_generator(backends.CPU)
    return getattr(generator.random, distribution)(tuple(shape), dtypes._default.numpy)


@plain(random.rand)
def rand(size: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    return draw("uniform", size, dtype)


@plain(random.randn)
def randn(size: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    return draw("normal", size, dtype)


@plain(random.randperm)
def randperm(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 1 or dtype is not None or args[0].__class__ is not int:
        return None
    (count,) = args
    if not 0 <= count <= creation.LARGE:
        return None
    generator = random._GENERATORS.get("cpu") or random.default_generator(backends.CPU)
    return generator.random.permutation(count)
