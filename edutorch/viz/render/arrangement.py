"""The arrangement of a graph on a page: its direction, and the rows into which it is broken.

Graphviz draws in one direction only. A chain of thirty boxes would be a strip; here it is broken
into rows, like text into lines. Each row becomes an invisible cluster, and edges between rows do
not constrain Graphviz's ranking: all rows begin at the same edge of the page. The best arrangement
is estimated from the sizes of the boxes, without Graphviz; a few of the best are laid out, and the
most legible one is taken.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from ...errors import EdutorchError
from ..graph.fold import Choice, Plan, make_plan
from ..graph.model import Graph
from .graphviz import LayoutError, LayoutTimeout

Direction = Literal["LR", "TB"]

PAGE_WIDTH, PAGE_HEIGHT = 1180.0, 2000.0
"""The largest size of a picture in points, at which its smallest text (9 points) is 9 px high on a
page of 1,200 px, and also in a PNG of 2,000 px."""

WINDOW = 900.0, 600.0
"""The size of a window without zooming or scrolling, in points."""

FLATTEST = 4.0
"""The largest aspect ratio, in either direction, of a picture with more than `FEW_BOXES` boxes."""

FEW_BOXES, MANY_BOXES = 12, 120
MOST_ROWS = 8
HALVINGS = 7  # steps of the bisection for the length of a row: to 1 %
BROKEN, WRAP_COST = 0.85, 0.95
"""Factors of legibility: for a picture in rows, and for each of its breaks."""

AROUND, DOWN = 0.75, 0.9
"""Further factors: if its arrows lead around the rows, and if the rows are columns."""

GAP_ACROSS, GAP_ALONG, LABEL_WIDTH, LABEL_HEIGHT = 13.0, 22.0, 58.0, 11.0
FRAME_MARGIN, FRAME_TITLE = 8.0, 20.0  # the gaps that Graphviz leaves, in points


class DirectionError(EdutorchError, ValueError):
    """Raised for an unknown direction of a picture."""


class Arrangement(NamedTuple):
    """A direction, and the index of each node's row; without rows it is not broken.

    With `turned`, Graphviz gets all edges and the direction reversed. It routes an edge from one
    row to the next along the far side of its start; reversed, that is between the two rows.
    """

    rankdir: Direction = "LR"
    rows: tuple[int, ...] = ()
    turned: bool = False

    @property
    def direction(self) -> str:
        """The `rankdir` for Graphviz."""
        return {"LR": "RL", "TB": "BT"}[self.rankdir] if self.turned else self.rankdir


def direction_of(rankdir: str | None) -> Direction:
    """Return the given direction, or "LR" for None.

    Raises: DirectionError: it is no direction.
    """
    if rankdir not in ("LR", "TB", None):
        raise DirectionError(
            "viz", f"unknown rankdir {rankdir!r}",
            hint="use 'LR' (left to right), 'TB' (top to bottom), or leave it out",
        )  # fmt: skip
    return "TB" if rankdir == "TB" else "LR"


class Size(NamedTuple):
    """Width and height in points."""

    width: float
    height: float

    def fits(self, boxes: int) -> bool:
        """Whether a picture of so many boxes can be read on one page."""
        flat = max(self) / max(1.0, min(self)) > FLATTEST
        return self.width <= PAGE_WIDTH and self.height <= PAGE_HEIGHT and not (
            flat and boxes > FEW_BOXES
        )  # fmt: skip


BOX_SIZE = re.compile(r"^ *(n\d+) \[.*width=([\d.]+) height=([\d.]+) fixedsize=true\]$", re.M)
PICTURE_SIZE = re.compile(r'<svg width="([\d.]+)pt" height="([\d.]+)pt"')


def box_sizes(dot: str) -> dict[str, Size]:
    """Return the sizes of the boxes in a DOT text, by id."""
    return {
        id: Size(float(width) * 72, float(height) * 72)
        for id, width, height in BOX_SIZE.findall(dot)
    }


def picture_size(svg: str) -> Size:
    """Return the size of an SVG from Graphviz."""
    match = PICTURE_SIZE.search(svg)
    return Size(float(match[1]), float(match[2])) if match else Size(0, 0)


class Candidate(NamedTuple):
    """An arrangement with estimates: whether it fits a page, and its legibility."""

    arrangement: Arrangement
    fits: bool = True
    legibility: float = 1.0


def rank_arrangements(
    graph: Graph, sizes: Mapping[str, Size], rankdir: Direction | None
) -> list[Candidate]:
    """Return the possible arrangements of a graph, the best first.

    Args:
        sizes: the sizes of the boxes.
        rankdir: the direction, if the user chose one: then there are no rows.
    """
    if rankdir is not None:
        return [Candidate(Arrangement(rankdir))]
    sketch, boxes = Sketch(graph, sizes), len(graph.nodes)

    def candidate(arrangement: Arrangement, size: Size) -> Candidate:
        return Candidate(arrangement, size.fits(boxes), legibility(size, arrangement))

    usual = candidate(Arrangement("LR"), sketch.size(Arrangement("LR")))
    if boxes <= 2 or (boxes <= FEW_BOXES and usual.fits):
        return [usual]
    candidates = [usual, candidate(Arrangement("TB"), sketch.size(Arrangement("TB")))]
    directions: tuple[Direction, Direction] = ("LR", "TB")
    for direction in directions:
        step = 1 if boxes <= MANY_BOXES else 3  # fewer candidates for a large graph
        for count in range(2, min(MOST_ROWS, boxes // 3) + 1, step):
            rows = sketch.rows(direction, count)
            size = sketch.size(Arrangement(direction, rows))
            both = (Arrangement(direction, rows, turned) for turned in (True, False))
            candidates += [candidate(arrangement, size) for arrangement in both]
    return sorted(
        dict.fromkeys(candidates), key=lambda candidate: (not candidate.fits, -candidate.legibility)
    )


def better_direction(graph: Graph, sizes: Mapping[str, Size]) -> Direction:
    """Return the better direction of a graph without rows."""
    sketch, boxes = Sketch(graph, sizes), len(graph.nodes)
    both = Arrangement("LR"), Arrangement("TB")
    candidates = [(arrangement, sketch.size(arrangement)) for arrangement in both]
    best = max(candidates, key=lambda pair: (pair[1].fits(boxes), legibility(pair[1], pair[0])))
    return best[0].rankdir


def legibility(size: Size, arrangement: Arrangement) -> float:
    """Return the scale of a picture in the window, reduced if it is broken into rows."""
    scale = min(WINDOW[0] / max(1.0, size.width), WINDOW[1] / max(1.0, size.height), 1.0)
    if not arrangement.rows:
        return scale
    taste = (1.0 if arrangement.turned else AROUND) * (1.0 if arrangement.rankdir == "LR" else DOWN)
    return scale * BROKEN * taste * WRAP_COST ** max(arrangement.rows)


class Sketch:
    """Estimates the size of a graph in an arrangement."""

    def __init__(self, graph: Graph, sizes: Mapping[str, Size]) -> None:
        self.graph = graph
        self.sizes = [sizes.get(node.id, Size(100, 40)) for node in graph.nodes]
        index_of = {node.id: index for index, node in enumerate(graph.nodes)}
        both = {"forward", "backward"} <= {edge.kind for edge in graph.edges}
        self.sources: list[list[int]] = [[] for _ in graph.nodes]
        self.users: list[list[int]] = [[] for _ in graph.nodes]
        for edge in graph.edges:
            if edge.kind == "kept" or (both and edge.kind == "backward"):
                continue
            source, target = index_of[edge.source], index_of[edge.target]
            if source < target:
                self.sources[target].append(source)
                self.users[source].append(target)
        parents = {frame.key: frame.around for frame in graph.frames}
        self.frames = [list(_enclosing_frames(node.frame, parents)) for node in graph.nodes]
        labelled = len(graph.edges) <= 60
        across = GAP_ALONG + (LABEL_WIDTH if labelled else 0)
        down = GAP_ALONG + (LABEL_HEIGHT if labelled else 0)
        # The length of each box along the main direction, with the gap after it.
        self.along: dict[Direction, list[float]] = {
            "LR": [size.width + across for size in self.sizes],
            "TB": [size.height + down for size in self.sizes],
        }

    def size(self, arrangement: Arrangement) -> Size:
        """Return the estimated size of the picture."""
        rows = arrangement.rows or (0,) * len(self.sizes)
        pieces = [
            self.row_size([index for index, row in enumerate(rows) if row == row_index],
                       arrangement.rankdir)
            for row_index in range(max(rows) + 1)
        ]  # fmt: skip
        along = max(piece[0] for piece in pieces)
        across = sum(piece[1] + GAP_ACROSS for piece in pieces)
        return Size(along, across) if arrangement.rankdir == "LR" else Size(across, along)

    def row_size(self, nodes: Sequence[int], direction: Direction) -> tuple[float, float]:
        """Return the length and the thickness of a row of these nodes."""
        ranks = self.ranks(nodes)
        lengths: dict[int, float] = {}
        thickness: dict[int, float] = {}
        frames: dict[int, int] = {}
        for index in nodes:
            rank = ranks[index]
            lengths[rank] = max(lengths.get(rank, 0.0), self.along[direction][index])
            size = self.sizes[index][1 if direction == "LR" else 0] + GAP_ACROSS
            thickness[rank] = thickness.get(rank, 0.0) + size
            frames[rank] = max(frames.get(rank, 0), len(self.frames[index]))
        margins = (FRAME_MARGIN, FRAME_MARGIN + FRAME_TITLE)
        along, across = margins if direction == "LR" else margins[::-1]
        opened = {key for index in nodes for key in self.frames[index]}
        return (
            sum(lengths.values()) + along * len(opened),
            max(thickness.values(), default=0.0) + 2 * across * max(frames.values(), default=0),
        )

    def ranks(self, nodes: Sequence[int]) -> dict[int, int]:
        """Return the rank of each node in a row; a leaf is directly before its first user."""
        within = set(nodes)
        rank: dict[int, int] = {}
        for index in nodes:
            source_ranks = [rank[source] for source in self.sources[index] if source in within]
            rank[index] = max(source_ranks) + 1 if source_ranks else 0
        for index in reversed(nodes):
            users = [rank[user] for user in self.users[index] if user in within]
            if users and not any(source in within for source in self.sources[index]):
                rank[index] = max(0, min(users) - 1)
        return rank

    def all_ranks(self) -> list[int]:
        """Return the rank of each node in an arrangement without rows."""
        ranks = self.ranks(range(len(self.sizes)))
        return [ranks[index] for index in range(len(self.sizes))]

    def rows(self, direction: Direction, count: int) -> tuple[int, ...]:
        """Break the nodes, in order, into `count` rows of about the same length."""
        longest, _ = self.row_size(range(len(self.sizes)), direction)
        low, high = longest / count, longest
        best = self.break_rows(direction, high)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            broken = self.break_rows(direction, middle)
            if max(broken) < count:
                best, high = broken, middle
            else:
                low = middle
        return best

    def break_rows(self, direction: Direction, length: float) -> tuple[int, ...]:
        """Break the nodes into rows whose longest path is no longer than `length`."""
        rows: list[int] = []
        row, along = 0, self.along[direction]
        while len(rows) < len(self.sizes):
            start = end = len(rows)
            path_length: dict[int, float] = {}
            while end < len(self.sizes):
                source_lengths = [
                    path_length[source] for source in self.sources[end] if source >= start
                ]
                path_length[end] = (max(source_lengths) if source_lengths else 0.0) + along[end]
                if path_length[end] > length and end > start:
                    end = self.better_end(start, end)
                    break
                end += 1
            rows += [row] * (end - start)
            row += 1
        return tuple(rows)

    def better_end(self, start: int, end: int) -> int:
        """Move a break to an earlier frame border, and never between a leaf and its user."""
        edges = [
            earlier
            for earlier in range(end, start + (end - start) * 2 // 3, -1)
            if self.frames[earlier - 1][:1] != self.frames[earlier][:1]
            and not self.is_leaf(earlier - 1)
        ]
        layers = [earlier for earlier in edges if self.is_leaf(earlier)]
        if edges:  # best before a layer with parameters, so that its activation is in its row
            return (layers or edges)[0]
        while end - 1 > start and self.is_leaf(end - 1):
            end -= 1
        return end

    def is_leaf(self, number: int) -> bool:
        return not self.sources[number]

    def ends(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return for each row the node on its last rank, and its number of ranks."""
        row_ends = []
        for row_index in range(max(rows) + 1):
            nodes = [index for index, row in enumerate(rows) if row == row_index]
            ranks = self.ranks(nodes)
            last = max(nodes, key=lambda node: ranks[node])
            row_ends.append((last, ranks[last] + 1))
        return row_ends


def _enclosing_frames(key: str, parents: Mapping[str, str]) -> Iterator[str]:
    """Yield the frames around a node, the outermost first."""
    keys = []
    while key:
        keys.append(key)
        key = parents.get(key, "")
    yield from reversed(keys)


# Trying them ----------------------------------------------------------------------------

TRIES = ((60, 6, 20), (MANY_BOXES, 1, 2))
"""(boxes, least, most): up to so many boxes, the number of arrangements tried, and the limit if
their rows are not in order. Above, only one is tried."""


BETTER = 1.1
"""Stop if the best legibility exceeds the next estimate by this factor."""


FOLD_FURTHER = 0.7
"""A picture that does not fit on a page is folded to this share of its boxes."""


FEWEST = 8
"""…but to no fewer boxes than this."""


OUT_OF_ORDER = 0.4
"""The factor of legibility for a picture whose rows are not in order."""


class FittedPicture(NamedTuple):
    """A laid-out picture: its arrangement, the SVG from Graphviz, and whether it fits a page."""

    arrangement: Arrangement
    svg: str
    fits: bool


def chosen_direction(rankdir: str | None) -> Direction | None:
    """Return the direction that the user chose, or None for an automatic one.

    Raises: DirectionError: it is no direction.
    """
    return None if rankdir in (None, "auto") else direction_of(rankdir)


def candidate_arrangements(
    graph: Graph, rankdir: str | None, text_of: Callable[[Arrangement], str]
) -> list[Candidate]:
    """Return the arrangements worth trying, the best estimate first, without Graphviz."""
    sizes = box_sizes(text_of(Arrangement()))
    ranked = rank_arrangements(graph, sizes, chosen_direction(rankdir))
    return ranked[: try_limits(graph)[1]]


def try_limits(graph: Graph) -> tuple[int, int]:
    """Return the least and the largest number of arrangements to try."""
    count = len(graph.nodes)
    return next(((least, most) for boxes, least, most in TRIES if count <= boxes), (1, 1))


def fit_page(
    graph: Graph,
    rankdir: str | None,
    text_of: Callable[[Arrangement], str],
    lay_out: Callable[[str], str],
    most: int | None = None,
) -> FittedPicture:
    """Lay out a graph in its most legible arrangement.

    Args:
        rankdir: the direction; None for an automatic one.
        text_of: returns the graph in an arrangement as DOT text.
        lay_out: returns the SVG of a DOT text.
        most: the largest number of arrangements to try.

    Raises: LayoutError: no arrangement could be drawn.
    """
    boxes = len(graph.nodes)
    best: tuple[bool, float] | None = None
    fitted = FittedPicture(Arrangement(), "", False)
    last_error: LayoutError | None = None
    in_order = False
    for attempt, candidate in enumerate(candidate_arrangements(graph, rankdir, text_of)[:most]):
        is_good = best is not None and best[1] >= BETTER * candidate.legibility
        if in_order and (attempt >= try_limits(graph)[0] or is_good):
            break
        arrangement = candidate.arrangement
        try:
            svg = lay_out(text_of(arrangement))
        except LayoutTimeout:  # another arrangement would take as long
            raise
        except LayoutError as error:  # Graphviz fails on some arrangements of clusters
            last_error = error
            continue
        size = picture_size(svg)
        order = order_factor(svg, graph, arrangement)
        is_clear = not has_overlap(svg)  # Graphviz may place rows on top of each other
        fits = is_clear and size.fits(boxes)
        quality = fits and order == 1, is_clear * legibility(size, arrangement) * order
        in_order |= quality[0]
        if best is None or quality > best:
            best, fitted = quality, FittedPicture(arrangement, svg, fits)
    if best is None and last_error is not None:
        raise last_error
    return fitted


def is_automatic(choice: Choice) -> bool:
    """Whether the user has opened or closed nothing, so that a picture may be folded further."""
    return not choice.turns and choice.everything is None


def fold_further(choice: Choice, boxes: int, share: float = FOLD_FURTHER) -> Choice | None:
    """Return a choice that shows fewer boxes; None if they are few already."""
    limit = int(min(choice.limit, boxes) * share)
    return replace(choice, limit=limit) if limit >= FEWEST else None


def fit_plan(
    graph: Graph,
    rankdir: str | None,
    choice: Choice,
    text_of: Callable[[Plan, Arrangement], str],
) -> tuple[Plan, Choice]:
    """Fold a graph until it is estimated to fit on a page."""
    plan = make_plan(graph, choice)
    while chosen_direction(rankdir) is None and is_automatic(choice):
        visible = plan.graph
        sizes = box_sizes(text_of(plan, Arrangement()))
        if rank_arrangements(visible, sizes, None)[0].fits:
            break
        further = fold_further(choice, len(visible.nodes))
        if further is None:
            break
        choice, plan = further, make_plan(graph, further)
    return plan, choice


OUTLINE = re.compile(
    r'class="node">(?:(?!</g>).)*?<(?:polygon|path)[^>]*? (?:points|d)="([^"]+)"', re.DOTALL
)
"""Matches the outline of each box."""


NODE = re.compile(
    r'<g id="(n\d+)" class="node">.*?<(?:polygon|path)[^>]*? (?:points|d)="M?([-\d.,]+)', re.DOTALL
)


def has_overlap(svg: str) -> bool:
    """Whether two boxes overlap."""
    boxes = sorted(Extent.of(points) for points in OUTLINE.findall(svg))
    for index, box in enumerate(boxes):
        for other in itertools.islice(boxes, index + 1, None):
            if other.left >= box.right:
                break  # so are all behind it
            if box.meets(other):
                return True
    return False


class Extent(NamedTuple):
    """The bounding box of a node."""

    left: float
    right: float
    top: float
    bottom: float

    @classmethod
    def of(cls, points: str) -> Extent:
        """Return the extent of an outline, given as the points of an SVG."""
        coordinates = list(map(float, re.findall(r"-?[\d.]+", points)))
        across, down = coordinates[::2], coordinates[1::2]
        return cls(min(across), max(across), min(down), max(down))

    def meets(self, other: Extent) -> bool:
        """Whether two boxes overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def order_factor(svg: str, graph: Graph, arrangement: Arrangement) -> float:
    """Return 1 if each row begins after the one before, else `OUT_OF_ORDER`."""
    if not arrangement.rows:
        return 1.0
    positions = {id: tuple(map(float, text.split(",")[:2])) for id, text in NODE.findall(svg)}
    axis = 1 if arrangement.rankdir == "LR" else 0
    starts: dict[int, float] = {}
    for node, row in zip(graph.nodes, arrangement.rows, strict=True):
        if node.id in positions:
            coordinate = positions[node.id][axis]
            starts[row] = min(starts.get(row, coordinate), coordinate)
    in_order = list(starts.values()) == sorted(starts.values())
    return 1.0 if in_order else OUT_OF_ORDER
