"""Every notebook runs from top to bottom, as a student runs it, and leaves its pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").rglob("*.ipynb"))


def execute(path: Path) -> Any:
    """Run a notebook in a kernel of this very Python and return it with its outputs."""
    nbformat = pytest.importorskip("nbformat", reason="needs the extra `test`")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra `test`")
    pytest.importorskip("ipykernel", reason="needs the extra `lab`")
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook,
        kernel_name="python3",  # of the interpreter that runs the tests
        timeout=120,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    return notebook


def outputs(notebook: Any) -> list[Any]:
    return [each for cell in notebook.cells for each in cell.get("outputs", [])]


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_committed_without_outputs(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat", reason="needs the extra `test`")
    assert not outputs(nbformat.read(path, as_version=4))


def test_the_tour_teaches_what_it_promises() -> None:
    """The gradient is 8, the graph is drawn, the digits are read, a picture stays."""
    tour = execute(next(path for path in NOTEBOOKS if path.stem.startswith("00_")))
    found = outputs(tour)
    texts = [each["data"].get("text/plain", "") for each in found if "data" in each]
    printed = "".join(each["text"] for each in found if each["output_type"] == "stream")
    assert "tensor(8.)" in texts
    pictures = [each["data"] for each in found if "image/svg+xml" in each.get("data", {})]
    assert len(pictures) == 3, "one of y, two that live views leave"
    assert all("image/png" in each for each in pictures)
    assert "application/vnd.jupyter.widget-view+json" not in pictures[-1]
    accuracy = float(printed.split("%")[0].rsplit(maxsplit=1)[-1])
    assert accuracy > 95.0
