"""A page that is loaded anew while a loop runs finds the picture again."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.browser.lab import ARTIFACTS, Lab, appear, run_all, save, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOOP = """
from pathlib import Path
import edutorch as torch
from edutorch import nn, viz
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(16, 4), torch.randn(16, 1)
with viz.live(model, keep=True) as view:
    while not Path("enough").exists():
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()
        if view.step % 100 == 0:
            Path("steps.new").write_text(str(view.step))
            Path("steps.new").replace("steps")
"""


def test_a_page_that_is_loaded_anew(lab: Lab, page: Any) -> None:
    """JupyterLab asks a busy kernel in vain. The loop runs on; at its end the view is there."""
    enough, steps = lab.root / "enough", lab.root / "steps"
    enough.unlink(missing_ok=True)
    write_notebook(lab.root / "reload.ipynb", LOOP)
    lab.open(page, "reload.ipynb")
    run_all(page)
    appear(page, page.locator(".edutorch-live g.node").first)
    save(page)
    page.reload()
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    before = int(steps.read_text())
    deadline = time.monotonic() + 60
    while int(steps.read_text()) < before + 1000:
        assert time.monotonic() < deadline, "the loop stands still"
        time.sleep(0.1)
    enough.touch()
    page.locator(".edutorch-live .state", has_text="finished").wait_for()
    assert page.locator(".edutorch-live g.node").count() == 13
    shown = page.locator(".edutorch-live .step").inner_text()
    assert int(shown.removeprefix("step ")) > before + 1000
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "new-page.png")
