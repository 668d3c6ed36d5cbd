"""Which vertex of a picture made the elements that a tensor shows now.

A tensor is known by its identity, a recorded one by its node: both stay what they are when
something is written into the memory, while numbers and orders change. All tensors that share a
memory share the count of writes into it, so that a stale entry shows by its version.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...core.autograd.graph import LEAF
from ...core.tensor import Tensor

FIXED = -1
"""The version of an alias: it stands for the tensor as it was, whatever is written since."""


class Known(NamedTuple):
    """A tensor, by a weak reference; its vertex; the version then; and when it was first seen."""

    tensor: weakref.ref[Tensor]
    key: int
    version: int
    first: int


class TensorKeys:
    """The vertex of each tensor of one step. No tensor is kept alive."""

    def __init__(self) -> None:
        self._nodes: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._tensors: dict[int, Known] = {}
        self._written: dict[int, tuple[Any, int]] = {}  # by memory: the result written last

    def note(self, tensor: Tensor, key: int) -> None:
        """Note that a vertex made a tensor, as it is now."""
        known = self.last(tensor)
        first = tensor._version if known is None else known.first
        self._tensors[id(tensor)] = Known(weakref.ref(tensor), key, tensor._version, first)
        if has_node(tensor):
            self.note_node(tensor._node, key)

    def note_node(self, node: Any, key: int) -> None:
        """Note which vertex a recorded node is."""
        self._nodes[id(node)] = weakref.ref(node), key

    def alias(self, tensor: Tensor, alias: Tensor) -> None:
        """Note that a second object stands for a tensor as it is now."""
        known = self.last(tensor)
        if known is not None:
            self._tensors[id(alias)] = known._replace(tensor=weakref.ref(alias), version=FIXED)

    def note_write(self, tensor: Tensor, result: int | None) -> None:
        """Note which result was written into the memory of a tensor."""
        writes = tensor._writes
        if writes is None:
            return
        if result is None:
            self._written.pop(id(writes), None)
        else:
            self._written[id(writes)] = writes, result  # held, so that no other gets its identity

    def find(self, tensor: Tensor) -> int | None:
        """Return the vertex whose elements a tensor shows; None if there is none yet."""
        if has_node(tensor):
            return self.of_node(tensor._node)
        known = self.last(tensor)
        return None if known is None or self.is_stale(tensor) else known.key

    def is_stale(self, tensor: Tensor) -> bool:
        """Return True if the memory of a known tensor was written to since it was noted."""
        known = self.last(tensor)
        return known is not None and known.version not in (FIXED, tensor._version)

    def of_node(self, node: Any) -> int | None:
        """Return the vertex of a recorded node."""
        known = self._nodes.get(id(node))
        return known[1] if known is not None and known[0]() is node else None

    def nodes(self) -> Iterator[tuple[Any, int]]:
        """Yield the recorded nodes that live, with their vertices."""
        for reference, key in self._nodes.values():
            node = reference()
            if node is not None:
                yield node, key

    def identities(self) -> Iterator[tuple[int, int]]:
        """Yield the identity and the vertex of each tensor that lives."""
        for identity, known in self._tensors.items():
            if known.tensor() is not None and known.version != FIXED:
                yield identity, known.key

    def references(self) -> Iterator[tuple[int, weakref.ref[Tensor]]]:
        """Yield the vertex of each tensor as it was seen last, and a weak reference to it."""
        for known in self._tensors.values():
            if known.version != FIXED:
                yield known.key, known.tensor

    def last(self, tensor: Tensor) -> Known | None:
        """Return what was noted last of a tensor, also if its memory was written to since."""
        known = self._tensors.get(id(tensor))
        return known if known is not None and known.tensor() is tensor else None

    def owner_of_gradient(self, tensor: Tensor) -> int | None:
        """Return the vertex of the leaf whose `.grad` a tensor is."""
        for known in self._tensors.values():
            owner = known.tensor()
            if owner is not None and owner._grad is tensor:
                return known.key
        return None

    def owner_of_array(self, array: Any) -> Tensor | None:
        """Return the tensor that shows just this array."""
        for known in self._tensors.values():
            tensor = known.tensor()
            if tensor is not None and tensor._array is array:
                return tensor
        return None

    def writer(self, tensor: Tensor) -> int | None:
        """Return the vertex of what was written last into the memory of a tensor."""
        known = self._written.get(id(tensor._writes)) if tensor._writes is not None else None
        return None if known is None else known[1]

    def version(self, tensor: Tensor) -> int:
        """Return how many writes a tensor has seen since it was first seen."""
        known = self.last(tensor)
        return 0 if known is None else tensor._version - known.first


def has_node(tensor: Tensor) -> bool:
    """Return True if a recorded op made the tensor."""
    return tensor._node is not None and tensor._node is not LEAF
