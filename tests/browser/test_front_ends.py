"""What widgets have to hold to: two in a page, a shadow DOM, everything given back at the end."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

import edutorch
import edutorch.viz.render.graphviz as door
from edutorch.viz import touch
from edutorch.viz.live import widget
from edutorch.viz.render.graphviz import EngineInfo, engines
from tests.browser.bench import POLICY, Bench
from tests.browser.lab import ROOT

pytestmark = pytest.mark.browser

MODULE = ROOT / "widgets" / "node_modules" / "@hpcc-js" / "wasm-graphviz" / "dist" / "index.js"


def play() -> Any:
    return touch(lambda w, x: (w * x).sum(), w=0.5, x=edutorch.tensor([1.0, -2.0]))


@pytest.mark.parametrize("shadow", [False, True])
def test_two_in_one_page(page: Any, shadow: bool) -> None:
    bench = Bench(page, shadow=shadow, ids=("a", "b")).open(play())
    page.wait_for_function("() => window.listening() >= 4")
    for place in ("#a", "#b"):
        assert page.locator(f"{place} g.node").count() == 4
        assert page.locator(f"{place} .edutorch-touch").count() == 1
    field = page.locator("#b").get_by_role("textbox", name="w", exact=True)
    field.fill("3")
    field.press("Enter")
    bench.pump()
    bench.frame()
    page.wait_for_function(
        """() => ["a", "b"].every((id) => {
          const host = document.getElementById(id);
          const text = (host.shadowRoot ?? host).querySelector("g.node > .value");
          return text.textContent === "value 3";
        })"""
    )
    ids = page.evaluate("() => [...document.querySelectorAll('svg [id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))
    assert bench.errors == []


def test_what_was_taken_is_given_back(page: Any) -> None:
    page.add_init_script(
        """window.held = 0;
        for (const target of [window, document]) {
          const { addEventListener: add, removeEventListener: remove } = target;
          target.addEventListener = (...given) => (held++, add.apply(target, given));
          target.removeEventListener = (...given) => (held--, remove.apply(target, given));
        }"""
    )
    page.goto("about:blank")
    page.evaluate("() => (window.held = window.held ?? 0)")
    bench = Bench(page, ids=("a", "b")).open(play())
    assert page.evaluate("() => window.listening()") == 8
    assert page.evaluate("() => window.held") >= 2
    page.evaluate("() => window.closers.forEach((close) => close())")
    assert page.evaluate("() => window.listening()") == 0
    assert page.evaluate("() => window.held") <= 0
    bench.show(None, {"type": "patch"}, b"")  # nobody hears it
    assert bench.errors == []


def test_the_page_draws_where_python_cannot(
    page: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    if not MODULE.exists():
        pytest.skip("@hpcc-js/wasm-graphviz is not installed (make widgets)")
    (tmp_path / "vendor").mkdir()
    for path in (ROOT / "widgets").glob("*.*s*"):
        shutil.copy(path, tmp_path)
    shutil.copy(MODULE, tmp_path / "vendor" / "graphviz.js")
    for place in (door, widget):
        monkeypatch.setattr(place, "folder", lambda: tmp_path)
    gone = {engine.name: "hidden" for engine in engines() if engine.formats}
    monkeypatch.setattr(door, "_BROKEN", gone)
    infos = engines()
    assert [info.name for info in infos if info.available] == ["the page"]
    assert isinstance(infos[-1], EngineInfo)
    code = widget.own_graphviz() + widget.script()
    monkeypatch.setattr("tests.browser.bench.script", lambda: code)
    allowed = POLICY.replace("blob:", "blob: 'wasm-unsafe-eval'")
    bench = Bench(page, policy=allowed).open(play())
    page.locator("g.node").first.wait_for()
    assert page.locator("g.node").count() == 4
    texts = page.evaluate(
        "() => [...document.querySelectorAll('g.node > .name')].map((t) => t.textContent)"
    )
    assert sorted(texts) == ["mul", "sum", "w", "x"]
    page.wait_for_function(
        "() => document.querySelector('g.node > .value').textContent === 'value 0.5'"
    )
    bench.screenshot("drawn-by-the-page")
    assert bench.errors == []
