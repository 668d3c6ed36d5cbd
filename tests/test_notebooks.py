"""Every notebook runs from top to bottom, as a student runs it, and leaves its pictures.

One test per notebook, so that pytest-xdist can spread them. In the same run each exercise
is solved with the solution that the notebook gives, and its check has to notice: it says
"✗ 02.softmax" and a hint before, and "✓ 02.softmax: right" afterwards. What a lesson promises
stands in `tests/lessons/nb02.py`. The network is off, and a table of seconds and memory is printed.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
import time
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.lessons.outputs import errors_of, outputs, printed, shown

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").rglob("*.ipynb"))
FIRST = {"00", "01", "02"}  # in `make test`; all others in `make test-notebooks`
HANG = 400  # seconds for one cell; a lesson as a whole takes a tenth of it
MEMORY = 1024  # megabytes of a kernel
NO_NETWORK = """
import socket

def connect(self, address, connect=socket.socket.connect, unix=socket.AF_UNIX):
    if self.family != unix and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"a lesson needs no network, but asks for {address}")
    return connect(self, address)

socket.socket.connect = connect
del socket, connect
"""
PEAK = """
import pathlib
status = pathlib.Path("/proc/self/status").read_text().splitlines()
(peak,) = [line.split()[1] for line in status if line.startswith("VmHWM")]
print("peak memory:", int(peak) // 1024, "MB")
"""


def lesson_of(path: Path) -> ModuleType:
    """Return the module of what a notebook promises."""
    return importlib.import_module(f"tests.lessons.nb{path.stem[:2]}")


def tags(cell: Any) -> list[str]:
    return cell.metadata.get("tags", [])


def with_solutions(notebook: Any, new_code_cell: Any) -> Any:
    """Behind each solution, run it and repeat the check above it."""
    cells, check = [], None
    for cell in notebook.cells:
        cells.append(cell)
        if "check" in tags(cell):
            check = cell
        if "solution" in tags(cell):
            code = re.search(r"```python\n(.*?)```", cell.source, re.DOTALL)
            assert code and check, "a solution is Python code, and stands behind its check"
            again = {"tags": ["check-of-solution"]}
            cells += [new_code_cell(code[1]), new_code_cell(check.source, metadata=again)]
    notebook.cells = cells
    return notebook


def without_waiting(notebook: Any) -> Any:
    """Hold no live view to a pace for eyes: no page is here to be watched."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = re.sub(r"steps_per_second=\d+", "steps_per_second=10_000", cell.source)
    return notebook


def execute(path: Path) -> tuple[Any, int]:
    """Run a notebook in a kernel of this very Python.

    Returns: it with its outputs, and the largest memory of its kernel in megabytes.
    """
    nbformat = pytest.importorskip("nbformat", reason="needs the extra `test`")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra `test`")
    pytest.importorskip("ipykernel", reason="needs the extra `lab`")
    notebook = without_waiting(nbformat.read(path, as_version=4))
    new_cell = nbformat.v4.new_code_cell
    with_solutions(notebook, new_cell)
    last = [new_cell(PEAK)] if sys.platform == "linux" else []
    notebook.cells = [new_cell(NO_NETWORK), *notebook.cells, *last]
    client = nbclient.NotebookClient(
        notebook,
        kernel_name="python3",  # of the interpreter that runs the tests
        timeout=HANG,
        resources={"metadata": {"path": str(path.parent)}},
    )
    # Several notebooks run at a time: threads that wait for a processor would slow all down.
    client.execute(env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    peak = int(printed(notebook.cells[-1].outputs).split()[-2]) if last else 0
    notebook.cells = notebook.cells[1 : len(notebook.cells) - len(last)]
    return notebook, peak


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_committed_without_outputs(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the extra `test`")
    assert not outputs(nbformat.read(path, as_version=4))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[] if path.stem[:2] in FIRST else pytest.mark.notebooks)
        for path in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)
def test_notebook_teaches_what_it_promises(path: Path, record_lesson: Any) -> None:
    lesson = lesson_of(path)
    for package in getattr(lesson, "PACKAGES", ()):
        pytest.importorskip(package, reason=f"{path.stem} needs {package}: the extra `course`")
    began = time.monotonic()
    notebook, peak = execute(path)
    record_lesson(path.stem, time.monotonic() - began, peak)
    assert peak <= MEMORY
    exercises_can_be_solved(notebook)
    notebook.cells = [cell for cell in notebook.cells if not is_check(cell)]
    cell_outputs = outputs(notebook)
    warned = re.findall(r"\w*Warning\b:? ?\w*", errors_of(cell_outputs))
    assert warned == getattr(lesson, "WARNINGS", [])
    assert not any(
        "application/vnd.jupyter.widget-view+json" in data for data in shown(cell_outputs)
    )
    for promise in getattr(lesson, "PROMISES", ()):
        assert re.search(promise, printed(cell_outputs)), promise
    if hasattr(lesson, "check"):
        lesson.check(cell_outputs)


def is_check(cell: Any) -> bool:
    return not {"check", "check-of-solution"}.isdisjoint(tags(cell))


def exercises_can_be_solved(notebook: Any) -> None:
    for cell in filter(is_check, notebook.cells):
        id = re.fullmatch(r'\w+\.check\("(.*)"\)', cell.source)
        assert id, cell.source
        wrong, right = f"✗ {id[1]}, attempt 1: ", f"✓ {id[1]}: right, "
        (output,) = cell.outputs
        sentence = wrong if "check" in tags(cell) else right
        assert output["data"]["text/plain"].startswith(sentence), output["data"]["text/plain"]
        assert sentence in unescape(output["data"]["text/html"])
