"""Buckets: gradients that travel in one message, in memory that lies together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import backends
from ...core.autograd.graph import fill
from ...core.tensor import Tensor

__all__ = ["Bucket", "GradBucket", "assign_buckets"]

FIRST_BUCKET_BYTES = 1024 * 1024
"""The first bucket is small: it can leave soon after backward has begun."""


class Bucket:
    """Some parameters, and flat memory for their gradients.

    Attributes:
        indices: the positions of the parameters in the model's list.
        parameters: they themselves.
        flat: a tensor of one axis; the gradient of each parameter is a part of it.
        views: these parts, in the shapes of the parameters.
        missing: how many gradients are not there yet in this backward pass.
        work: the message that is on its way, or a future of it.
    """

    def __init__(self, indices: Sequence[int], parameters: Sequence[Tensor]) -> None:
        self.indices, self.parameters = list(indices), list(parameters)
        array = self.parameters[0]._array
        backend = backends.of(array)
        sizes = [parameter.numel() for parameter in self.parameters]
        memory = backend.xp.zeros(sum(sizes), array.dtype)
        self.flat = fill(object.__new__(Tensor), memory)
        self.views, start = [], 0
        for parameter, size in zip(self.parameters, sizes, strict=True):
            part = memory[start : start + size].reshape(parameter._array.shape)
            self.views.append(fill(object.__new__(Tensor), part))
            start += size
        self.missing, self.work = 0, None
        self.prepare()

    def prepare(self) -> None:
        """Expect all gradients anew."""
        self.missing, self.work = len(self.indices), None  # type: ignore[assignment]

    def members(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield each parameter: its position, itself, and its gradient in the bucket."""
        return zip(self.indices, self.parameters, self.views, strict=True)


class GradBucket:
    """A full bucket as a communication hook gets it."""

    def __init__(self, bucket: Bucket, index: int, is_last: bool) -> None:
        self._bucket, self._index, self._is_last = bucket, index, is_last
        self._buffer = bucket.flat

    def index(self) -> int:
        """Return the number of the bucket; they leave in this order."""
        return self._index

    def buffer(self) -> Tensor:
        """Return the gradients, one after the other, as a tensor of one axis."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Replace the gradients, also by those of another dtype, as a hook for it sends them."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Return the gradients in the shapes of their parameters: views of the buffer."""
        if self._buffer is self._bucket.flat:
            return list(self._bucket.views)
        sizes = [parameter.numel() for parameter in self._bucket.parameters]
        parts = self._buffer.split(sizes)
        return [part.view(view.shape) for part, view in zip(parts, self._bucket.views, strict=True)]

    def parameters(self) -> list[Tensor]:
        """Return the parameters."""
        return list(self._bucket.parameters)

    def is_last(self) -> bool:
        """Whether it is the last bucket of this backward pass."""
        return self._is_last


def assign_buckets(
    parameters: Sequence[Tensor], order: Iterable[int], capacity: float
) -> list[list[int]]:
    """Divide parameters among buckets: in the given order, one dtype and device in each.

    Args:
        parameters: all of the model that need a gradient.
        order: their positions, that whose gradient comes first at the beginning.
        capacity: of a bucket, in bytes; the first one has at most `FIRST_BUCKET_BYTES`.
    """
    open_buckets: dict[Any, tuple[list[int], int]] = {}
    full: list[list[int]] = []
    for index in order:
        parameter = parameters[index]
        key = (parameter.dtype, parameter.device)
        indices, size = open_buckets.pop(key, ([], 0))
        indices.append(index)
        size += int(np.prod(parameter.shape)) * parameter.element_size()
        if size >= (capacity if full else min(capacity, FIRST_BUCKET_BYTES)):
            full.append(indices)
        else:
            open_buckets[key] = (indices, size)
    return full + [indices for indices, _ in open_buckets.values()]
