"""How often a picture is painted while a loop is busy, and how long a number takes to the page."""

from __future__ import annotations

import itertools
import json
import statistics
from typing import Any

import pytest

from tests.browser.lab import ARTIFACTS, Lab, appear, run_all, scroll_to, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOOP = """
import json, time
from benchmarks.live import deep, opened
from edutorch.viz import live
from edutorch.viz.graph.fold import Choice
step = deep({nodes})
step()
view = live()
{open_all}
sent = {{}}
with view:
    show = view._page_state.page.show
    def watched(picture, patch, numbers, curves=None):
        sent[patch["step"]] = time.time() * 1000
        show(picture, patch, numbers, curves)
    view._page_state.page.show = watched
    end = time.monotonic() + {seconds}
    while time.monotonic() < end:
        {share}
        step()
print("SENT", json.dumps(sent))
"""

# Notes when each step was painted. The page is written within an animation frame, which is painted
# at its end; a message posted meanwhile comes right after that. (To look in each frame would see
# the step only in the next one.)
WATCH = """() => {
  window.painted = {};
  const after = new MessageChannel();
  after.port1.onmessage = ({ data }) => { window.painted[data] ??= Date.now(); };
  const look = () => {
    const step = document.querySelector(".edutorch-live .step")?.textContent.slice(5);
    const drawn = document.querySelector(".edutorch-live g.node");
    if (step && drawn && !(step in window.painted)) after.port2.postMessage(step);
  };
  const changes = { childList: true, characterData: true, subtree: true };
  new MutationObserver(look).observe(document.body, changes);
}"""


@pytest.mark.parametrize(("nodes", "boxes"), [
    (100, "all open"), (500, "all open"), (2000, "as it opens"), (2000, "all open"),
])  # fmt: skip
@pytest.mark.parametrize("limit", ["throttled", "as often as it can"])
def test_painted_updates(nodes: int, boxes: str, limit: str, lab: Lab, page: Any) -> None:
    """Each message is painted, soon, and in its order. `-rP` prints the figures."""
    drawn = f"rates-{nodes}-{boxes}".replace(" ", "-")
    name = f"{drawn}-{limit[0]}.ipynb"
    open_all = "view._page_state.choice = Choice(everything=True)" if boxes == "all open" else ""
    share = "pass" if limit == "throttled" else "view._sampler.throttle.share = 1.0"
    loop = LOOP.format(nodes=nodes, seconds=20, share=share, open_all=open_all)
    write_notebook(lab.root / name, loop)
    lab.open(page, name)
    page.evaluate(WATCH)
    run_all(page)
    appear(page, page.locator(".edutorch-live g.node").first)
    scroll_to(page.locator(".edutorch-live"))
    if boxes != "as it opens":  # at a size at which the numbers can be read
        page.locator(".edutorch-zoom .larger").click()
    # `innerText` of what JupyterLab has not scrolled to is empty.
    output = page.locator(".jp-OutputArea-output", has_text="SENT")
    output.first.wait_for(state="attached")
    sent = json.loads((output.first.text_content() or "").partition("SENT ")[2])
    painted = page.evaluate("() => window.painted")
    both = [step for step in sorted(map(int, painted)) if str(step) in sent][1:]
    delays = [painted[str(step)] - sent[str(step)] for step in both]
    span = (painted[str(both[-1])] - painted[str(both[0])]) / 1000
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{drawn}.png")
    print(f"{nodes} nodes, {boxes}, {limit}: {len(both) / span:.1f} painted per second, "
          f"median latency {statistics.median(delays):.0f} ms, sent {len(sent)}")  # fmt: skip
    assert len(both) > 2
    assert len(sent) / span <= 31 or span < 2
    assert all(one <= other for one, other in itertools.pairwise(both))
