"""Runs lessons in Pyodide under node, which is about as fast as in a browser tab.

    EDUTORCH_PYODIDE=DIR python -m tests.browser.lessons_in_pyodide 00 05

DIR is what `python -m tests.browser.pyodide` makes. What each cell takes of a processor is printed,
and what went wrong. Without a number all lessons run that are marked as fit for a browser.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WHEELS = ("numpy", "matplotlib", "pillow", "ipython", "prompt-toolkit", "jedi")
PLAIN_PYTHON = ("anywidget", "ipywidgets", "comm", "psygnal")
"""Packages that Pyodide lacks, taken from the Python that runs the tests."""

ENVIRONMENT = {
    "HOME": "/home/pyodide",
    "EDUTORCH_DATA": "/data",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}
GRAPHVIZ = ROOT / "widgets" / "vendor" / "graphviz.js"


def missing() -> str:
    """Return what is missing to run a lesson in Pyodide, or ""."""
    folder = os.environ.get("EDUTORCH_PYODIDE", "")
    if not folder or not (Path(folder) / "pyodide.mjs").is_file():
        return "EDUTORCH_PYODIDE names no folder that `python -m tests.browser.pyodide` has made"
    if shutil.which("node") is None:
        return "node is not installed"
    return "" if GRAPHVIZ.is_file() else "`make widgets` has not been run"


def cells_of(path: Path) -> list[dict[str, Any]]:
    """Return the code cells of a notebook. Behind each solution, it is run and checked, too."""
    cells: list[dict[str, Any]] = []
    check = ""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source, tags = "".join(cell["source"]), cell["metadata"].get("tags", [])
        if cell["cell_type"] == "code":
            cells.append({"source": source, "tags": tags})
        if "check" in tags:
            check = source
        if "solution" in tags:
            code = re.search(r"```python\n(.*?)```", source, re.DOTALL)
            assert code, "a solution is Python code"
            cells.append({"source": code[1], "tags": []})
            cells.append({"source": check, "tags": ["check-of-solution"]})
    return cells


def run_lesson(path: Path, folder: Path) -> list[dict[str, Any]]:
    """Run a notebook in Pyodide, with the data that it reads; see `run_in_pyodide`."""
    from edutorch.cli.lessons import data_of
    from edutorch.datasets import write_data

    write_data(folder / "data", data_of(path))
    return run_in_pyodide(cells_of(path), folder)


def run_in_pyodide(cells: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Run cells in Pyodide; return them, each with what it left (see `run_cells`).

    Args:
        folder: for the files of the run; `data` in it has the data.
    """
    folders = {"/repository": str(ROOT), "/data": str(folder / "data")}
    (folder / "data").mkdir(exist_ok=True)
    for name in PLAIN_PYTHON:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            folders[f"/packages/{name}"] = str(Path(spec.origin).parent)
    job = {
        "pyodide": os.environ["EDUTORCH_PYODIDE"], "packages": WHEELS, "folders": folders,
        "environment": ENVIRONMENT, "cells": cells, "results": str(folder / "results.json"),
    }  # fmt: skip
    (folder / "job.json").write_text(json.dumps(job), "utf-8")
    script = Path(__file__).with_suffix(".mjs")
    subprocess.run(["node", str(script), str(folder / "job.json")], check=True)
    results = json.loads((folder / "results.json").read_text("utf-8"))
    return [cell | result for cell, result in zip(cells, results, strict=True)]


async def run_cells(cells: list[dict[str, Any]], cpu_seconds: Callable[[], float]) -> str:
    """Run cells as a notebook does, in Pyodide.

    Args:
        cpu_seconds: returns the processor time of node so far.

    Returns: JSON, for each cell: seconds, error, printed, warned and shown.
    """
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell.instance()
    results = []
    for cell in cells:
        began = cpu_seconds()
        with shell.display_trap, capture_output() as captured:
            result = await shell.run_cell_async(cell["source"], store_history=True)
            shell.events.trigger("post_execute")  # matplotlib shows its figures
        seconds = cpu_seconds() - began
        error = result.error_before_exec or result.error_in_exec
        results.append(
            {
                "seconds": seconds,
                "error": "".join(traceback.format_exception(error)) if error else "",
                "printed": captured.stdout,
                "warned": captured.stderr,
                "shown": [output.data for output in captured.outputs],
            }
        )
        print(f"{seconds:7.2f} s  {cell['source'].strip().splitlines()[0][:70]}", flush=True)
        await asyncio.sleep(0.2)  # promises are kept between two cells, as on a page
    return json.dumps(results, default=repr)


def problems_of(cells: list[dict[str, Any]]) -> list[str]:
    """Return the errors, and the exercises whose check took the wrong one for right."""
    problems = [f"{cell['source']}\n{cell['error']}" for cell in cells if cell["error"]]
    for cell in cells:
        mark = "✗" if "check" in cell["tags"] else "✓" if cell["tags"] else ""
        if mark not in ("✗", "✓") or "exercise" in cell["tags"]:
            continue
        said = "".join(data.get("text/plain", "") for data in cell["shown"])
        if not said.startswith(mark):
            problems.append(f"{cell['source']}\nshould say {mark}: {said}")
    return problems


def main(arguments: list[str]) -> int:
    from edutorch.cli.lessons import read_lessons

    if missing():
        raise SystemExit(missing())
    rows = []
    for lesson in read_lessons():
        if lesson.number not in arguments if arguments else not lesson.in_browser:
            continue
        with tempfile.TemporaryDirectory() as folder:
            cells = run_lesson(lesson.path, Path(folder))
        print(*problems_of(cells), sep="\n")
        seconds = sum(cell["seconds"] for cell in cells)
        rows.append(f"| {lesson.path.stem} | {seconds:.0f} | {len(problems_of(cells))} |")
    print("| lesson | seconds | problems |\n|:--|--:|--:|", *rows, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
