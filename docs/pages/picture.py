"""The small picture on a page: the ops that its example ran.

`viz.draw` shows what a graph remembers for backward. Here every op is wanted, also one
without a gradient, so this listens to the events.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edutorch import dtypes
from edutorch.core.op import Op
from edutorch.core.tensor import Tensor
from edutorch.errors import MissingExtraError
from edutorch.events import OpApplied
from edutorch.viz.graph.graph_reader import number_vertex
from edutorch.viz.graph.model import Key, Vertex, arrange
from edutorch.viz.render.graphviz import LayoutError
from edutorch.viz.render.static import Drawing
from edutorch.viz.tensors.summaries import Stats, summarize

MOST_OPS = 24
"""The largest number of nodes in a picture."""


@dataclass
class OpCall:
    """One op that ran, and in which example."""

    op: Op
    key: Key
    example: int
    is_view: bool


def stats_of(tensor: Tensor) -> Stats | None:
    """Return the statistics of a tensor for its box; None inside `vmap`."""
    return summarize(tensor._array) if isinstance(tensor._array, np.ndarray) else None


def share_memory(one: Any, other: Any) -> bool:
    """Whether two arrays share memory."""
    both = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
    return both and np.may_share_memory(one, other)


class Sketch:
    """A listener that gathers the graph of what runs, op by op."""

    def __init__(self, short: str) -> None:
        self.short = short
        self.applied: list[OpCall] = []
        self.vertices: dict[Key, Vertex] = {}
        self._made: dict[int, Key] = {}
        self._kept: list[Any] = []  # an id is given again when its tensor is gone
        self._leaves: list[tuple[Key, Any]] = []
        self._sources: list[str] = []
        self._globals: Mapping[str, Any] = {}

    def begin(self, source: str, globs: Mapping[str, Any]) -> None:
        """Record that the next example is `source`."""
        self._name_leaves(globs)
        self._sources.append(source)

    def end(self, globs: Mapping[str, Any]) -> None:
        self._name_leaves(globs)
        self._kept.clear()
        self._leaves.clear()

    def __call__(self, event: Any) -> None:
        if not isinstance(event, OpApplied):
            return
        op, key = event.op, ("op", len(self.applied))
        outputs = event.output if isinstance(event.output, tuple) else (event.output,)
        first = outputs[0]
        if not isinstance(first, Tensor):
            return
        names = op.inputs
        inputs = event.inputs
        if op.variadic:
            names = tuple(f"{op.inputs[0]}[{index}]" for index in range(len(inputs)))
        sources = [
            (name, source)
            for name, argument in zip(names, inputs, strict=False)
            if (source := self._source(argument, name, key)) is not None
        ]
        self.vertices[key] = Vertex(
            "op", op.name, shape=tuple(first.shape), dtype=dtypes.of(first._array.dtype).name,
            formulas=op.formulas, sources=tuple(sources), value=stats_of(first),
        )  # fmt: skip
        arrays = [argument._array for argument in inputs if isinstance(argument, Tensor)]
        is_view = any(share_memory(first._array, array) for array in arrays)
        self.applied.append(OpCall(op, key, len(self._sources) - 1, is_view))
        self._made |= dict.fromkeys(map(id, outputs), key)
        self._kept.append((event.inputs, outputs))

    def _source(self, argument: Any, name: str, user: Key) -> Key | None:
        if isinstance(argument, int | float):
            key: Key = ("number", user, name)
            self.vertices[key] = number_vertex(name, argument)
            return key
        if not isinstance(argument, Tensor):
            return None
        if id(argument) not in self._made:
            key = ("leaf", id(argument))
            self._made[id(argument)] = key
            self._leaves.append((key, argument))
            self.vertices[key] = Vertex(
                "leaf", name, shape=tuple(argument.shape),
                dtype=dtypes.of(argument._array.dtype).name,
                value=stats_of(argument),
            )  # fmt: skip
        return self._made[id(argument)]

    def _name_leaves(self, globs: Mapping[str, Any]) -> None:
        """Name each leaf by the variable of the example that holds it."""
        variables = {id(value): name for name, value in globs.items() if isinstance(value, Tensor)}
        for key, tensor in self._leaves:
            self.vertices[key].label = variables.get(id(tensor), self.vertices[key].label)

    # What came of it ------------------------------------------------------------------

    def shown(self, op: Op | None) -> list[OpCall]:
        """Return the ops of the first example that uses the function of the page."""
        called = re.compile(rf"\b{re.escape(self.short)}_?\b")
        fitting = [i for i, source in enumerate(self._sources) if called.search(source)]
        for index in [*fitting, *range(len(self._sources))]:
            here = [call for call in self.applied if call.example == index]
            own = [call for call in here if call.op is op]
            if own:
                return own[-1:]
            if here and op is None:
                return here
        return []

    def drawing(self, op: Op | None) -> Drawing | None:
        """Return the picture, None if nothing ran or too much did."""
        ops = self.shown(op)
        used = {source for op in ops for _, source in self.vertices[op.key].sources}
        roots = [op.key for op in ops if op.key not in used]
        snapshot = arrange(self.vertices, roots)
        count = sum(node.kind in ("op", "output") for node in snapshot.graph.nodes)
        return Drawing(snapshot) if 0 < count <= MOST_OPS else None


def html(drawing: Drawing) -> tuple[str, bool]:
    """Return the picture as SVG, or without a Graphviz as a table of text; and which it is."""
    try:
        return drawing.svg, True
    except (LayoutError, MissingExtraError):
        return drawing.table(), False
