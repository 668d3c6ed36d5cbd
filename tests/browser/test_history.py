"""The scrubber in a real JupyterLab, and in a file of its own: look back, replay, compare."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.lab import ARTIFACTS, Lab, appear, run_all, scroll_to, write_notebook

pytestmark = pytest.mark.browser

TRAIN = """
import threading, time
import edutorch as torch
from edutorch import nn, optim, viz

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.randn(64, 2)
t = (x[:, :1] * x[:, 1:] > 0).float()
optimizer = optim.SGD(net.parameters(), lr=0.3)

def train(steps):
    for step in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), t)
        loss.backward()
        optimizer.step()
"""
BESIDE = """
view = viz.live(net, keep=True, steps_per_second=25)
def run():
    with view:
        train(1500)
view._open_page()
thread = threading.Thread(target=run)
thread.start()
"""
BRANCHES = """
a = torch.tensor([1.0, 2.0], requires_grad=True)
from pathlib import Path
with viz.live(keep=True, steps_per_second=2) as view:
    for step in range(200):
        if Path("enough").exists():
            break
        a.grad = None
        y = a * 2
        if step % 4 > 1:
            y = y.exp().sin()
        y.sum().backward()
print("layouts", view.layouts)
"""


class Scrubber:
    """The row of the recorded steps, as a person sees it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.root = page.locator(".edutorch-history").first
        self.range = self.root.locator("input[type=range]")

    @property
    def step(self) -> int:
        return int(self.root.locator("output").inner_text().split()[1])

    def button(self, name: str) -> Any:
        return self.root.locator(f"button.{name}")

    def wait_for(self, condition: Callable[[int], bool]) -> None:
        """Wait until the number in the row is as it should be."""
        end = time.monotonic() + 60
        while not condition(self.step):
            assert time.monotonic() < end, f"it stays at step {self.step}"
            self.page.wait_for_timeout(30)

    def numbers(self) -> str:
        return self.page.evaluate(
            "() => [...document.querySelectorAll('.edutorch-live g.node text.gradient')]"
            ".map((each) => each.textContent).join('|')"
        )

    def screenshot(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        scroll_to(self.root)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")


def live_step(page: Any) -> int:
    return int(page.locator(".edutorch-controls .step").first.inner_text().removeprefix("step "))


def compare_with_the_first(page: Any, scrub: Scrubber, second: int) -> None:
    """Mark the first step, go to the latest, and follow a line of the table to its node."""
    scrub.button("compare").click()
    scrub.button("next").click()
    page.locator(".edutorch-history tbody tr").nth(2).wait_for()
    scrub.range.press("End")
    scrub.wait_for(lambda step: step > second + 30)
    head = page.locator(".edutorch-history caption")
    page.wait_for_function(
        "() => document.querySelectorAll('.edutorch-history tbody tr').length > 5"
    )
    assert head.inner_text().startswith("From step 1 to step ")
    page.locator(".edutorch-history tbody button").first.click()
    assert page.evaluate("document.activeElement.classList.contains('node')")
    scrub.screenshot("history-compare")
    scrub.button("compare").click()
    page.locator(".edutorch-history table").wait_for(state="hidden")


def test_looking_back_while_it_trains_on(lab: Lab, page: Any) -> None:
    write_notebook(lab.root / "history.ipynb", TRAIN, BESIDE)
    lab.open(page, "history.ipynb")
    run_all(page)
    scrub = Scrubber(page)
    appear(page, scrub.root)
    scrub.wait_for(lambda step: step > 40)

    scrub.range.focus()
    scrub.range.press("Home")
    scrub.wait_for(lambda step: step == 1)
    first, at = scrub.numbers(), live_step(page)
    page.wait_for_timeout(600)
    page.wait_for_function(  # the training goes on,
        "at => document.querySelector('.edutorch-controls .step').textContent.slice(5) > at",
        arg=at,
    )
    assert scrub.numbers() == first  # what is looked at stands still

    scrub.range.press("ArrowRight")
    scrub.wait_for(lambda step: step > 1)
    second = scrub.step
    assert scrub.numbers() != first
    scrub.range.press("ArrowLeft")
    scrub.wait_for(lambda step: step == 1)
    page.wait_for_function(
        "before => [...document.querySelectorAll('.edutorch-live g.node text.gradient')]"
        ".map((each) => each.textContent).join('|') === before",
        arg=first,
    )
    scrub.screenshot("history-looking-back")

    compare_with_the_first(page, scrub, second)

    scrub.range.press("Home")
    scrub.wait_for(lambda step: step == 1)
    scrub.button("play").click()
    scrub.wait_for(lambda step: step > 10)
    scrub.button("play").click()

    scrub.button("live").click()
    page.wait_for_function("() => document.querySelector('.edutorch-history .live').disabled")
    at = scrub.step
    scrub.wait_for(lambda step: step > at + 10)

    page.locator(".edutorch-controls button.pause").first.click()
    page.locator(".state[data-state=paused]").wait_for()
    scrub.range.press("Home")  # paused, it looks back too
    scrub.wait_for(lambda step: step == 1)
    assert scrub.numbers() == first
    scrub.screenshot("history-paused")


def test_a_new_branch_moves_the_nodes_to_their_new_places(lab: Lab, page: Any) -> None:
    write_notebook(lab.root / "branches.ipynb", TRAIN, BRANCHES)
    lab.open(page, "branches.ipynb")
    # Stops each movement in its middle, long enough to look at it.
    page.evaluate(
        """() => {
      window.moved = [];
      window.held = [];
      const animate = Element.prototype.animate;
      Element.prototype.animate = function (frames, options) {
        const going = animate.call(this, frames, options);
        const named = this.querySelector?.("text.name")?.textContent;
        if (named) window.moved.push([named, frames[0].transform, frames[0].opacity]);
        if (window.holding) {
          window.held.push(going);
          going.pause();
          going.currentTime = options.duration / 2;
        }
        return going;
      };
    }"""
    )
    run_all(page)
    view = page.locator(".edutorch-live").first
    appear(page, view)
    view.locator("g.node").first.wait_for()
    scroll_to(view)
    page.evaluate("window.holding = true; window.moved = [];")
    page.wait_for_function("() => window.moved.length > 0")
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "branch-in-between.png")
    page.evaluate("() => { window.holding = false; window.held.forEach((each) => each.finish()); }")
    page.screenshot(path=ARTIFACTS / "branch-arrived.png")
    moved = {name: shift for name, shift, _ in page.evaluate("window.moved")}
    assert any(shift.startswith("translate(") and shift != "translate(0px, 0px)"
               for shift in moved.values())  # fmt: skip
    assert "sum" in moved
    (lab.root / "enough").touch()
    page.get_by_text("layouts 2", exact=True).wait_for()


NASTY = [
    "<script>document.title='hacked'</script>",
    "</script><img src=x onerror=\"document.title='hacked'\">",
    "]]><svg onload=document.title='hacked'>",
    "'\"` onclick=alert(1) &lt; &#65;",
    "nul\x00 esc\x1b line\u2028 \u202e <!--",
    "x" * 10_000,
]


def nasty_view() -> Any:
    """Train a network whose names are full of markup, without any page."""
    import edutorch as torch
    from edutorch import nn, viz

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for place, name in enumerate(NASTY):
                self.add_module(name.replace(".", ""), nn.Linear(2, 2))
                self.register_parameter(
                    f"{name}{place}".replace(".", ""), nn.Parameter(torch.ones(2))
                )

        def forward(self, x: Any) -> Any:
            for module in self.children():
                x = module(x)
            for parameter in self._parameters.values():
                x = x * parameter
            return x

    Net.__name__ = NASTY[0]
    net = Net()
    view = viz.live(net)
    view.history.every = 1
    with view:
        for step in range(12):
            loss = net(torch.ones(1, 2) * step).sum()
            loss.backward()
            view.log(**{NASTY[1]: float(step)})
    return view


def watched(page: Any, path: Path) -> list[str]:
    """Open a file from disk; what it logs, asks for or breaks of its policy is noted."""
    noted: list[str] = []
    page.on("console", lambda message: noted.append(message.text))
    page.on("pageerror", lambda error: noted.append(str(error)))
    page.on("request", lambda request: noted.append(request.url[:90]))
    page.goto(path.as_uri())
    return noted


def test_an_exported_page_works_from_the_disk(page: Any, tmp_path: Path) -> None:
    path = nasty_view().export(tmp_path / "run.html")
    noted = watched(page, path)
    scrub = Scrubber(page)
    scrub.root.wait_for()
    assert scrub.step == 12
    last = scrub.numbers()
    scrub.range.focus()
    scrub.range.press("ArrowLeft")
    scrub.wait_for(lambda step: step == 11)
    assert scrub.numbers() != last
    for node in page.locator("g.node").all()[:12]:
        node.focus()
    assert page.locator(".edutorch-details").inner_text()
    scrub.button("play").click()
    scrub.wait_for(lambda step: step == 12)
    assert scrub.button("live").is_hidden()
    title = page.locator("g.node title, g.cluster title")
    if title.count():
        assert "when this file was written" in title.first.text_content()
    scrub.screenshot("export-nasty")
    assert page.title() == "A run, step by step · edutorch"
    assert page.locator("img, svg svg, .edutorch-live script").count() == 0
    assert noted == [path.as_uri()]  # one request: the file itself; no error, nothing forbidden


def test_the_policy_of_an_exported_page_lets_nothing_in(page: Any, tmp_path: Path) -> None:
    path = nasty_view().export(tmp_path / "run.html")
    text = path.read_text().replace("<h1>", "<script>document.title='hacked'</script><h1>", 1)
    path.write_text(text)
    noted = watched(page, path)
    Scrubber(page).root.wait_for()
    assert page.title() == "A run, step by step · edutorch"
    assert any("Content Security Policy" in line for line in noted)


def test_a_moving_svg_moves_as_an_image(page: Any, tmp_path: Path) -> None:
    svg = nasty_view().export(tmp_path / "run.svg")
    (tmp_path / "readme.html").write_text(f'<img id="run" width="1100" src="{svg.name}">')
    noted = watched(page, tmp_path / "readme.html")
    image = page.locator("#run")
    page.wait_for_function("() => document.getElementById('run').naturalWidth > 0")
    seen = set()
    for _ in range(12):
        seen.add(image.screenshot())
        if len(seen) >= 3:
            break
        page.wait_for_timeout(230)
    assert len(seen) >= 3
    page.emulate_media(reduced_motion="reduce")
    page.goto(svg.as_uri())  # what a page says of motion does not reach its images in a test
    still = page.screenshot()
    page.wait_for_timeout(700)
    assert page.screenshot() == still
    visible = (
        "[...document.querySelectorAll('.frame')].map((each) => getComputedStyle(each).visibility)"
    )
    shown = page.evaluate(f"() => {visible}")
    last = "[...document.querySelectorAll('.frame')].map((each) => each.matches('.last'))"
    lasts = page.evaluate(f"() => {last}")
    assert [visibility == "visible" for visibility in shown] == lasts
    assert not [line for line in noted if not line.startswith("file:")], json.dumps(noted)
    ARTIFACTS.mkdir(exist_ok=True)
    (ARTIFACTS / "moving-svg-last-frame.png").write_bytes(still)
