"""The flame in a real browser: zoom by mouse and by keys, in the dark too."""

from __future__ import annotations

from typing import Any

import pytest

from edutorch.profiler.tree import Frame
from edutorch.viz import Flame

pytestmark = pytest.mark.browser

NASTY = "<img src=x onerror=\"document.title='hacked'\">"


def tree() -> Frame:
    """Return a step of 100 ns with a fixed share for everything: a machine may be busy."""
    top = Frame("profile", "profile")
    named = top.child("range", NASTY)
    net = named.child("module", "Sequential")
    parts = {"0 (Linear)": 30, "1 (ReLU)": 10}
    for name, ns in parts.items():
        net.child("module", name).ns = ns
    net.ns = sum(parts.values())
    named.child("op", "sum").ns = 10
    named.child("backward", "backward").ns = 50
    top.ns = named.ns = 100
    return top


@pytest.fixture
def shown(page: Any) -> Any:
    page.set_content(Flame(tree()).html)
    page.wait_for_selector("g.frame[tabindex]")
    return page


def width(page: Any, label: str) -> float:
    frame = page.locator(f'g.frame[data-label="{label}"]').first
    return float(frame.locator("rect").get_attribute("width"))


def test_a_click_zooms_and_another_goes_back(shown: Any) -> None:
    before = width(shown, "backward")
    shown.locator('g.frame[data-label="backward"]').click()
    assert width(shown, "backward") > 900 > before
    assert shown.locator('g.frame[data-label="sum"]').first.is_hidden()
    shown.locator('g.frame[data-label="backward"]').click()
    assert width(shown, "backward") == pytest.approx(before, abs=1)


def test_keys_walk_and_zoom(shown: Any) -> None:
    label = "document.activeElement.dataset.label"
    shown.keyboard.press("Tab")
    assert shown.evaluate(label) == "profile"
    shown.keyboard.press("ArrowDown")
    assert shown.evaluate(label) == NASTY
    shown.keyboard.press("ArrowDown")
    assert shown.evaluate(label) == "Sequential"
    shown.keyboard.press("Enter")
    assert width(shown, "Sequential") > 900
    shown.keyboard.press("ArrowDown")
    assert shown.evaluate(label) == "0 (Linear)"
    shown.keyboard.press("ArrowRight")
    assert shown.evaluate(label) == "1 (ReLU)"
    shown.keyboard.press("Escape")
    assert width(shown, "Sequential") < 900
    assert "own time" in shown.evaluate("document.activeElement.getAttribute('aria-label')")


def test_names_are_text_in_the_page(shown: Any) -> None:
    assert shown.title() != "hacked"
    assert shown.locator("img").count() == 0
    assert NASTY in shown.locator("g.frame title").nth(1).text_content()


def test_it_has_a_dark_mode(shown: Any) -> None:
    colour = "getComputedStyle(document.querySelector('svg.edutorch-flame')).backgroundColor"
    shown.emulate_media(color_scheme="light")
    assert shown.evaluate(colour) == "rgb(255, 255, 255)"
    shown.emulate_media(color_scheme="dark")
    assert shown.evaluate(colour) == "rgb(17, 24, 39)"
    # JupyterLab says itself which it is, whatever the system says
    for light, wanted in (("true", "rgb(255, 255, 255)"), ("false", "rgb(17, 24, 39)")):
        shown.evaluate(f"document.body.dataset.jpThemeLight = '{light}'")
        shown.wait_for_function(f"{colour} === '{wanted}'")
