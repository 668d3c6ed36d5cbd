"""A walk in a page: its picture, what the boxes have to do with it, and its buttons."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from ...errors import missing_extra
from ..graph.fold import Choice
from ..live.cell_output import display_in_cell
from ..live.fallback_picture import ViewWithFallback
from ..live.layout_queue import LIMIT
from ..live.messages import patch_of
from ..live.page import PageState
from ..live.panel import Panel
from .backward_steps import step_data

if TYPE_CHECKING:
    from .walk import Walk

BETWEEN_MESSAGES = 1 / 25
"""Seconds: a page gets no more than so many."""


class WalkView(Panel):
    """Shows a walk; its data are `Walk` in the protocol.

    It does not keep the walk alive, unless a page shows it: a walk that nobody can reach any
    more lets its thread go.
    """

    name = "walk"

    def __init__(self, walk: Walk, groups: tuple[str, ...]) -> None:
        choice = Choice()
        for group in groups:
            choice = choice.open(group)
        self.stage = PageState(choice=choice)
        self.message = ""
        self._walk = weakref.ref(walk)
        self._kept: Walk | None = None
        self._displays: list[ViewWithFallback] = []
        self._sent = 0.0
        self._showing = threading.Lock()

    @property
    def walk(self) -> Walk:
        """The walk, which is there as long as anybody asks."""
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
        if self.stage.page is None:
            self._kept = walk
            self.stage.page = LiveWidget(self.answer)
            self.show()
        return self.stage.page

    def leave_picture(self) -> None:
        """Put the picture in the place of the buttons: it stays when the kernel is gone."""
        page: Any = self.stage.page
        self.stage.page = self._kept = None
        while self._displays:
            self._displays.pop().end(self.bundle(), self.walk.table())
        if page is not None:
            page.close()

    def bundle(self) -> dict[str, Any]:
        """Return the picture and the table in each form that a notebook may know."""
        found = self.walk.drawing()._repr_mimebundle_()
        found["text/plain"] = f"{self.walk.table()}\n\n{found['text/plain']}"
        return found

    def show(self) -> None:
        """Send the page how it is now."""
        if self.stage.page is None:
            return
        with self._showing:
            time.sleep(max(0.0, self._sent + BETWEEN_MESSAGES - time.monotonic()))
            self.stage.asked = True
            while self.stage.asked:  # a slow layout asks for a smaller one
                patch = patch_of(self.walk.position, "still", {}, [self])
                self.stage.show(self.walk.snapshot, patch, patience=LIMIT)
            self._sent = time.monotonic()

    def answer(self, content: dict[str, Any]) -> None:
        """Take a message of the page, on whatever thread it comes."""
        if content.get("type") != "walk":
            if self.stage.command(content):
                self.show()
            return
        self.message = ""
        try:
            self.go(str(content.get("go")), str(content.get("node", "")))
        except Exception as error:  # noqa: BLE001  (shown where the button was pressed)
            self.message = f"{type(error).__name__}: {error}"
            self.show()

    def go(self, where: str, node: str) -> None:
        """Do what a button says; `node` is a box on the screen."""
        walk = self.walk
        if where == "next":
            walk.next()
        elif where == "back":
            walk.back()
        elif where == "end":
            walk.run_to_end()
        elif where == "to":
            inside = [number for number, id in self.seen().items() if id == node]
            walk.run_to(inside)

    def seen(self) -> dict[int, str]:
        """Return the id of the box on the screen in which each node of the whole graph is."""
        return self.stage.plan(self.walk.whole.graph).ids

    def patch(self) -> dict[str, Any]:
        """Return where the walk stands, and what each box and arrow has to do with it."""
        walk, seen = self.walk, self.seen()
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
