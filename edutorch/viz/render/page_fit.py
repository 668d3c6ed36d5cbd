"""Finds the arrangement in which a graph fits on one page, by laying out a few candidates."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ..graph.fold import Choice, Plan, make_plan
from ..graph.model import Graph
from .arrangement import (
    MANY_BOXES,
    Arrangement,
    Candidate,
    Direction,
    box_sizes,
    direction_of,
    legibility,
    picture_size,
    rank_arrangements,
)
from .graphviz import LayoutError, LayoutTimeout

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
    return next((tuple(tries) for boxes, *tries in TRIES if len(graph.nodes) <= boxes), (1, 1))


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
