"""The messages to the page: see `widgets/protocol.d.ts`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ..graph.model import Graph, GraphNode, Snapshot
from ..render.dot import FAINT
from ..tensors.summaries import TINY, Stats
from ..tensors.thumbnails import page_thumbnail
from .panel import Panel

State = Literal["running", "paused", "finished", "interrupted", "failed", "still"]

MOST_POINTS = 120

MOST_BYTES = 600, 16
"""The values of one update have at most this many bytes, and this many for each node."""


class Curve:
    """All values of one scalar, thinned so that a message stays small.

    When it grows too long, neighbours are averaged in pairs: a point then stands for twice as
    many steps.
    """

    def __init__(self) -> None:
        self._points: list[tuple[int, float, int]] = []  # last step, sum of values, count
        self._per_point = 1

    def add(self, step: int, value: float) -> None:
        """Add the value at `step`."""
        self.extend(step, [value])

    def extend(self, first: int, values: Sequence[float]) -> None:
        """Add the values of all steps from `first` on."""
        at = 0
        while at < len(values):
            total, count = 0.0, 0
            if self._points and self._points[-1][2] < self._per_point:
                _, total, count = self._points.pop()
            elif len(self._points) == MOST_POINTS:
                pairs = zip(self._points[::2], self._points[1::2], strict=True)
                self._points = [(b[0], a[1] + b[1], a[2] + b[2]) for a, b in pairs]
                self._per_point *= 2
            some = values[at : at + self._per_point - count]
            at += len(some)
            self._points.append((first + at - 1, total + sum(some), count + len(some)))

    def cut(self, step: int) -> None:
        """Remove the values from `step` on: what was counted as steps were parts of one."""
        self._points = [point for point in self._points if point[0] < step]

    @property
    def latest(self) -> tuple[int, float | None]:
        """The last point, as in `points`."""
        step, total, count = self._points[-1]
        return step, total / count if math.isfinite(total) else None

    def points(self) -> list[tuple[int, float | None]]:
        """Return [step, mean value] pairs; None for NaN and infinity, which JSON lacks."""
        means = ((step, total / count) for step, total, count in self._points)
        return [(step, mean if math.isfinite(mean) else None) for step, mean in means]


def patch_of(
    step: int,
    state: State,
    curves: Mapping[str, Curve],
    parts: Iterable[Panel] = (),
    speed: float | None = None,
) -> dict[str, Any]:
    """Return the part of a `Patch` that does not depend on a graph."""
    data_of_parts = ((part.name, part.patch()) for part in parts)
    return {
        "type": "patch",
        "step": step,
        "latest": {name: curve.latest for name, curve in curves.items()},
        "state": state,
        "speed": speed,
        "parts": {name: data for name, data in data_of_parts if data is not None},
    }


def texts_of(snapshot: Snapshot | None) -> dict[str, Any]:
    """Return the part of a `Patch` that float32 values cannot say."""
    nodes = snapshot.graph.nodes if snapshot else ()
    values = snapshot.values if snapshot else ()
    grads = snapshot.grads if snapshot else ()
    return {
        "structure": snapshot.graph.structure if snapshot else "",
        "tiny": _texts(zip(nodes, values, strict=True)),
        "tinyGrad": _texts(zip(nodes, grads, strict=True)),
        "bad": list(snapshot.bad) if snapshot else [],
    }


def thumbs_of(snapshot: Snapshot, step: int) -> dict[str, Any]:
    """Return the part of a `Patch` that shows tensors as thumbnails, where these are known."""
    rows = zip(snapshot.graph.nodes, snapshot.values, strict=True)
    thumbnails = ((node.id, page_thumbnail(node, stats)) for node, stats in rows
             if stats is not None and stats.bars)  # fmt: skip
    thumbs = {id: thumbnail for id, thumbnail in thumbnails if thumbnail is not None}
    return {"thumbs": thumbs, "thumbsStep": step}


def _texts(rows: Iterable[tuple[GraphNode, Stats | None]]) -> dict[str, str]:
    return {
        node.id: stats.text
        for node, stats in rows
        if stats is not None and stats.text and not is_real(node)
    }


def is_real(node: GraphNode) -> bool:
    """Return True if the elements of a node are floats, which the page writes itself."""
    return "float" in node.dtype


def few_count(node: GraphNode) -> int:
    """Return how many elements of a node are sent one by one: a scalar is its own mean."""
    count = math.prod(node.shape)
    return count if is_real(node) and 1 < count <= TINY else 0


def few_fit(graph: Graph) -> bool:
    """Return True if a stream of updates has room for the elements of tiny tensors, one by one.

    Else the page writes their means while the loop runs, and all elements when it is paused.
    """
    few = sum(map(few_count, graph.nodes))
    others = 9 * len(graph.nodes) + 5 * len(graph.edges)
    return others + 8 * few <= MOST_BYTES[0] + MOST_BYTES[1] * len(graph.nodes)


def pack_values(snapshot: Snapshot | None, running: bool = False) -> bytes:
    """Pack the values of all nodes and edges, in the protocol's order: float32, then signs.

    Args:
        running: many updates come, and none may be large (see `few_fit`).
    """
    if snapshot is None:
        return b""
    values: list[float] = []
    rows = list(zip(snapshot.graph.nodes, snapshot.values, snapshot.grads, strict=True))
    for _, value, grad in rows:
        values += (value.mean if value else math.nan, norm_of(grad))
    values += map(norm_of, snapshot.flows)
    listed = not running or few_fit(snapshot.graph)
    for node, value, grad in rows:
        count = few_count(node)
        if count and listed:
            values += listed_values(value, count) + listed_values(grad, count)
    with np.errstate(over="ignore"):  # float32 overflow becomes an infinity
        packed = np.asarray(values, "<f4").tobytes()
    signs = [sign_of(grad) for grad in (*snapshot.grads, *snapshot.flows)]
    return packed + np.asarray(signs, "i1").tobytes()


def norm_of(stats: Stats | None) -> float:
    return stats.norm if stats else math.nan


def sign_of(stats: Stats | None) -> int:
    """Return -1, 0 or 1: the sign of the mean, unless that is rounding noise around zero."""
    if stats is None or not abs(stats.mean) >= FAINT:
        return 0
    return -1 if stats.mean < 0 else 1


def listed_values(stats: Stats | None, count: int) -> tuple[float, ...]:
    """Return `count` values: the elements of a tiny tensor, or NaN where they are unknown."""
    return stats.few if stats and len(stats.few) == count else (math.nan,) * count
