"""What a page shows of a graph, and what it has requested: open groups, a pending layout.

Everything that shows graphs in a page does it here: a training loop (`view.py`), a drawing to
be explored, a walk through backward. Each gives snapshots of whole graphs.
"""

from __future__ import annotations

import functools
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import replace
from typing import Any, Protocol
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from ...backends.platform import run_beside
from ...errors import warn
from ..graph.fold import Choice, Plan
from ..graph.model import Graph, Snapshot
from ..graph.search import search_data
from ..render.arrangement import (
    FEWEST,
    Arrangement,
    candidate_arrangements,
    chosen_direction,
    fit_page,
    fit_plan,
    fold_further,
    is_automatic,
)
from ..render.dot import BASELINE, LINE_HEIGHT, MARGIN_Y, SPACE, dot_text, node_lines
from ..render.graphviz import LayoutError, LayoutTimeout, has_page_layout, render
from .messages import pack_values, texts_of, thumbs_of

PATIENCE = 0.03
"""Seconds for which a loop waits for a new picture; a later one comes with a later message."""


LIMIT = 10.0
"""Seconds that one layout may take before the graph is folded further."""


MOST_TRIES = 10
"""How many arrangements of a page are tried while somebody waits for it."""


KEPT = 64
"""How many pictures are kept, for a loop whose graph changes back and forth."""


class InOrder(Executor):
    """Runs what is submitted one after the other, on a thread that ends when nothing is left.

    A widget is kept for as long as its notebook runs: a thread that waits in it would be, too.
    Where there are no threads, `submit` does the work itself.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._lock = threading.Lock()
        self._is_running = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return a future that is done when everything before it is."""
        future: Future[Any] = Future()
        with self._lock:
            self._jobs.append((future, functools.partial(fn, *args, **kwargs)))
            is_first, self._is_running = not self._is_running, True
        if is_first:
            run_beside(self.name, self._run)
        return future

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._is_running = False
                    return
                future, call = self._jobs.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001  (raised by `result`)
                    future.set_exception(error)


class LayoutQueue:
    """The SVG of each structure that was ever requested. Each is laid out once.

    Attributes:
        requests: how often Graphviz was called.
        slow: the structures whose layout took too long.
        large: those whose picture fits on no page.
    """

    def __init__(self, rankdir: str | None = None) -> None:
        chosen_direction(rankdir)
        self.rankdir = rankdir
        self.requests = 0
        self.slow: set[str] = set()
        self.large: set[str] = set()
        self._futures: dict[str, Future[str]] = {}
        self._latest: Future[str] | None = None
        self._handed_over = threading.Event()
        self._lock = threading.Lock()
        # One thread: pictures come in the order in which they were asked for.
        self._pool = InOrder("edutorch-layout")

    def svg(self, graph: Graph, patience: float | None = PATIENCE) -> str | None:
        """Return the picture of `graph`, or None if it is not there within `patience` seconds."""
        with self._lock:
            future = self._futures.pop(graph.structure, None)
            if future is None:
                self.requests += 1
                future = self._pool.submit(self._lay_out, graph)
                if len(self._futures) == KEPT:
                    del self._futures[next(iter(self._futures))]
            self._futures[graph.structure] = future  # the latest is dropped last
            self._latest = future
        try:
            return future.result(patience)
        except NotYet:
            return None

    def hand_over(self, graph: Graph, patience: float = PATIENCE) -> None:
        """Request the picture of `graph`, and wait until Graphviz, another process, has its text.

        Otherwise the loop would compete for Python's lock with the thread that writes the text.
        """
        self._handed_over.clear()
        self.svg(graph, patience=0)
        self.when_ready(self._handed_over.set)
        self._handed_over.wait(patience)

    @property
    def is_ready(self) -> bool:
        """Whether the picture that was requested last is there."""
        return self._latest is not None and self._latest.done()

    def when_ready(self, call: Callable[[], None]) -> None:
        """Call when the picture that was requested last is there, on whatever thread that is."""
        if self._latest is not None:
            self._latest.add_done_callback(lambda _: call())

    def styled_svg(self, graph: Graph) -> str:
        """Return the picture of `graph` with its colours, for a file without the page's code."""
        return self._lay_out(graph, bare=False)

    def _lay_out(self, graph: Graph, bare: bool = True) -> str:
        by_page = has_page_layout()
        blank, words = blank_snapshot(graph), by_page or not bare

        def text_of(arrangement: Arrangement) -> str:
            # A moving SVG has no thumbnails, so no space is reserved for them.
            return dot_text(blank, arrangement, reserve=True, bare=bare, words=words, drawn=bare)

        def svg_of(text: str) -> str:
            return render(text, timeout=LIMIT, handed_over=self._handed_over.set).decode()

        if by_page:
            return text_of(candidate_arrangements(graph, self.rankdir, text_of)[0].arrangement)
        try:
            fitted = fit_page(graph, self.rankdir, text_of, svg_of, MOST_TRIES)
            if not fitted.fits:
                self.large.add(graph.structure)
            return fitted.svg if words else write_labels(strip_style(fitted.svg), graph)
        except LayoutError as error:  # the training matters more than its picture
            # Next time it is folded further.
            if isinstance(error, LayoutTimeout):
                self.slow.add(graph.structure)
            warn(str(error))
            return message_svg(f"{error.message}; the graph has {len(graph.nodes)} nodes")

    def wait(self, graph: Graph, seconds: float = LIMIT) -> str | None:
        """Wait for a picture in short waits, so that an interrupt gets through."""
        end = time.monotonic() + seconds
        while (svg := self.svg(graph, 0.05)) is None and time.monotonic() < end:
            pass
        return svg


STYLE_ATTRIBUTES = re.compile(
    r' (?:fill|stroke|font-family|font-size|xml:space)="[^"]*"'
    r"|<title>[^<]*</title>\s*|<!--.*?-->\s*",
    re.DOTALL,
)


def strip_style(svg: str) -> str:
    """Remove from Graphviz's SVG what a page does not read: colours, fonts, titles.

    Texts are not touched: there, Graphviz writes a quote as `&quot;`.
    """
    return STYLE_ATTRIBUTES.sub("", svg).replace("&#160;", SPACE)


BOX = re.compile(r'<g id="(n\d+)" class="node">\s*<polygon points="([^"]*)"/>')


def write_labels(svg: str, graph: Graph) -> str:
    """Write the labels into the boxes of Graphviz's SVG: see `words` of `dot_text`."""
    nodes = {node.id: node for node in graph.nodes}

    def box(match: re.Match[str]) -> str:
        coordinates = list(map(float, match[2].replace(",", " ").split()))
        across, down = coordinates[::2], coordinates[1::2]
        middle = (min(across) + max(across)) / 2
        lines = node_lines(nodes[match[1]], None, None, reserve=True)
        first = min(down) + MARGIN_Y + LINE_HEIGHT / 2 + BASELINE  # there may be a thumbnail below
        texts = (
            f'<text text-anchor="middle" x="{middle:.2f}"'
            f' y="{first + LINE_HEIGHT * index:.2f}">{escape(line)}</text>'
            for index, line in enumerate(lines)
        )
        return "\n".join((match[0], *texts))

    return BOX.sub(box, svg)


def blank_snapshot(graph: Graph) -> Snapshot:
    """Return `graph` with no value known: the page fills them in."""
    nothing = (None,) * len(graph.nodes)
    return Snapshot(graph, nothing, nothing, (None,) * len(graph.edges))


def message_svg(text: str) -> str:
    """Return an SVG that contains only a message."""
    size = {"viewBox": "0 0 600 40", "width": "600pt", "height": "40pt"}
    root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size})
    ElementTree.SubElement(root, "text", {"x": "10", "y": "25"}).text = text
    return ElementTree.tostring(root, encoding="unicode")


KEPT_PLANS = 16
FOLD_FURTHER = 4
"""A graph whose layout takes too long is folded to a quarter of its boxes."""

MOST_VIEWS = 4
"""How many views of one widget are remembered with what they have on screen."""

MAX_AWAITED_NODES = 300
"""The picture of more nodes takes longer than a loop would wait for it: it is not waited for."""


def has_thumbnails(snapshot: Snapshot) -> bool:
    """Return True if thumbnails of its tensors were taken."""
    return any(value is not None and value.bars for value in snapshot.values)


class Page(Protocol):
    """Whatever shows the pictures: the widget, or a test."""

    def show(
        self,
        picture: dict[str, Any] | None,
        patch: dict[str, Any],
        numbers: bytes,
        curves: dict[str, Any] | None,
    ) -> None: ...


class PageState:
    """Folds snapshots, has them laid out and sends the page what changed.

    Attributes:
        page: where to send, None where nothing is displayed.
        choice: which groups are open.
        shown: the structure of the picture that the page has.
        needs_update: the page wants something else than it has: another group open, or a picture
            that was not ready when it was to be sent.
        on_late_picture: called when a picture was sent as soon as it was ready, on another thread,
            with the seconds that took.
    """

    def __init__(
        self,
        rankdir: str | None = None,
        choice: Choice | None = None,
        on_late_picture: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.page: Page | None = None
        self.choice = choice or Choice()
        self.layouts = LayoutQueue(rankdir)
        self.needs_update = False
        self._plans: dict[tuple[str, Choice], Plan] = {}
        self._last: tuple[Graph, Choice, Plan] | None = None  # most likely requested again
        self.shown = ""
        self._lock = threading.RLock()  # commands and late pictures run beside the loop
        self._late: tuple[Snapshot, dict[str, Any]] | None = None  # what waits for its picture
        self.on_late_picture = on_late_picture
        self._search, self._search_due = (
            "",
            False,
        )  # what a page searches, and whether the answer is due
        self._drawn: tuple[Snapshot, int] | None = None  # the last step with thumbnails
        self._thumbs_step = 0  # the step whose thumbnails the page has
        self._windows: dict[
            str, tuple[str, frozenset[int]]
        ] = {}  # by view: structure, nodes on screen
        self._seen: tuple[Any, Plan | None, frozenset[int] | None] = (
            None,
            None,
            None,
        )  # merged over views

    def command(self, content: dict[str, Any]) -> bool:
        """Handle a page's message, on whatever thread it comes. False: it is for somebody else."""
        message_type, group = content.get("type"), str(content.get("group", ""))
        if message_type == "open":
            self.choice = self.choice.open(group)
        elif message_type == "close":
            self.choice = self.choice.close(group)
        elif message_type == "open_all":
            self.choice = self.choice.open_all()
        elif message_type == "close_all":
            self.choice = self.choice.close_all()
        elif message_type == "tab":
            tab = content.get("tab")
            if type(tab) is not int or tab < 0:
                tab = None
            self.choice = self.choice.show_tab(tab)
        elif message_type == "find":
            self._search, self._search_due = str(content.get("text", "")), True
        elif message_type == "seen":
            return self._record_visible(content)
        else:
            return False
        self.needs_update = True
        return True

    def _record_visible(self, content: dict[str, Any]) -> bool:
        """Record which nodes of a picture a view has on screen, by their indices."""
        nodes = content.get("nodes")
        if isinstance(nodes, list) and all(type(node) is int for node in nodes):
            view, structure = str(content.get("view", "")), str(content.get("structure", ""))
            # A new dict instead of a change: the loop's thread reads the old one meanwhile.
            others = {key: seen for key, seen in self._windows.items() if key != view}
            for oldest in list(others)[: 1 - MOST_VIEWS]:
                del others[oldest]
            self._windows = {**others, view: (structure, frozenset(nodes))}
        return True

    def window(self, plan: Plan) -> frozenset[int] | None:
        """Return which nodes of a plan are on screen, or None if that is unknown."""
        windows = self._windows  # another thread puts a new one in its place
        if self._seen[0] is not windows or self._seen[1] is not plan:
            views = windows.values()
            seen = [nodes for structure, nodes in views if structure == plan.graph.structure]
            indices = range(len(plan.nodes))
            nodes_on_screen = frozenset().union(*seen).intersection(indices) if seen else None
            self._seen = windows, plan, nodes_on_screen
        return self._seen[2]

    def plan(self, graph: Graph) -> Plan:
        """Return the visible part of `graph`."""
        choice = self.choice
        known = self._last  # another thread puts new ones in its place
        if known is not None and known[0] is graph and known[1] is choice:
            return known[2]
        with self._lock:
            key = graph.structure, choice
            plan = self._plans.get(key)
            if plan is None:
                if len(self._plans) == KEPT_PLANS:
                    del self._plans[next(iter(self._plans))]
                plan = self._plans[key] = self._fit_plan(graph, choice)
            self._last = graph, choice, plan
            return plan

    def _fit_plan(self, graph: Graph, choice: Choice) -> Plan:
        def text_of(plan: Plan, arrangement: Arrangement) -> str:
            return dot_text(blank_snapshot(plan.graph), arrangement, reserve=True, words=False)

        plan, fitting = fit_plan(graph, self.layouts.rankdir, choice, text_of)
        if fitting is not choice and self.choice is choice:
            self.choice = fitting  # whose groups have the keys that the page will request
            self._plans[graph.structure, fitting] = plan
        return plan

    def prepare(self, graph: Graph, patch: dict[str, Any]) -> float:
        """Have the picture of a graph laid out and sent, before its values are there.

        Returns: how many seconds it took until Graphviz had it, which works beside the loop.
        """
        visible, start = self.plan(graph).graph, time.perf_counter()
        self.layouts.hand_over(visible)
        with self._lock:
            self._late = blank_snapshot(graph), patch
        self.layouts.when_ready(self._send_late_picture)
        return time.perf_counter() - start

    def show(
        self,
        snapshot: Snapshot | None,
        patch: dict[str, Any],
        curves: dict[str, Any] | None = None,
        patience: float | None = PATIENCE,
    ) -> float:
        """Send a snapshot with everything else in `patch`; return how long a layout was waited for.

        Args:
            curves: all points of each curve; None: only their latest ones are new.
            patience: seconds to wait for a new layout; a later picture is sent later.
        """
        waited = 0.0 if snapshot is None else self._wait(snapshot.graph, patience)
        with self._lock:
            self._show(snapshot, patch, curves)
        return waited

    def _wait(self, graph: Graph, patience: float | None) -> float:
        """Have a picture laid out, wait for it, and return for how long.

        The lock is not held meanwhile: the layout thread may want to send something.
        """
        visible = self.plan(graph).graph
        if self.page is None or visible.structure == self.shown:
            return 0.0
        with self._lock:
            self._late = None
        # Waiting in vain would hold the loop for nothing.
        if patience == PATIENCE and len(visible.nodes) > MAX_AWAITED_NODES:
            patience = 0.0
        start = time.perf_counter()
        self.layouts.svg(visible, patience)
        return time.perf_counter() - start

    def _show(
        self,
        snapshot: Snapshot | None,
        patch: dict[str, Any],
        curves: dict[str, Any] | None,
    ) -> None:
        if self.page is None:
            return
        self.needs_update = False
        visible, picture, self._late = None, None, None
        if snapshot is not None:
            visible = self.plan(snapshot.graph).pick(snapshot)
            if visible.graph.structure != self.shown:
                picture = self._picture(visible.graph)
                if picture is None:
                    self.needs_update, visible = True, None  # it comes with a later message
                    self._late = snapshot, patch
        patch = {**patch, **texts_of(visible), "layouts": self.layouts.requests}
        # After folding: a plan may have changed the choice.
        patch["tab"] = self.choice.tab
        if visible is not None and snapshot is not None and (picture or self._search_due):
            patch["parts"] = {**patch["parts"], **self._search_result(snapshot.graph)}
        running = patch["state"] == "running"
        patch |= self._thumbs(snapshot if visible else None, patch, picture is not None)
        values = pack_values(visible, running=running)
        self.page.show(picture, patch, values, curves)
        if picture is not None:
            # Only what was sent: values of another structure would land in the wrong boxes.
            self.shown = picture["structure"]
        if self._late is not None:
            self.layouts.when_ready(self._send_late_picture)

    def _search_result(self, graph: Graph) -> dict[str, Any]:
        """Return the result of the page's search: again for each picture, which has new boxes."""
        self._search_due = False
        if not self._search.strip():
            return {}
        return {"search": search_data(graph, self.plan(graph), self._search, self.choice)}

    def _send_late_picture(self) -> None:
        """Send a picture that was not ready in time: the loop's next step may be far."""
        with self._lock:
            if self._late is None or not self.layouts.is_ready:
                return
            start = time.perf_counter()
            snapshot, patch = self._late
            self._show(snapshot, {**patch, "latest": {}}, None)
            self.on_late_picture(time.perf_counter() - start)

    def keep_thumbnails(self, snapshot: Snapshot, step: int) -> None:
        """Keep the thumbnails of a step, for messages and files about later ones."""
        self._drawn = snapshot, step

    def with_thumbnails(self, snapshot: Snapshot) -> tuple[Snapshot, int | None]:
        """Return a snapshot with thumbnails, and the number of the step that they are from.

        None: they are its own, or there are none.
        """
        if self._drawn is None or has_thumbnails(snapshot):
            return snapshot, None
        drawn, step = self._drawn
        if drawn.graph.structure != snapshot.graph.structure:
            return snapshot, None
        values = tuple(
            value._replace(bars=old.bars, thumbnail=old.thumbnail) if value and old else value
            for value, old in zip(snapshot.values, drawn.values, strict=True)
        )
        return replace(snapshot, values=values), step

    def _thumbs(
        self, snapshot: Snapshot | None, patch: dict[str, Any], anew: bool
    ) -> dict[str, Any]:
        """Return the thumbnails for a message. A page is sent those of a running loop once.

        Args:
            snapshot: what is shown; None: a later step of the graph that the page has.
            anew: the page has no picture yet.
        """
        looks_back = patch.get("parts", {}).get("history", {}).get("at") is not None
        drawn, step = self._drawn or (None, 0)
        if snapshot is not None and has_thumbnails(snapshot):
            drawn, step = snapshot, patch["step"]
        elif drawn is None or looks_back:
            return {}
        plan = self.plan(drawn.graph)
        shown = self.plan(snapshot.graph).graph.structure if snapshot else self.shown
        known = patch["state"] == "running" and step == self._thumbs_step and not anew
        if known or plan.graph.structure != shown:
            return {}
        self._thumbs_step = step
        return thumbs_of(plan.pick(drawn), step)

    def show_values(self, texts: dict[str, Any], values: bytes, patch: dict[str, Any],
                     curves: dict[str, Any] | None = None) -> float:  # fmt: skip
        """Send the values of a light sample: the page has the picture, so there is no wait."""
        with self._lock:
            if self.page is not None:
                thumbs = self._thumbs(None, patch, anew=False)
                patch = {**patch, **texts, **thumbs, "layouts": self.layouts.requests}
                self.page.show(None, patch, values, curves)
        return 0.0

    def _picture(self, graph: Graph) -> dict[str, Any] | None:
        svg = self.layouts.svg(graph, patience=0)
        if svg is None:
            return None
        smaller = self._smaller(graph)
        if smaller is not None:
            self.choice, self.needs_update = smaller, True
            return None
        return graph.to_picture(svg)

    def _smaller(self, graph: Graph) -> Choice | None:
        """Return what to show instead of a picture that took too long, or fits on no page.

        None: this very picture. Groups that the user opened are only closed if it takes too long.
        """
        choice, layouts = self.choice, self.layouts
        automatic = is_automatic(choice)
        if graph.structure in layouts.slow and choice.limit > FEWEST:
            limit = choice.limit
            if automatic:
                limit = max(FEWEST, min(limit, len(graph.nodes)) // FOLD_FURTHER)
            return Choice(limit=limit, tab=choice.tab)
        is_large = graph.structure in layouts.large and chosen_direction(layouts.rankdir) is None
        return fold_further(choice, len(graph.nodes)) if automatic and is_large else None
