"""The tour in a real JupyterLab: does the picture move, and do the buttons work?"""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.browser.lab import ARTIFACTS, ROOT, Lab, appear, run_all, save, scroll_to

pytestmark = pytest.mark.browser

TOUR = ROOT / "notebooks" / "00_five_minute_tour.ipynb"

# Counts the different sets of numbers that the page has shown, frame by frame.
WATCH = """() => {
  window.seen = new Set();
  const look = () => {
    const texts = [...document.querySelectorAll(".edutorch-live text:is(.value, .gradient)")];
    if (texts.length) window.seen.add(texts.map((text) => text.textContent).join("|"));
    requestAnimationFrame(look);
  };
  look();
}"""
SHOWN = """() => [...document.querySelectorAll(".edutorch-live :is(text, .step)")]
  .map((element) => element.textContent).join("|")"""


class View:
    """The live view, as a person sees it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.root = page.locator(".edutorch-live").first

    @property
    def step(self) -> int:
        return int(self.root.locator(".step").inner_text().removeprefix("step "))

    def button(self, name: str) -> Any:
        return self.root.get_by_role("button").filter(has_text=name)

    def wait_for_state(self, state: str) -> None:
        self.root.locator(f".state[data-state={state}]").wait_for()

    def assert_still(self) -> None:
        before = self.page.evaluate(SHOWN)
        self.page.wait_for_timeout(700)
        assert self.page.evaluate(SHOWN) == before

    def screenshot(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        scroll_to(self.root)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")


def test_the_tour_moves_pauses_steps_and_leaves_a_picture(lab: Lab, page: Any) -> None:
    shutil.copy(TOUR, lab.root / TOUR.name)
    lab.open(page, TOUR.name)
    page.evaluate(WATCH)
    run_all(page)
    view = View(page)
    appear(page, view.root)
    for _ in range(60):
        scroll_to(view.root)  # nothing is written where nobody looks, and a first view is soon over
        page.wait_for_timeout(500)
        if page.evaluate("() => window.seen.size") >= 10:
            break
    assert page.evaluate("() => window.seen.size") >= 10

    view.button("Pause").click()
    view.wait_for_state("paused")
    view.assert_still()
    view.screenshot("tour-paused")

    paused_at = view.step
    view.button("Step").click()
    page.wait_for_function(
        "step => document.querySelector('.edutorch-live .step').textContent === `step ${step}`",
        arg=paused_at + 1,
    )
    view.assert_still()

    view.button("Resume").press("Enter")  # the keyboard works too, inside JupyterLab
    view.wait_for_state("running")
    page.wait_for_function("() => window.seen.size >= 20")
    view.screenshot("tour-running")

    slider = view.root.locator(".speed input")
    slider.fill(slider.get_attribute("max"))  # as fast as it can: nobody watches the rest

    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
    page.wait_for_timeout(500)
    save(page)
    outputs = lab.outputs(TOUR.name)
    errors = [output for output in outputs if output["output_type"] == "error"]
    assert errors == []
    pictures = {mime_type for output in outputs for mime_type in output.get("data", {})}
    assert "image/svg+xml" in pictures
    assert "image/png" in pictures
