"""The window onto a graph is never empty: it opens with all of it, and keeps to what is read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import edutorch
from edutorch.viz import draw
from edutorch.viz.explore.touch import Explorer
from edutorch.viz.graph.fold import Choice
from edutorch.viz.graph.model import Tab
from tests.browser.bench import Bench
from tests.browser.lab import ARTIFACTS, ROOT, Lab, appear, run_all, scroll_to, write_notebook
from tests.viz.networks import NETWORKS, ResNet

pytestmark = pytest.mark.browser

# How many boxes there are, in the window, and in it as a whole; how large their letters are.
BOXES = """() => {
  const window = document.querySelector(".edutorch-viewport .scroller").getBoundingClientRect();
  const boxes = [...document.querySelectorAll(".edutorch-live .scroller g.node")]
    .map((each) => each.getBoundingClientRect())
    .filter((box) => box.width > 0); // from afar, a constant is no more than its text
  const inside = boxes.filter((box) => box.left < window.right && window.left < box.right
    && box.top < window.bottom && window.top < box.bottom);
  const whole = inside.filter((box) => window.left <= box.left && box.right <= window.right
    && window.top <= box.top && box.bottom <= window.bottom);
  const picture = document.querySelector(".scroller > svg");
  return { all: boxes.length, inside: inside.length, whole: whole.length,
    scale: picture.clientWidth / picture.viewBox.baseVal.width,
    share: window.width / document.querySelector(".edutorch-viewport").clientWidth };
}"""
# Whether all boxes are where they were when it was asked last.
AT_REST = """() => {
  const all = [...document.querySelectorAll(".edutorch-live .scroller g.node")];
  const places = JSON.stringify(all.map((each) => each.getBoundingClientRect()));
  const before = window.placesBefore;
  window.placesBefore = places;
  return all.length > 0 && places === before;
}"""
HIT = """() => {
  const window = document.querySelector(".edutorch-viewport .scroller").getBoundingClientRect();
  const box = document.querySelector("g.node.chosen.found")?.getBoundingClientRect();
  return Boolean(box) && window.left <= box.left && box.right <= window.right
    && window.top <= box.top && box.bottom <= window.bottom;
}"""


def boxes(page: Any) -> dict[str, Any]:
    return page.evaluate(BOXES)


def resnet(**choice: Any) -> Explorer:
    """A ResNet-18, by default as it opens by itself."""
    edutorch.manual_seed(0)
    whole = draw(ResNet((2, 2, 2, 2)), edutorch.randn(2, 3, 32, 32)).whole
    return Explorer(whole, choice=Choice(**choice))


def boxes_at_rest(page: Any) -> dict[str, Any]:
    """The same, when no box moves any more: a new picture comes in with some way to go."""
    page.wait_for_function(AT_REST, polling=100)
    return boxes(page)


def assert_all_is_seen(page: Any) -> None:
    told = boxes_at_rest(page)
    assert told["all"] > 0
    assert told["whole"] == told["all"], told
    assert told["share"] > 0.95, "the window is as wide as its view"


def assert_something_is_read(page: Any) -> None:
    told = boxes(page)
    assert told["inside"] > 0
    assert told["scale"] >= 0.75


CELLS = {
    "live": """
with viz.live(model, keep=True) as view:
    for _ in range(20):
        model.zero_grad()
        model(x).square().mean().backward()
print("the", "end")
""",
    "explore": """
display(viz.draw(model, x).explore())
print("the", "end")
""",
}


@pytest.mark.parametrize("how", CELLS)
def test_a_resnet_is_never_blank(how: str, lab: Lab, page: Any) -> None:
    first = f"import sys; sys.path.insert(0, {json.dumps(str(ROOT))})\n" + (
        "import edutorch\nfrom edutorch import viz\nfrom tests.viz.networks import ResNet\n"
        "model, x = ResNet((2, 2, 2, 2)), edutorch.randn(2, 3, 32, 32)\n"
    )
    name = f"blank-{how}.ipynb"
    write_notebook(lab.root / name, first + CELLS[how])
    lab.open(page, name)
    run_all(page)
    appear(page, page.get_by_text("the end", exact=True))
    view = page.locator(".edutorch-live")
    appear(page, view.locator("g.node").first)
    scroll_to(view)
    page.wait_for_timeout(500)
    assert_all_is_seen(page)
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"whole-{how}.png")
    fit = view.get_by_role("button", name="Show the whole graph")
    view.get_by_role("button", name="Zoom in").click()
    assert_something_is_read(page)
    fit.click()
    assert_all_is_seen(page)
    closed = boxes(page)["all"]
    view.locator("g.node.foldable").nth(2).click()
    page.wait_for_function(
        "count => document.querySelectorAll('.scroller g.node').length > count", arg=closed
    )
    page.wait_for_timeout(500)
    assert boxes(page)["inside"] > 0
    page.screenshot(path=ARTIFACTS / f"unfolded-{how}.png")
    view.get_by_role("button", name="Zoom in").click()
    fit.click()
    assert_all_is_seen(page)
    opened = boxes(page)["all"]
    view.get_by_role("button", name="Collapse all groups").click()
    page.wait_for_function(
        "count => document.querySelectorAll('.scroller g.node').length < count", arg=opened
    )
    page.wait_for_timeout(500)
    assert_all_is_seen(page)


@pytest.mark.parametrize("size", [(1280, 900), (700, 500), (1600, 1000)])
def test_all_is_seen_then_read(page: Any, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(reduced_motion="reduce")
    bench = Bench(page).open(resnet(everything=True))
    assert_all_is_seen(page)
    minimap = page.locator(".edutorch-minimap")
    assert not minimap.is_visible()
    page.locator("button.larger").click()
    assert_something_is_read(page)
    assert minimap.is_visible()
    assert boxes(page)["whole"] < boxes(page)["all"]
    page.keyboard.press("0")
    assert_all_is_seen(page)
    assert not minimap.is_visible()
    page.keyboard.press("+")
    assert_something_is_read(page)
    for _ in range(12):
        page.keyboard.press("+")
        assert boxes(page)["inside"] > 0
    for _ in range(40):
        page.keyboard.press("-")
    assert_all_is_seen(page)
    assert bench.errors == []


def test_where_groups_are_opened_and_closed_something_is_seen(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    bench = Bench(page).open(resnet())
    page.locator("button.larger").click()
    for _ in range(6):
        closed = page.locator("g.node[aria-expanded=false]")
        if closed.count() == 0:
            break
        closed.last.focus()
        page.keyboard.press("Enter")
        [sent] = [message for message in bench.pump() if message["type"] != "seen"]
        assert sent["type"] == "open"
        assert_something_is_read(page)
    for _ in range(4):
        page.locator("text.foldable").last.focus()
        page.keyboard.press("Enter")
        bench.pump()
        assert boxes(page)["inside"] > 0
    for name in ("Expand all groups", "Collapse all groups"):
        page.get_by_role("button", name=name).click()
        bench.pump()
        assert boxes(page)["inside"] > 0
    assert page.locator("text.foldable").count() == 0
    assert bench.errors == []


@pytest.mark.parametrize("far", [False, True])
def test_an_opened_loop_over_time_is_seen_in_the_window(page: Any, far: bool) -> None:
    """Also where the window was far from where the loop begins now."""
    page.emulate_media(reduced_motion="reduce")
    edutorch.manual_seed(0)
    bench = Bench(page).open(Explorer(draw(*NETWORKS["lstm_cell"]()).whole))
    page.locator("button.larger").click()
    if far:
        page.locator(".scroller").evaluate("window => window.scrollTo(9999, 9999)")
    repeat = page.locator("g.node[aria-expanded=false]", has_text="×20")
    closed = boxes(page)["all"]
    repeat.evaluate("box => box.focus({ preventScroll: true })")
    page.keyboard.press("Enter")
    bench.pump()
    assert boxes(page)["all"] >= closed + 19
    assert boxes(page)["whole"] > 0
    bench.screenshot(f"loop-opened-{'far' if far else 'near'}")
    page.locator(".scroller").evaluate("window => window.scrollTo(9999, 9999)")
    page.set_viewport_size({"width": 600, "height": 500})
    page.wait_for_timeout(200)
    assert boxes(page)["inside"] > 0
    assert bench.errors == []


def test_the_overview_moves_the_window(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    bench = Bench(page).open(resnet(everything=True))
    page.locator("button.larger").click()
    scroller = page.locator(".scroller")
    at = "element => [element.scrollLeft, element.scrollTop]"
    box = page.locator(".edutorch-minimap svg").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    assert scroller.evaluate(at) == [0, 0]
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 2)
    frame = page.locator(".edutorch-minimap .window").bounding_box()
    assert abs(frame["x"] + frame["width"] - box["x"] - box["width"]) < 8
    page.mouse.up()
    assert boxes(page)["inside"] > 0  # where there was none, it goes to the nearest
    right, bottom = scroller.evaluate(at)
    assert right > 0 and bottom > 0
    page.keyboard.press("ArrowUp")
    assert scroller.evaluate(at)[1] < bottom
    assert boxes(page)["inside"] > 0
    bench.screenshot("minimap")
    page.keyboard.press("Enter")
    assert_all_is_seen(page)
    assert bench.errors == []


def test_a_name_is_found_in_a_closed_group(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    bench = Bench(page).open(resnet())
    field = page.get_by_role("searchbox")
    said = page.locator(".search output")
    field.fill("downsample.0.weight")
    page.wait_for_timeout(300)
    bench.pump()
    assert said.inner_text() == "3 found"
    labels = []
    for number in (1, 2, 3, 1):
        field.press("Enter")
        bench.pump()
        assert said.inner_text().startswith(f"{number} of 3: ")
        assert page.evaluate(HIT)
        assert page.evaluate("document.activeElement.type") == "search"
        labels.append(page.locator("g.node.chosen").get_attribute("aria-label"))
        assert "downsample.0" in labels[-1] and "weight" in labels[-1]
    assert len(set(labels)) == 3 and labels[0] == labels[3]
    field.press("Shift+Enter")
    bench.pump()
    assert said.inner_text().startswith("3 of 3: ")
    bench.screenshot("search")
    field.fill("no such thing")
    page.wait_for_timeout(300)
    bench.pump()
    assert said.inner_text() == "nothing here is called “no such thing”"
    assert page.locator("g.node.found").count() == 0
    field.fill("layer4")  # and at once
    field.press("Enter")
    bench.pump()
    assert said.inner_text().startswith("1 of 3: layer4 ")
    assert bench.errors == []


def test_one_backward_pass_is_shown(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    w = edutorch.ones(3, requires_grad=True)
    whole = draw(w.sin().sum() + w.cos().sum()).whole
    sine = tuple(at for at, node in enumerate(whole.graph.nodes) if node.label in ("w", "sin"))
    tabs = (Tab("errD_real", sine), Tab("errG", tuple(range(len(whole.graph.nodes)))))
    bench = Bench(page).open(Explorer(replace(whole, graph=replace(whole.graph, tabs=tabs))))
    every = boxes(page)["all"]
    passes = page.get_by_role("group", name="Backward passes").get_by_role("button")
    assert passes.all_inner_texts() == ["all", "errD_real", "errG"]
    assert passes.first.get_attribute("aria-pressed") == "true"
    passes.nth(1).press("Enter")
    bench.pump()
    assert boxes(page)["all"] == len(sine)
    assert_all_is_seen(page)
    assert [button.get_attribute("aria-pressed") for button in passes.all()] == [
        "false", "true", "false",
    ]  # fmt: skip
    passes.first.press("Enter")
    bench.pump()
    assert boxes(page)["all"] == every
    bench.screenshot("tabs")
    assert bench.errors == []
