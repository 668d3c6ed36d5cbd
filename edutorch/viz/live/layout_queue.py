"""Pictures laid out beside the loop: the training does not wait for Graphviz."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from ...errors import warn
from ..graph.model import Graph, Snapshot
from ..render.arrangement import Arrangement
from ..render.dot import BASELINE, LINE_HEIGHT, MARGIN_Y, SPACE, dot_text, node_lines
from ..render.graphviz import LayoutError, LayoutTimeout, has_page_layout, render
from ..render.page_fit import candidate_arrangements, chosen_direction, fit_page

PATIENCE = 0.03
"""Seconds for which a loop waits for a new picture; a later one comes with a later message."""

LIMIT = 10.0
"""Seconds that one layout may take before the graph is folded further."""

MOST_TRIES = 10
"""How many arrangements of a page are tried while somebody waits for it."""

KEPT = 64
"""How many pictures are kept, for a loop whose graph changes back and forth."""


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
        self._pool = ThreadPoolExecutor(1, "edutorch-layout")

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
