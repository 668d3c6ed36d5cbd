"""`torch.cuda.comm`: a tensor on several cards, whole or in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.tensor import Tensor
from ..errors import InvalidValueError
from ..ops import cat
from .devices import card_index

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "scatter"]


def device_names(devices: Sequence[Any]) -> list[str]:
    """Return the names of cards."""
    return [f"cuda:{card_index(device)}" for device in devices]


def broadcast(
    tensor: Tensor, devices: Sequence[Any] | None = None, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Copy a tensor to several cards.

    Args:
        devices: the cards, that of the tensor first.
        out: tensors on the cards, to copy into.

    Raises: RuntimeError: both, or neither, are given.
    """
    if (devices is None) == (out is None):
        raise InvalidValueError("broadcast", "exactly one of 'devices' and 'out' must be specified")
    if out is not None:
        return tuple(target.copy_(tensor) for target in out)
    return tuple(tensor.to(name, non_blocking=True) for name in device_names(devices or ()))


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760
) -> list[tuple[Tensor, ...]]:
    """Copy several tensors to several cards: a tuple of all for each card."""
    return [tuple(tensor.to(name) for tensor in tensors) for name in device_names(devices)]


def reduce_add(inputs: Sequence[Tensor], destination: int | None = None) -> Tensor:
    """Add tensors of several cards, on one of them (the current one by default).

    Raises: RuntimeError: the shapes differ, or there are none.
    """
    if not inputs or any(tensor.shape != inputs[0].shape for tensor in inputs):
        shapes = {f"inputs[{number}]": tuple(x.shape) for number, x in enumerate(inputs)}
        raise InvalidValueError("reduce_add", "expected tensors of one shape", shapes)
    place = f"cuda:{card_index(destination)}"
    total = inputs[0].to(place, copy=True)
    for tensor in inputs[1:]:
        total += tensor.to(place)
    return total


def scatter(
    tensor: Tensor, devices: Sequence[Any] | None = None, chunk_sizes: Sequence[int] | None = None,
    dim: int = 0, streams: Sequence[Any] | None = None, *, out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Split a tensor along a dimension, and move each part to a card of its own.

    Args:
        chunk_sizes: the sizes of the parts; equal ones by default.
        streams: accepted, without effect: each copy waits in the current stream.
        out: tensors on the cards, to copy into.
    """
    if out is not None:
        sizes = [target.shape[dim] for target in out]
        parts = tensor.split(sizes, dim)
        return tuple(target.copy_(part) for target, part in zip(out, parts, strict=True))
    names = device_names(devices or ())
    parts = tensor.split(list(chunk_sizes), dim) if chunk_sizes else tensor.chunk(len(names), dim)
    return tuple(part.to(name) for part, name in zip(parts, names, strict=False))


def gather(
    tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Tensor | None = None
) -> Tensor:
    """Concatenate tensors of several cards, on one of them or on "cpu".

    Args:
        destination: a card (the current one by default), or "cpu" (also -1).
        out: a tensor to copy into.
    """
    if out is not None:
        return out.copy_(cat([tensor.to(out.device) for tensor in tensors], dim))
    if destination == -1 or str(destination) == "cpu":
        place = "cpu"
    else:
        place = f"cuda:{card_index(destination)}"
    return cat([tensor.to(place) for tensor in tensors], dim)
