"""Whole programs, watched in a real JupyterLab: never blank, soon there, small.

Twelve run in CI, all of them with EDUTORCH_ALL_PROGRAMS=1. The figures are printed, and pictures of
the views, light and dark, are kept in `artifacts/`.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import ARTIFACTS, ROOT, Lab, appear, run_all, save, scroll_to, write_notebook
from tests.browser.test_whole_graph import assert_all_is_seen, boxes, boxes_at_rest

pytestmark = [pytest.mark.browser, pytest.mark.programs]

TWELVE = (
    "resnet50", "gpt12", "dcgan", "lstm_cell_loop", "wgan_gp", "unet", "maml", "vae",
    "multi_task", "transformer", "tree_lstm", "dqn",
)  # fmt: skip
EVERY = sorted(path.stem for path in (ROOT / "tests/programs").glob("[a-z]*.py"))
NAMES = EVERY if os.environ.get("EDUTORCH_ALL_PROGRAMS") == "1" else TWELVE
MOST_BYTES = 400_000  # of a saved notebook
FIRST = """
import functools, sys, time
sys.path.insert(0, {root})
import edutorch
from edutorch import viz
from edutorch.events import Stepped, listen_steps
from tests.programs import {name}
stepped = []
def note(kind, *rest):
    if kind is Stepped:
        stepped.append(time.time())
watch = functools.partial(viz.live, keep=True)  # the program's variables name its models
"""
LOOP = """
with listen_steps(note):
    {name}.main(steps=6, watch=watch)
print("first step ended at", stepped[0] if stepped else time.time())
"""
# When the first box was drawn, by the clock that the kernel has too.
ARRIVAL = """() => {
  window.firstBox = 0;
  new MutationObserver((_, observer) => {
    if (!document.querySelector(".edutorch-live .scroller g.node")) return;
    window.firstBox = Date.now() / 1000;
    observer.disconnect();
  }).observe(document.body, { childList: true, subtree: true });
}"""

CHANGE_THEME = """theme =>
  window.jupyterapp.commands.execute("apputils:change-theme", { theme })"""


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[Any]:
    """One tab for all of them: to open JupyterLab takes longer than a program."""
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(30_000)
    yield page
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "programs-end.png")
    context.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_program_is_seen(name: str, lab: Lab, tab: Any) -> None:
    notebook = f"program-{name}.ipynb"
    root = json.dumps(str(ROOT))
    write_notebook(lab.root / notebook, FIRST.format(root=root, name=name), LOOP.format(name=name))
    lab.open(tab, notebook)
    tab.evaluate(ARRIVAL)
    run_all(tab)
    ended = tab.get_by_text(re.compile(r"first step ended at [\d.]+"))
    appear(tab, ended)
    view = tab.locator(".edutorch-live")
    appear(tab, view.locator(".scroller g.node").first)
    first = tab.evaluate("window.firstBox") - float(ended.inner_text().split()[-1])
    scroll_to(view)
    tab.wait_for_timeout(400)
    assert_all_is_seen(tab)
    shown = boxes(tab)["all"]
    assert shown <= 40
    keep_pictures(tab, name)
    fold_and_unfold(tab, view)
    save(tab)
    size = (lab.root / notebook).stat().st_size
    print(f"{name}: {shown} boxes, first picture {first:+.2f} s after the first step, "
          f"{size / 1000:.0f} kB saved, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    assert size <= MOST_BYTES
    shut_down(tab)


def fold_and_unfold(tab: Any, view: Any) -> None:
    """Open a group, fit, close all, fit: there is always something in the window."""
    closed = view.locator("g.node.foldable")
    fit = view.get_by_role("button", name="Show the whole graph")
    press(fit)
    assert_all_is_seen(tab)
    if closed.count():
        closed.first.click()
        tab.wait_for_timeout(1000)  # of the page, and Python's new layout
        assert boxes_at_rest(tab)["inside"] > 0
    press(view.get_by_role("button", name="Close all groups"))
    tab.wait_for_timeout(600)
    assert boxes_at_rest(tab)["inside"] > 0
    press(fit)
    assert_all_is_seen(tab)


def press(button: Any) -> None:
    """Press a button, unless there is nothing for it to do."""
    if button.is_visible() and button.is_enabled():
        button.click(timeout=5000)


def keep_pictures(tab: Any, name: str) -> None:
    folder: Path = ARTIFACTS / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    for theme in ("light", "dark"):
        tab.evaluate(CHANGE_THEME, f"JupyterLab {theme.title()}")
        is_light = "true" if theme == "light" else "false"
        tab.locator(f"body[data-jp-theme-light={is_light}]").wait_for(state="attached")
        tab.wait_for_timeout(150)
        tab.screenshot(path=folder / f"{name}-{theme}.png")
    tab.evaluate(CHANGE_THEME, "JupyterLab Light")


def shut_down(tab: Any) -> None:
    """End the kernel: a dozen of them would not fit into the memory."""
    tab.evaluate("() => window.jupyterapp?.shell.currentWidget?.sessionContext?.shutdown()")
    time.sleep(0.2)
