"""Runs the student's code on one case, and keeps what came of it: answer, graph, error.

This half of a check runs beside the student's code; it knows neither hints nor what is right.
"""

from __future__ import annotations

import math
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

import edutorch

from ..core.tensor import Tensor
from ..events import OpApplied, listening
from ..modes import enable_grad
from ..utils._pytree import tree_leaves
from ..viz.tensors.summaries import Stats
from .comparison import Difference, compare

ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")


class Details(NamedTuple):
    """What a picture shows of a box besides; see `viz.graph.model.GraphNode`.

    Attributes:
        value, gradient: statistics of its elements and of their gradient; None where unknown.
        flows: statistics of the gradients that it passes back, one for each of its sources.
    """

    kind: str
    variable: str = ""
    value: Stats | None = None
    gradient: Stats | None = None
    flows: tuple[Stats | None, ...] = ()


class Box(NamedTuple):
    """One box of the student's graph: an op or a leaf.

    Attributes:
        label: the op's public name, or the name of the leaf.
        sources: the indices of the boxes that it was computed from.
        norm, gradient_norm: of its elements and of their gradient; None where unknown.
        details: for pictures; None where the graph is too large for one.
    """

    label: str
    is_op: bool
    shape: tuple[int, ...]
    dtype: str
    differentiable: bool
    sources: tuple[int, ...] = ()
    norm: float | None = None
    gradient_norm: float | None = None
    line: str = ""
    details: Details | None = None


class AnswerGraph:
    """What the student's code has computed, as plain data, for hints and pictures."""

    def __init__(self, boxes: tuple[Box, ...] = ()) -> None:
        self.boxes = boxes

    @property
    def ops(self) -> list[str]:
        """The names of all ops, in order."""
        return [box.label for box in self.boxes if box.is_op]

    def has(self, *labels: str) -> bool:
        """Return whether one of these ops ran."""
        return any(label in labels for label in self.ops)

    def count(self, label: str) -> int:
        """Return how often an op ran."""
        return self.ops.count(label)

    def find(self, label: str) -> int | None:
        """Return the index of the last box of this name; None if there is none."""
        found = [index for index, box in enumerate(self.boxes) if box.label == label]
        return found[-1] if found else None

    def box(self, label: str) -> Box | None:
        """Return the last box of this name; None if there is none."""
        index = self.find(label)
        return None if index is None else self.boxes[index]


class Attempt(NamedTuple):
    """What hints are told about one case.

    Attributes:
        case: the arguments of `answer`.
        value: what `answer` returned; None where it raised.
        right: what it should have returned.
        difference: the first difference between both; None where it raised, or is right.
        graph: what was computed.
        error: the first line of the student's error, as "IndexError: …"; "" without one.
        line: the student's line that raised it.
        forbidden: the functions that were called and may not be.
    """

    case: Mapping[str, Any]
    value: Any = None
    right: Any = None
    difference: Difference | None = None
    graph: AnswerGraph = AnswerGraph()
    error: str = ""
    line: str = ""
    forbidden: tuple[str, ...] = ()

    def is_close(self, value: Any, part: Any = None) -> bool:
        """Return whether the answer is this value, but for rounding: for conditions of hints.

        Args:
            part: the key, where the answer is a dict of which only this item counts.
        """
        return compare(self.value if part is None else self.value[part], value) is None

    @property
    def has_right_type(self) -> bool:
        """Whether type, shape and dtype are right, and only elements differ."""
        return self.difference is not None and self.difference.aspect == "value"

    @property
    def is_right(self) -> bool:
        return not (self.error or self.difference or self.forbidden)


class StudentNames:
    """The names that a student has defined: `theirs.gradient_of_logits`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise NameError(f"name {name!r} is not defined: run the cell that defines it") from None


class ForbiddenCalls:
    """Listens for functions that an exercise forbids, under whatever name they are called."""

    def __init__(self, forbid: frozenset[str]) -> None:
        self.forbid, self.names = forbid, set[str]()

    def __call__(self, event: Any) -> None:
        if not isinstance(event, OpApplied) or not self.forbid:
            return
        running = {event.op.name, event.op.label}
        frame = sys._getframe(1)  # `cross_entropy` calls several ops: it is among the frames
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith("edutorch."):
                running.add(frame.f_code.co_name)
            frame = frame.f_back
        self.names |= running & self.forbid


def namespace() -> dict[str, ModuleType]:
    """Return the modules that the source of `answer` may use."""
    return {
        "torch": edutorch, "nn": edutorch.nn, "F": edutorch.nn.functional, "np": np, "math": math,
    }  # fmt: skip


def run_answer(
    answer: Callable[..., Any], names: Mapping[str, Any], case: Mapping[str, Any],
    forbid: frozenset[str] = frozenset(),
) -> Attempt:  # fmt: skip
    """Ask the student's code for one answer.

    Args:
        answer: of the exercise; its global names are those of `namespace`.
        names: what the student has defined.
    """
    from ..viz.draw import CallRecorder
    from ..viz.graph.names import Names

    # With a frame, leaves get the names that they have in the functions called from here.
    names_of_leaves = Names(frame=sys._getframe())
    recorder, calls = CallRecorder(names_of_leaves, detailed=True), ForbiddenCalls(forbid)
    try:
        with listening(calls):
            value = record_answer(recorder, answer, names, case)
    except Exception as error:  # noqa: BLE001  (whatever the student's code raises)
        return Attempt(case, error=first_line(error), line=student_line(error, answer))
    graph, forbidden = boxes_of(recorder.snapshot), tuple(sorted(calls.names))
    return Attempt(case, value, graph=graph, forbidden=forbidden)


def record_answer(
    recorder: Any, answer: Callable[..., Any], names: Mapping[str, Any], case: Mapping[str, Any]
) -> Any:
    """Return an answer, and let a recorder of `viz` record what it computes.

    Warnings are not shown: the hints of an exercise say what they would.
    """
    with warnings.catch_warnings(), enable_grad(), listening(recorder):
        warnings.simplefilter("ignore")
        value = outside_library(answer)(StudentNames(names), **copied(case))
    recorder.finish([leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)])
    return value


def outside_library(answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return an exercise's `answer` as it is in a jail: no code of edutorch's.

    Pictures name tensors by the variables of code outside of edutorch.
    """
    if not isinstance(answer, FunctionType):
        return answer
    scope = {**answer.__globals__, "__name__": "answer"}
    return FunctionType(
        answer.__code__, scope, answer.__name__, answer.__defaults__, answer.__closure__
    )


def copied(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a case, into which the student's code may write."""
    return {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in case.items()
    }


def first_line(error: BaseException) -> str:
    """Return an error as the last line of a traceback begins.

    An address in memory is another one in each run: it is left out.
    """
    text = ADDRESS.sub("0x…", str(error).strip().split("\n")[0])
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def student_line(error: BaseException, answer: Callable[..., Any]) -> str:
    """Return the line of the student's code that raised an error, as in a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame for frame in frames
        if frame.line and "edutorch" not in frame.filename.split("/")
        and frame.name != answer.__name__
    ]  # fmt: skip
    return f"line {own[-1].lineno}: {own[-1].line}" if own else ""


def boxes_of(snapshot: Any) -> AnswerGraph:
    """Return a picture's graph as plain data."""
    if snapshot is None:
        return AnswerGraph()
    nodes = snapshot.graph.nodes
    index_of = {node.id: index for index, node in enumerate(nodes)}
    sources: dict[str, list[int]] = {}
    flows: dict[str, list[Stats | None]] = {}
    for edge, flow in zip(snapshot.graph.edges, snapshot.flows, strict=True):
        sources.setdefault(edge.target, []).append(index_of[edge.source])
        flows.setdefault(edge.target, []).append(plain(flow))
    boxes = (
        Box(
            node.label, node.kind in ("op", "output"), tuple(node.shape), node.dtype,
            node.differentiable, tuple(sources.get(node.id, ())), value and value.norm,
            grad and grad.norm, node.line,
            Details(node.kind, node.variable, plain(value), plain(grad),
                    tuple(flows.get(node.id, ()))),
        )
        for node, value, grad in zip(nodes, snapshot.values, snapshot.grads, strict=True)
    )  # fmt: skip
    return AnswerGraph(tuple(boxes))


def plain(stats: Stats | None) -> Stats | None:
    """Return statistics without histogram and thumbnail."""
    return None if stats is None else stats._replace(few=(), bars=(), thumbnail=None)
