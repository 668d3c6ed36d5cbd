"""A loop over time that is opened stands in rows or columns, not like a staircase."""

import re

import pytest

import edutorch
from edutorch.viz import draw, live
from edutorch.viz.graph.model import Vertex, arrange
from edutorch.viz.live.page import PageState, blank_snapshot
from edutorch.viz.render.arrangement import (
    Arrangement,
    Sketch,
    box_sizes,
    fit_page,
    legibility,
    order_factor,
    picture_size,
)
from edutorch.viz.render.dot import dot_text, straight_edges
from edutorch.viz.render.graphviz import render
from tests.programs import lstm_cell_loop
from tests.viz.networks import NETWORKS

BOX = re.compile(r'<g id="(n\d+)" class="node">.*?<polygon[^>]* points="([^"]*)"', re.DOTALL)


def drawn(name):
    edutorch.manual_seed(0)
    return draw(*NETWORKS[name]()).whole


def watched():
    views = []

    def watch(*models):
        views.append(live(*models))
        return views[0]

    lstm_cell_loop.main(1, watch)
    return views[0].drawing().whole


LOOPS = {"lstm_cell_loop": watched, "lstm_cell": lambda: drawn("lstm_cell")}


@pytest.mark.parametrize("name", LOOPS)
def test_an_opened_loop_stands_in_straight_rows_that_follow_each_other(name):
    page_state, whole = PageState(), LOOPS[name]()
    repeat = next(
        node.group for node in page_state.plan(whole.graph).graph.nodes if "×" in node.label
    )
    page_state.command({"type": "open", "group": repeat})
    graph = page_state.plan(whole.graph).graph
    each_time = re.compile(re.escape(repeat) + r"/\d+")
    parts = {node.id for node in graph.nodes if each_time.fullmatch(node.group or "")}
    assert len(parts) >= 20

    def text_of(arrangement):
        return dot_text(blank_snapshot(graph), arrangement, reserve=True, bare=True, words=False)

    fitted = fit_page(graph, None, text_of, lambda text: render(text).decode())
    rankdir, rows, _ = fitted.arrangement
    assert order_factor(fitted.svg, graph, fitted.arrangement) == 1
    assert legibility(picture_size(fitted.svg), Arrangement(rankdir)) > 0.3
    spans = {}  # by row: how far the boxes reach across it
    for id, points in BOX.findall(fitted.svg):
        if id in parts:
            number = int(id[1:])
            coordinates = [float(text) for text in re.split("[, ]", points)]
            across = coordinates[::2] if rankdir == "TB" else coordinates[1::2]
            spans.setdefault(rows[number] if rows else 0, []).append((min(across), max(across)))
    for boxes in spans.values():
        common = min(end for _, end in boxes) - max(start for start, _ in boxes)
        assert common > 0.6 * max(end - start for start, end in boxes)


def test_what_skips_a_part_of_the_path_runs_around_it():
    vertices = {"x": Vertex("leaf", "x"), "w": Vertex("parameter", "weight")}
    vertices["a"] = Vertex("op", "mul", sources=(("input", "x"), ("other", "w")))
    vertices["b"] = Vertex("op", "exp", sources=(("input", "a"),))
    vertices["c"] = Vertex("op", "add", sources=(("input", "b"), ("other", "a")))
    graph = arrange(vertices, ["c"]).graph
    labels = {node.id: node.label for node in graph.nodes}
    ends = {edge.id: (labels[edge.source], labels[edge.target]) for edge in graph.edges}
    assert {ends[id] for id in straight_edges(graph)} == {("mul", "exp"), ("exp", "add")}


def test_rows_in_another_order_are_taken_only_where_none_follow_each_other():
    """Two arrangements: one fits with its rows out of order, one is a little too wide."""
    vertices = {0: Vertex("leaf", "x")}
    for number in range(1, 15):
        vertices[number] = Vertex("op", "exp", sources=(("input", number - 1),))
    whole = blank_snapshot(arrange(vertices, [14]).graph)
    sizes = box_sizes(dot_text(whole))
    rows = Sketch(whole.graph, sizes).rows("LR", 3)
    wide, narrow = Arrangement("LR"), Arrangement("LR", rows)

    def svg_of(arrangement):
        size = "1300pt" if not arrangement.rows else "800pt"
        backwards = "".join(
            f'<g id="{node.id}" class="node"><polygon points="{-number},{-number} '
            f'{0.5 - number},{0.5 - number}"/></g>'
            for number, node in enumerate(whole.graph.nodes)
        )
        return f'<svg width="{size}" height="500pt">{backwards}</svg>'

    assert order_factor(svg_of(narrow), whole.graph, narrow) < 1
    texts = {}

    def text_of(arrangement):
        text = dot_text(whole, arrangement)
        texts[text] = arrangement
        return text

    fitted = fit_page(whole.graph, None, text_of, lambda text: svg_of(texts[text]))
    assert fitted.arrangement.rows == wide.rows
