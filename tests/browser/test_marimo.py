"""The widgets in marimo, which is no Jupyter: they show, and their clicks reach Python."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import free_port, stop, unavailable
from tests.browser.lab import ARTIFACTS, ROOT

pytestmark = pytest.mark.browser

APP = """
import marimo

app = marimo.App()


@app.cell
def _():
    import edutorch as torch
    from edutorch import nn, viz
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    loss = model(torch.ones(2, 3)).mean()
    return loss, model, viz


@app.cell
def _(loss, model, viz):
    viz.draw(loss, model).explore()
    return


@app.cell
def _(viz):
    viz.touch(lambda w, x: (w * x).sum(), w=0.5, x=2.0)
    return


@app.cell
def _(loss, model, viz):
    viz.walk(loss, model=model)
    return
"""
PATIENCE = 60.0


@pytest.fixture
def marimo(tmp_path: Path) -> Iterator[str]:
    """An app of marimo that runs, with nobody's settings; its address."""
    if importlib.util.find_spec("marimo") is None:
        unavailable("marimo is not installed (pip install 'edutorch[test]')")
    (tmp_path / "app.py").write_text(APP)
    port, log = free_port(), tmp_path / "log"
    command = [*(sys.executable, "-m", "marimo", "run", "app.py", "--headless", "--no-token"),
               *("--host", "127.0.0.1", "--port", str(port))]  # fmt: skip
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path, **home},
            stdout=output, stderr=output,
        )  # fmt: skip
        address = f"http://127.0.0.1:{port}"
        try:
            wait_for(address, process, log)
            yield address
        finally:
            stop(process)


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5)
            return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.2)
    pytest.fail(f"marimo did not start:\n{log.read_text(errors='replace')[-3000:]}")


def test_explore_touch_and_walk(marimo: str, page: Any) -> None:
    page.goto(marimo)
    views = page.locator(".edutorch-live")
    page.wait_for_function("() => window.document.querySelectorAll('marimo-anywidget').length >= 3")
    views.nth(2).locator("g.node").first.wait_for()
    drawing, play = views.nth(0), views.nth(1)

    before = drawing.locator("g.node").count()
    title = drawing.locator("text.foldable").first
    title.focus()
    title.press("Enter")  # a group is closed, by Python
    drawing.locator("g.node[aria-expanded=false]").first.wait_for()
    assert drawing.locator("g.node").count() < before

    field = play.get_by_role("textbox", name="w", exact=True)
    field.fill("3")
    field.press("Enter")
    play.locator("g.node > .value", has_text="value 6").first.wait_for()

    walk = views.nth(2)
    walk.locator(".walk-next").click()
    walk.locator(".edutorch-walk .station .title").wait_for()
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "marimo.png", full_page=True)
