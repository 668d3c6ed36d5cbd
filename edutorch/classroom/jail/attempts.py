"""An `Attempt` as a frame: how it leaves the jail, and how the grader reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...viz.tensors.summaries import Stats
from ..attempt import AnswerGraph, Attempt, Box, Details
from .frames import FrameError
from .values import Decoder, Encoder, clean_text

MAX_BOXES, MAX_SOURCES, MAX_AXES = 2_000, 64, 32
MAX_LABEL, MAX_LINE, MAX_ERROR = 200, 500, 1_000
MAX_DETAILED = 400  # of more boxes, only what hints need is sent
MAX_STATS_TEXT = 48

KINDS = frozenset({"leaf", "parameter", "buffer", "op", "output", "constant", "gradient", "failed"})


# In the jail --------------------------------------------------------------------------


def encode_attempt(attempt: Attempt) -> tuple[dict[str, Any], list[bytes]]:
    """Return the header and the arrays of what the student's code has answered."""
    encoder = Encoder()
    header = {
        "value": encoder.encode(attempt.value),
        "graph": encode_graph(attempt.graph),
        "error": attempt.error[:MAX_ERROR],
        "line": attempt.line[:MAX_LINE],
        "forbidden": sorted(attempt.forbidden),
    }
    return header, encoder.blobs


def encode_graph(graph: AnswerGraph) -> list[list[Any]]:
    """Return the boxes as lists; none of a graph that is too large to be looked at."""
    if len(graph.boxes) > MAX_BOXES:
        return []
    return [
        [
            box.label[:MAX_LABEL], box.is_op, list(box.shape), box.dtype, box.differentiable,
            list(box.sources[:MAX_SOURCES]), box.norm, box.gradient_norm, box.line[:MAX_LINE],
            encode_details(box.details) if len(graph.boxes) <= MAX_DETAILED else None,
        ]
        for box in graph.boxes
    ]  # fmt: skip


def encode_details(details: Details | None) -> list[Any] | None:
    if details is None:
        return None
    return [
        details.kind, details.variable[:MAX_LABEL], encode_stats(details.value),
        encode_stats(details.gradient), [*map(encode_stats, details.flows[:MAX_SOURCES])],
    ]  # fmt: skip


def encode_stats(stats: Stats | None) -> list[Any] | None:
    if stats is None:
        return None
    elements = map(float, (stats.mean, stats.min, stats.max, stats.norm))
    return [int(stats.size), *elements, bool(stats.bad), stats.text[:MAX_STATS_TEXT]]


# In the grader ------------------------------------------------------------------------


def decode_attempt(
    header: Any, body: bytes, case: Mapping[str, Any], forbid: frozenset[str]
) -> Attempt:
    """Return the attempt that a frame holds.

    Raises: FrameError: it was not written by `encode_attempt`.
    """
    names = {"value", "graph", "error", "line", "forbidden"}
    if not isinstance(header, dict) or header.keys() != names:
        raise FrameError("a frame holds no attempt")
    forbidden = header["forbidden"]
    if not isinstance(forbidden, list) or len(forbidden) > 100:
        raise FrameError("a frame holds no list of functions")
    return Attempt(
        case,
        Decoder(body).decode(header["value"]),
        graph=decode_graph(header["graph"]),
        error=clean_text(header["error"], MAX_ERROR),
        line=clean_text(header["line"], MAX_LINE),
        forbidden=tuple(name for name in sorted(forbid) if name in forbidden),
    )


def decode_graph(data: Any) -> AnswerGraph:
    if not isinstance(data, list) or len(data) > MAX_BOXES:
        raise FrameError("a frame holds no graph")
    boxes = tuple(decode_box(box, len(data)) for box in data)
    if has_cycle(boxes):  # what walks along the sources would never end
        raise FrameError("the graph of a frame has a cycle")
    return AnswerGraph(boxes)


def decode_box(data: Any, count: int) -> Box:
    """Return a box of a graph that has `count` boxes."""
    if not isinstance(data, list) or len(data) != 10:
        raise FrameError("a box has ten parts")
    label, is_op, shape, dtype, differentiable, sources, norm, gradient_norm, line, details = data
    if type(is_op) is not bool or type(differentiable) is not bool:
        raise FrameError("a box is an op or a leaf")
    return Box(
        clean_text(label, MAX_LABEL), is_op, decode_integers(shape, MAX_AXES, 1 << 62),
        clean_text(dtype, 40), differentiable, decode_integers(sources, MAX_SOURCES, count),
        decode_norm(norm), decode_norm(gradient_norm), clean_text(line, MAX_LINE),
        decode_details(details, len(sources)),
    )  # fmt: skip


def decode_details(data: Any, sources: int) -> Details | None:
    """Return what a picture shows of a box that has so many sources."""
    if data is None:
        return None
    if not isinstance(data, list) or len(data) != 5 or not isinstance(data[4], list):
        raise FrameError("the details of a box have five parts")
    kind, variable, value, gradient, flows = data
    if not isinstance(kind, str) or kind not in KINDS or len(flows) != sources:
        raise FrameError("the details of a box do not fit to it")
    return Details(
        kind, clean_text(variable, MAX_LABEL), decode_stats(value), decode_stats(gradient),
        tuple(map(decode_stats, flows)),
    )  # fmt: skip


def decode_stats(data: Any) -> Stats | None:
    if data is None:
        return None
    if not isinstance(data, list) or len(data) != 7:
        raise FrameError("statistics have seven parts")
    size, mean, low, high, norm, bad, text = data
    if type(size) is not int or not 0 <= size < 1 << 62 or type(bad) is not bool:
        raise FrameError("statistics have a size")
    if not all(type(part) is float for part in data[1:5]) or norm < 0:
        raise FrameError("statistics are numbers")
    return Stats(size, mean, low, high, norm, bad, clean_text(text, MAX_STATS_TEXT))


def decode_integers(data: Any, most: int, limit: int) -> tuple[int, ...]:
    if not isinstance(data, list) or len(data) > most:
        raise FrameError("a box has a list that is too long")
    if not all(type(item) is int and 0 <= item < limit for item in data):
        raise FrameError("a box has an index out of range")
    return tuple(data)


def decode_norm(data: Any) -> float | None:
    if data is None or type(data) is float:
        return data
    if type(data) is int and abs(data) < 1 << 62:
        return float(data)
    raise FrameError("a norm is a number")


def has_cycle(boxes: tuple[Box, ...]) -> bool:
    """Return whether a box is, by way of others, a source of itself."""
    waiting = [len(set(box.sources)) for box in boxes]
    targets: list[list[int]] = [[] for _ in boxes]
    for index, box in enumerate(boxes):
        for source in set(box.sources):
            targets[source].append(index)
    ready = [index for index, count in enumerate(waiting) if not count]
    done = 0
    while ready:
        done += 1
        for target in targets[ready.pop()]:
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return done < len(boxes)
