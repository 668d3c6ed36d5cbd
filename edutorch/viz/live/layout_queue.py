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
"""So many arrangements are tried of a page that somebody waits for."""

KEPT = 64
"""So many pictures are kept, for a loop whose graph changes to and fro."""


class LayoutQueue:
    """The SVG of each structure that was ever asked for. Each is laid out once.

    Attributes:
        asked: how often Graphviz was asked.
        slow: the structures whose layout took too long.
        large: those whose picture fits on no page.
    """

    def __init__(self, rankdir: str | None = None) -> None:
        chosen_direction(rankdir)
        self.rankdir = rankdir
        self.asked = 0
        self.slow: set[str] = set()
        self.large: set[str] = set()
        self._found: dict[str, Future[str]] = {}
        self._latest: Future[str] | None = None
        self._handed_over = threading.Event()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "edutorch-layout")

    def svg(self, graph: Graph, patience: float | None = PATIENCE) -> str | None:
        """Return the picture of `graph`, None if it is not there within `patience` seconds."""
        with self._lock:
            future = self._found.pop(graph.structure, None)
            if future is None:
                self.asked += 1
                future = self._pool.submit(self._lay_out, graph)
                if len(self._found) == KEPT:
                    del self._found[next(iter(self._found))]
            self._found[graph.structure] = future  # the latest is the last to go
            self._latest = future
        try:
            return future.result(patience)
        except NotYet:
            return None

    def hand_over(self, graph: Graph, patience: float = PATIENCE) -> None:
        """Ask for the picture of `graph`, and wait until Graphviz, another process, has its text.

        A loop that goes on before would wait for Python's lock in turn with the thread that writes.
        """
        self._handed_over.clear()
        self.svg(graph, patience=0)
        self.then(self._handed_over.set)
        self._handed_over.wait(patience)

    @property
    def ready(self) -> bool:
        """Whether the picture that was asked for last is there."""
        return self._latest is not None and self._latest.done()

    def then(self, call: Callable[[], None]) -> None:
        """Call when the picture that was asked for last is there, on whatever thread that is."""
        if self._latest is not None:
            self._latest.add_done_callback(lambda _: call())

    def with_looks(self, graph: Graph) -> str:
        """Return the picture of `graph` with its colours, for a file that does not draw."""
        return self._lay_out(graph, bare=False)

    def _lay_out(self, graph: Graph, bare: bool = True) -> str:
        by_page = has_page_layout()
        blank, words = blank_snapshot(graph), by_page or not bare

        def text_of(arrangement: Arrangement) -> str:
            # What moves by itself has no small pictures: there, no room is left for them.
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
        """Wait for a picture so long that an interrupt gets through meanwhile."""
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
    """Leave out of Graphviz's SVG what a page does not read: colours, fonts, titles.

    In the texts nothing is touched: there, Graphviz writes a quote as `&quot;`.
    """
    return STYLE_ATTRIBUTES.sub("", svg).replace("&#160;", SPACE)


BOX = re.compile(r'<g id="(n\d+)" class="node">\s*<polygon points="([^"]*)"/>')


def write_labels(svg: str, graph: Graph) -> str:
    """Write into the boxes of Graphviz's SVG what stands in them: see `words` of `dot_text`."""
    nodes = {node.id: node for node in graph.nodes}

    def box(found: re.Match[str]) -> str:
        numbers = list(map(float, found[2].replace(",", " ").split()))
        across, down = numbers[::2], numbers[1::2]
        middle = (min(across) + max(across)) / 2
        lines = node_lines(nodes[found[1]], None, None, reserve=True)
        first = min(down) + MARGIN_Y + LINE_HEIGHT / 2 + BASELINE  # below may be a small picture
        texts = (
            f'<text text-anchor="middle" x="{middle:.2f}"'
            f' y="{first + LINE_HEIGHT * number:.2f}">{escape(line)}</text>'
            for number, line in enumerate(lines)
        )
        return "\n".join((found[0], *texts))

    return BOX.sub(box, svg)


def blank_snapshot(graph: Graph) -> Snapshot:
    """Return `graph` with no number known: the page fills them in."""
    nothing = (None,) * len(graph.nodes)
    return Snapshot(graph, nothing, nothing, (None,) * len(graph.edges))


def message_svg(text: str) -> str:
    """Return an SVG that only says something."""
    size = {"viewBox": "0 0 600 40", "width": "600pt", "height": "40pt"}
    root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **size})
    ElementTree.SubElement(root, "text", {"x": "10", "y": "25"}).text = text
    return ElementTree.tostring(root, encoding="unicode")
