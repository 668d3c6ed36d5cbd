"""The last step of a loop, whose activations may not have been sampled.

When the loop is over, its parameters and their gradients still exist. They are read then, which
costs the loop nothing, and put into the last sampled step.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ..graph.model import Snapshot
from ..tensors.summaries import summarize
from .step_graph import StepGraph

Leaves = list[tuple[int, weakref.ref[Tensor]]]
"""The tensors with a gradient that a picture shows as leaves, by the index of the node."""

GRAPHS = 8
"""The leaves of this many different graphs are remembered."""


class LivingLeaves:
    """Remembers which tensors the leaves of each graph are, without keeping them alive."""

    def __init__(self) -> None:
        self._by_structure: dict[str, Leaves] = {}

    def note(self, graph: StepGraph, snapshot: Snapshot) -> None:
        """Remember the leaves of a step that was sampled in full."""
        structure = snapshot.graph.structure
        self._by_structure.pop(structure, None)
        while len(self._by_structure) >= GRAPHS:
            del self._by_structure[next(iter(self._by_structure))]
        index_of = {key: index for index, key in enumerate(snapshot.order)}
        self._by_structure[structure] = [
            (index_of[key], tensor)
            for key, tensor in graph.keys.references()
            if key in index_of and is_trained(graph.vertices[key])
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


def is_trained(vertex: Any) -> bool:
    """Return True for a tensor from outside the step that gets a gradient."""
    return vertex.kind in ("leaf", "parameter") and vertex.differentiable
