"""A walk through backward in a real JupyterLab: buttons, keys, what is seen, what stays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.lab import ARTIFACTS, Lab, appear, run_all, save, scroll_to, write_notebook

pytestmark = pytest.mark.browser

SCALAR = """
import edutorch as torch
from edutorch import viz
x = torch.tensor(3.0, requires_grad=True)
w = torch.tensor(-2.0, requires_grad=True)
y = x * w
loss = (y + x**2).tanh() + y * 0.1
walk = viz.walk(loss)
walk
"""
CNN = """
from edutorch import nn
from edutorch.nn import functional as F
torch.manual_seed(0)
class Eye(nn.Module):
    def __init__(self):
        super().__init__()
        self.edges = nn.Conv2d(1, 4, 3)
        self.votes = nn.Linear(4 * 9, 3)
    def forward(self, images):
        return self.votes(F.max_pool2d(F.relu(self.edges(images)), 2).flatten(1))
eye = Eye()
error = F.cross_entropy(eye(torch.randn(5, 1, 8, 8)), torch.tensor([0, 2, 1, 0, 0]))
second = viz.walk(error, model=eye)
second
"""


def shoot(page: Any, view: Any, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    scroll_to(view)
    view.screenshot(path=ARTIFACTS / f"{name}.png")


def test_a_walk_by_mouse_and_keys(lab: Lab, page: Any) -> None:
    write_notebook(lab.root / "walk.ipynb", SCALAR, CNN, "print('x.grad is', x.grad)")
    lab.open(page, "walk.ipynb")
    run_all(page)
    view = page.locator(".edutorch-live").first
    panel = view.locator(".edutorch-walk")
    appear(page, panel)
    count = panel.locator(".count")
    assert count.inner_text() == "0 of 8"
    page.get_by_text("x.grad is None").wait_for()  # the cell has returned, nothing is written

    panel.get_by_role("button").filter(has_text="Next").click()
    page.wait_for_function("document.querySelector('.edutorch-walk .count').value === '1 of 8'")
    assert view.locator(".node[data-walk=here]").count() == 1
    assert view.locator(".edge.walk-flow").count() == 2
    shoot(page, view, "walk-first")

    panel.get_by_role("button").filter(has_text="Next").press("n")  # keys, inside JupyterLab
    page.wait_for_function("document.querySelector('.edutorch-walk .count').value === '2 of 8'")
    page.keyboard.press("b")
    page.wait_for_function("document.querySelector('.edutorch-walk .count').value === '1 of 8'")

    view.locator(".node", has_text="pow").click()
    page.keyboard.press("g")
    panel.locator(".title", has_text="pow").wait_for()
    text = panel.locator(".station").inner_text()
    assert "from add" in text
    assert panel.locator("math").count() >= 2
    shoot(page, view, "walk-pow")

    panel.get_by_role("button").filter(has_text="To the end").click()
    panel.get_by_text("that was all").wait_for()
    assert panel.get_by_role("button").filter(has_text="Next").is_disabled()
    panel.get_by_role("button").filter(has_text="Back").click()
    panel.locator(".title", has_text="x.grad").wait_for()
    shoot(page, view, "walk-end")
    spoken = panel.locator("[aria-live=polite]").text_content()
    assert "arrived" in spoken

    other = page.locator(".edutorch-live").nth(1)
    shoot(page, other, "walk-cnn-start")
    other.get_by_role("button").filter(has_text="Next").click()
    for _ in range(5):
        page.keyboard.press("n")
    other.locator(".title", has_text="relu").or_(
        other.locator(".title", has_text="conv")
    ).wait_for()
    other.locator(".bars").first.wait_for()
    shoot(page, other, "walk-cnn")


def test_finish_leaves_a_picture(lab: Lab, page: Any) -> None:
    write_notebook(lab.root / "done.ipynb", SCALAR, "walk.finish()\nprint(walk.table())")
    lab.open(page, "done.ipynb")
    run_all(page)
    appear(page, page.get_by_text("incoming gradient").first)
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
    page.locator(".edutorch-live").wait_for(state="detached")
    page.wait_for_timeout(300)
    save(page)
    mime_types = [set(output.get("data", {})) for output in lab.outputs("done.ipynb")]
    assert {"text/plain", "image/svg+xml", "image/png"} in mime_types
    assert not any("application/vnd.jupyter.widget-view+json" in types for types in mime_types)
