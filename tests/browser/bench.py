"""The widget in a real page, without JupyterLab: Python's side runs in the test itself.

What the page sends is queued; `pump` hands it to Python, and Python's answers to the page. The
page is as strict as pages are: a content security policy that allows no foreign script, and, if
asked for, a shadow DOM around the widget, as VS Code and Colab may have.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from typing import Any

from edutorch.viz.live.widget import script, style
from tests.browser.lab import ARTIFACTS

POLICY = "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'"
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>bench</title>
<meta http-equiv="Content-Security-Policy" content="{policy}">
</head><body data-jp-theme-light="{light}"><main><h1>A page</h1>
<div id="a"></div><div id="b"></div></main></body></html>"""
START = """async ([code, css, shadow, places]) => {
  const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const widget = (await import(url)).default;
  window.sent = [];
  window.state = {};
  const callbacks = {};
  const model = {
    get: (name) => window.state[name],
    on: (event, call) => (callbacks[event] ??= new Set()).add(call),
    off: (event, call) => callbacks[event]?.delete(call),
    send: (content) => window.sent.push(content),
  };
  window.listening = () => Object.values(callbacks).reduce((sum, each) => sum + each.size, 0);
  window.change = (values) => {
    if (values.numbers) {
      const bytes = Uint8Array.from(atob(values.numbers), (each) => each.charCodeAt(0));
      values.numbers = new DataView(bytes.buffer);
    }
    Object.assign(window.state, values);
    for (const name of Object.keys(values)) callbacks[`change:${name}`]?.forEach((call) => call());
  };
  window.closers = places.map((place) => {
    const host = document.getElementById(place);
    const root = shadow ? host.attachShadow({ mode: "open" }) : host;
    const sheet = document.createElement("style");
    sheet.textContent = css;
    const el = document.createElement("div");
    root.append(sheet, el);
    return widget.render({ model, el });
  });
}"""


class Bench:
    """Shows what an `Explorer` shows (or a `View`): its `page` attribute is this."""

    def __init__(
        self,
        tab: Any,
        shadow: bool = False,
        light: bool = True,
        ids: tuple[str, ...] = ("a",),
        policy: str = POLICY,
    ) -> None:
        self.tab, self.updates = tab, 0
        self._thread, self._late = threading.get_ident(), []
        self.errors: list[str] = []
        tab.on("pageerror", lambda error: self.errors.append(str(error)))
        tab.on("console", self._said)
        tab.set_content(PAGE.format(light=str(light).lower(), policy=policy))
        tab.evaluate(START, [script(), style(), shadow, list(ids)])

    def _said(self, message: Any) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def show(
        self,
        picture: dict[str, Any] | None,
        patch: dict[str, Any],
        numbers: bytes,
        curves: dict[str, Any] | None = None,
    ) -> None:
        values: dict[str, Any] = {"patch": patch, "numbers": base64.b64encode(numbers).decode()}
        values |= {"picture": picture} if picture is not None else {}
        values |= {"curves": curves} if curves is not None else {}
        self.updates += 1
        self._late.append(json.loads(json.dumps(values)))
        if threading.get_ident() == self._thread:  # the tab can be used by this one alone
            self._catch_up()

    def _catch_up(self) -> None:
        while self._late:
            self.tab.evaluate("values => window.change(values)", self._late.pop(0))

    def open(self, shown: Any) -> Bench:
        """Connect an Explorer, and show it."""
        self.shown = shown
        shown.page_state.page = self
        shown.show()
        end = time.monotonic() + 20
        while shown.page_state.needs_update and time.monotonic() < end:
            time.sleep(0.01)  # a picture that is late comes on another thread
        self.frame()
        return self

    def frame(self) -> None:
        """Wait until the page has drawn."""
        self._catch_up()
        self.tab.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def pump(self) -> list[dict[str, Any]]:
        """Hand everything that the page sent to Python; return it."""
        taken: list[dict[str, Any]] = []
        while sent := self.tab.evaluate("() => window.sent.splice(0)"):
            for content in sent:
                if content["type"] != "ready":
                    self.shown.command(content)
                    taken.append(content)
            self.frame()
        return taken

    def screenshot(self, name: str) -> None:
        ARTIFACTS.mkdir(exist_ok=True)
        self.tab.screenshot(path=ARTIFACTS / f"{name}.png", full_page=True)
