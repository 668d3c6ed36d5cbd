"""Small pictures: what is drawn is what the tensor holds."""

import io
import json
from base64 import b64decode
from xml.etree import ElementTree

import numpy as np
import pytest

import edutorch
from edutorch.viz.graph.model import GraphNode, Vertex, arrange
from edutorch.viz.live.messages import Curve, pack, thumbs_of, unpack
from edutorch.viz.live.page import PageState, blank_snapshot
from edutorch.viz.render.static import Drawing
from edutorch.viz.render.style import WORDS
from edutorch.viz.render.svg import LONGEST_SIDE, MOST_BYTES, dash_segments, figures_of, path_lines
from edutorch.viz.tensors.summaries import summarize
from edutorch.viz.tensors.thumbnails import (
    LARGEST,
    drawn_style,
    encode_png,
    picture_style,
    plane_of,
    slot_height,
)

SVG = "{http://www.w3.org/2000/svg}"
pillow = pytest.importorskip("PIL.Image")


def node(node_kind, shape, label="x", dtype="float32"):
    return GraphNode("n0", node_kind, label, shape=shape, dtype=dtype)


@pytest.mark.parametrize(
    ("node_kind", "shape", "label", "expected"),
    [
        ("leaf", (8, 8), "x", "image"),
        ("leaf", (4, 3), "w", "weights"),
        ("leaf", (16, 8, 8), "x", "image"),
        ("leaf", (16, 1, 28, 28), "x", "image"),
        ("leaf", (16, 3, 64, 64), "x", "image"),
        ("leaf", (64, 8), "x", "bars"),  # many rows of numbers are no image
        ("leaf", (2, 10, 16), "tokens", "bars"),
        ("leaf", (1000,), "x", "bars"),
        ("leaf", (4,), "x", None),
        ("leaf", (), "x", None),
        ("parameter", (10, 16), "weight", "weights"),
        ("parameter", (512, 512), "weight", "bars"),
        ("parameter", (8, 8, 3, 3), "weight", "bars"),
        ("op", (4, 10, 10), "softmax", "attention"),
        ("group", (4, 10, 10), "0 · Softmax", "attention"),
        ("op", (10, 10), "matmul", "bars"),
        ("op", (8, 16, 8, 8), "conv2d", "bars"),
        ("output", (8, 1, 8, 8), "tanh", "image"),  # of a generator
        ("constant", (), "exponent", None),
    ],
)
def test_a_node_says_as_what_it_is_drawn(node_kind, shape, label, expected):
    assert picture_style(node(node_kind, shape, label)) == expected
    assert (slot_height(node(node_kind, shape, label)) > 0) == (expected is not None)


def test_labels_and_masks_are_written():
    assert picture_style(node("leaf", (16,), dtype="int64")) is None
    assert picture_style(node("leaf", (16, 16), dtype="bool")) is None
    assert picture_style(node("leaf", (16, 16), dtype="int64")) is None  # of words


def test_an_image_of_bytes_is_an_image():
    box = node("leaf", (4, 28, 28), dtype="uint8")
    image = np.arange(28, dtype="u1").repeat(28).reshape(1, 28, 28).repeat(4, 0)
    stats = summarize(image, bars=True)
    assert drawn_style(box, stats) == "image"
    assert stats.thumbnail.pixels[0] == 0 and stats.thumbnail.pixels[-1] == 255


def test_an_image_is_the_first_of_its_batch(device):
    batch = np.random.default_rng(0).uniform(-3, 5, (4, 8, 8)).astype("f4")
    stats = summarize(edutorch.tensor(batch.tolist())._array, bars=True)
    kept = np.frombuffer(stats.thumbnail.pixels, "u1").reshape(8, 8)
    scaled = (batch[0] - batch.min()) / (batch.max() - batch.min()) * 255
    np.testing.assert_allclose(kept, scaled, atol=0.51)


def test_colours_stay_colours():
    image = np.zeros((2, 3, 8, 8), "f4")
    image[0, 1] = 1.0
    thumbnail = summarize(image, bars=True).thumbnail
    assert (thumbnail.channels, thumbnail.pixels[:3]) == (3, b"\x00\xff\x00")


def test_a_large_image_is_averaged_and_a_large_matrix_is_not_kept():
    image = np.kron(np.arange(4.0).reshape(2, 2), np.ones((112, 112)))
    thumbnail = summarize(image[None, None].astype("f4"), bars=True).thumbnail
    assert (thumbnail.width, thumbnail.height) == (LARGEST, LARGEST)
    assert set(thumbnail.pixels) == {0, 85, 170, 255}
    assert plane_of((512, 300)) is None
    assert summarize(np.ones((512, 300), "f4"), bars=True).thumbnail is None


def test_nothing_is_kept_unless_somebody_asks():
    stats = summarize(np.eye(8, dtype="f4"))
    assert stats.thumbnail is None and stats.bars == ()
    assert drawn_style(node("leaf", (8, 8)), stats) is None


def test_attention_is_a_map_only_if_its_rows_add_up_to_one():
    scores = np.random.default_rng(0).uniform(0, 1, (2, 6, 6)).astype("f4")
    shares = scores / scores.sum(-1, keepdims=True)
    box = node("op", (2, 6, 6), "softmax")
    assert drawn_style(box, summarize(shares, bars=True)) == "attention"
    assert drawn_style(box, summarize(scores, bars=True)) == "bars"


def test_what_is_not_finite_is_not_drawn():
    values = np.eye(8, dtype="f4")
    values[0, 0] = np.nan
    assert drawn_style(node("leaf", (8, 8)), summarize(values, bars=True)) is None


def test_a_png_says_what_was_given():
    palette = [(level, 0, 255 - level) for level in range(32)]
    pixels = bytes(range(32)) * 2
    read = pillow.open(io.BytesIO(encode_png(8, 8, 1, pixels, palette))).convert("RGB")
    assert [read.getpixel((at % 8, at // 8)) for at in range(64)] == [palette[p] for p in pixels]
    read = pillow.open(io.BytesIO(encode_png(2, 1, 3, b"abcdef", [])))
    assert [read.getpixel((0, 0)), read.getpixel((1, 0))] == [(97, 98, 99), (100, 101, 102)]


# In pictures ---------------------------------------------------------------------------------


def snapshot(bars=True):
    generator = np.random.default_rng(1)
    image = np.zeros((4, 8, 8), "f4")
    image[0, 2:6, 3] = 1.0
    weight = generator.normal(size=(10, 16)).astype("f4")
    hidden = generator.normal(size=(4, 10)).astype("f4")
    vertices = {
        "x": Vertex("leaf", "x", shape=(4, 8, 8), value=summarize(image, bars)),
        "w": Vertex("parameter", "weight", shape=(10, 16), value=summarize(weight, bars),
                    grad=summarize(weight * 0.1, bars)),
        "t": Vertex("leaf", "labels", shape=(6,), dtype="int64", differentiable=False,
                    value=summarize(np.array([3, 1, 4, 1, 5, 9]), bars)),
        "y": Vertex("op", "linear", shape=(4, 10), value=summarize(hidden, bars),
                    sources=(("input", "x"), ("weight", "w")),
                    flows={"weight": summarize(weight * 0.1)}),
        "l": Vertex("op", "cross_entropy", value=summarize(np.array(2.25, "f4"), bars),
                    sources=(("input", "y"), ("target", "t")),
                    flows={"input": summarize(hidden)}),
    }  # fmt: skip
    return arrange(vertices, ["l"])


def test_the_picture_shows_the_things():
    root = ElementTree.fromstring(Drawing(snapshot()).svg)
    groups = {group.get("id"): group for group in root.iter(f"{SVG}g")}
    counts = {}
    for box in snapshot().graph.nodes:
        group = groups[box.id]
        images = list(group.iter(f"{SVG}image"))
        bars = [path for path in group.iter(f"{SVG}path") if path.get("class") == "bars"]
        counts[box.label] = len(images), len(bars)
    assert counts == {"x": (1, 0), "weight": (1, 0), "linear": (0, 1), "labels": (0, 0),
                     "cross_entropy": (0, 0)}  # fmt: skip
    texts = " ".join(text.text for text in root.iter(f"{SVG}text"))
    assert "[3, 1, 4, 1, 5, 9]" in texts and "2.25" in texts
    assert WORDS["signs"] in texts
    assert WORDS["signs"] not in Drawing(snapshot(bars=False)).svg


def test_an_image_in_the_picture_is_the_tensor():
    root = ElementTree.fromstring(Drawing(snapshot()).svg)
    group = next(group for group in root.iter(f"{SVG}g") if group.get("id") == "n0")
    (image,) = group.iter(f"{SVG}image")
    read = pillow.open(io.BytesIO(b64decode(image.get("href").partition(",")[2]))).convert("L")
    lit = {(x, y) for x in range(8) for y in range(8) if read.getpixel((x, y)) > 200}
    assert lit == {(3, y) for y in range(2, 6)}


def test_a_small_picture_lies_in_its_box_below_its_lines():
    root = ElementTree.fromstring(Drawing(snapshot()).svg)
    for group in root.iter(f"{SVG}g"):
        for image in group.findall(f"{SVG}image"):
            points = next(group.iter(f"{SVG}polygon")).get("points").split()
            across, down = zip(*(map(float, point.split(",")) for point in points), strict=True)
            lowest = max(float(text.get("y")) for text in group.findall(f"{SVG}text"))
            x, y = float(image.get("x")), float(image.get("y"))
            assert min(across) <= x and x + float(image.get("width")) <= max(across)
            assert lowest < y and y + float(image.get("height")) <= max(down)


def test_the_room_depends_on_the_graph_alone():
    """A page lays out before any number is known, and the picture must fit later."""
    from edutorch.viz.render.dot import dot_text

    blank = dot_text(blank_snapshot(snapshot().graph), reserve=True)
    known = dot_text(snapshot(), reserve=True)
    sizes = [
        [word for word in text.split() if word.startswith(("width=", "height="))]
        for text in (blank, known)
    ]
    assert sizes[0] == sizes[1]
    assert "height" in dot_text(snapshot(bars=False))


def test_statistics_are_told_on_demand():
    root = ElementTree.fromstring(Drawing(snapshot()).svg)
    titles = [title.text for title in root.iter(f"{SVG}title")]
    weight = next(title for title in titles if title.startswith("parameter weight"))
    assert "mean" in weight and "std" in weight and "norm" in weight and "gradient:" in weight


def test_the_page_gets_few_bytes_of_each():
    thumbs = thumbs_of(snapshot(), 1)["thumbs"]
    assert {thumb["kind"] for thumb in thumbs.values()} == {"image", "weights", "bars"}
    image = next(thumb for thumb in thumbs.values() if thumb["kind"] == "image")
    assert len(b64decode(image["pixels"])) == 64
    assert max(len(json.dumps(thumb, allow_nan=False)) for thumb in thumbs.values()) < 6000
    assert thumbs_of(snapshot(bars=False), 1) == {"thumbs": {}, "thumbsStep": 1}


# What stays ----------------------------------------------------------------------------------


def curve(*values):
    made = Curve()
    made.extend(1, list(values))
    return made


def test_caption_and_curves_stand_below_the_graph():
    curves = {
        "loss": curve(2.0, 1.5, float("nan"), 0.5),
        "accuracy": curve(0.1, 0.9),
        "none": Curve(),
    }
    drawing = Drawing(snapshot(), curves=curves, caption="step 4, loss 0.5")
    root = ElementTree.fromstring(drawing.svg)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "step 4, loss 0.5" in texts
    assert {"loss 0.5000", "accuracy 0.9000"} <= set(texts)
    charts = [group for group in root.iter(f"{SVG}g") if group.get("class") == "curve"]
    assert len(charts) == 2
    line = charts[0].findall(f"{SVG}path")[1].get("d")
    assert (line.count("M"), line.count("L")) == (2, 1)  # NaN leaves a gap
    _, top, _, height = map(float, root.get("viewBox").split())
    for text in root.findall(f"{SVG}g/{SVG}text"):
        assert float(text.get("y")) < top + height
    opened = drawing.open()
    assert (opened.curves, opened.caption) == (drawing.curves, drawing.caption)


def test_a_curve_that_ends_in_nan_says_so():
    drawing = Drawing(snapshot(), curves={"loss": curve(1.0, float("nan"))})
    assert "loss not finite" in drawing.svg and ">NaN<" in drawing.svg


def test_a_png_is_what_the_svg_is():
    plain = Drawing(snapshot())
    more = Drawing(snapshot(), curves={"loss": curve(3.0, 2.0, 1.0)}, caption="step 3")
    one, two = (pillow.open(io.BytesIO(drawing.png())) for drawing in (plain, more))
    assert one.width == two.width and two.height > one.height + 100
    box = list(map(float, ElementTree.fromstring(more.svg).get("viewBox").split()))
    assert two.width / two.height == pytest.approx(box[2] / box[3], rel=0.01)
    colours = {colour for _, colour in two.convert("RGB").getcolors(1 << 20)}
    assert (0xFB, 0xE8, 0xBD) in colours  # a parameter's fill


def test_a_png_is_small_however_large_the_graph_is():
    vertices = {0: Vertex("leaf", "x", shape=(300,))}
    for index in range(1, 60):
        vertices[index] = Vertex(
            "op",
            f"op{index}",
            shape=(300,),
            sources=(("input", index - 1),),
            value=summarize(np.random.default_rng(index).normal(size=300), True),
        )
    drawing = Drawing(arrange(vertices, [59]))
    content = drawing.png()
    image = pillow.open(io.BytesIO(content))
    assert max(image.size) <= LONGEST_SIDE
    assert len(content) <= MOST_BYTES


def test_without_pillow_there_is_still_a_png(monkeypatch):
    def absent(svg):
        raise ImportError

    monkeypatch.setattr("edutorch.viz.render.static.png_of", absent)
    assert Drawing(snapshot()).png().startswith(b"\x89PNG")


def test_pdf(tmp_path):
    pytest.importorskip("matplotlib")
    drawing = Drawing(snapshot(), curves={"loss": curve(3.0, 2.0)}, caption="step 2: $w$")
    content = drawing.save(tmp_path / "x.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert content.count(b"/Subtype /Image") >= 2
    assert drawing.pdf() == content  # the same each time


def test_paths_are_read():
    assert path_lines("M1 1H3V2Z") == [[(1, 1), (3, 1), (3, 2), (1, 1)]]
    (line,) = path_lines("M0,0C0,1 1,1 1,0")
    assert (
        line[0] == (0, 0) and line[-1] == (1, 0) and max(y for _, y in line) == pytest.approx(0.75)
    )
    (arc,) = path_lines("M0 0a2 2 0 0 1 4 0")
    assert arc[-1] == pytest.approx((4, 0)) and min(y for _, y in arc) == pytest.approx(-2)


def test_dashes_leave_gaps():
    parts = list(dash_segments([(0.0, 0.0), (10.0, 0.0)], (3.0, 2.0)))
    assert parts == [[(0.0, 0.0), (3.0, 0.0)], [(5.0, 0.0), (8.0, 0.0)]]


def test_every_figure_of_a_picture_is_painted():
    root = ElementTree.fromstring(Drawing(snapshot()).svg)
    drawn = ("path", "polygon", "text", "image", "rect", "circle", "polyline", "ellipse")
    elements = [element for element in root.iter() if element.tag.removeprefix(SVG) in drawn]
    assert len(list(figures_of(root))) == len(elements)


# While a loop runs ---------------------------------------------------------------------------


class Page:
    """Takes what a page is sent."""

    def __init__(self):
        self.patches = []

    def show(self, picture, patch, numbers, curves):
        self.patches.append(patch)


def test_a_page_gets_the_pictures_of_a_running_loop_once_and_of_one_that_stands_each_time():
    page_state = PageState("LR")
    page_state.page = page = Page()
    detailed, plain = snapshot(), snapshot(bars=False)
    running = {"parts": {}, "state": "running"}
    page_state.show(detailed, {**running, "step": 1}, patience=None)
    page_state.keep_thumbnails(detailed, 1)
    for step in (2, 3):
        page_state.show(plain, {**running, "step": step}, patience=None)
    page_state.keep_thumbnails(detailed, 4)
    page_state.show_values({}, b"", {**running, "step": 5})
    page_state.show_values({}, b"", {**running, "step": 6})
    page_state.show(plain, {**running, "step": 7, "state": "finished"}, patience=None)
    sent = [(patch["step"], patch.get("thumbsStep")) for patch in page.patches]
    assert sent == [(1, 1), (2, None), (3, None), (5, 4), (6, None), (7, 4)]
    assert page.patches[-1]["thumbs"].keys() == page.patches[0]["thumbs"].keys() != set()


def test_a_step_that_is_looked_back_at_has_its_own_pictures_or_none():
    page_state = PageState("LR")
    page_state.page = page = Page()
    page_state.keep_thumbnails(snapshot(), 4)
    past = {"parts": {"history": {"at": 2}}, "state": "finished", "step": 9}
    page_state.show(snapshot(bars=False), past, patience=None)
    assert "thumbs" not in page.patches[-1]
    page_state.show(snapshot(), past, patience=None)
    assert page.patches[-1]["thumbs"]


def test_later_numbers_take_the_pictures_of_an_earlier_step_and_say_of_which():
    page_state = PageState("LR")
    plain = snapshot(bars=False)
    assert page_state.with_thumbnails(plain) == (plain, None)
    page_state.keep_thumbnails(snapshot(), 4)
    drawn, step = page_state.with_thumbnails(plain)
    assert step == 4
    assert [value.bars for value in drawn.values] == [value.bars for value in snapshot().values]
    assert [value.mean for value in drawn.values] == [value.mean for value in plain.values]
    assert page_state.with_thumbnails(drawn) == (drawn, None)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_live_view_keeps_the_pictures_of_a_full_look(steps):
    x = edutorch.randn(4, 8, 8)
    w = edutorch.randn(8, 8, requires_grad=True)
    with edutorch.viz.live() as view:
        for _ in range(steps):
            (x @ w).square().mean().backward()
    drawing = view.drawing()
    assert 'class="bars"' in drawing.svg and "<image" in drawing.svg
    assert drawing.caption.startswith(f"step {steps}, loss {view.loss:.4g}")
    assert list(drawing.curves) == ["loss"] and 'class="curve"' in drawing.svg


def test_history_keeps_pictures_where_they_were_taken():
    packed = pack(snapshot())
    assert packed.nbytes > pack(snapshot(bars=False)).nbytes + 100
    unpacked = unpack(packed, snapshot().graph)
    assert [value.thumbnail for value in unpacked.values] == [
        value.thumbnail for value in snapshot().values
    ]
    assert [value.bars for value in unpacked.values] == [value.bars for value in snapshot().values]
