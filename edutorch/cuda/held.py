"""What holds the memory of a card: its arrays, with the names of their tensors.

Asked for when memory is full, in `memory_summary` and in `memory_snapshot`: it visits all objects
of the process, which takes some tenths of a second in a large one.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import backends
from ..backends.memory_counts import format_bytes
from ..core.error_messages import dtype_name
from ..core.tensor import Tensor
from ..nn import Module

__all__ = ["Block", "describe_held", "held_blocks"]

SHOWN = 6
"""So many of the largest tensors are named in an error."""


class Block(NamedTuple):
    """A block of memory that arrays use.

    Attributes:
        name: of its tensor: "0.weight of Sequential", or what is known of it.
        shape, dtype: of its largest array.
    """

    address: int
    size: int
    name: str
    shape: tuple[int, ...]
    dtype: Any

    def __str__(self) -> str:
        return f"{format_bytes(self.size)}, {self.shape} {dtype_name(self.dtype)}: {self.name}"


def held_blocks(index: int) -> list[Block]:
    """Return the blocks of memory that are in use on a card, the largest first."""
    backend = backends.get(backends.ACCELERATOR, index)
    objects = gc.get_objects()
    names = dict(named_arrays(objects))
    blocks: dict[int, Block] = {}
    for array in arrays_of(objects):
        if backends.of(array) is not backend:
            continue
        address, size = backend.storage(array)
        if not size:
            continue
        name = names.get(id(array))
        known = blocks.get(address)
        if known is None or (name and known.name == UNNAMED):
            blocks[address] = Block(address, size, name or UNNAMED, array.shape, array.dtype)
    return sorted(blocks.values(), key=lambda block: -block.size)


UNNAMED = "saved for backward, or in a cache"


def arrays_of(objects: list[Any]) -> Iterator[Any]:
    """Yield the arrays of cards among objects, and those of tensors."""
    for value in objects:
        # Not `isinstance`, which would call each object's `__class__`.
        array = value._array if issubclass(type(value), Tensor) else value
        if type(array) in backends._BY_ARRAY and backends.of(array).is_accelerator:
            yield array


def named_arrays(objects: list[Any]) -> Iterator[tuple[int, str]]:
    """Yield the ids of arrays with names, from the least to the most telling one."""
    tensors = [value for value in objects if issubclass(type(value), Tensor)]
    modules = [value for value in objects if issubclass(type(value), Module)]
    optimizers = [value for value in objects if is_optimizer(value)]
    for tensor in tensors:
        yield id(tensor._array), f"a tensor, made by {tensor._node}" if tensor._node else "a tensor"
    names: dict[int, str] = {}
    inner = {id(child) for module in modules for child in module.children()}
    for module in modules:
        if id(module) in inner:
            continue
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            names[id(tensor)] = full = f"{name} of {type(module).__name__}"
            yield id(tensor._array), full
            if tensor.requires_grad and tensor.grad is not None:
                yield id(tensor.grad._array), f"the gradient of {full}"
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            for key, value in state.items():
                if isinstance(value, Tensor):
                    of = names.get(id(parameter), "a parameter")
                    yield id(value._array), f"{type(optimizer).__name__}'s {key} of {of}"


def is_optimizer(value: Any) -> bool:
    """Return True for an optimizer, whose class is in a layer above this one."""
    inside = getattr(type(value), "__module__", "")
    return isinstance(inside, str) and inside.startswith("edutorch.optim") and is_stateful(value)


def is_stateful(value: Any) -> bool:
    members = getattr(value, "__dict__", {})
    return "param_groups" in members and "state" in members


def describe_held(index: int) -> dict[str, str]:
    """Return the largest tensors on a card as rows of an error."""
    blocks = held_blocks(index)
    rows = {f"held-{number}": str(block) for number, block in enumerate(blocks[:SHOWN], start=1)}
    rest = blocks[SHOWN:]
    if rest:
        size = format_bytes(sum(block.size for block in rest))
        rows["others"] = f"{size} in {len(rest)} more"
    return rows
