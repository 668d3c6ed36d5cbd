"""The picture of what the student's code computed, with the box that a hint is about.

A marked box has a red border, and says so in words: a picture in black and white, and a screen
reader, show it too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..viz.draw import CallRecorder
from ..viz.graph.model import GraphNode, Snapshot
from ..viz.graph.names import Names
from ..viz.render.static import Drawing
from ..viz.tensors.summaries import magnitude_text
from .attempt import Attempt, record_answer
from .comparison import elements
from .exercise import Exercise

MARK = " ◀ look here"


def marked_drawing(
    exercise: type[Exercise], names: Mapping[str, Any], attempt: Attempt, mark: str
) -> Drawing | None:
    """Run an answer once more, and draw what it computes; None if that is nothing.

    Args:
        names: what the student has defined.
        mark: the op or leaf to mark; "" marks the result.
    """
    recorder = CallRecorder(Names(frame=sys._getframe()), detailed=True)
    try:
        record_answer(recorder, exercise.answer, names, attempt.case)
    except Exception:  # noqa: BLE001  (the graph up to any error is still a picture)
        recorder.finish([])
    if recorder.snapshot is None or not recorder.snapshot.graph.nodes:
        return None
    return Drawing(mark_node(recorder.snapshot, mark), caption=caption_of(attempt))


def mark_node(snapshot: Snapshot, mark: str) -> Snapshot:
    """Return a snapshot in which the last node of this name is marked; else the last result."""
    nodes = list(snapshot.graph.nodes)
    wanted = [i for i, node in enumerate(nodes) if mark and is_called(node, mark)]
    wanted = wanted or [i for i, node in enumerate(nodes) if node.kind == "output"]
    if not wanted:
        return snapshot
    node = nodes[wanted[-1]]
    nodes[wanted[-1]] = replace(node, label=node.label + MARK)
    return replace(snapshot, graph=replace(snapshot.graph, nodes=tuple(nodes)), focus=(node.id,))


def is_called(node: GraphNode, name: str) -> bool:
    return name in (node.label, node.variable)


def caption_of(attempt: Attempt) -> str:
    """Return what was expected and what came, each with its shape and norm.

    Of a dict or list, only the part that differs.
    """
    if attempt.difference is None:
        return attempt.error
    path, right, value = attempt.difference.path, attempt.right, attempt.value
    at = ""
    while at != path:
        keys = right if isinstance(right, Mapping) else range(len(right))
        key = next(key for key in keys if path.startswith(f"{at}[{key!r}]"))
        right, value, at = right[key], value[key], f"{at}[{key!r}]"
    start = f"answer{path}: " if path else ""
    return f"{start}expected {describe(right)}; got {describe(value)}"


def describe(value: Any) -> str:
    """Return the shape, dtype and norm of an answer.

    >>> from edutorch.classroom.marked_graph import describe
    >>> describe(tensor([3.0, 4.0]))
    '2 float32 of norm 5.0000'
    """
    if not isinstance(value, Tensor | np.ndarray):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}…"
    array = elements(value)
    shape = "×".join(map(str, array.shape)) or "scalar"
    if array.dtype.kind not in "fc":
        return f"{shape} {array.dtype.name}"
    norm = float(np.linalg.norm(array.astype(np.result_type(array.dtype, np.float64)).reshape(-1)))
    return f"{shape} {array.dtype.name} of norm {magnitude_text(norm)}"
