"""While a loop runs, only the numbers on screen are computed: there, they are those of the step."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.browser.lab import Lab, appear, run_all, scroll_to, write_notebook

pytestmark = pytest.mark.browser

# In step n all numbers of the graph are n.
LOOP = """
import pathlib, random, time
import edutorch as torch
from edutorch.viz import live
from edutorch.viz.graph.fold import Choice
w = torch.ones(3, 3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.0)
chance = random.Random(0)
names = [chance.choice(["abs", "relu", "clone"]) for _ in range(400)]
view = live()
view._page_state.choice = Choice(everything=True)
with view:
    end = time.monotonic() + 120
    while time.monotonic() < end and not pathlib.Path("seen.txt").exists():
        with torch.no_grad():
            w.fill_(view.step + 1)
        x = w
        for name in names:
            x = getattr(x, name)()
        optimizer.zero_grad()
        x.sum().backward()
        optimizer.step()
print("ON SCREEN", len(view._sampler._window[0]), "OF", len(view.drawing().snapshot.graph.nodes))
"""

READ = """() => {
  const viewport = document.querySelector(".edutorch-viewport .scroller");
  if (!viewport) return { step: "", values: [] }; // while the page lays the notebook out
  const scroller = viewport.getBoundingClientRect();
  const right = Math.min(scroller.right, innerWidth); // below the edge of the page is nothing seen
  const bottom = Math.min(scroller.bottom, innerHeight);
  const inside = (box) => box.left < right && scroller.left < box.right
    && box.top < bottom && scroller.top < box.bottom;
  const nodes = [...document.querySelectorAll(".edutorch-live g.node")];
  return {
    step: document.querySelector(".edutorch-live .step").textContent,
    values: nodes.filter((node) => inside(node.getBoundingClientRect()))
      .map((node) => node.querySelector("text.value").textContent)
      .filter((text) => text.startsWith("mean")),
  };
}"""

SCROLL = """(element, at) => {
  element.scrollLeft = at * element.scrollWidth;
  element.scrollTop = at * element.scrollHeight;
}"""
AGREE = """({ step, values }) => values.length > 0 && values.every(
  (text) => `step ${Math.round(Number(text.slice(4)))}` === step)"""


def test_what_is_on_screen_is_of_the_step_that_is_told(lab: Lab, page: Any) -> None:
    write_notebook(lab.root / "onscreen.ipynb", LOOP)
    lab.open(page, "onscreen.ipynb")
    run_all(page)
    appear(page, page.locator(".edutorch-live g.node").first)
    scroll_to(page.locator(".edutorch-live"))
    scroller = page.locator(".edutorch-viewport .scroller")
    page.get_by_role("button", name="Zoom in").click()  # from all of it to what can be read
    for place in (0, 0.4, 1):
        scroller.evaluate(SCROLL, place)
        # The page says what it shows now, and from some step on the loop tells of that.
        page.wait_for_function(f"() => ({AGREE})(({READ})())")
        steps = set()
        for _ in range(40):  # at the most: a busy machine takes longer for three of them
            told = page.evaluate(READ)
            step = int(told["step"].removeprefix("step "))
            assert 0 < len(told["values"]) < 100
            # Seven characters are written of a number.
            assert {round(float(text[4:])) for text in told["values"]} == {step}
            steps.add(step)
            if len(steps) == 3:
                break
            page.wait_for_timeout(60)
        assert len(steps) == 3
    (lab.root / "seen.txt").touch()  # the loop ends
    output = page.locator(".jp-OutputArea-output", has_text="ON SCREEN")
    output.first.wait_for(state="attached")
    match = re.search(r"ON SCREEN (\d+) OF (\d+)", output.first.text_content() or "")
    assert match is not None
    assert 2 * int(match[1]) < int(match[2])
