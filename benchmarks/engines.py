"""How long each Graphviz takes for the graphs that we draw, and how soon it is ready."""

from __future__ import annotations

import argparse
import statistics
import time

from . import report

SIZES = (20, 100, 500, 2000)


def chain(nodes: int) -> str:
    """Return, as DOT, the graph of a deep network of about `nodes` boxes."""
    from edutorch.viz.graph.model import Vertex, arrange
    from edutorch.viz.live.page import blank_snapshot
    from edutorch.viz.render.dot import dot_text

    vertices = {"x": Vertex("leaf", "x", shape=(64, 8), differentiable=False)}
    above = before = "x"
    for layer in range(max(1, nodes // 5)):
        module, shape = f"layers.{layer}", (64, 64)
        weight, bias, linear, ramp, sum_ = (f"{name}{layer}" for name in "wblrs")
        vertices[weight] = Vertex("parameter", "weight", module, shape)
        vertices[bias] = Vertex("parameter", "bias", module, (64,))
        sources = (("input", above), ("weight", weight), ("bias", bias))
        vertices[linear] = Vertex("op", "linear", module, shape, sources=sources)
        vertices[ramp] = Vertex("op", "relu", "", shape, sources=(("input", linear),))
        sources = (("input", ramp), ("other", before))
        vertices[sum_] = Vertex("op", "add", "", shape, sources=sources)
        before, above = above, sum_
    return dot_text(blank_snapshot(arrange(vertices, [above]).graph), reserve=True)


def run(options: argparse.Namespace) -> str:
    """Draw each graph with each engine, in turns, and return the report."""
    from edutorch.viz.render.graphviz import Worker, engines, render

    texts = {size: chain(size) for size in SIZES}
    usable = [engine.name for engine in engines() if engine.available and engine.formats]
    starts = dict.fromkeys(usable, "")
    for name in usable:
        start = time.perf_counter()
        if name == "dot":
            render(texts[20], engine=name)
        else:
            fresh = Worker(name)
            fresh.draw(texts[20], "svg", 60)
            fresh.stop()
        starts[name] = f"{(time.perf_counter() - start) * 1e3:.0f}"
    times = {(name, size): [] for name in usable for size in SIZES}
    for size in SIZES:
        for _ in range(options.rounds if size < 2000 else max(1, options.rounds // 4)):
            for name in usable:
                start = time.perf_counter()
                render(texts[size], engine=name)
                times[name, size].append((time.perf_counter() - start) * 1e3)
    rows = []
    for name in usable:
        middles = [f"{statistics.median(times[name, size]):.0f}" for size in SIZES]
        rows.append([name, starts[name], *middles])
    header = ["engine", "first picture, ms", *(f"{size} nodes, ms" for size in SIZES)]
    missing = [f"{engine.name}: {engine.detail}" for engine in engines() if not engine.available]
    note = f"\n\nnot measured: {'; '.join(missing)}" if missing else ""
    return report.table(header, rows) + note
