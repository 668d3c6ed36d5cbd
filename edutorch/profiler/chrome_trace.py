"""A profile as a timeline that chrome://tracing and Perfetto read (JSON, or .gz)."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..utils.atomic_files import name_file_in_errors
from .tree import Span, walk

CATEGORIES = {
    "op": "cpu_op", "node": "cpu_op", "backward": "backward", "optimizer": "user_annotation",
    "module": "python_function", "data": "user_annotation", "range": "user_annotation",
    "step": "user_annotation", "collective": "cpu_op",
}  # fmt: skip
"""The category of each kind of span in PyTorch's traces."""


def build_trace(
    roots: list[Span], origin: int, memory: Sequence[tuple[int, int]], about: dict[str, Any]
) -> dict[str, Any]:
    """Return the trace of a profile as plain data.

    Args:
        origin: the nanosecond that is 0 on the timeline.
        memory: (nanosecond, bytes in use) after each change.
        about: metadata.
    """
    process = os.getpid()
    threads: dict[int, int] = {}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0,
         "args": {"name": "python"}},
    ]  # fmt: skip
    spans = walk(sorted(roots, key=lambda span: span.start))
    for span in spans:
        if span.thread not in threads:
            threads[span.thread] = len(threads)
            name = {"name": f"thread {len(threads) - 1}"}
            events.append({"ph": "M", "name": "thread_name", "pid": process, "ts": 0,
                           "tid": threads[span.thread], "args": name})  # fmt: skip
        events.append(complete_event(span, origin, process, threads[span.thread]))
    events += make_flow_events(spans, origin, process, threads)
    events += [
        {"ph": "C", "name": "memory", "pid": process, "tid": 0, "ts": (at - origin) / 1000,
         "args": {"bytes in use": live}}
        for at, live in memory
    ]  # fmt: skip
    return {"schemaVersion": 1, "displayTimeUnit": "ms", **about, "traceEvents": events}


def complete_event(span: Span, origin: int, process: int, thread: int) -> dict[str, Any]:
    """Return a span as a complete event ("X"), which has a duration."""
    args: dict[str, Any] = {"kind": span.kind, "without profiler (us)": span.duration / 1000}
    if span.module:
        args["Module"] = ".".join(span.module[-1:])
    if span.shapes:
        args |= {"Input Dims": span.shapes, "Input type": span.dtypes}
    if span.flops:
        args["Flops"] = span.flops
    if span.made or span.freed:
        args |= {"Bytes made": span.made, "Bytes freed": span.freed}
    if span.kept:
        args["Bytes saved for backward"] = span.kept
    if span.sequence is not None:
        args["Sequence number"] = span.sequence
    if span.stack:
        args["Call stack"] = span.stack
    if span.device_ns:
        args["GPU (us)"] = span.device_ns / 1000
    if span.failed:
        args["raised"] = True
    return {
        "ph": "X", "cat": CATEGORIES[span.kind], "name": span.name, "pid": process, "tid": thread,
        "ts": (span.start - origin) / 1000, "dur": (span.end - span.start) / 1000, "args": args,
    }  # fmt: skip


def make_flow_events(
    spans: Sequence[Span], origin: int, process: int, threads: dict[int, int]
) -> list[dict[str, Any]]:
    """Return flow events: an arrow from each op to its node of backward."""
    makers = {span.sequence: span for span in spans if span.kind == "op" and span.sequence}
    flow_events = []
    for number, node in enumerate(span for span in spans if span.kind == "node"):
        maker = makers.get(node.sequence or 0)
        if maker is None:
            continue
        for phase, span in (("s", maker), ("f", node)):
            arrow = {"ph": phase, "id": number, "cat": "fwdbwd", "name": "fwdbwd", "pid": process,
                     "tid": threads[span.thread], "ts": (span.start - origin) / 1000}  # fmt: skip
            flow_events.append(arrow | ({"bp": "e"} if phase == "f" else {}))
    return flow_events


def message_events(messages: Mapping[int, Any], origin: int) -> list[dict[str, Any]]:
    """Return asynchronous collectives as async events, which lie beside what the program does.

    Args:
        messages: by number, see `recording.Message`; those that have not arrived are left out.
    """
    trace_events = []
    for number, message in messages.items():
        if message.end:
            for phase, at in (("b", message.start), ("e", message.end)):
                trace_events.append({
                    "ph": phase, "cat": "collective", "name": message.name, "id": number,
                    "pid": os.getpid(), "tid": 0, "ts": (at - origin) / 1000,
                    "args": {"bytes": message.size} if phase == "b" else {},
                })  # fmt: skip
    return trace_events


def events_trace(events: Sequence[Any]) -> dict[str, Any]:
    """Return the trace of a list of `FunctionEvent`, with names and times only."""
    trace_events = [
        {"ph": "X", "cat": CATEGORIES.get(event.kind, "cpu_op"), "name": event.trace_name,
         "pid": os.getpid(), "tid": event.thread, "ts": event.time_range.start,
         "dur": event.time_range.elapsed_us(), "args": {}}
        for event in events
    ]  # fmt: skip
    return {"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": trace_events}


def write_trace(path: str | os.PathLike[str], data: dict[str, Any]) -> None:
    """Write a trace as JSON; compressed if the name ends in .gz."""
    name = os.fspath(path)
    opened: Any = gzip.open if name.endswith(".gz") else open
    with name_file_in_errors(name), opened(name, "wt", encoding="utf-8") as file:
        json.dump(data, file, default=str)
