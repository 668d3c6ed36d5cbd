"""What watching a training loop costs, and how fast its picture follows.

A page that takes what it is shown at once stands in for the browser (`tests/browser/test_rates.py`
has a real one). The graphs are deep and mixed, so that nothing in them folds by repetition, and all
boxes are open, but in the rows that say otherwise. CPU time and wall time differ on a busy
machine: the costs are CPU time.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import random
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from . import report

SIZES = (100, 500, 2000)
UNARY = ("tanh", "sin", "sigmoid", "cos", "square")
ROUNDS, TURNS = 45, 3
"""So many turns, which take so many times the seconds of a run: short, for machines change pace."""

ON_SCREEN = 24
"""So many boxes of a chain a page has on screen, with what is near: it says so, as a page does."""

MORE = 12
"""After so many ops a parameter comes in."""


class Reader:
    """A page that reads all it is sent, and says what is on its screen."""

    def __init__(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self.tell = tell
        self.sent: list[float] = []
        self.bytes: list[int] = []
        self.first = 0.0

    def show(self, picture: Any, patch: dict[str, Any], numbers: bytes, curves: Any) -> None:
        import json

        self.sent.append(time.perf_counter())
        if picture:
            self.first = self.first or time.perf_counter()
            nodes = list(range(min(ON_SCREEN, len(picture["nodes"]))))
            self.tell({"type": "seen", "structure": picture["structure"], "nodes": nodes})
        parts = {key: value for key, value in patch.items() if key != "parts"}
        self.bytes.append(len(numbers) + len(json.dumps(parts)))


def deep(nodes: int, size: tuple[int, int] = (8, 8)) -> Callable[[], None]:
    """Return a training step whose graph has about so many nodes: a chain with parameters."""
    import edutorch as torch

    chance = random.Random(0)
    names, parameters = [], []
    count = 1
    while count < nodes - 1:
        if len(names) % MORE == MORE - 1 and count < nodes - 2:
            names.append("mul")
            parameters.append(torch.rand(*size, requires_grad=True))
            count += 2
        else:
            names.append(chance.choice(UNARY))
            count += 1
    start = torch.rand(*size, requires_grad=True)
    parameters = [start, *parameters]
    optimizer = torch.optim.SGD(parameters, lr=1e-3)

    def step() -> None:
        x, later = start, iter(parameters[1:])
        for name in names:
            x = x * next(later) if name == "mul" else getattr(x, name)()
        optimizer.zero_grad()
        x.sum().backward()
        optimizer.step()

    return step


def busy(step: Callable[[], None], seconds: float, view: Any = None) -> tuple[int, float, float]:
    """Run a loop for so long; return the number of steps, CPU time of this thread, and time.

    A look at the step that comes next is not cut off: it would cost another one.
    """
    count, begin, start = 0, time.perf_counter(), time.thread_time()
    while time.perf_counter() < begin + seconds or (view is not None and looks_next(view)):
        step()
        count += 1
    return count, time.thread_time() - start, time.perf_counter() - begin


def looks_next(view: Any) -> bool:
    """Say whether the next step is to be looked at."""
    return view._recorder.sampling or view._recorder.light is not None


def opened(step: Callable[[], None], shown: bool = True, all_open: bool = True) -> Any:
    """Return a view in which every box is open, or those of which it thinks so itself."""
    from edutorch.viz import live
    from edutorch.viz.graph.fold import Choice
    from edutorch.viz.live.throttle import UNSEEN_SHARE
    from edutorch.viz.render.graphviz import render

    render("digraph { a }")  # in a notebook it has started by the time that the widget is made
    view = live()
    if all_open:
        view._page_state.choice = Choice(everything=True)
    if shown:
        view._page_state.page = Reader(view._command)
    else:
        view._sampler.throttle.share = UNSEEN_SHARE
    return view


def waits_for_layout(view: Any) -> list[float]:
    """Return a list of the seconds that the loop is held for each layout, as it grows."""
    waits = [0.0]

    def noted(call: Callable[..., float]) -> Callable[..., float]:
        def watched(*arguments: Any) -> float:
            waits.append(call(*arguments))
            return waits[-1]

        return watched

    view._page_state.show, view._page_state.prepare = (
        noted(view._page_state.show),
        noted(view._page_state.prepare),
    )
    return waits


def measured(
    nodes: int, seconds: float, size: tuple[int, int], all_open: bool = True
) -> dict[str, float]:
    """Measure one graph: alone, watched, and recorded with nothing displayed, in turns."""
    step = deep(nodes, size)
    step()
    watched, unseen = opened(step, True, all_open), opened(step, False, all_open)
    page, stalls = watched._page_state.page, []
    # As inside `with view`, but what the throttle knows lasts from one block to the next.
    waits = waits_for_layout(watched)
    begin = time.perf_counter()
    with watched._sampler:
        while not page.first and time.perf_counter() < begin + 20:
            one = time.perf_counter()
            step()
            stalls.append(time.perf_counter() - one)
        first = page.first - begin
        busy(step, seconds, watched)  # the first messages and the first second are something else
    with unseen._sampler:
        busy(step, 1.5, unseen)
    sent, spent = len(page.sent), watched.spent
    views = {"alone": None, "watched": watched, "unseen": unseen, "again": None}
    medians, lasted = in_turns(views, step, seconds)
    return {
        "step": medians["alone"] * 1e3,
        "rate": (len(page.sent) - sent) / lasted["watched"],
        "bytes": statistics.median(page.bytes[-10:]),
        "own": (watched.spent - spent) / lasted["watched"],
        "watched": medians["watched"] / medians["alone"] - 1,
        "unseen": medians["unseen"] / medians["alone"] - 1,
        "again": medians["again"] / medians["alone"] - 1,
        "first": first * 1e3,
        "look": (max(stalls) - statistics.median(stalls)) * 1e3,
        "stall": max(waits) * 1e3,
    }


def in_turns(
    views: dict[str, Any], step: Callable[[], None], seconds: float, waiting: bool = False
) -> tuple[dict[str, float], dict[str, float]]:
    """Run a loop with each view, for so many seconds in all; return the CPU seconds of a step, and
    how long each was run. It is their mean: a median leaves out what is rare and dear.

    Args:
        waiting: seconds of time instead, with what the loop waits for other threads.
    """
    chance, names = random.Random(0), list(views)
    # A full search for garbage goes over all that was ever imported, takes 60 ms, and falls into
    # one turn or the other. Watching makes it no more frequent; without all that, it takes none.
    gc.freeze()
    steps, spent = dict.fromkeys(views, 0), dict.fromkeys(views, 0.0)
    lasted, left = dict.fromkeys(views, 0.0), dict.fromkeys(views, time.perf_counter())
    for _ in range(ROUNDS):
        chance.shuffle(names)  # each turn finds the caches as the one before has left them
        for name in names:
            view = views[name]
            if view is not None:
                postpone(view, time.perf_counter() - left[name])
            with view._sampler if view is not None else nullcontext():
                count, cpu, took = busy(step, TURNS * seconds / ROUNDS, view)
            left[name] = time.perf_counter()
            steps[name] += count
            spent[name] += took if waiting else cpu
            lasted[name] += took
    gc.unfreeze()
    return {name: spent[name] / steps[name] for name in views}, lasted


def postpone(view: Any, seconds: float) -> None:
    """Take it that so much time has not passed for a view: what it waits for came no nearer."""
    view._sampler.throttle._next += seconds
    view._sampler._full_due += seconds
    view._sampler._whole_due += seconds
    view._sampler.gauges._due += seconds
    view._parts_due += seconds
    view._curves_due += seconds
    view._sampler.meter._began += seconds
    ends = view._recorder.idle.ends
    ends[:] = [end + seconds for end in ends]


def large(nodes: int = 10_000) -> str:
    """Say how long a very large graph takes to open folded, and its slowest fold to open."""
    from edutorch.viz import live
    from edutorch.viz.render.graphviz import render

    step = deep(nodes)
    render("digraph { a }")
    view = live()
    view._page_state.page = reader = Reader(view._command)
    begin = time.perf_counter()
    with view:
        while not reader.first and time.perf_counter() < begin + 60:
            step()
        first = reader.first - begin
    assert view._recorder.snapshot is not None
    pick = view._page_state.plan(view._recorder.snapshot.graph).graph
    keys = [node.group for node in pick.nodes if node.group][:6]
    times = []
    for key in keys:
        start, sent = time.perf_counter(), len(reader.sent)
        view._command({"type": "open", "group": key})
        while len(reader.sent) == sent and time.perf_counter() < start + 20:
            threading.Event().wait(0.01)
        times.append(time.perf_counter() - start)
    return (
        f"{nodes:,} nodes open folded to {len(pick.nodes)} boxes in {first:.2f} s; "
        f"a fold opens in {max(times, default=0):.2f} s at most (of {len(times)})."
    )


def run(options: argparse.Namespace) -> str:
    """Return the tables."""
    from edutorch.viz.graph.fold import MOST_NODES

    size = (options.rows, options.rows)
    rows = []
    cases = [(nodes, True) for nodes in options.nodes]
    cases += [(nodes, False) for nodes in options.nodes if nodes > MOST_NODES]
    for nodes, all_open in cases:
        m = measured(nodes, options.seconds, size, all_open)
        rows.append([
            str(nodes) if all_open else f"{nodes}, as it opens",
            f"{m['step']:.2f}", f"{m['rate']:.1f}", f"{m['bytes']:.0f}",
            f"{m['own']:.1%}", f"{m['watched']:+.1%}", f"{m['unseen']:+.1%}", f"{m['again']:+.1%}",
            f"{m['first']:.0f}", f"{m['look']:.0f}", f"{m['stall']:.0f}",
        ])  # fmt: skip
    header = ["nodes", "ms per step, alone", "updates per s", "bytes per update", "own accounting",
              "watched", "nothing displayed", "alone once more", "first picture, ms",
              "longest step, ms", "held by layout, ms"]  # fmt: skip
    tables = [report.table(header, rows)]
    if importlib.util.find_spec("jupyter_client") is not None:
        from . import kernel

        header = ["nodes, in a Jupyter kernel", "updates per s", "own accounting", "watched",
                  "alone once more"]  # fmt: skip
        tables.append(report.table(header, kernel.rows(options.nodes, options.seconds)))
    if options.large:
        tables.append(large())
    return "\n\n".join(tables)
