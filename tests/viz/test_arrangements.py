"""The arrangements that are tried for a picture, and those that are not taken."""

import pytest

from edutorch.viz.graph.model import Vertex, arrange
from edutorch.viz.live.page import blank_snapshot
from edutorch.viz.render.arrangement import (
    Arrangement,
    box_sizes,
    candidate_arrangements,
    fit_page,
    has_overlap,
    rank_arrangements,
)
from edutorch.viz.render.dot import dot_text


def outlined(*boxes):
    """An SVG of boxes by their corners, and of a number on an arrow, which has no outline."""
    nodes = "".join(
        f'<g id="n{number}" class="node"><polygon points="{left},{top} {right},{top} '
        f'{right},{bottom} {left},{bottom}"/></g>'
        for number, (left, right, top, bottom) in enumerate(boxes)
    )
    arrow = '<g id="edge1" class="edge"><path d="M0,0C9,9 99,99 100,100"/></g>'
    return f'<svg><g id="n9" class="node"><text>0.5</text></g>{arrow}{nodes}</svg>'


@pytest.mark.parametrize(("boxes", "overlap"), [
    ([(0, 10, 0, 10), (20, 30, 0, 10)], False),
    ([(0, 10, 0, 10), (0, 10, 10, 20)], False),
    ([(0, 10, 0, 10), (9, 30, 0, 10)], True),
    ([(0, 10, 0, 10), (20, 30, 0, 10), (2, 4, 2, 4)], True),
    ([], False),
])  # fmt: skip
def test_boxes_that_lie_over_each_other_are_seen(boxes, overlap):
    assert has_overlap(outlined(*boxes)) == overlap


def test_rows_are_tried_turned_and_then_in_one_direction():
    vertices = {0: Vertex("leaf", "x")}
    for number in range(1, 15):
        vertices[number] = Vertex("op", "exp", sources=(("input", number - 1),))
    whole = blank_snapshot(arrange(vertices, [14]).graph)
    sizes = box_sizes(dot_text(whole, Arrangement()))
    ranked = [candidate.arrangement for candidate in rank_arrangements(whole.graph, sizes, None)]
    broken = [arrangement for arrangement in ranked if arrangement.rows]
    turned = [arrangement for arrangement in broken if arrangement.turned]
    assert 2 * len(turned) == len(broken) == len(set(broken)) > 0
    for arrangement in turned:
        assert ranked.index(arrangement) < ranked.index(arrangement._replace(turned=False))


def test_an_arrangement_with_boxes_over_each_other_is_not_taken():
    """Unless there is no other: Graphviz makes such ones of some rows."""
    vertices = {0: Vertex("leaf", "x")}
    for number in range(1, 15):
        vertices[number] = Vertex("op", "exp", sources=(("input", number - 1),))
    whole = blank_snapshot(arrange(vertices, [14]).graph)
    tried = []

    def lay_out(text):
        tried.append(text)
        return outlined((0, 10, 0, 10), (5, 15, 0, 10)) if len(tried) != 2 else outlined()

    def sized(text):
        return lay_out(text).replace("<svg>", '<svg width="500pt" height="500pt">')

    candidates = candidate_arrangements(whole.graph, None, lambda one: dot_text(whole, one))
    arrangements = {dot_text(whole, one.arrangement): one.arrangement for one in candidates}
    fitted = fit_page(whole.graph, None, lambda one: dot_text(whole, one), sized)
    assert fitted.fits and fitted.arrangement == arrangements[tried[1]]
