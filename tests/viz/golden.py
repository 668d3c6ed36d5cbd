"""Examples of what crosses to the page, made from Python; vitest reads the files.

python -m tests.viz.golden     writes them anew
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from edutorch.viz.graph.fold import fold_snapshot
from edutorch.viz.graph.model import Snapshot, Vertex, arrange
from edutorch.viz.live.messages import Curve, pack_values, patch_of, texts_of, thumbs_of
from edutorch.viz.live.page import LayoutQueue
from edutorch.viz.render import style
from edutorch.viz.tensors.summaries import Stats, elements_text, summarize
from edutorch.viz.tensors.thumbnails import palette

FOLDER = Path(__file__).parents[1] / "golden"

NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]><b>bold</b>",
    "javascript:alert(1)",
    "&lt;b&gt; &amp; &#65;",
    "{a|b} <f0> |\\N\\G\\l",
    'back\\slash "quoted"\\',
    "line\nbreak\ttab\x00\x1b[31m",
    "🙂 עברית العربية 日本",
    "\u202egnp.exe",
    "x" * 10_000,
    "",
]
"""Names that a user's code may hold, and that must come out as text."""


def example() -> Snapshot:
    """One linear layer with a loss; the target's gradient is unknown, one weight is NaN."""
    full = Stats(640, 0.0125, -1.5, 2.25, 3.5)
    step = Stats(640, -0.004, -0.5, 0.25, 0.75)
    vertices = {
        "x": Vertex("leaf", "x", "", (64, 8), differentiable=False, value=full),
        "w": Vertex("parameter", "weight", "layers.0", (10, 8), value=full, grad=step),
        "b": Vertex("parameter", "bias", "layers.0", (2,), value=summarize(np.array([0.5, -1.0])),
                    grad=Stats(2, float("nan"), 0, 0, float("nan"), bad=True, text="[nan, 0]")),
        "l": Vertex("op", "linear", "layers.0", (64, 10), value=full, grad=step,
                    formulas={"weight": r"g^\top x"},
                    sources=(("input", "x"), ("weight", "w"), ("bias", "b")),
                    flows={"weight": step, "bias": full}),
        "2": Vertex("constant", "exponent", differentiable=False, value=summarize(np.array(2.0))),
        "p": Vertex("op", "pow", "", (64, 10), sources=(("input", "l"), ("exponent", "2")),
                    formulas={"input": r"g\,n x^{n-1}"}, value=full, flows={"input": step}),
        "s": Vertex("op", "sum", "", (), sources=(("input", "p"),), value=summarize(np.array(2.5)),
                    grad=summarize(np.array(1.0)), flows={"input": full}),
    }  # fmt: skip
    return fold_snapshot(arrange(vertices, ["s"], {"layers": "Sequential", "layers.0": "Linear"}))


def nasty() -> Snapshot:
    """A chain whose labels, modules and argument names are all nasty."""
    vertices = {"leaf": Vertex("leaf", NASTY[0], shape=(2, 3))}
    source = "leaf"
    for index, name in enumerate(NASTY):
        vertices[f"v{index}"] = Vertex("op", name, name, (2, 3), sources=((name, source),))
        source = f"v{index}"
    return fold_snapshot(arrange(vertices, [source], dict.fromkeys(NASTY, NASTY[0])))


def picture(snapshot: Snapshot) -> dict[str, Any]:
    """Lay out a graph as `live` does."""
    svg = LayoutQueue().svg(snapshot.graph, patience=None)
    assert svg is not None
    return snapshot.graph.to_picture(svg)


def floats_in(packed: bytes, pictures: list[dict[str, Any]]) -> np.ndarray:
    """Return the float32 numbers of a message, without the signs behind them."""
    signs = len(pictures[-1]["nodes"]) + len(pictures[-1]["edges"]) if packed else 0
    return np.frombuffer(packed[: len(packed) - signs], "<f4")


def patch() -> dict[str, Any]:
    """The numbers of the example, with a curve."""
    curve = Curve()
    for step, loss in enumerate([2.5, 1.25, float("nan"), 0.5], start=1):
        curve.add(step, loss)
    snapshot = example()
    packed = pack_values(snapshot)
    split = len(packed) - len(snapshot.graph.nodes) - len(snapshot.graph.edges)
    numbers = np.frombuffer(packed[:split], "<f4")
    return {
        "patch": {
            **patch_of(4, "running", {"loss": curve}),
            **texts_of(snapshot),
            **thumbs_of(snapshot, 4),
            "layouts": 1,
            "tab": None,
        },
        "curves": {"loss": curve.points()},
        "numbers": [None if np.isnan(number) else float(number) for number in numbers],
        "signs": np.frombuffer(packed[split:], "i1").tolist(),
    }


def whole_numbers() -> list[Any]:
    """Few numbers and their text: those that are hard to round, and some at random."""
    generator = np.random.default_rng(0)
    hard = [0.0, -0.0, 1.0, 0.1, 1234.5, 1235.5, 99999.5, 1e-5, 0.0001, 9.9995e-5, 1e10, -2.5e-7,
            123456.0, 0.5, 1e22, 3.4e38, 1e-38, 2.0, 1000.0, 9999.0, 1e4, 0.00012345]  # fmt: skip
    rows = [[value] for value in hard]
    for count in (1, 2, 3, 4):
        size = 10.0 ** generator.uniform(-8, 8, (25, count))
        rows += (size * generator.choice([-1, 1], size.shape)).tolist()
    exact = [np.float32(row).tolist() for row in rows]
    return [[row, elements_text(row, len(row) > 1)] for row in exact]


def looks() -> dict[str, Any]:
    """The table of looks, as the page has it."""
    norms = [0.0, 1e-7, 1e-4, 0.00099, 0.001, 0.05, 0.1, 1.0, 9.99, 10.0, 100.0, 1e9]
    return {
        "roles": style.ROLES,
        "bounds": style.FLOW_BOUNDS,
        "flows": [[norm, style.size_class(norm), style.line_width(norm)] for norm in norms],
        "marks": style.MARK_SHAPES,
        "cut": style.CUT,
        "ramp": style.RAMP,
        "words": list(style.WORDS.items()),
    }


def palettes() -> list[Any]:
    """The colours of small pictures: [what it is, smallest, largest number, colours]."""
    cases = [("image", 0.0, 1.0), ("attention", 0.0, 0.9), ("weights", -1.0, 1.0),
             ("weights", -0.2, 0.7), ("weights", 0.0, 0.0), ("weights", -3.0, -1.0)]  # fmt: skip
    return [[kind, low, high, palette(kind, low, high)] for kind, low, high in cases]


def everything() -> dict[str, Any]:
    """Return the content of each golden file by name; null stands for NaN."""
    commands = [
        *({"type": kind} for kind in ("pause", "resume", "step", "ready")),
        {"type": "speed", "value": 2.5},
        {"type": "speed", "value": None},
        {"type": "open", "group": "layers.0"},
        {"type": "close", "group": "layers.0"},
    ]
    return {
        "picture.json": picture(example()),
        "nasty.json": picture(nasty()),
        "patch.json": patch(),
        "command.json": commands,
        "whole.json": whole_numbers(),
        "style.json": looks(),
        "palettes.json": palettes(),
    }


if __name__ == "__main__":
    for name, content in everything().items():
        text = json.dumps(content, indent=1, ensure_ascii=True)
        (FOLDER / name).write_text(text + "\n", encoding="utf-8")
