"""Maps each tensor to the vertex of the picture that computed its current elements.

A tensor is identified by its id, a recorded one by its node: both survive an in-place write, while
versions and orders change. All tensors that share memory share its version counter, so that a
stale entry is recognized by its version.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...backends.numpy import Array
from ...core.autograd.graph import LEAF
from ...core.tensor import Tensor
from ..tensors.summaries import summarize
from .model import Snapshot, Vertex

FIXED = -1
"""The version of an alias, which stands for the tensor before any later write."""


class TensorEntry(NamedTuple):
    """A weak reference to a tensor, its vertex, its version then, and its first known version."""

    tensor: weakref.ref[Tensor]
    key: int
    version: int
    first: int


class TensorKeys:
    """The vertices of the tensors of one step. No tensor is kept alive."""

    def __init__(self) -> None:
        self._nodes: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._tensors: dict[int, TensorEntry] = {}
        self._written: dict[int, tuple[Any, int]] = {}  # the last written result, by memory

    def record(self, tensor: Tensor, key: int) -> None:
        """Record that a vertex computed the current elements of a tensor."""
        entry = self.last(tensor)
        first = tensor._version if entry is None else entry.first
        self._tensors[id(tensor)] = TensorEntry(weakref.ref(tensor), key, tensor._version, first)
        if has_node(tensor):
            self.record_node(tensor._node, key)

    def record_node(self, node: object, key: int) -> None:
        """Record the vertex of a node."""
        self._nodes[id(node)] = weakref.ref(node), key

    def alias(self, tensor: Tensor, alias: Tensor) -> None:
        """Record that a second object stands for a tensor in its current version."""
        entry = self.last(tensor)
        if entry is not None:
            self._tensors[id(alias)] = entry._replace(tensor=weakref.ref(alias), version=FIXED)

    def record_write(self, tensor: Tensor, result: int | None) -> None:
        """Record the result that was written into the memory of a tensor."""
        writes = tensor._writes
        if writes is None:
            return
        if result is None:
            self._written.pop(id(writes), None)
        else:
            self._written[id(writes)] = writes, result  # kept alive, so that its id is not reused

    def find(self, tensor: Tensor) -> int | None:
        """Return the vertex that computed the elements of a tensor, or None if unknown."""
        if has_node(tensor):
            return self.of_node(tensor._node)
        entry = self.last(tensor)
        return None if entry is None or self.is_stale(tensor) else entry.key

    def is_stale(self, tensor: Tensor) -> bool:
        """Whether the memory of a known tensor was written to since it was recorded."""
        entry = self.last(tensor)
        return entry is not None and entry.version not in (FIXED, tensor._version)

    def of_node(self, node: object) -> int | None:
        """Return the vertex of a recorded node."""
        entry = self._nodes.get(id(node))
        return entry[1] if entry is not None and entry[0]() is node else None

    def nodes(self) -> Iterator[tuple[Any, int]]:
        """Yield the recorded nodes that are alive, with their vertices."""
        for reference, key in self._nodes.values():
            node = reference()
            if node is not None:
                yield node, key

    def identities(self) -> Iterator[tuple[int, int]]:
        """Yield id and vertex of each tensor that is alive."""
        for identity, entry in self._tensors.items():
            if entry.tensor() is not None and entry.version != FIXED:
                yield identity, entry.key

    def references(self) -> Iterator[tuple[int, weakref.ref[Tensor]]]:
        """Yield the last vertex of each tensor, and a weak reference to the tensor."""
        for entry in self._tensors.values():
            if entry.version != FIXED:
                yield entry.key, entry.tensor

    def last(self, tensor: Tensor) -> TensorEntry | None:
        """Return the last entry of a tensor, even if its memory was written to since."""
        entry = self._tensors.get(id(tensor))
        return entry if entry is not None and entry.tensor() is tensor else None

    def owner_of_gradient(self, tensor: Tensor) -> int | None:
        """Return the vertex of the leaf whose `.grad` a tensor is."""
        for entry in self._tensors.values():
            owner = entry.tensor()
            if owner is not None and owner._grad is tensor:
                return entry.key
        return None

    def owner_of_array(self, array: Array) -> Tensor | None:
        """Return the tensor whose array is this very object."""
        for entry in self._tensors.values():
            tensor = entry.tensor()
            if tensor is not None and tensor._array is array:
                return tensor
        return None

    def writer(self, tensor: Tensor) -> int | None:
        """Return the vertex of the last write into the memory of a tensor."""
        entry = self._written.get(id(tensor._writes)) if tensor._writes is not None else None
        return None if entry is None else entry[1]

    def version(self, tensor: Tensor) -> int:
        """Return the number of writes into a tensor since it was first recorded."""
        entry = self.last(tensor)
        return 0 if entry is None else tensor._version - entry.first


def has_node(tensor: Tensor) -> bool:
    """Whether a recorded op computed the tensor."""
    return tensor._node is not None and tensor._node is not LEAF


Leaves = list[tuple[int, weakref.ref[Tensor]]]
"""The tensors with a gradient that a picture shows as leaves, by the index of the node."""


GRAPHS = 8
"""The leaves of this many different graphs are remembered."""


class LivingLeaves:
    """Remembers which tensors the leaves of each graph are, without keeping them alive."""

    def __init__(self) -> None:
        self._by_structure: dict[str, Leaves] = {}

    def note(self, keys: TensorKeys, vertices: Mapping[int, Vertex], snapshot: Snapshot) -> None:
        """Remember the leaves of a step that was sampled in full."""
        structure = snapshot.graph.structure
        self._by_structure.pop(structure, None)
        while len(self._by_structure) >= GRAPHS:
            del self._by_structure[next(iter(self._by_structure))]
        index_of = {key: index for index, key in enumerate(snapshot.order)}
        self._by_structure[structure] = [
            (index_of[key], tensor)
            for key, tensor in keys.references()
            if key in index_of and is_trained(vertices[key])
        ]

    def refresh(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with the current values of its leaves, where these still exist."""
        values, grads = list(snapshot.values), list(snapshot.grads)
        for position, tensor in self._living(snapshot):
            values[position] = summarize(tensor._array, True)
            if tensor._grad is not None:
                grads[position] = summarize(tensor._grad._array)
        return replace(snapshot, values=tuple(values), grads=tuple(grads))

    def _living(self, snapshot: Snapshot) -> Iterable[tuple[int, Tensor]]:
        for position, reference in self._by_structure.get(snapshot.graph.structure, ()):
            tensor = reference()
            if tensor is not None and tensor.shape == snapshot.graph.nodes[position].shape:
                yield position, tensor


def with_losses(snapshot: Snapshot, losses: Mapping[str, float | None]) -> Snapshot:
    """Return a snapshot whose results have these losses as values, by the names of their variables.

    The only loss of a step is the only result, whatever its name.
    """
    values = list(snapshot.values)
    results = [at for at, node in enumerate(snapshot.graph.nodes)
               if node.kind == "output" and math.prod(node.shape) == 1]  # fmt: skip
    for at in results:
        alone = len(results) == len(losses) == 1
        name = next(iter(losses)) if alone else snapshot.graph.nodes[at].variable
        loss = losses.get(name)
        if loss is not None:
            values[at] = summarize(np.full(snapshot.graph.nodes[at].shape, loss))
    return replace(snapshot, values=tuple(values))


def is_trained(vertex: Vertex) -> bool:
    """Return True for a tensor from outside the step that gets a gradient."""
    return vertex.kind in ("leaf", "parameter") and vertex.differentiable
