"""The picture of what the student's code computed, with the box that a hint is about.

A marked box has a red border, and says so in words: a picture in black and white, and a screen
reader, show it too.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..errors import MissingExtraError
from ..ops.random import fork_rng, manual_seed
from ..viz.draw import CallRecorder
from ..viz.graph.model import GraphNode, Snapshot
from ..viz.graph.names import Names
from ..viz.render.dot import SHOWN_LABEL, printable
from ..viz.render.graphviz import LayoutError
from ..viz.render.static import Drawing
from ..viz.tensors.summaries import magnitude_text
from .attempt import AnswerGraph, Attempt, Box, namespace, record_answer, run_answer
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
    lines = (caption_of(attempt), compare_boxes(exercise, attempt, mark))
    caption = "\n".join(filter(None, lines))
    return open_around_mark(Drawing(mark_node(recorder.snapshot, mark), caption=caption))


def mark_node(snapshot: Snapshot, mark: str) -> Snapshot:
    """Return a snapshot in which the last node of this name is marked; else the last result."""
    nodes = list(snapshot.graph.nodes)
    wanted = [i for i, node in enumerate(nodes) if mark and is_called(node, mark)]
    wanted = wanted or [i for i, node in enumerate(nodes) if node.kind == "output"]
    if not wanted:
        return snapshot
    node = nodes[wanted[-1]]
    nodes[wanted[-1]] = with_mark(node)
    return replace(snapshot, graph=replace(snapshot.graph, nodes=tuple(nodes)), focus=(node.id,))


def with_mark(node: GraphNode) -> GraphNode:
    """Return a node whose name says that it is marked, however long the name is."""
    room = SHOWN_LABEL - len(MARK)
    name = f"{node.variable} = {node.label}" if node.variable else node.label
    if len(printable(name, SHOWN_LABEL)) > room:
        name = printable(node.label, room)
    return replace(node, label=name + MARK, variable="")


def open_around_mark(drawing: Drawing) -> Drawing:
    """Return a drawing in which no closed group hides the marked box."""
    while True:
        # The layout closes groups of what is too large.
        with contextlib.suppress(LayoutError, MissingExtraError):
            _ = drawing.svg
        snapshot = drawing.snapshot
        shown = [node for node in snapshot.graph.nodes if node.id in snapshot.focus]
        if not shown or not shown[0].group:
            return drawing
        choice = drawing.choice.open(shown[0].group)
        drawing = Drawing(drawing.whole, choice=choice, caption=drawing.caption)


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


def compare_boxes(exercise: type[Exercise], attempt: Attempt, mark: str) -> str:
    """Return shape, norm and gradient of the marked box, and those that it has in a solution.

    "" where no box is marked, or a solution has none of this name.
    """
    box = attempt.graph.box(mark) if mark else None
    other = None if box is None else solution_graph(exercise, attempt.case).box(mark)
    if box is None or other is None:
        return ""
    return f"{mark}: expected {describe_box(other)}; got {describe_box(box)}"


def solution_graph(exercise: type[Exercise], case: Mapping[str, Any]) -> AnswerGraph:
    """Return what the solution computes in a case."""
    with SOLVING:
        return solve(exercise, pickle.dumps(case))


@functools.lru_cache(64)  # for a class the cases are the same ones each time
def solve(exercise: type[Exercise], pickled: bytes) -> AnswerGraph:
    names: dict[str, Any] = dict(namespace())
    with fork_rng():  # the student's random numbers stay what they would be
        manual_seed(0)
        exec(exercise.before, names)
        exec(exercise.solution, names)
        return run_answer(exercise.answer, names, pickle.loads(pickled)).graph


SOLVING = threading.Lock()
"""Threads share the random numbers: one solution runs at a time."""


def describe_box(box: Box) -> str:
    shape = f"{'×'.join(map(str, box.shape)) or 'scalar'} {box.dtype}"
    norm = "" if box.norm is None else f" of norm {magnitude_text(box.norm)}"
    gradient = box.gradient_norm
    return f"{shape}{norm}" + (
        "" if gradient is None else f", gradient of norm {magnitude_text(gradient)}"
    )


def describe(value: Any) -> str:
    """Return the shape, dtype and norm of an answer.

    >>> from edutorch.classroom.marked_graph import describe
    >>> describe(tensor([3.0, 4.0]))
    '2 float32 of norm 5.0000'
    """
    if not isinstance(value, Tensor | np.ndarray):
        text = text_of_object(value)
        return text if len(text) <= 60 else f"{text[:57]}…"
    array = elements(value)
    shape = "×".join(map(str, array.shape)) or "scalar"
    if array.dtype.kind not in "fc":
        return f"{shape} {array.dtype.name}"
    norm = float(np.linalg.norm(array.astype(np.result_type(array.dtype, np.float64)).reshape(-1)))
    return f"{shape} {array.dtype.name} of norm {magnitude_text(norm)}"


def text_of_object(value: Any) -> str:
    """Return an answer as text, whatever the student's class says of itself."""
    try:
        return " ".join(repr(value).split())
    except Exception:  # noqa: BLE001
        return type(value).__name__
