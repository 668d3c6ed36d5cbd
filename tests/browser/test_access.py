"""For everybody: axe-core finds nothing, every text has contrast, the keyboard reaches all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from edutorch.viz import Flame
from tests.browser.bench import POLICY, Bench
from tests.browser.lab import ARTIFACTS, ROOT
from tests.browser.test_flame import tree
from tests.browser.views import PANELS, VIEWS, Loop, two_layers

pytestmark = pytest.mark.browser

AXE = ROOT / "widgets" / "node_modules" / "axe-core" / "axe.min.js"
LEAST = 4.5

# Every text with its colour and what lies behind it, as numbers from 0 to 255.
TEXTS = """(selector) => {
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
      const card = at.matches("g.node, g.frame") && at.querySelector(".card, rect");
      if (card) colour = over(colour, getComputedStyle(card).fill);
    }
    const chip = element.previousElementSibling;
    if (chip?.matches?.(".chip, .walk-badge > circle")) {
      colour = over(colour, getComputedStyle(chip).fill);
    }
    return colour;
  };
  const found = [];
  const root = document.querySelector(selector);
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


def luminance(colour: list[int]) -> float:
    """Return the relative luminance, as the web's guidelines define it."""
    parts = [channel / 255 for channel in colour]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: list[int], other: list[int]) -> float:
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def faint_texts(page: Any, root: str = ".edutorch-live") -> list[Any]:
    """Return each text that can hardly be read, with its contrast and both colours."""
    texts = page.evaluate(TEXTS, root)
    assert len(texts) > 4
    return [
        (text, round(contrast(colour, below), 2), colour, below)
        for text, colour, below in texts
        if contrast(colour, below) < LEAST
    ]


# All that passed, told in full, would be most of what is sent.
RUN_AXE = """(root) => axe.run(root, { resultTypes: ["violations"] })
  .then(({ passes, violations }) => ({ passes: passes.length, violations }))"""


def axe_says(page: Any, root: str = ".edutorch-live") -> list[Any]:
    report = page.evaluate(RUN_AXE, root)
    assert report["passes"] > 5
    return [
        (
            violation["id"],
            violation["help"],
            [node["html"][:150] for node in violation["nodes"]][:3],
        )
        for violation in report["violations"]
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_everybody_can_read_it(page: Any, view: str) -> None:
    """Each text has contrast and axe-core finds nothing, in the light and in the dark."""
    page.emulate_media(reduced_motion="reduce")
    bench = Bench(page, policy=POLICY)
    # Light or dark as the system has it, outside of JupyterLab.
    page.evaluate("delete document.body.dataset.jpThemeLight")
    page.add_style_tag(content="html { color-scheme: light dark }")
    bench.open(VIEWS[view]())
    page.locator("g.node").last.focus()  # the details are open, too
    for panel in PANELS.get(view, ()):
        assert page.locator(f".edutorch-{panel}").first.is_visible(), panel
    in_both_schemes(page, f"access-{view}", ".edutorch-live")
    assert page.evaluate(MOVING) == []
    assert bench.errors == []


def in_both_schemes(page: Any, name: str, root: str) -> None:
    """Check contrast, and what axe-core says, in the light and in the dark."""
    if AXE.exists():
        page.evaluate(AXE.read_text(encoding="utf-8"))
    ARTIFACTS.mkdir(exist_ok=True)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.wait_for_timeout(50)
        page.screenshot(path=ARTIFACTS / f"{name}-{scheme}.png", full_page=True)
        faint = faint_texts(page, root)
        assert not faint, (scheme, faint)
        told = axe_says(page, root) if AXE.exists() else []
        assert not told, (scheme, told)
    if not AXE.exists():
        reason = "axe-core is not installed (cd widgets && npm install --no-package-lock)"
        if os.environ.get("EDUTORCH_REQUIRE_NODE") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


def test_everybody_can_read_an_exported_run(page: Any, tmp_path: Path) -> None:
    loop = Loop("running")
    loop.view.history.every = 1
    loop.show()
    path = loop.view.export(tmp_path / "run.html")
    page.goto(path.as_uri())
    page.locator("g.node").last.focus()
    assert page.locator(".edutorch-history").is_visible()
    in_both_schemes(page, "access-export", "html")


def test_everybody_can_read_a_flame(page: Any) -> None:
    page.set_content(f'<html lang="en"><title>flame</title><body><main><h1>Flame</h1>'
                     f"{Flame(tree()).html}</main>")  # fmt: skip
    page.add_style_tag(content="html { color-scheme: light dark; background: Canvas }")
    page.wait_for_selector("g.frame[tabindex]")
    in_both_schemes(page, "access-flame", "html")


# What still moves although the system asks for little motion.
MOVING = """() => document.getAnimations().filter((each) => each.playState === "running")
  .map((each) => each.animationName ?? each.transitionProperty ?? "")"""
CONTROLS = """() => [...document.querySelectorAll("button, input, select, summary, [tabindex='0']")]
  .filter((each) => !each.disabled && each.checkVisibility() && !each.closest("g.node"))
  .map((each) => each.getAttribute("aria-label") || each.textContent.trim())"""
# What has the focus, and a key that does something there.
AT = """() => {
  const at = document.activeElement;
  const name = at.getAttribute("aria-label") || at.textContent.trim() || at.tagName;
  if (at === document.body) return ["", ""];
  if (at.closest("g.node")) return ["", "node"];
  if (at.matches("input[type=range]")) {
    return [name, at.value === at.min ? "ArrowRight" : "ArrowLeft"];
  }
  if (at.matches("select")) return [name, "ArrowDown"];
  if (at.matches("input")) return [name, at.form ? "text" : "ArrowUp"];
  return [name, at.matches(".point, .here") ? "ArrowUp" : "Enter"];
}"""
LOOK = """() => document.querySelector(".edutorch-live").outerHTML + window.sent.length
  + [...document.querySelectorAll("input, select")].map((each) => each.value).join("|")"""
ROUNDS, MOST_TABS = 3, 120


def use_all(page: Any, bench: Bench, controls: set[str]) -> set[str]:
    """Go through the page by Tab, and use each control as it is reached; again if some are left.

    Return the names of those that did something.
    """
    used: set[str] = set()
    for _ in range(ROUNDS):
        if used and controls <= used:
            break
        page.evaluate("document.activeElement.blur()")
        for _ in range(MOST_TABS):
            page.keyboard.press("Tab")
            name, key = page.evaluate(AT)
            if (name, key) == ("", ""):
                break
            if name in used or key == "node":
                continue
            before = page.evaluate(LOOK)
            if key == "text":
                page.keyboard.type("1")
                key = "Enter"
            page.keyboard.press(key)
            after = page.evaluate(LOOK)
            bench.pump()
            bench.frame()
            if before != after or before != page.evaluate(LOOK):
                used.add(name)
    return used


@pytest.mark.parametrize("view", VIEWS)
def test_each_control_is_reached_and_used_by_keys(page: Any, view: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    bench = Bench(page).open(VIEWS[view]())
    page.locator("g.node").first.focus()
    bench.frame()
    controls = set(page.evaluate(CONTROLS))
    used = use_all(page, bench, controls)
    # What one control has disabled, or taken away, is tried in a page of its own.
    for name in sorted(controls - used):
        bench.open(VIEWS[view]())
        page.evaluate("document.activeElement.blur()")
        assert reach(page, name), f"Tab does not reach {name!r}"
        before = page.evaluate(LOOK)
        page.keyboard.press(page.evaluate(AT)[1])
        after = page.evaluate(LOOK)
        bench.pump()
        assert before != after or before != page.evaluate(LOOK), f"{name!r} does nothing"
    assert bench.errors == []


def reach(page: Any, name: str) -> bool:
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUS) == name:
            return True
    return False


@pytest.mark.parametrize("view", VIEWS)
def test_each_node_is_reached_and_read_by_keys(page: Any, view: str) -> None:
    """Tab stops at one node; the arrows go on from there, along edges and in recorded order."""
    page.emulate_media(reduced_motion="reduce")
    bench = Bench(page).open(VIEWS[view]())
    page.evaluate("document.activeElement.blur()")
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate("!!document.activeElement.closest('g.node')"):
            break
    seen: list[str] = []
    for _ in range(page.locator("g.node").count()):
        seen.append(page.evaluate(FOCUS))
        bench.frame()
        name = page.evaluate("document.activeElement.querySelector('.name').textContent")
        told = page.locator(".edutorch-details").inner_text()
        assert name.split(" = ")[0].strip(" …") in told
        assert "mean" in told or "value" in told  # with the numbers
        assert "gradient norm" in told or "no gradient" in told
        page.keyboard.press("ArrowDown")
    labels = page.evaluate(
        "() => [...document.querySelectorAll('g.node')]"
        ".map((each) => each.ariaLabel || each.textContent.trim())"
    )
    assert sorted(seen) == sorted(labels)
    page.keyboard.press("ArrowLeft")  # along an edge, to an input
    assert page.evaluate(FOCUS) != seen[-1]
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


def test_what_moves_stands_still_where_little_motion_is_wanted(page: Any) -> None:
    page.emulate_media(reduced_motion="no-preference")
    bench = Bench(page).open(VIEWS["running"]())
    # The browser would draw all the time, beside a loop that wants the processor.
    assert page.evaluate(MOVING) == []
    beat = "getComputedStyle(document.querySelector('.state'), '::before').opacity"
    for motion, opacity in (("no-preference", "0.25"), ("reduce", "1")):
        page.emulate_media(reduced_motion=motion)
        bench.frame()
        page.evaluate("document.querySelector('.state').dataset.beat = '1'")
        assert page.evaluate(beat) == opacity
