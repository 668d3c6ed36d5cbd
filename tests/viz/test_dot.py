"""What stands in the picture: every label is text, in every engine."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from edutorch.viz.graph.model import GraphEdge, GraphNode, Snapshot, Vertex, arrange
from edutorch.viz.live.page import blank_snapshot, strip_style
from edutorch.viz.render.dot import dot_text, flow_style, flow_text, node_lines, printable
from edutorch.viz.render.graphviz import engines, render
from edutorch.viz.render.legend import EDGE, NARROWEST, draw_legend
from edutorch.viz.render.static import Drawing, polish_svg
from edutorch.viz.render.style import ALARM, CUT, PAINTS, RAMP, WORDS
from edutorch.viz.render.svg import text_width
from edutorch.viz.tensors.summaries import TINY, Stats, elements_text, summarize
from tests.viz.golden import NASTY, example, nasty

SVG = "{http://www.w3.org/2000/svg}"
ENGINES = [engine.name for engine in engines() if engine.available and engine.formats]
HARMLESS = {"svg", "g", "title", "text", "path", "polygon", "polyline", "ellipse"}


def parsed(svg):
    return ElementTree.fromstring(svg)


def lines_in(svg):
    return [text.text.replace("\xa0", " ").strip() for text in parsed(svg).iter(f"{SVG}text")]


def test_there_is_an_engine_to_test():
    assert ENGINES


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("snapshot", [example(), nasty()], ids=["example", "nasty"])
def test_every_label_is_in_the_picture_as_text(engine, snapshot):
    svg = render(dot_text(snapshot), engine=engine).decode()
    lines = lines_in(svg)
    for node, value, grad in zip(
        snapshot.graph.nodes, snapshot.values, snapshot.grads, strict=True
    ):
        for line in node_lines(node, value, grad):
            assert line.strip() in lines


@pytest.mark.parametrize("engine", ENGINES)
def test_names_never_become_markup(engine):
    svg = polish_svg(render(dot_text(nasty()), engine=engine).decode(), nasty().graph)
    assert {element.tag.removeprefix(SVG) for element in parsed(svg).iter()} <= HARMLESS
    for element in parsed(svg).iter():
        for name, value in element.attrib.items():
            assert not name.lower().startswith("on")
            assert "href" not in name.lower()
            assert "javascript" not in value.lower()


@pytest.mark.parametrize("engine", ENGINES)
def test_every_node_edge_and_frame_has_its_id(engine):
    svg = render(dot_text(example()), engine=engine).decode()
    ids = {group.get("id"): group.get("class") for group in parsed(svg).iter(f"{SVG}g")}
    assert {ids[node.id] for node in example().graph.nodes} == {"node"}
    assert {ids[edge.id] for edge in example().graph.edges} == {"edge"}
    assert "cluster" in ids.values()


@pytest.mark.parametrize("label", NASTY)
def test_a_label_is_one_short_printable_line(label):
    assert 0 < len(printable(label)) <= 22
    assert printable(label).isprintable()


def test_engines_say_the_same():
    texts = [lines_in(render(dot_text(example()), engine=engine).decode()) for engine in ENGINES]
    assert all(text == texts[0] for text in texts)


def test_numbers_never_move_a_box():
    """Whatever is written in later, each line is at least as wide already."""
    for node in example().graph.nodes:
        reserved = node_lines(node, None, None, reserve=True)
        count = math.prod(node.shape)
        values = [-1.2345e-30] * count
        text = elements_text(values, len(node.shape)) if count <= TINY else ""
        long = Stats(count, -1.2345e-30, -1e-30, 1e30, 1.2345e-30, text=text)
        written = node_lines(node, long, long, reserve=True)
        assert [len(line) for line in written] == [len(line) for line in reserved]


def test_an_unknown_number_takes_no_room_in_a_picture_that_stays():
    node = GraphNode("n0", "op", "add")
    assert node_lines(node, None, None) == ["add", "scalar float32"]
    assert len(node_lines(node, None, None, reserve=True)) == 4


def test_kinds_differ_in_shape_and_not_in_colour_alone():
    vertices = {
        node_kind: Vertex(node_kind, node_kind)
        for node_kind in ("leaf", "parameter", "buffer", "constant")
    }
    vertices["op"] = Vertex(
        "op", "op", sources=tuple((node_kind, node_kind) for node_kind in vertices)
    )
    vertices["out"] = Vertex("op", "out", sources=(("x", "op"),))
    snapshot = arrange(vertices, ["out"])
    dot = dot_text(snapshot)
    looks = set()
    for node in snapshot.graph.nodes:
        line = next(line for line in dot.splitlines() if line.strip().startswith(f"{node.id} ["))
        words = line.split()
        looks.add(
            tuple(word for word in words if word.startswith(("shape", "style", "peripheries")))
        )
    assert len(looks) == len(snapshot.graph.nodes) == 6


def test_colour_and_width_say_how_large_a_gradient_is_and_nothing_says_a_sign():
    positive, negative = Stats(5, 0.1, 0, 1, 1.0), Stats(5, -0.1, -1, 0, 1.0)
    assert flow_style(positive) == flow_style(negative)
    assert "penwidth=4.00" in flow_style(Stats(5, 0.1, 0, 1, 100.0))
    assert "penwidth=1.00" in flow_style(Stats(5, 1e-9, 0, 0, 1e-9))
    norms = [10.0**power for power in range(-5, 4)]
    assert len({flow_style(Stats(5, 1, 1, 1, norm)).split()[0] for norm in norms}) == 6
    assert flow_text(positive) == flow_text(negative) == "1.0000"
    assert flow_text(Stats(1, -2.0, -2, -2, 2.0)) == "-2.0000"
    assert flow_text(None) == ""


def test_red_is_trouble_and_nothing_else():
    broken = Stats(5, math.nan, 0, 0, math.nan, bad=True)
    assert ALARM in flow_style(broken, troubled=True)
    assert ALARM not in flow_style(broken)  # a mask may have infinities that are meant
    masked = Stats(5, -math.inf, -math.inf, 1.0, math.nan, bad=True)
    vertices = {"x": Vertex("leaf", "x"), "m": Vertex("op", "masked_fill", sources=(("i", "x"),))}
    vertices["m"].value = masked
    snapshot = arrange(vertices, ["m"])
    calm = Snapshot(snapshot.graph, snapshot.values, snapshot.grads, snapshot.flows)
    calm.__dict__["bad"] = ()  # whoever decides says that nothing is wrong
    assert ALARM in dot_text(snapshot)
    assert ALARM not in dot_text(calm)
    assert ALARM not in Drawing(example_without_nan()).svg


def example_without_nan():
    whole_one = example()
    fine = Stats(2, 0.0, 0, 0, 0.0)
    grads = [None if grad is None else fine if grad.bad else grad for grad in whole_one.grads]
    return Snapshot(whole_one.graph, whole_one.values, tuple(grads), whole_one.flows)


def marked():
    """A frozen weight with a hook, a detached input, a result that was written twice."""
    vertices = {
        "x": Vertex("leaf", "x", shape=(2, 3)),
        "w": Vertex("parameter", "weight", "0", (3, 3), differentiable=False, marks=("frozen",)),
        "d": Vertex("op", "detach", sources=(("input", "x"),), differentiable=False),
        "2": Vertex("constant", "exponent", differentiable=False, value=summarize(np.array(2.0))),
        "y": Vertex("op", "pow", shape=(2, 3), version=2, marks=("hook",), variable="h",
                    sources=(("input", "d"), ("weight", "w"), ("exponent", "2"))),
    }  # fmt: skip
    arranged = arrange(vertices, ["y"])
    graph = arranged.graph
    edges = [
        GraphEdge(edge.id, edge.source, edge.target, edge.input, "cut" if place == 0 else edge.kind)
        for place, edge in enumerate(graph.edges)
    ]
    return Snapshot(
        replace(graph, edges=tuple(edges)), arranged.values, arranged.grads, arranged.flows
    )


def test_what_has_no_gradient_is_grey():
    dot = dot_text(marked())
    grey = PAINTS["grey"].fill
    for node in marked().graph.nodes:
        line = next(line for line in dot.splitlines() if line.strip().startswith(f"{node.id} ["))
        if node.kind != "constant":
            assert (f'fillcolor="{grey}"' in line) == (not node.differentiable), line


def test_marks_are_drawn_and_said():
    drawing = Drawing(marked())
    marks = [path.get("class") for path in parsed(drawing.svg).iter(f"{SVG}path")]
    mark_classes = sorted(mark for mark in marks if mark and mark.startswith("mark"))
    assert mark_classes == ["mark frozen"] * 2 + ["mark hook"] * 2  # in its box, and in the legend
    texts = lines_in(drawing.svg)
    assert texts.count(CUT) == 2
    assert "h = pow v3" in texts
    assert {WORDS[key] for key in ("cut", "frozen", "hook", "version", "grey")} <= set(texts)
    titles = " ".join(title.text for title in parsed(drawing.svg).iter(f"{SVG}title"))
    assert "frozen, no gradient" in titles
    assert "v3" in drawing.table()


def test_a_constant_is_its_number_without_a_box():
    root = parsed(Drawing(marked()).svg)
    constant = next(node for node in marked().graph.nodes if node.kind == "constant")
    group = next(group for group in root.iter(f"{SVG}g") if group.get("id") == constant.id)
    assert [text.text for text in group.iter(f"{SVG}text")] == ["2"]
    assert not list(group.iter(f"{SVG}polygon")) and not list(group.iter(f"{SVG}path"))
    assert node_lines(constant, None, None, reserve=True)[0].strip("\xa0") == "—"


def test_the_legend_says_only_what_is_there():
    vertices = {"x": Vertex("leaf", "x"), "y": Vertex("op", "exp", sources=(("i", "x"),))}
    plain = Drawing(arrange(vertices, ["y"]))
    texts = set(lines_in(plain.svg))
    assert {WORDS["data"], WORDS["op"], WORDS["arrow"]} <= texts
    absent = ("trouble", "cut", "frozen", "hook", "version", "grey", "parameter")
    assert not texts & {WORDS[key] for key in absent}


def right_end(text):
    return float(text.get("x")) + text_width(text.text, float(text.get("font-size")))


@pytest.mark.parametrize("width", [NARROWEST, 240, 195, 500])
@pytest.mark.parametrize("key", WORDS)
def test_no_entry_of_the_legend_is_cut_off(key, width):
    root = ElementTree.Element("svg")
    end = draw_legend(root, [key], width, 0)
    texts = list(root.iter(f"{SVG}text"))
    assert max(map(right_end, texts)) <= width - EDGE + 0.5
    assert max(float(text.get("y")) for text in texts) < end
    said = " ".join(text.text for text in texts if text.text not in (*RAMP, CUT, "v2"))
    assert said == WORDS[key]


def test_the_legend_of_a_narrow_picture_is_whole():
    one = arrange({"x": Vertex("leaf", "x")}, ["x"])
    for snapshot in (one, example()):
        root = parsed(Drawing(snapshot).svg)
        _, _, width, _ = map(float, root.get("viewBox").split())
        legend = next(g for g in root.iter(f"{SVG}g") if g.get("class") == "legend")
        assert max(map(right_end, legend.iter(f"{SVG}text"))) <= width


def test_many_edges_have_no_numbers():
    vertices = {0: Vertex("leaf", "x")}
    for index in range(1, 200):
        vertices[index] = Vertex("op", "exp", sources=(("input", index - 1),))
    graph = arrange(vertices, [199]).graph
    flows = (Stats(1, 1, 1, 1, 1),) * len(graph.edges)
    nothing = (None,) * len(graph.nodes)
    lines = dot_text(Snapshot(graph, nothing, nothing, flows)).splitlines()
    assert not any("label=" in line for line in lines if "->" in line)


def test_500_nodes_with_modules():
    vertices = {"x": Vertex("leaf", "x", differentiable=False)}
    source = "x"
    for index in range(125):
        path = f"blocks.{index // 5}.{index % 5}"
        vertices[f"w{index}"] = Vertex("parameter", "weight", path, (64, 64))
        vertices[f"b{index}"] = Vertex("parameter", "bias", path, (64,))
        sources = (("input", source), ("weight", f"w{index}"), ("bias", f"b{index}"))
        vertices[f"l{index}"] = Vertex("op", "linear", path, (8, 64), sources=sources)
        vertices[f"r{index}"] = Vertex("op", "relu", path, sources=(("input", f"l{index}"),))
        source = f"r{index}"
    snapshot = arrange(vertices, [source])
    assert len(snapshot.graph.nodes) == 501
    svg = render(dot_text(blank_snapshot(snapshot.graph), reserve=True)).decode()
    assert lines_in(svg).count("linear") == 125


def test_the_picture_says_what_it_is_to_a_screen_reader():
    root = parsed(Drawing(example()).svg)
    assert root.get("role") == "img"
    assert "7 nodes" in root.get("aria-label")
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert any(title.startswith("parameter weight in layers.0, 10×8 float32") for title in titles)
    assert "weight to linear, as weight" in titles


@pytest.mark.parametrize("engine", ENGINES)
def test_a_page_gets_no_looks_but_every_text_as_it_was(engine):
    vertices = {"x": Vertex("leaf", ' fill="red" <title>'), "y": Vertex("op", ' stroke="b"')}
    vertices["y"].sources = (("input", "x"),)
    graph = arrange(vertices, ["y"]).graph
    svg = render(dot_text(blank_snapshot(graph), reserve=True, bare=True), engine=engine).decode()
    small = strip_style(svg)
    texts = [re.sub("[\xa0 ]+", " ", line) for line in lines_in(small)]
    assert texts == [re.sub("[\xa0 ]+", " ", line) for line in lines_in(svg)]
    assert {'fill="red" <title>', 'stroke="b"'} <= {text.strip() for text in texts}
    assert "font-family" not in small and "<title>" not in small and "black" not in small
    assert len(small) < 0.75 * len(svg)
