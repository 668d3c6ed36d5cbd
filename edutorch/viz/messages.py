"""What is sent to the page: see `widgets/protocol.d.ts`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np

from .graph import Snapshot
from .summaries import Stats

State = Literal["running", "paused", "finished", "failed"]

MOST_POINTS = 240


class Curve:
    """All values of one scalar, thinned so that a message stays small.

    When it grows too long, neighbours are averaged, two by two: a point then
    stands for twice as many steps.
    """

    def __init__(self) -> None:
        self._points: list[tuple[int, float, int]] = []  # last step, sum of values, how many
        self._per_point = 1

    def add(self, step: int, value: float) -> None:
        """Add the value at `step`."""
        if self._points and self._points[-1][2] < self._per_point:
            _, total, count = self._points.pop()
            self._points.append((step, total + value, count + 1))
            return
        if len(self._points) == MOST_POINTS:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [(b[0], a[1] + b[1], a[2] + b[2]) for a, b in pairs]
            self._per_point *= 2
        self._points.append((step, value, 1))

    def points(self) -> list[tuple[int, float | None]]:
        """Return [step, mean value] pairs; None for NaN and infinity, which JSON lacks."""
        means = ((step, total / count) for step, total, count in self._points)
        return [(step, mean if math.isfinite(mean) else None) for step, mean in means]


def patch_of(step: int, state: State, curves: Mapping[str, Curve]) -> dict[str, Any]:
    """Make the part of a `Patch` that has nothing to do with a graph."""
    return {
        "type": "patch",
        "step": step,
        "scalars": {name: curve.points() for name, curve in curves.items()},
        "state": state,
    }


def texts_of(snapshot: Snapshot | None) -> dict[str, Any]:
    """Make the part of a `Patch` that says in words what `numbers_of` packs."""
    nodes = snapshot.graph.nodes if snapshot else ()
    values = snapshot.values if snapshot else ()
    grads = snapshot.grads if snapshot else ()
    return {
        "structure": snapshot.graph.structure if snapshot else "",
        "tiny": _texts(zip(nodes, values, strict=True)),
        "tinyGrad": _texts(zip(nodes, grads, strict=True)),
        "bad": list(snapshot.bad) if snapshot else [],
    }


def _texts(rows: Iterable[tuple[Any, Stats | None]]) -> dict[str, str]:
    return {node.id: stats.text for node, stats in rows if stats is not None and stats.text}


def numbers_of(snapshot: Snapshot | None) -> bytes:
    """Pack the numbers of all nodes and edges as float32, in the protocol's order."""
    if snapshot is None:
        return b""
    numbers: list[float] = []
    for value, grad in zip(snapshot.values, snapshot.grads, strict=True):
        numbers += (value.mean, value.min, value.max) if value else (math.nan,) * 3
        numbers.append(grad.norm if grad else math.nan)
    for flow in snapshot.flows:
        numbers += (flow.norm, flow.mean) if flow else (math.nan,) * 2
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes an infinity
        return np.asarray(numbers, "<f4").tobytes()
