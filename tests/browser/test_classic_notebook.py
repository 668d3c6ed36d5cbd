"""The same widget in Jupyter Notebook 7, which is not JupyterLab."""

from __future__ import annotations

import importlib.util
import secrets
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import (
    free_port,
    lab_command,
    lab_environment,
    stop,
    unavailable,
    wait_until_up,
)
from tests.browser.lab import ARTIFACTS, Lab, appear, kernel_ready, run_all, write_notebook

pytestmark = pytest.mark.browser

CELL = """
import edutorch
from edutorch import nn, viz
model = nn.Linear(2, 1)
optimizer = edutorch.optim.SGD(model.parameters(), lr=0.01)
with viz.live(model, keep=True) as view:
    for _ in range(20):
        optimizer.zero_grad()
        model(edutorch.ones(1, 2)).sum().backward()
        optimizer.step()
"""


@pytest.fixture
def classic(tmp_path: Any) -> Iterator[Lab]:
    """A Notebook 7 of its own."""
    if importlib.util.find_spec("notebook") is None:
        unavailable("notebook is not installed")
    server = Lab(root=tmp_path / "notebooks", port=free_port(), token=secrets.token_hex(8))
    server.root.mkdir()
    command = [
        "notebook" if argument == "jupyterlab" else argument for argument in lab_command(server)
    ]
    command = [argument for argument in command if not argument.startswith("--LabApp")]
    log = tmp_path / "notebook.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=lab_environment(tmp_path), stdout=output, stderr=output
        )
        try:
            wait_until_up(server, process, log)
            yield server
        finally:
            stop(process)


def test_live_and_touch(classic: Lab, page: Any) -> None:
    touch = "viz.touch(lambda w, x: (w * x).tanh(), w=0.5, x=2.0)"
    write_notebook(classic.root / "classic.ipynb", CELL, touch, "print('the', 'end')")
    page.goto(f"{classic.address}/notebooks/classic.ipynb?token={classic.token}")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    kernel_ready(page)
    run_all(page)
    appear(page, page.get_by_text("the end", exact=True))
    page.locator(".edutorch-live .state[data-state=finished]").wait_for()
    field = page.get_by_role("textbox", name="w", exact=True)
    field.fill("3")
    field.press("Enter")
    page.wait_for_function(
        """() => [...document.querySelectorAll("g.node > .value")]
          .some((text) => text.textContent === "value 3")"""
    )
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "classic-notebook.png")
