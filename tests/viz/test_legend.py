"""What stands below a graph in a file: the samples of the legend look like what they explain."""

from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from edutorch.viz.render.legend import (
    CHART_HEIGHT,
    CHART_WIDTH,
    EDGE,
    MOST_CHARTS,
    NARROWEST,
    ROW,
    Footer,
    curve_path,
    draw_charts,
    draw_footer,
    draw_legend,
    draw_sample,
    wrap_text,
)
from edutorch.viz.render.static import add_footer
from edutorch.viz.render.style import (
    ACCENT,
    ALARM,
    CUT,
    FLOW_COLOURS,
    INK,
    MARK_SHAPES,
    NEUTRAL,
    PAGE,
    PAINTS,
    PALE_INK,
    RAMP,
    WORDS,
)
from edutorch.viz.render.svg import text_width
from edutorch.viz.tensors.thumbnails import ABOVE, BELOW, MIDDLE

SVG = "{http://www.w3.org/2000/svg}"


def sample(key):
    """Return the sample of an entry: its elements, each as a name and its attributes."""
    root = ElementTree.Element("svg")
    draw_sample(root, key, 100.0, 50.0)
    return [(made.tag.removeprefix(SVG), made) for made in root]


@pytest.mark.parametrize("key", [key for key in WORDS if key in PAINTS])
def test_a_box_has_the_look_of_its_role(key):
    ((tag, box),) = sample(key)
    place = [float(box.get(name)) for name in ("x", "y", "width", "height")]
    assert (tag, place) == ("rect", [100, 45.5, 16, 9])
    assert (box.get("fill"), box.get("stroke")) == (PAINTS[key].fill, PAINTS[key].border)
    # What was given has square corners, what was computed round ones.
    assert box.get("rx") == ("3" if key in ("op", "derivative") else "0")


@pytest.mark.parametrize(("key", "width", "dashes"), [("cut", 16, "3 2"), ("kept", 12, "1 2.5")])
def test_an_arrow_without_gradient_is_grey_and_broken(key, width, dashes):
    (tag, line), (_, end) = sample(key)
    assert (tag, line.get("d")) == ("path", f"M100 50h{width}")
    assert (line.get("stroke"), line.get("fill")) == (NEUTRAL, "none")
    assert line.get("stroke-dasharray") == dashes
    if key == "cut":
        assert (end.text, end.get("text-anchor"), end.get("fill")) == (CUT, "middle", INK)
        assert (float(end.get("x")), float(end.get("font-size"))) == (108, 10)
    else:
        assert [end.get(name) for name in ("cx", "cy", "r")] == ["114", "50", "2"]
        assert (end.get("fill"), end.get("stroke")) == (PAGE, NEUTRAL)


def test_the_colours_of_signs_are_those_of_the_heat_maps():
    boxes = [made for _, made in sample("signs")]
    wanted = ["#" + bytes(colour).hex() for colour in (BELOW, MIDDLE, ABOVE)]
    assert [box.get("fill") for box in boxes] == wanted
    assert [box.get("x") for box in boxes] == ["100", "105", "110"]
    for box in boxes:
        assert [box.get(name) for name in ("y", "width", "height")] == ["46", "5", "8"]
        assert (box.get("stroke"), box.get("stroke-width")) == (NEUTRAL, "0.4")


@pytest.mark.parametrize("key", MARK_SHAPES)
def test_a_mark_is_that_of_a_box(key):
    ((tag, mark),) = sample(key)
    assert (tag, mark.get("d"), mark.get("fill")) == ("path", MARK_SHAPES[key], INK)
    assert mark.get("class") == f"mark {key}"
    assert mark.get("transform") == "translate(103.00,45.00)"


def test_a_version_is_written():
    ((tag, text),) = sample("version")
    assert (tag, text.text, text.get("font-weight"), text.get("fill")) == (
        "text",
        "v2",
        "bold",
        INK,
    )


def test_arrows_become_wider_and_darker_with_their_gradient():
    parts = [made for _, made in sample("arrow")]
    assert [parts[0].text, parts[-1].text] == [RAMP[0], RAMP[-1]]
    boxes = parts[1:-1]
    assert [box.get("fill") for box in boxes] == list(FLOW_COLOURS)
    heights = [float(box.get("height")) for box in boxes]
    assert heights == pytest.approx([1, 1.6, 2.2, 2.8, 3.4, 4])
    left = 100 + text_width(RAMP[0]) + 4
    for place, box in enumerate(boxes):
        assert float(box.get("x")) == pytest.approx(left + 11 * place, abs=0.01)
        middle = float(box.get("y")) + float(box.get("height")) / 2
        assert (middle, box.get("width")) == (pytest.approx(50, abs=0.01), "11")
    assert float(parts[-1].get("x")) == pytest.approx(left + 6 * 11 + 4, abs=0.01)


def test_entries_stand_in_rows():
    root = ElementTree.Element("svg")
    assert draw_legend(root, [], 400, 30) == 30
    end = draw_legend(root, ["parameter", "op", "data"], 4000, 30)
    assert end == 30 + ROW
    texts = list(root.iter(f"{SVG}text"))
    boxes = list(root.iter(f"{SVG}rect"))
    assert len({text.get("y") for text in texts}) == 1
    assert float(boxes[0].get("x")) == EDGE
    for box, text in zip(boxes, texts, strict=True):
        assert float(text.get("x")) == pytest.approx(float(box.get("x")) + 21, abs=0.01)
    for text, after in zip(texts, boxes[1:], strict=False):
        end_of_text = float(text.get("x")) + text_width(text.text)
        assert float(after.get("x")) == pytest.approx(end_of_text + 16, abs=0.01)
    narrow = ElementTree.Element("svg")
    assert draw_legend(narrow, ["parameter", "op", "data"], 110, 30) == 30 + 3 * ROW
    assert {box.get("x") for box in narrow.iter(f"{SVG}rect")} == {f"{EDGE:g}"}


@pytest.mark.parametrize(("text", "most", "lines"), [
    ("one two three", 7, ["one two", "three"]), ("one two", 6, ["one", "two"]), ("", 5, [""]),
    ("unbroken", 4, ["unbr"]), ("a  b", 3, ["a b"]),
])  # fmt: skip
def test_lines_end_between_words(text, most, lines):
    assert wrap_text(text, most) == lines


# Curves -------------------------------------------------------------------------------------


def curve(points):
    return SimpleNamespace(points=lambda: points)


def chart(points, width=2 * CHART_WIDTH + 2 * EDGE):
    root = ElementTree.Element("svg")
    end = draw_charts(root, {"loss": curve(points)}, width, 5.0)
    return root, end, [text.text for text in root.iter(f"{SVG}text")]


def test_a_curve_runs_through_its_points():
    box = (50.0, 10.0, 150.0, 60.0)
    points = [(10, 1.0), (15, 2.0), (20, 5.0)]
    assert curve_path(points, box, (1.0, 5.0)) == "M50.0 60.0L100.0 47.5L150.0 10.0"
    assert curve_path([(10, 3.0)], box, (3.0, 3.0)) == "M50.0 35.0"
    gap = [(0, 1.0), (1, None), (2, 5.0), (3, 1.0), (4, None)]
    assert curve_path(gap, box, (1.0, 5.0)) == "M50.0 60.0M100.0 10.0L125.0 60.0"


def test_a_chart_says_its_last_value_its_range_and_its_steps():
    root, end, texts = chart([(10, 1.0), (15, 5.0), (20, 2.0)])
    assert texts == ["loss 2.0000", "5.0000", "1.0000", "step 10", "20"]
    assert end == 5 + CHART_HEIGHT + 8
    title = root.find(f".//{SVG}title").text
    assert title == "loss 2.0000 at step 20; from 1.0000 to 5.0000"
    axis, line = root.iter(f"{SVG}path")
    left, right, top, bottom = EDGE + 44, EDGE + 416, 21, 55
    assert axis.get("d") == f"M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}"
    assert (axis.get("stroke"), axis.get("fill")) == (NEUTRAL, "none")
    assert (line.get("stroke"), line.get("fill")) == (ACCENT, "none")
    assert line.get("d").startswith(f"M{left:.1f} {bottom:.1f}L")
    (dot,) = root.iter(f"{SVG}circle")
    assert [float(dot.get(name)) for name in ("cx", "cy")] == [right, bottom - 34 / 4]
    assert (dot.get("fill"), dot.get("stroke")) == (ACCENT, PAGE)
    anchors = [text.get("text-anchor") for text in root.iter(f"{SVG}text")]
    assert anchors == [None, "end", "end", None, "end"]


def test_a_chart_of_equal_values_says_them_once():
    assert chart([(1, 2.0), (2, 2.0)])[2] == ["loss 2.0000", "2.0000", "step 1", "2"]


def test_a_chart_that_ends_with_nan_says_so():
    root, _, texts = chart([(1, 2.0), (2, None)])
    assert texts[:2] == ["loss not finite", "NaN"]
    alarm = list(root.iter(f"{SVG}text"))[1]
    assert (alarm.get("fill"), alarm.get("font-weight")) == (ALARM, "bold")
    assert alarm.get("text-anchor") == "end"  # it stands inside the chart
    assert not list(root.iter(f"{SVG}circle"))
    assert chart([(1, None)])[2][2:4] == ["1.0000", "0.0000"]


def test_charts_stand_side_by_side_where_there_is_room():
    names = [f"c{number}" for number in range(MOST_CHARTS + 1)]
    for in_row in (1, 2, 3):
        root = ElementTree.Element("svg")
        curves = {"empty": curve([]), **{name: curve([(1, 1.0), (2, 2.0)]) for name in names}}
        width = in_row * (CHART_WIDTH + EDGE) + EDGE
        end = draw_charts(root, curves, width, 0.0)
        groups = [group for group in root if group.get("class") == "curve"]
        assert len(groups) == MOST_CHARTS
        assert end == pytest.approx(MOST_CHARTS / in_row * (CHART_HEIGHT + 8))
        lefts = {group.find(f"{SVG}text").get("x") for group in groups}
        assert len(lefts) == in_row
    assert draw_charts(ElementTree.Element("svg"), {"empty": curve([])}, 400, 7.0) == 7


def test_the_name_of_a_curve_stands_out_from_its_numbers():
    root = ElementTree.Element("svg")
    draw_charts(root, {"loss": curve([(1, 1.0), (2, 2.0)])}, 400, 0.0)
    fills = [text.get("fill") for text in root.iter(f"{SVG}text")]
    assert fills == [INK, PALE_INK, PALE_INK, PALE_INK, PALE_INK]


def test_what_stands_below_a_graph_is_in_order_and_does_not_overlap():
    footer = Footer(["op"], "what this is", {"loss": curve([(1, 1.0), (2, 2.0)])})
    root = ElementTree.Element("svg")
    end = draw_footer(root, footer, 400, 100.0)
    caption = root.find(f"{SVG}text")
    assert (caption.text, caption.get("font-weight"), caption.get("fill")) == (
        "what this is", "bold", INK,
    )  # fmt: skip
    tops = [float(text.get("y")) for text in root.iter(f"{SVG}text")]
    assert tops[0] == min(tops) and tops[-1] == max(tops) and 100 < tops[0] < tops[-1] < end
    assert end == 100 + ROW + 4 + CHART_HEIGHT + 8 + ROW
    assert draw_footer(ElementTree.Element("svg"), Footer(["op"]), 400, 100.0) == 100 + ROW


@pytest.mark.parametrize(("width", "full"), [(100, NARROWEST), (500, 500), (1600, 1600)])
def test_a_picture_with_its_words_stands_on_one_white_page(width, full):
    root = ElementTree.Element("svg", {
        "viewBox": f"0 0 {width} 80", "width": f"{width}pt", "height": "80pt",
    })  # fmt: skip
    ElementTree.SubElement(root, f"{SVG}g")
    add_footer(root, Footer(["op"]))
    page, graph, words = root
    left, end = (width - full) / 2, 80 + 4 + ROW + EDGE
    assert graph.tag == f"{SVG}g" and words.get("transform") == f"translate({left:.2f},0)"
    assert root.get("viewBox") == f"{left:.2f} 0 {full:.2f} {end:.2f}"
    assert (page.get("fill"), page.get("y"), page.get("rx")) == (PAGE, "0", "6")
    assert [page.get(name) for name in ("x", "width", "height")] == [
        f"{left:.2f}", f"{full:.2f}", f"{end:.2f}",
    ]  # fmt: skip
    own = (f"{full:.2f}pt", f"{end:.2f}pt") if full < 1000 else (None, None)  # as wide as the page
    assert (root.get("width"), root.get("height")) == own
