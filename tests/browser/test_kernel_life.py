"""What a view says when its kernel ends, is interrupted or busy with threads and second pages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser.lab import ARTIFACTS, Lab, appear, run_all, save, scroll_to, write_notebook

pytestmark = pytest.mark.browser

BEFORE = """
import threading, time
import edutorch as torch
from edutorch import nn, optim, viz
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(8, 3)

def train(view, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
"""
LOOP = """
with viz.live(model) as view:
    train(view, 60)
"""
GONE = ".edutorch-live .gone"


def start(lab: Lab, page: Any, name: str, *cells: str) -> None:
    write_notebook(lab.root / name, BEFORE, *cells)
    lab.open(page, name)
    run_all(page)
    appear(page, page.locator(".edutorch-live g.node").first)
    scroll_to(page.locator(".edutorch-live").first)


def menu(page: Any, entry: str, answer: str = "") -> None:
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_text(entry, exact=True).click()
    if answer:
        page.locator(".jp-Dialog").get_by_role("button", name=answer).click()


def shot(page: Any, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    scroll_to(page.locator(".edutorch-live").first)
    page.screenshot(path=ARTIFACTS / f"{name}.png")


def test_a_restarted_kernel(lab: Lab, page: Any) -> None:
    start(lab, page, "restart.ipynb", LOOP)
    menu(page, "Restart Kernel…", "Confirm Kernel Restart")
    page.locator(GONE, has_text="The kernel was restarted.").wait_for()
    assert page.locator(".edutorch-live .state").inner_text().endswith("no kernel")
    assert page.locator(".edutorch-live .pause").is_disabled()
    assert page.locator(".edutorch-live g.node").count() > 5  # the picture stays
    page.wait_for_timeout(3000)  # also when the new one is there
    assert "last picture" in page.locator(GONE).inner_text()
    shot(page, "kernel-restarted")


def test_a_kernel_that_is_shut_down(lab: Lab, page: Any) -> None:
    start(lab, page, "shutdown.ipynb", "viz.draw(model, x).explore()")
    menu(page, "Shut Down Kernel")
    page.locator(GONE, has_text="The kernel was shut down.").wait_for()
    assert page.locator(".edutorch-live g.node").count() > 5


def test_a_kernel_that_dies(lab: Lab, page: Any) -> None:
    dies = "threading.Timer(4, lambda: __import__('os').kill(__import__('os').getpid(), 9)).start()"
    start(lab, page, "dies.ipynb", dies + LOOP)
    page.locator(GONE, has_text="The kernel was restarted.").wait_for()
    assert page.locator(".edutorch-live .state").inner_text().endswith("no kernel")


def test_an_interrupt(lab: Lab, page: Any) -> None:
    start(lab, page, "interrupt.ipynb", LOOP.replace("model)", "model, keep=True)"))
    menu(page, "Interrupt Kernel")
    page.locator(".edutorch-live .state[data-state=interrupted]").wait_for()
    assert page.locator(GONE).inner_text().startswith("The loop was interrupted after step ")
    assert page.locator(".edutorch-live .pause").is_disabled()
    shot(page, "kernel-interrupted")


def test_a_thread_s_view_is_below_the_cell_that_started_it(lab: Lab, page: Any) -> None:
    thread = """
def loop():
    time.sleep(2)  # meanwhile the next cells run
    with viz.live(model) as view:
        train(view, 3)
thread = threading.Thread(target=loop)
thread.start()
"""
    start(lab, page, "thread.ipynb", thread, "print('another', 'cell')", "1 + 1")
    where = """() => [...document.querySelectorAll(".jp-Notebook .jp-CodeCell")]
      .findIndex((cell) => cell.querySelector(".edutorch-live, .jp-RenderedSVG"))"""
    assert page.evaluate(where) == 1
    page.locator(".edutorch-live").wait_for(state="detached")
    page.locator(".jp-RenderedSVG").first.wait_for()
    assert page.evaluate(where) == 1  # and so is the picture that stays
    assert page.locator(".jp-RenderedSVG").count() == 1


def test_two_views_of_one_widget(lab: Lab, page: Any) -> None:
    start(lab, page, "two.ipynb", "view = viz.live(model, keep=True)\n"
          "with view:\n    display(view)\n    train(view, 60)")  # fmt: skip
    views = page.locator(".edutorch-live")
    views.nth(1).locator("g.node").first.wait_for(state="attached")
    assert views.count() == 2
    views.nth(0).locator(".pause").click()
    for place in range(2):  # what is pressed in one is shown in both
        views.nth(place).locator(".state[data-state=paused]").wait_for()
    page.wait_for_timeout(300)
    steps = [views.nth(place).locator(".step").inner_text() for place in range(2)]
    assert steps[0] == steps[1]
    views.nth(1).locator(".pause").click()
    for place in range(2):
        views.nth(place).locator(".state[data-state=running]").wait_for()


def test_a_running_view_that_is_loaded_anew(lab: Lab, page: Any) -> None:
    start(lab, page, "again.ipynb", LOOP)
    for _ in range(30):  # a busy machine takes long to its first picture
        page.wait_for_timeout(2000)
        save(page)
        if "edutorch-still" in json.dumps(lab.outputs("again.ipynb")):
            break
    page.reload()
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    still = page.locator(".edutorch-still")
    still.first.wait_for()
    assert "still runs, or has ended" in still.inner_text()
    assert still.locator("img").first.bounding_box()["width"] > 100
    page.wait_for_timeout(2000)
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "kernel-reload.png")
    menu(page, "Restart Kernel…", "Confirm Kernel Restart")
    page.wait_for_timeout(4000)
    assert still.is_visible()
