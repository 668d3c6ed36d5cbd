"""Graphviz in a browser tab: the WebAssembly build for pages, called by Python in Pyodide.

It is an ordinary function there: no process, no page, and nothing that could stop it. So a graph
that would take it long is refused before it is begun, and is folded by the caller.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

from ...backends.platform import IS_BROWSER, WHERE, can_wait

MOST_NODES = 1500
"""A layout takes 30 ms for 100 nodes, half a second for 500, and minutes for 5,000."""

LOAD = """
async (source) => {
  const { Graphviz } = await import("data:text/javascript;base64," + source);
  return await Graphviz.load();
}
"""
"""The file is given as text: its address in the site is unknown here."""

_loading: Any = None  # the promise of the engine
_engine: Any = None


def start(file: Path) -> None:
    """Begin to load the engine, which takes a tenth of a second; `layout` waits for it."""
    global _loading
    if IS_BROWSER and _loading is None:
        from pyodide.code import run_js

        _loading = run_js(LOAD)(base64.b64encode(file.read_bytes()).decode())
        _loading.then(keep_engine)


def keep_engine(engine: Any) -> None:
    global _engine
    _engine = engine


def why_not() -> str:
    """Return why `layout` cannot be called now, or ""."""
    if _engine is not None or (_loading is not None and can_wait()):
        return ""
    return "is being loaded: run the cell once more" if _loading is not None else "is not loaded"


def node_count(dot: str) -> int:
    """Return how many nodes a text in DOT has, as `dot_text` writes it."""
    return len(re.findall(r"(?m)^\s*\"?\w+\"? \[", dot))


def layout(dot: str) -> str:
    """Return the SVG of a graph.

    Raises: RuntimeError: Graphviz refused the text.
    """
    global _engine
    if _engine is None:
        from pyodide.ffi import run_sync

        _engine = run_sync(_loading)
    try:
        return str(_engine.layout(dot, "svg", "dot"))
    except Exception as error:
        raise RuntimeError(f"Graphviz {WHERE}: {error}") from error
