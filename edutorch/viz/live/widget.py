"""The widget in the page: synced traits, and commands that come back."""

from __future__ import annotations

import functools
import re
import secrets
from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from ...backends.platform import IS_BROWSER
from ..render.graphviz import folder, graphviz_for_pages, has_page_layout
from .fallback_picture import ViewWithFallback
from .interpreter import (
    FastSender,
    ThreadAffinity,
    answer_on_any_thread,
    in_notebook,
    sending_thread,
)
from .tab_channel import TabChannel

ENTRY = "live"
"""The module that the page calls. What it imports, directly or not, is all that is joined."""

IMPORT = re.compile(r'^import .* from "\./(\w+)\.js";\n', re.MULTILINE)


def modules(name: str = ENTRY) -> list[str]:
    """Return the names of a module and of those that it imports, each after its own imports."""
    order: dict[str, None] = {}
    for imported in IMPORT.findall(text_of(name)):
        order |= dict.fromkeys(modules(imported))
    return [*order, *([] if name in order else [name])]


@functools.cache
def text_of(name: str) -> str:
    return (folder() / f"{name}.js").read_text(encoding="utf-8")


@functools.cache
def script() -> str:
    """Join the modules of `widgets/` into the one that anywidget takes.

    Imports are removed, since all names are then in one scope; they are unique.
    """
    text = IMPORT.sub("", "\n".join(map(text_of, modules())))
    return re.sub(r"^export (?!default)", "", text, flags=re.MULTILINE)


def own_graphviz() -> str:
    """Return the page's own Graphviz as a constant, where Python has none; else nothing."""
    if not has_page_layout():
        return ""
    text = graphviz_for_pages().read_text(encoding="utf-8")
    body, _, names = text.rpartition("export{")
    match = re.search(r"(\w+) as Graphviz\b", names)
    assert match is not None, "widgets/vendor/graphviz.js is not the module it should be"
    return f"const edutorchGraphviz = (() => {{{body}\nreturn {match[1]};}})();\n"


@functools.cache
def style() -> str:
    """Return the widget's style sheet: that of the view, then those beside its modules."""
    sheets = (folder() / f"{name}.css" for name in (ENTRY, *modules()[:-1]))
    return "\n".join(sheet.read_text(encoding="utf-8") for sheet in sheets if sheet.exists())


class LiveWidget(anywidget.AnyWidget):
    """Shows a `Picture` and, step after step, the values in it."""

    picture = traitlets.Dict().tag(sync=True)
    patch = traitlets.Dict().tag(sync=True)
    numbers = traitlets.Bytes().tag(sync=True)
    curves = traitlets.Dict().tag(sync=True)
    channel = traitlets.Dict().tag(sync=True)  # in a browser tab: see `tab_channel.py`
    key = traitlets.Unicode().tag(sync=True)  # identifies the page's element: `data-view`

    def __init__(
        self,
        on_command: Callable[[dict[str, Any]], None],
        bundle_of: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        """Make the widget.

        Args:
            on_command: handles the page's messages.
            bundle_of: makes a picture for a page that has lost it (see `fallback_picture.py`).
        """
        self._bundle_of = bundle_of
        # Before `super().__init__`, which adds them to what the page gets.
        self._esm, self._css = own_graphviz() + script(), style()
        super().__init__(key=secrets.token_hex(6))
        comm: Any = self.comm
        answer_on_any_thread(comm)
        self._affinity, self._sender = ThreadAffinity(sending_thread()), FastSender(comm)
        self.tab_channel = None
        if IS_BROWSER:
            self.tab_channel = TabChannel(on_command)
            self.channel = self.tab_channel.description
            on_command = self.tab_channel.once
        self.on_msg(lambda widget, content, buffers: on_command(content))

    def _ipython_display_(self) -> None:
        if self._bundle_of is not None and in_notebook():
            ViewWithFallback(self, self._bundle_of)
        else:
            raise NotImplementedError  # lets IPython show it as any other widget

    def show(
        self,
        picture: dict[str, Any] | None,
        patch: dict[str, Any],
        numbers: bytes,
        curves: dict[str, Any] | None = None,
    ) -> None:
        """Send one step, in one message; `picture` and `curves` only when they are new."""
        state: dict[str, Any] = {"patch": patch}
        if curves is not None:
            state["curves"] = curves
        if picture is not None:
            state["picture"] = picture
        # The message is the one that `self.patch = patch` and so on would send. But finding out
        # what has changed, and where it has bytes, took nearly as long as sending it.
        values: Any = self._trait_values
        values.update(state, numbers=numbers)
        message = {"method": "update", "state": state, "buffer_paths": [["numbers"]]}
        if patch["state"] == "running":
            self._affinity.pin_to_current()
        else:
            self._affinity.unpin()
        if picture is not None or not self._sender(message, [numbers]):
            self._send(message, buffers=[numbers])
