"""Finds the arrangement in which a graph fits on one page, by letting Graphviz try a few."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ..graph.fold import Choice, Plan, plan_of
from ..graph.model import Graph
from .arrangement import (
    MANY_BOXES,
    Arrangement,
    Candidate,
    Direction,
    arrangements,
    box_sizes,
    direction_of,
    legibility,
    picture_size,
)
from .graphviz import LayoutError, LayoutTimeout

TRIES = ((60, 6, 20), (MANY_BOXES, 1, 2))
"""Up to so many boxes, so many arrangements are tried, and more if their rows are not in order; of
more boxes only one."""

BETTER = 1.1
"""What is read so much better than is expected of the next arrangement is not improved on."""

FOLD_FURTHER = 0.7
"""What does not fit on a page is folded to so much of its boxes."""

FEWEST = 8
"""…but not further than this."""

OUT_OF_ORDER = 0.4
"""A picture whose rows do not follow each other is so much worse to read."""


class Fitted(NamedTuple):
    """A laid-out picture: how it is arranged, its SVG as Graphviz made it, whether it fits."""

    arrangement: Arrangement
    svg: str
    fits: bool


def chosen_direction(rankdir: str | None) -> Direction | None:
    """Return the direction that somebody has chosen; None: the graph's shape decides.

    Raises: DirectionError: it is no direction.
    """
    return None if rankdir in (None, "auto") else direction_of(rankdir)


def candidates(
    graph: Graph, rankdir: str | None, text_of: Callable[[Arrangement], str]
) -> list[Candidate]:
    """Return the arrangements that are worth trying, the best first, without Graphviz."""
    sizes = box_sizes(text_of(Arrangement()))
    found = arrangements(graph, sizes, chosen_direction(rankdir))
    return found[: tries_for(graph)[1]]


def tries_for(graph: Graph) -> tuple[int, int]:
    """Return how many arrangements are tried at least, and at most."""
    return next((tuple(tries) for boxes, *tries in TRIES if len(graph.nodes) <= boxes), (1, 1))


def fit_page(
    graph: Graph,
    rankdir: str | None,
    text_of: Callable[[Arrangement], str],
    lay_out: Callable[[str], str],
    most: int | None = None,
) -> Fitted:
    """Lay a graph out in the arrangement that can be read best.

    Args:
        rankdir: the direction; None: what suits the graph.
        text_of: writes the graph as DOT text.
        lay_out: has Graphviz make an SVG of it.
        most: so many arrangements are tried at most.

    Raises: LayoutError: no arrangement could be drawn.
    """
    boxes = len(graph.nodes)
    best: tuple[bool, float] | None = None
    found = Fitted(Arrangement(), "", False)
    failed: LayoutError | None = None
    in_order = False
    for number, candidate in enumerate(candidates(graph, rankdir, text_of)[:most]):
        is_good = best is not None and best[1] >= BETTER * candidate.legibility
        if in_order and (number >= tries_for(graph)[0] or is_good):
            break
        arrangement = candidate.arrangement
        try:
            svg = lay_out(text_of(arrangement))
        except LayoutTimeout:  # another one would take as long
            raise
        except LayoutError as error:  # Graphviz stumbles over some arrangements of frames
            failed = error
            continue
        size = picture_size(svg)
        order = order_factor(svg, graph, arrangement)
        is_clear = not have_overlap(svg)  # Graphviz lays some rows over each other
        fits = is_clear and size.fits(boxes)
        quality = fits and order == 1, is_clear * legibility(size, arrangement) * order
        in_order |= quality[0]
        if best is None or quality > best:
            best, found = quality, Fitted(arrangement, svg, fits)
    if best is None and failed is not None:
        raise failed
    return found


def is_automatic(choice: Choice) -> bool:
    """Whether nobody has opened anything: only then may a picture be folded further."""
    return not choice.turns and choice.everything is None


def folded_further(choice: Choice, boxes: int, share: float = FOLD_FURTHER) -> Choice | None:
    """Return the choice with which fewer boxes are shown, None if there are few already."""
    limit = int(min(choice.limit, boxes) * share)
    return replace(choice, limit=limit) if limit >= FEWEST else None


def fitting_plan(
    graph: Graph,
    rankdir: str | None,
    choice: Choice,
    text_of: Callable[[Plan, Arrangement], str],
) -> tuple[Plan, Choice]:
    """Fold a graph until it fits on a page, as far as that can be told without Graphviz."""
    plan = plan_of(graph, choice)
    while chosen_direction(rankdir) is None and is_automatic(choice):
        visible = plan.graph
        sizes = box_sizes(text_of(plan, Arrangement()))
        if arrangements(visible, sizes, None)[0].fits:
            break
        further = folded_further(choice, len(visible.nodes))
        if further is None:
            break
        choice, plan = further, plan_of(graph, further)
    return plan, choice


OUTLINE = re.compile(
    r'class="node">(?:(?!</g>).)*?<(?:polygon|path)[^>]*? (?:points|d)="([^"]+)"', re.DOTALL
)
"""The outline of each box; a number on an arrow has none."""

NODE = re.compile(
    r'<g id="(n\d+)" class="node">.*?<(?:polygon|path)[^>]*? (?:points|d)="M?([-\d.,]+)', re.DOTALL
)


def have_overlap(svg: str) -> bool:
    """Whether a box lies over another one."""
    boxes = sorted(Extent.of(points) for points in OUTLINE.findall(svg))
    for index, box in enumerate(boxes):
        for other in itertools.islice(boxes, index + 1, None):
            if other.left >= box.right:
                break  # so are all behind it
            if box.meets(other):
                return True
    return False


class Extent(NamedTuple):
    """Where a box lies: the least and the largest of its coordinates."""

    left: float
    right: float
    top: float
    bottom: float

    @classmethod
    def of(cls, points: str) -> Extent:
        """Return that of an outline, as it is written in an SVG."""
        numbers = list(map(float, re.findall(r"-?[\d.]+", points)))
        across, down = numbers[::2], numbers[1::2]
        return cls(min(across), max(across), min(down), max(down))

    def meets(self, other: Extent) -> bool:
        """Whether two boxes have a part in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def order_factor(svg: str, graph: Graph, arrangement: Arrangement) -> float:
    """Return 1 if each row begins behind the one before, else what that makes worse."""
    if not arrangement.rows:
        return 1.0
    places = {id: tuple(map(float, at.split(",")[:2])) for id, at in NODE.findall(svg)}
    axis = 1 if arrangement.rankdir == "LR" else 0
    starts: dict[int, float] = {}
    for node, row in zip(graph.nodes, arrangement.rows, strict=True):
        if node.id in places:
            at = places[node.id][axis]
            starts[row] = min(starts.get(row, at), at)
    in_order = list(starts.values()) == sorted(starts.values())
    return 1.0 if in_order else OUT_OF_ORDER
