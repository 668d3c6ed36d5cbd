"""What watching costs in a Jupyter kernel, where a thread of Jupyter's sends the messages.

That thread needs Python's lock, which the loop holds, so part of what a message costs is in no
clock of the loop's. Here it is: the time of a step, watched and not, in turns.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

INSIDE = "from benchmarks.kernel import watched; print(watched({nodes}, {seconds}))"
LIMIT = 300


def watched(nodes: int, seconds: float) -> str:
    """Measure inside a kernel, with a page that says what it has on screen; return JSON."""
    from edutorch.viz import live
    from edutorch.viz.graph.fold import Choice

    from .live import ON_SCREEN, busy, deep, in_turns

    step = deep(nodes)
    view = live()
    view._page_state.choice = Choice(everything=True)
    view._open_page()
    end = time.perf_counter() + LIMIT
    with view._sampler:
        while not view._page_state.shown and time.perf_counter() < end:
            step()
        nodes = list(range(ON_SCREEN))
        view._command({"type": "seen", "structure": view._page_state.shown, "nodes": nodes})
        busy(step, seconds, view)
    sent, spent = view._sampler.throttle._messages, view.spent
    views = {"alone": None, "watched": view, "again": None}
    medians, lasted = in_turns(views, step, seconds, waiting=True)
    return json.dumps({
        "rate": (view._sampler.throttle._messages - sent) / lasted["watched"],
        "own": (view.spent - spent) / lasted["watched"],
        "longer": medians["watched"] / medians["alone"] - 1,
        "again": medians["again"] / medians["alone"] - 1,
    })  # fmt: skip


def in_a_kernel(nodes: int, seconds: float) -> dict[str, float]:
    """Start a kernel, measure there, and return what was found."""
    from jupyter_client.manager import start_new_kernel

    root = str(Path(__file__).parents[1])
    path = os.pathsep.join((root, os.environ.get("PYTHONPATH", "")))
    manager, client = start_new_kernel(env={**os.environ, "PYTHONPATH": path})
    said: list[str] = []

    def hear(message: dict) -> None:
        content = message["content"]
        said.extend([content["text"]] if content.get("name") == "stdout" else [])
        print(*content.get("traceback", ()), sep="\n", end="", file=sys.stderr)

    try:
        code = INSIDE.format(nodes=nodes, seconds=seconds)
        client.execute_interactive(code, timeout=LIMIT, output_hook=hear)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    return json.loads("".join(said))


def rows(sizes: list[int], seconds: float) -> list[list[str]]:
    """Return the rows of the table."""
    table_rows = []
    for nodes in sizes:
        m = in_a_kernel(nodes, seconds)
        table_rows.append([str(nodes), f"{m['rate']:.1f}", f"{m['own']:.1%}", f"{m['longer']:+.1%}",
                      f"{m['again']:+.1%}"])  # fmt: skip
    return table_rows
