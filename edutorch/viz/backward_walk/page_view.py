"""A walk in a page: its picture, the marks of its boxes, and its buttons."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from ...errors import missing_extra
from ..graph.fold import Choice
from ..live.fallback_picture import ViewWithFallback
from ..live.interpreter import display_in_cell
from ..live.messages import patch_of
from ..live.page import LIMIT, PageState
from ..live.panel import Panel
from .backward_steps import step_data

if TYPE_CHECKING:
    from .walk import Walk

BETWEEN_MESSAGES = 1 / 25
"""Minimum seconds between two messages to a page."""


class WalkView(Panel):
    """Shows a walk; its data are `Walk` in the protocol.

    It does not keep the walk alive, unless a page shows it: a walk that is no longer reachable
    ends its thread.
    """

    name = "walk"

    def __init__(self, walk: Walk, groups: tuple[str, ...]) -> None:
        choice = Choice()
        for group in groups:
            choice = choice.open(group)
        self.page_state = PageState(choice=choice)
        self.message = ""
        self._walk = weakref.ref(walk)
        self._kept: Walk | None = None
        self._displays: list[ViewWithFallback] = []
        self._sent = 0.0
        self._showing = threading.Lock()

    @property
    def walk(self) -> Walk:
        """The walk, which exists as long as anybody calls this."""
        walk = self._walk()
        assert walk is not None
        return walk

    def display(self, walk: Walk) -> None:
        """Show the walk in the notebook: with buttons, unless it has been finished."""
        if walk.finished:
            display_in_cell(self.bundle(), raw=True)
            return
        self._displays.append(ViewWithFallback(self.open_page(walk), self.bundle))

    def open_page(self, walk: Walk) -> Any:
        """Return the widget of a walk, the same each time."""
        try:
            from ..live.widget import LiveWidget
        except ImportError as error:
            raise missing_extra("lab", "viz.walk", f"{error.name} is not installed") from error
        if self.page_state.page is None:
            self._kept = walk
            self.page_state.page = LiveWidget(self.answer)
            self.show()
        return self.page_state.page

    def leave_picture(self) -> None:
        """Replace the buttons by the picture: it stays when the kernel is gone."""
        page: Any = self.page_state.page
        self.page_state.page = self._kept = None
        while self._displays:
            self._displays.pop().end(self.bundle(), self.walk.table())
        if page is not None:
            page.close()

    def bundle(self) -> dict[str, Any]:
        """Return the picture and the table in each form that a notebook may know."""
        mime_bundle = self.walk.drawing()._repr_mimebundle_()
        mime_bundle["text/plain"] = f"{self.walk.table()}\n\n{mime_bundle['text/plain']}"
        return mime_bundle

    def show(self) -> None:
        """Send the page the current state."""
        if self.page_state.page is None:
            return
        with self._showing:
            time.sleep(max(0.0, self._sent + BETWEEN_MESSAGES - time.monotonic()))
            self.page_state.needs_update = True
            while self.page_state.needs_update:  # after a slow layout a smaller one is needed
                patch = patch_of(self.walk.position, "still", {}, [self])
                self.page_state.show(self.walk.snapshot, patch, patience=LIMIT)
            self._sent = time.monotonic()

    def answer(self, content: dict[str, Any]) -> None:
        """Handle a message of the page, on whatever thread it comes."""
        if content.get("type") != "walk":
            if self.page_state.command(content):
                self.show()
            return
        self.message = ""
        try:
            self.go(str(content.get("go")), str(content.get("node", "")))
        except Exception as error:  # noqa: BLE001  (shown where the button was pressed)
            self.message = f"{type(error).__name__}: {error}"
            self.show()

    def go(self, where: str, node: str) -> None:
        """Do what a button requests; `node` is a box on the screen."""
        walk = self.walk
        if where == "next":
            walk.next()
        elif where == "back":
            walk.back()
        elif where == "end":
            walk.run_to_end()
        elif where == "to":
            inside = [index for index, id in self.visible_ids().items() if id == node]
            walk.run_to(inside)

    def visible_ids(self) -> dict[int, str]:
        """Return the id of the box on the screen in which each node of the whole graph is."""
        return self.page_state.plan(self.walk.whole.graph).ids

    def patch(self) -> dict[str, Any]:
        """Return the position of the walk, and the mark of each box and arrow."""
        walk, seen = self.walk, self.visible_ids()
        station = walk.station
        marks = {seen[station.node]: "done" for station in walk.stations[: walk.position]}
        for number in station.waiting if station else (walk.root,):
            marks[seen[number]] = "waiting"
        to: list[str] = []
        if station is not None:
            marks[seen[station.node]] = "here"
            to = sorted({seen[flow.target] for flow in station.flows})
        return {
            "position": walk.position,
            "total": len(walk),
            "marks": marks,
            "to": to,
            "station": None if station is None else step_data(station),
            "upcoming": walk.upcoming or "",
            "message": self.message,
        }
