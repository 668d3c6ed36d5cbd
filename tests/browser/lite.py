"""Drives a notebook of the site in a real Chromium: opens it, runs its cells, reads outputs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUN = """
() => {
  window.edutorchDone = false;
  jupyterapp.commands.execute("notebook:run-all-cells").finally(() => (window.edutorchDone = true));
}
"""
CELLS = """
() => jupyterapp.shell.currentWidget.content.widgets.filter((cell) => cell.model.type === "code")
  .map((cell) => ({
    source: cell.model.sharedModel.getSource(),
    count: cell.model.executionCount,
    outputs: cell.model.outputs.toJSON(),
  }))
"""
IS_READY = """
() => window.jupyterapp?.shell?.currentWidget?.content?.model?.cells?.length > 0 &&
  jupyterapp.shell.currentWidget.sessionContext.session?.kernel != null
"""


class Tab:
    """A page of the site.

    Attributes:
        requests: the hosts that were asked for something.
        problems: errors of the page.
    """

    def __init__(self, page: Any, base: str) -> None:
        self.page, self.base = page, base
        self.requests: set[str] = set()
        self.problems: list[str] = []
        page.set_default_timeout(60_000)
        page.context.on("request", lambda request: self.requests.add(host_of(request.url)))
        page.on("pageerror", lambda error: self.problems.append(str(error)))

    def open(self, notebook: str, app: str = "lab", query: str = "") -> None:
        """Open a notebook; its kernel begins to start."""
        self.page.goto(f"{self.base}/{app}/index.html?path={notebook}{query}")
        self.page.wait_for_function(IS_READY, timeout=120_000)

    def run_all(self) -> None:
        """Run all cells, without waiting for them."""
        self.page.evaluate(RUN)

    def wait_for_cells(self, seconds: float = 120) -> None:
        """Wait until all have run."""
        self.wait(lambda: self.page.evaluate("window.edutorchDone"), seconds, "cells still run")

    def wait(self, condition: Callable[[], Any], seconds: float, what: str) -> Any:
        """Return what a condition is when it is true at last; fail after some seconds."""
        end = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, f"{what} after {seconds} s\n{self.report()}"
            self.page.wait_for_timeout(100)

    def cells(self) -> list[dict[str, Any]]:
        return self.page.evaluate(CELLS)

    def outputs(self, output_type: str) -> list[Any]:
        """Return all outputs of a type of Jupyter's: "stream", "error", "display_data", …"""
        outputs = [output for cell in self.cells() for output in cell["outputs"]]
        return [output for output in outputs if output["output_type"] == output_type]

    def text(self) -> str:
        """Return what was printed."""
        return "".join(text_of(output["text"]) for output in self.outputs("stream"))

    def svgs(self) -> list[str]:
        """Return the pictures that are in the notebook."""
        bundles = [
            output["data"]
            for cell in self.cells()
            for output in cell["outputs"]
            if "data" in output
        ]
        return [text_of(data["image/svg+xml"]) for data in bundles if "image/svg+xml" in data]

    def errors(self) -> list[str]:
        return [f"{error['ename']}: {error['evalue']}" for error in self.outputs("error")]

    def save(self) -> None:
        self.page.evaluate("jupyterapp.commands.execute('docmanager:save')")

    def press(self, name: str) -> None:
        """Press a button of a live view, by its accessible name."""
        self.page.get_by_role("button", name=name, exact=True).first.click()

    def report(self) -> str:
        """Return what to say when a test fails."""
        try:
            said = (self.text()[-1500:], self.errors(), self.problems[-5:])
        except Exception as error:  # noqa: BLE001  (the page may be gone)
            said = (str(error), self.problems[-5:])
        return json.dumps(said, indent=1, default=str)


def host_of(url: str) -> str:
    return url.split("/")[2] if url.startswith(("http:", "https:", "ws:", "wss:")) else ""


def text_of(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def write_notebook(path: Path, *cells: str) -> Path:
    """Write a notebook for the kernel of the site; with `lab.write_notebook` nothing would run."""
    code = [
        {"cell_type": "code", "id": f"cell{number}", "metadata": {}, "source": source,
         "outputs": [], "execution_count": None}
        for number, source in enumerate(cells)
    ]  # fmt: skip
    kernel = {
        "kernelspec": {"name": "python", "display_name": "Python (Pyodide)", "language": "python"}
    }
    path.write_text(
        json.dumps({"cells": code, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})
    )
    return path
