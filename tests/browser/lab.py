"""What a person does in JupyterLab, by name."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ARTIFACTS = Path(__file__).parent / "artifacts"
# What the front end itself knows of its kernel. Whatever it shows lags behind, or comes before:
# run earlier, and it asks which kernel to take.
KERNEL_STATE = """() => {
  const kernel = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
  return kernel ? `${kernel.connectionStatus} and ${kernel.status}` : "none";
}"""


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab."""

    root: Path
    port: int
    token: str

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self, page: Any, notebook: str) -> None:
        """Open a notebook that lies in `root`, and wait until its kernel is ready."""
        page.goto(f"{self.address}/lab/tree/{notebook}?token={self.token}&reset")
        page.locator(".jp-Notebook .jp-Cell").first.wait_for()
        kernel_ready(page)

    def outputs(self, notebook: str) -> list[dict[str, Any]]:
        """Return all outputs of the notebook as it is on the disk."""
        for _ in range(100):
            try:
                cells = json.loads((self.root / notebook).read_text())["cells"]
                break
            except json.JSONDecodeError:  # the server is just writing it
                time.sleep(0.1)
        else:
            raise AssertionError(f"{notebook} is no JSON")
        return [output for cell in cells for output in cell.get("outputs", [])]


def write_notebook(path: Path, *cells: str) -> None:
    """Write a notebook with these code cells."""
    path.write_text(
        json.dumps(
            {
                "nbformat": 4,
                "nbformat_minor": 5,
                "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
                "cells": [
                    {
                        "cell_type": "code",
                        "id": f"cell-{index}",
                        "metadata": {},
                        "execution_count": None,
                        "outputs": [],
                        "source": source,
                    }
                    for index, source in enumerate(cells)
                ],
            }
        )
    )


def kernel_ready(page: Any) -> None:
    """Wait until the kernel of the notebook in front hears and has nothing to do."""
    from playwright.sync_api import TimeoutError as TooLate

    try:
        page.wait_for_function(f"({KERNEL_STATE})() === 'connected and idle'")
    except TooLate as late:
        raise AssertionError(f"the kernel is still {page.evaluate(KERNEL_STATE)}") from late


def run_all(page: Any) -> None:
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()


def appear(page: Any, wanted: Any) -> None:
    """Wait for `wanted` to be in the page; an error in the notebook fails at once."""
    from playwright.sync_api import TimeoutError as TooLate

    error = page.locator(".jp-OutputArea-output", has_text="Traceback (most recent call")
    try:
        wanted.or_(error).first.wait_for(state="attached")
    except TooLate as late:
        outputs = page.locator(".jp-OutputArea-output").all_inner_texts()
        prompts = page.locator(".jp-InputPrompt").all_inner_texts()
        state = f"the kernel is {page.evaluate(KERNEL_STATE)}, cells {prompts}, outputs {outputs}"
        raise AssertionError(f"not there in time: {wanted}; {state}") from late
    assert error.count() == 0, error.first.inner_text()


def scroll_to(wanted: Any, attempts: int = 20) -> None:
    """Scroll to `wanted`; when a view just ended and became a picture, to the next one."""
    from playwright.sync_api import Error

    for attempt in range(attempts):
        try:
            return wanted.scroll_into_view_if_needed()
        except Error as error:
            if "not attached" not in error.message or attempt == attempts - 1:
                raise


def save(page: Any) -> None:
    page.locator(".jp-Notebook").first.press("Control+s")
    page.locator(".jp-NotebookPanel .jp-mod-dirty, .jp-mod-current.jp-mod-dirty").wait_for(
        state="detached"
    )
