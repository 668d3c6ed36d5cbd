"""For everybody: axe-core finds nothing, every text has contrast, the keyboard reaches all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import edutorch
from edutorch import nn
from edutorch.viz import draw, touch, toy
from edutorch.viz.explore import Explorer
from tests.browser.bench import POLICY, Bench
from tests.browser.lab import ROOT

pytestmark = pytest.mark.browser

AXE = ROOT / "widgets" / "node_modules" / "axe-core" / "axe.min.js"
LEAST = 4.5

# Every text with its colour and what lies behind it, as numbers from 0 to 255.
TEXTS = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const over = (below, colour, opacity = 1) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = `rgb(${below.join(",")})`;
    canvas.fillRect(0, 0, 1, 1);
    canvas.globalAlpha = opacity;
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    canvas.globalAlpha = 1;
    return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)];
  };
  const behind = (element) => {
    const chain = [];
    for (let at = element; at; at = at.parentElement) chain.unshift(at);
    let colour = [255, 255, 255];
    for (const at of chain) {
      if (!(at instanceof SVGElement)) colour = over(colour, getComputedStyle(at).backgroundColor);
      if (at.matches("g.cluster")) {
        const shape = getComputedStyle(at.querySelector("path, polygon"));
        colour = over(colour, shape.fill, Number(shape.fillOpacity));
      }
      const card = at.matches("g.node") && at.querySelector(".card");
      if (card) colour = over(colour, getComputedStyle(card).fill);
    }
    const chip = element.previousElementSibling;
    if (chip?.matches?.(".chip")) colour = over(colour, getComputedStyle(chip).fill);
    return colour;
  };
  const found = [];
  const root = document.querySelector(".edutorch-live");
  for (const element of root.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const text = own ? element.textContent : element.value ?? "";
    if (!text || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (element.closest(":disabled") || element.matches("option, input[type=range]")) continue;
    const style = getComputedStyle(element);
    const colour = element instanceof SVGElement ? style.fill : style.color;
    const below = behind(element);
    found.push([String(text).slice(0, 40), over(below, colour), below]);
  }
  return found;
}"""
FOCUS = """() => {
  const at = document.activeElement;
  return at.getAttribute("aria-label") || at.textContent.trim() || at.tagName;
}"""


def two_layers() -> Any:
    edutorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    loss = model(edutorch.ones(2, 3)).mean()
    picture = draw(loss, model, open="0")
    return Explorer(picture.whole, "LR", picture.choice)


def function() -> Any:
    play = touch(lambda w, x: (w * x).tanh(), w=0.5, x=edutorch.tensor([1.0, -2.0]))
    play.part.error = "ValueError: something to be read in the colour of errors"
    return play


VIEWS = {"explore": two_layers, "touch": function, "toy": toy}


def luminance(colour: list[int]) -> float:
    """Return the relative luminance, as the web's guidelines define it."""
    parts = [each / 255 for each in colour]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: list[int], other: list[int]) -> float:
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


@pytest.fixture
def themed(page: Any) -> Any:
    """Open a view in the light or in the dark, as the system has it outside of JupyterLab."""

    def show(view: str, scheme: str) -> Bench:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        bench = Bench(page, policy=POLICY)
        page.evaluate("delete document.body.dataset.jpThemeLight")
        page.add_style_tag(content=f"html {{ color-scheme: {scheme} }}")
        bench.open(VIEWS[view]())
        page.locator("g.node").first.focus()  # the details are open, too
        bench.frame()
        return bench

    return show


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_text_has_contrast(themed: Any, page: Any, view: str, scheme: str) -> None:
    bench = themed(view, scheme)
    bench.screenshot(f"access-{view}-{scheme}")
    texts = page.evaluate(TEXTS)
    assert len(texts) > 15
    faint = [
        (text, round(contrast(colour, below), 2), colour, below)
        for text, colour, below in texts
        if contrast(colour, below) < LEAST
    ]
    assert faint == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing(themed: Any, page: Any, view: str, scheme: str) -> None:
    if not AXE.exists():
        reason = "axe-core is not installed (cd widgets && npm install --no-package-lock)"
        if os.environ.get("EDUTORCH_REQUIRE_NODE") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    themed(view, scheme)
    page.evaluate(Path(AXE).read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run('.edutorch-live')")
    told = [
        (each["id"], each["help"], [node["html"][:150] for node in each["nodes"]][:3])
        for each in found["violations"]
    ]
    assert told == []
    assert len(found["passes"]) > 5


def walk_by_tab(page: Any, presses: int = 80) -> list[str]:
    """Press Tab until it comes round; return what was reached."""
    reached: list[str] = []
    page.evaluate("document.activeElement.blur()")
    for _ in range(presses):
        page.keyboard.press("Tab")
        name = page.evaluate(FOCUS)
        if name == "A page" or page.evaluate("document.activeElement === document.body"):
            break
        reached.append(name)
    return reached


def test_the_keyboard_reaches_every_node_and_control(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    bench = Bench(page).open(function())
    controls = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, summary")]
          .filter((each) => !each.disabled && each.checkVisibility())
          .map((each) => each.getAttribute("aria-label") || each.textContent.trim())"""
    )
    reached = walk_by_tab(page)
    assert set(controls) <= set(reached)

    # Tab stops at one node; the arrows go on from there, along edges and in recorded order.
    page.evaluate("document.activeElement.blur()")
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("!!document.activeElement.closest('g.node')"):
            break
    seen = [page.evaluate(FOCUS)]
    for _ in range(page.locator("g.node").count() - 1):
        page.keyboard.press("ArrowDown")
        seen.append(page.evaluate(FOCUS))
    labels = page.evaluate(
        "() => [...document.querySelectorAll('g.node')].map((each) => each.ariaLabel)"
    )
    assert sorted(seen) == sorted(labels)
    assert "tanh" in page.locator(".edutorch-details").inner_text()
    page.keyboard.press("ArrowLeft")
    assert "mul" in page.evaluate(FOCUS)
    assert bench.errors == []


def test_groups_open_and_close_by_keys(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    bench = Bench(page).open(two_layers())
    title = page.locator("text.foldable").first
    title.focus()
    page.keyboard.press("Enter")
    [sent] = bench.pump()
    assert sent["type"] == "close"
    closed = page.locator("g.node[aria-expanded=false]").first
    closed.focus()
    page.keyboard.press("Enter")
    [sent] = bench.pump()
    assert sent["type"] == "open"
    assert bench.errors == []
