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
from ..backends.device import backend_for
from ..backends.numpy import Array, make_full, make_range, mark_shared
from ..core.tensor import PLAIN_TENSORS, Tensor, fill
from ..modes import DEFAULT, NO_GRAD, current
from . import creation, from_data, random

Maker = Callable[[Sequence[Any], np.dtype | None], Array | None]
"""Returns an array for the arguments by position and the dtype; None: it is not a usual call."""


def plain(function: Callable[..., Tensor]) -> Callable[[Maker], Maker]:
    """Give a creation function its maker for usual calls, as a decorator of the maker."""
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
                if (modes is DEFAULT or modes is NO_GRAD) and (
                    not named or (len(named) == 1 and "dtype" in named)
                ):
                    dtype = named["dtype"] if named else None
                    if dtype is None or dtype.__class__ is dtypes.dtype:
                        try:
                            array = make(args, None if dtype is None else dtype.numpy)
                        except (ArithmeticError, MemoryError, TypeError, ValueError):
                            array = None
                        if array is not None:
                            output = fill(new_tensor(), array)
                            if not is_recorded:
                                return output
                            shape = array.shape
                            made_of = shape if takes_sizes else (shape,) if is_like else args
                            return creation.recorded(name, made_of, {}, output)
                return general(*args, **named)

            return create

        function.add_plain_path = add_plain_path  # type: ignore[attr-defined]
        return make

    return decorate


def plain_shape(size: Sequence[Any]) -> Sequence[int] | None:
    """Return the shape given as several integers or as one sequence, if it is a small one.

    None: it is another, or the tensor is not to be made by NumPy.
    """
    if len(size) == 1 and size[0].__class__ in SEQUENCES:
        (size,) = size
    for count in size:
        if count.__class__ is not int or count < 0:
            return None
    if math.prod(size) > creation.LARGE or backend_for(None) is not USUAL_BACKEND:
        return None
    return size


SEQUENCES = {tuple, list}
USUAL_BACKEND = backends.CPU if backends.CPU.xp is np else None
new_tensor = functools.partial(object.__new__, Tensor)


def default_dtype() -> np.dtype:
    return dtypes._default.numpy


@plain(creation.zeros)
def zeros(size: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    shape = plain_shape(size)
    return None if shape is None else make_full(np, shape, 0, dtype or default_dtype())


@plain(creation.ones)
def ones(size: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    shape = plain_shape(size)
    return None if shape is None else make_full(np, shape, 1, dtype or default_dtype())


@plain(creation.empty)
def empty(size: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    shape = plain_shape(size)
    return None if shape is None else np.empty(shape, dtype or default_dtype())


@plain(creation.full)
def full(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 2 or args[0].__class__ not in SEQUENCES or dtype in dtypes.STORED:
        return None
    value, shape = args[1], plain_shape(args[:1])
    if shape is None or value.__class__ not in SCALARS:
        return None
    return make_full(np, shape, value, dtype or dtypes.scalar_type(value).numpy)


SCALARS = {int, float, bool}


@plain(creation.eye)
def eye(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 1 or plain_shape((*args, *args)) is None or not args[0]:
        return None
    (size,) = args
    array = make_full(np, size * size, 0, dtype or default_dtype())
    array[:: size + 1] = 1
    return array.reshape(size, size)


@plain(creation.arange)
def arange(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 1 or dtype is not None or plain_shape(args) is None:
        return None
    return make_range(args[0])


@plain(creation.linspace)
def linspace(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 3 or dtype is not None or plain_shape(args[2:]) is None:
        return None
    start, end, steps = args
    if not (start.__class__ in SCALARS and end.__class__ in SCALARS and steps > 1):
        return None
    distance = float(end) - float(start)
    step = distance / (steps - 1)
    if step == 0 or not math.isfinite(distance):
        return None
    # As `numpy.linspace` does, without the search for a type.
    values = np.arange(steps, dtype=np.float64)
    values *= step
    if start:
        values += start
    values[-1] = end
    return values.astype(default_dtype())


def plain_array(args: Sequence[Any]) -> Array | None:
    """Return the array of the only argument, if that is a tensor with contiguous memory."""
    if len(args) != 1 or args[0].__class__ not in PLAIN_TENSORS:
        return None
    array = args[0]._array
    return array if array.__class__ is np.ndarray and array.flags.c_contiguous else None


@plain(creation.zeros_like)
def zeros_like(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    array = plain_array(args)
    return None if array is None else make_full(np, array.shape, 0, dtype or array.dtype)


@plain(creation.ones_like)
def ones_like(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    array = plain_array(args)
    return None if array is None else make_full(np, array.shape, 1, dtype or array.dtype)


@plain(creation.empty_like)
def empty_like(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    array = plain_array(args)
    return None if array is None else np.empty(array.shape, dtype or array.dtype)


@plain(from_data.from_numpy)
def from_numpy(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 1 or dtype is not None or args[0].__class__ is not np.ndarray:
        return None
    (array,) = args
    if array.dtype not in dtypes._BY_NUMPY or min(array.strides, default=0) < 0:
        return None
    return mark_shared(array)


def draw(distribution: str, size: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    """Return samples of the default generator."""
    shape = None if dtype is not None else plain_shape(size)
    if shape is None:
        return None
    samples = random.default_generator(backends.CPU).random
    return getattr(samples, distribution)(tuple(shape), default_dtype())


@plain(random.rand)
def rand(size: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    return draw("uniform", size, dtype)


@plain(random.randn)
def randn(size: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    return draw("normal", size, dtype)


@plain(random.randperm)
def randperm(args: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    if len(args) != 1 or dtype is not None or plain_shape(args) is None:
        return None
    return random.default_generator(backends.CPU).random.permutation(args[0])
