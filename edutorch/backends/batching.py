"""Batched arrays, which look like one example of a batch: the device of `vmap`.

`vmap(f)` calls `f` once, with tensors around a `BatchedArray`: an array of another device
(NumPy, CuPy, or again one of these) whose axis 0, the batch, is hidden. It has the shape of
one example, and the functions of its `xp` (`batching_rules.py`) leave the hidden axis as it is.
So every forward and every derivative rule works on it unchanged.

One call of `vmap` is one level, and a level is one `BatchedBackend`. Nested calls nest their
arrays, the newest level outermost. The hidden axis has size 1 where all examples share the
elements, as for a weight from outside.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import batching_array, batching_rules, register_type
from . import batching_shape as batching_shape  # it has rules to enter
from . import of as backend_of
from .array_surface import Index
from .batching_array import BatchedArray, IndexPlan
from .batching_rules import (
    LOOPED,
    BatchedNamespace,
    NotBatchableError,
    Values,
    VmapError,
    axes_inside,
    list_arrays,
    stack_results,
    unsupported_error,
)
from .numpy import Array, Backend
from .philox import PhiloxRandom

__all__ = ["BatchedArray", "BatchedBackend"]


class BatchedBackend(Backend):
    """One level of `vmap`.

    Args:
        inner: the device, or the next level outside.
        size: the number of examples.
        depth: the nesting depth of the level: 1 for the outermost call of `vmap`.
        randomness: "error", "different" or "same": see `random`.
    """

    array_type = BatchedArray
    _level_counter = itertools.count(1)

    def __init__(
        self, inner: Backend, size: int, depth: int = 1, randomness: str = "error"
    ) -> None:
        self.inner, self.size, self.depth, self.randomness = inner, size, depth, randomness
        self.level = next(self._level_counter)  # the newest is the highest, and outermost
        self.name, self.is_accelerator = inner.name, inner.is_accelerator
        self.index, self.is_simulated = inner.index, inner.is_simulated
        self.xp = BatchedNamespace(self)

    @property
    def device_name(self) -> str:
        """The name of the device behind all levels."""
        return self.inner.device_name

    @property
    def device(self) -> Backend:
        """The device behind all levels."""
        return getattr(self.inner, "device", self.inner)

    # In and out -------------------------------------------------------------------------

    def wrap(self, values: Array) -> BatchedArray:
        """Hide the first axis of an array."""
        return BatchedArray(values, self)

    def inside(self, value: Array) -> Any:
        """Return the array behind an operand, with the hidden axis; numbers stay numbers."""
        if isinstance(value, BatchedArray) and value.backend is self:
            return value._values
        return value[None] if hasattr(value, "dtype") else value

    def lift(self, array: Array) -> BatchedArray:
        """Return an array from outside as one that all examples share."""
        if isinstance(array, BatchedArray) and array.backend is self:
            return array
        return self.wrap(array[None])

    def enter(self, array: Array, dim: int | None) -> BatchedArray:
        """Hide axis `dim` of an array; None: all examples share it.

        If the array belongs to a newer level already, that one stays outermost.
        """
        holder = getattr(array, "backend", None)
        if holder is self:
            return array
        if holder is not None and holder.level > self.level:
            return holder.wrap(self.enter(array._values, None if dim is None else dim + 1))
        if dim is None:
            return self.wrap(array[None])
        return self.wrap(backend_of(array).xp.moveaxis(array, dim, 0))

    def leave(self, array: Array, dim: int | None) -> Any:
        """Return the array with the hidden axis as axis `dim`; None: sum over the examples."""
        holder = getattr(array, "backend", None)
        if holder is not None and holder.level > self.level:
            return holder.wrap(self.leave(array._values, None if dim is None else dim + 1))
        values = self.inside(array)
        common = values.shape[0] != self.size
        if dim is None:
            return values[0, ...] * self.size if common else values.sum(axis=0)
        values = self.full(values).copy() if common else values
        return backend_of(values).xp.moveaxis(values, 0, dim)

    def full(self, values: Array) -> Any:
        """Expand a shared hidden axis over all examples."""
        if values.shape[0] == self.size:
            return values
        return backend_of(values).broadcast_to(values, (self.size, *values.shape[1:]))

    @staticmethod
    def highest(values: Sequence[Any]) -> Any:
        """Return the backend that can compute with all of `values`: the highest level."""
        array_backends = [backend_of(value) for value in values if hasattr(value, "strides")]
        return max(array_backends, key=lambda backend: backend.level)

    def run(
        self, forward: Callable[..., Any], inputs: dict[str, Any], settings: dict[str, Any]
    ) -> Any:
        """Run a forward; once per example if its control flow depends on the elements."""
        try:
            return forward(self.xp, **inputs, **settings)
        except NotBatchableError:
            LOOPED[forward.__name__] += 1
        results = []
        for number in range(self.size):
            one = {name: self.example(input_, number) for name, input_ in inputs.items()}
            others = {name: self.example(setting, number) for name, setting in settings.items()}
            arrays = [array for value in one.values() for array in list_arrays(value)]
            results.append(self.highest(arrays).run(forward, one, others))
        return stack_results(self, results)

    def example(self, value: object, number: int) -> Any:
        """Return the part of a value that belongs to one example."""
        value = getattr(value, "_array", value)
        if isinstance(value, BatchedArray) and value.backend is self:
            return value._values[number if value._values.shape[0] > 1 else 0, ...]
        if not isinstance(value, (tuple, list)):
            return value
        parts = [self.example(part, number) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts

    # The interface of every backend ------------------------------------------------------------

    def asarray(self, values: object, dtype: np.dtype | None = None) -> Array:
        return self.xp.asarray(values, dtype=dtype)

    def from_numpy(self, array: np.ndarray) -> BatchedArray:
        return self.wrap(self.inner.from_numpy(array)[None])

    def to_numpy(self, array: BatchedArray) -> np.ndarray:
        raise unsupported_error("numpy")

    def scatter_add(self, target: BatchedArray, index: Index, values: Array) -> None:
        IndexPlan(target, index).add(values)

    def as_strided(
        self, array: BatchedArray, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> BatchedArray:
        values = array._values
        shape, steps = (values.shape[0], *shape), (values.strides[0], *strides)
        return self.wrap(backend_of(values).as_strided(values, shape, steps, offset))

    def storage(self, array: BatchedArray) -> tuple[int, int]:
        return backend_of(array._values).storage(array._values)

    def memory(self, array: BatchedArray) -> Array:
        raise unsupported_error("untyped_storage")

    def shares_memory(self, view: object, of: object) -> bool:
        if not (isinstance(view, BatchedArray) and isinstance(of, BatchedArray)):
            return False
        if view.backend is not of.backend:
            return False
        return backend_of(view._values).shares_memory(view._values, of._values)

    def broadcast_to(self, array: BatchedArray, shape: tuple[int, ...]) -> BatchedArray:
        (values,) = Values(self, [array], len(shape)).arrays
        return self.wrap(backend_of(values).broadcast_to(values, (values.shape[0], *shape)))

    def diagonal(self, array: BatchedArray, offset: int, axis1: int, axis2: int) -> BatchedArray:
        axes = axes_inside((axis1, axis2), array.ndim)
        return self.wrap(backend_of(array._values).diagonal(array._values, offset, *axes))

    def address(self, array: BatchedArray) -> int:
        return backend_of(array._values).address(array._values)

    def generator(self, seed: int) -> Any:
        return self.inner.generator(seed)

    def synchronize(self) -> None:
        self.inner.synchronize()


register_type(BatchedArray)


class BatchedRandom:
    """A generator that draws for each example of a level, from the generator outside of it."""

    def __init__(self, outer: PhiloxRandom | BatchedRandom, level: BatchedBackend) -> None:
        self.outer, self.level = outer, level

    def uniform(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Uniform samples in [0, 1)."""
        return self.level.wrap(self.outer.uniform((self.level.size, *shape), dtype))

    def normal(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Samples from the standard normal distribution."""
        return self.level.wrap(self.outer.normal((self.level.size, *shape), dtype))

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Array:
        """Integers in [low, high)."""
        return self.level.wrap(self.outer.integers(low, high, (self.level.size, *shape)))

    def permutation(self, n: int) -> Array:
        """The integers 0 … n-1 in random order."""
        orders = [self.outer.permutation(n) for _ in range(self.level.size)]
        return self.level.wrap(self.level.inner.xp.stack(orders))


def batched_generator(
    source: PhiloxRandom | BatchedRandom, levels: Sequence[BatchedBackend]
) -> Any:
    """Return a generator that obeys the `randomness` of each open level.

    Raises: VmapError: a level has randomness="error".
    """
    for level in levels:
        if level.randomness == "error":
            raise VmapError(
                "random",
                "vmap: called random operation while in randomness error mode. Please either use "
                "the 'same' or 'different' randomness flags on vmap or perform the randomness "
                "operation out of vmap",
                hint="vmap(func, randomness='different') draws for each example by itself",
            )
        if level.randomness == "different":
            source = BatchedRandom(source, level)
    return source


# Their annotations name it: `typing.get_type_hints` looks it up in their globals.
for _module in (batching_array, batching_rules, batching_shape):
    _module.BatchedBackend = BatchedBackend  # type: ignore[attr-defined]
