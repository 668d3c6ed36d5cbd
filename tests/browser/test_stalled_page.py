"""A page that stands still, loses its connection or is closed: the training does not care."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.lab import ARTIFACTS, Lab, appear, run_all, scroll_to, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOOP = """
import json, os, time
from pathlib import Path
from benchmarks.live import deep
from edutorch import viz
from edutorch.viz.graph.fold import Choice

step = deep(1000)
page = os.sysconf("SC_PAGE_SIZE")
said = 0.0
view = viz.live(keep=True)
view._page_state.choice = Choice(everything=True)
view.parts.remove(view.history)  # that one keeps the steps on purpose
with view:
    view._sampler.throttle.share = 1.0  # many messages, and large ones
    while not Path("enough").exists():
        step()
        if time.monotonic() > said + 0.1:
            said = time.monotonic()
            used = int(Path("/proc/self/statm").read_text().split()[1]) * page
            line = json.dumps({"at": time.time(), "step": view.step, "bytes": used})
            Path("beat.new").write_text(line)
            os.replace("beat.new", "beat")
Path("over").write_text(str(view.step))
"""
FREEZE = "milliseconds => { const end = Date.now() + milliseconds; while (Date.now() < end); }"
SHOWN = "() => Number(document.querySelector('.edutorch-live .step')?.textContent.slice(5) ?? -1)"
STALL = 4.0
"""Seconds."""

MOST_GROWTH = 300e3
"""Bytes. The messages of these seconds, kept for a page that does not take them, would be more."""


class Kernel:
    """The loop, as it writes down how far it is."""

    def __init__(self, lab: Lab) -> None:
        self.root = lab.root

    def beat(self) -> dict[str, Any]:
        return json.loads((self.root / "beat").read_text())

    def steps_on(self, before: dict[str, Any], least: int = 20) -> dict[str, Any]:
        """Wait until the loop has gone on by some steps."""
        end = time.monotonic() + 30
        while (now := self.beat())["step"] < before["step"] + least:
            assert time.monotonic() < end, f"the loop stands still at step {now['step']}"
            time.sleep(0.05)
        return now


# Keeps the page's connections to the kernel, so that they can be cut; new ones then lead nowhere.
SOCKETS = """
window.cut = false;
window.opened = 0;
window.sockets = [];
const Real = window.WebSocket;
window.WebSocket = class extends Real {
  constructor(address, protocols) {
    super(window.cut ? "ws://127.0.0.1:9/" : address, protocols);
    if (window.cut || !String(address).includes("/channels")) return;
    window.opened += 1;
    window.sockets.push(this);
  }
};
"""
CUT = "() => { window.cut = true; window.sockets.splice(0).forEach((each) => each.close()); }"


def catches_up(page: Any, kernel: Kernel) -> None:
    """Wait until the page shows a step that the loop takes from now on."""
    now, end = kernel.beat()["step"], time.monotonic() + 30
    while (shown := page.evaluate(SHOWN)) <= now:
        assert time.monotonic() < end, f"the page shows step {shown}, and {now} was long ago"
        time.sleep(0.1)


def goes_on_meanwhile(kernel: Kernel, stall: Callable[[], None]) -> None:
    """Check that the loop runs while a page stalls, and that its memory does not grow."""
    before = kernel.beat()
    start = time.time()
    stall()
    during = kernel.beat()
    assert during["at"] > start + 0.5 * STALL, "it has written nothing for a while"
    assert during["step"] > before["step"] + 20
    after = kernel.steps_on(during)
    assert after["bytes"] - before["bytes"] < MOST_GROWTH


def test_a_stalled_a_cut_off_and_a_closed_page(lab: Lab, page: Any) -> None:
    for name in ("enough", "over", "beat"):
        (lab.root / name).unlink(missing_ok=True)
    write_notebook(lab.root / "stalled.ipynb", LOOP)
    other = page.context.new_page()
    other.add_init_script(SOCKETS)
    kernel = Kernel(lab)
    lab.open(other, "stalled.ipynb")
    run_all(other)
    appear(other, other.locator(".edutorch-live g.node").first)
    scroll_to(other.locator(".edutorch-live"))
    catches_up(other, kernel)
    time.sleep(STALL)  # what is done for the first time is done
    try:
        goes_on_meanwhile(kernel, lambda: other.evaluate(FREEZE, STALL * 1000))
        catches_up(other, kernel)

        other.evaluate(CUT)
        goes_on_meanwhile(kernel, lambda: other.wait_for_timeout(STALL * 1000))
        stood = other.evaluate(SHOWN)
        assert stood < kernel.beat()["step"] - 20, "the page was not cut off"
        opened = other.evaluate("() => { window.cut = false; return window.opened; }")
        catches_up(other, kernel)
        assert other.evaluate("() => window.opened") > opened
        ARTIFACTS.mkdir(exist_ok=True)
        other.screenshot(path=ARTIFACTS / "caught-up.png")

        other.close()
        goes_on_meanwhile(kernel, lambda: page.wait_for_timeout(STALL * 1000))
    finally:
        (lab.root / "enough").touch()
    end = time.monotonic() + 30
    while not (lab.root / "over").exists():
        assert time.monotonic() < end, "the loop did not end well"
        time.sleep(0.1)
    assert int((lab.root / "over").read_text()) > kernel.beat()["step"] - 1
