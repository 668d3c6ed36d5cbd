"""Trouble in a real JupyterLab: said in words, shown in the graph; tensors are pictures."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.lab import ARTIFACTS, Lab, appear, run_all, scroll_to, write_notebook

pytestmark = pytest.mark.browser

LOOP = """import time
import edutorch as torch
from edutorch import viz
speed = torch.tensor([0.6, 2.0], requires_grad=True)
with viz.live(keep=True) as view:
    for step in range(40):
        speed.grad = None
        loss = (speed - 0.1).log().sum()
        loss.backward()
        with torch.no_grad():
            speed -= 0.05 * torch.ones(2)
        time.sleep(0.05)
"""
TENSOR = "x = torch.randn(4, 6); x[1, 2] = float('nan'); x"
REPORT = "viz.check(lambda: (speed * 0).sqrt().sum())"
FAILS = """a = torch.ones(2, 3, requires_grad=True)
try:
    viz.check(lambda: a.exp() @ torch.ones(2, 2))
except RuntimeError:
    pass
viz.post_mortem()"""


def test_trouble_is_said_and_shown(lab: Lab, page: Any) -> None:
    write_notebook(lab.root / "trouble.ipynb", LOOP, TENSOR, REPORT, FAILS)
    lab.open(page, "trouble.ipynb")
    run_all(page)
    panel = page.locator(".edutorch-trouble").first
    appear(page, panel.locator("li"))
    scroll_to(panel)
    first = panel.locator("li").first
    assert "is made by log" in first.inner_text()
    assert "→" in first.inner_text() and "step" in first.inner_text()
    assert page.get_by_role("region", name="Trouble").count() >= 1
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
    page.locator(".edutorch-live .state[data-state=finished]").first.wait_for()
    show = first.get_by_role("button")
    show.focus()
    page.keyboard.press("Enter")  # the keyboard reaches it
    chosen = page.locator(".edutorch-live .node.chosen .name").first
    assert "log" in chosen.text_content()
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "trouble-live.png")

    picture = page.locator(".edutorch-tensor").first
    scroll_to(picture)
    assert "✗ 1 NaN" in picture.inner_text()
    assert picture.locator("td.wrong").count() == 1
    page.screenshot(path=ARTIFACTS / "trouble-tensor.png")
    failed = page.get_by_text("matmul failed").first
    scroll_to(failed)
    page.screenshot(path=ARTIFACTS / "trouble-report.png")
    alt = page.locator('img[alt^="The graph."]').last.get_attribute("alt")
    assert "matmul failed" in alt
