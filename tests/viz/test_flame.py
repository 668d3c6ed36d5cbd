"""The flame: what it shows, and that names from the user's code stay text."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

import pytest

import edutorch
from edutorch import nn, optim, viz
from edutorch.profiler import profile, record_function
from edutorch.profiler.tree import Frame
from edutorch.viz.render.flame_graph import (
    LEGEND,
    LETTER,
    MARGIN,
    ROW,
    TOP,
    fit_label,
    picture,
    place_frames,
)
from edutorch.viz.render.static import SVG

NASTY = '<script>alert("x")</script>&\x00"\'\n--></style>'


@pytest.fixture
def recorded():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = optim.Adam(net.parameters())
    with profile(record_shapes=True, profile_memory=True) as prof:
        for _ in range(2):
            with record_function("loss"):
                loss = net(edutorch.ones(3, 4)).sum()
            loss.backward()
            optimizer.step()
    return prof


def frames(svg):
    root = ElementTree.fromstring(svg)
    return [group for group in root.iter(f"{{{SVG}}}g") if "frame" in group.get("class", "")]


def test_the_tree_has_forward_backward_and_optimizer(recorded):
    tree = recorded.tree()
    assert [(child.kind, child.label, child.calls) for child in tree.children.values()] == [
        ("range", "loss", 2), ("backward", "backward", 2), ("optimizer", "step Adam", 2),
    ]  # fmt: skip
    net = tree.children["backward", "backward"].children["module", "Sequential"]
    labels = [child.label for child in net.children.values()]
    assert labels == ["2 (Linear)", "1 (ReLU)", "0 (Linear)"]
    assert net.calls == 2
    (node,) = net.children["module", "2 (Linear)"].children.values()
    assert (node.kind, node.name) == ("node", "LinearBackward0")
    linear = tree.children["range", "loss"].children["module", "Sequential"].children
    op = linear["module", "0 (Linear)"].children["op", "linear"]
    assert list(op.shapes) == ["3×4, 8×4, 8"]
    assert op.made == 2 * 3 * 8 * 4


def test_widths_are_times(recorded):
    tree = recorded.tree()
    groups = frames(viz.flame(recorded).svg)
    assert float(groups[0].get("data-width")) == 1
    for group in groups:
        rect = group.find(f"{{{SVG}}}rect")
        width, left = float(group.get("data-width")), float(group.get("data-left"))
        assert float(rect.get("width")) == pytest.approx(max(944 * width - 1, 0.3), abs=0.02)
        assert 0 <= left <= left + width <= 1 + 1e-5
    top = [float(group.get("data-width")) for group in groups if group.get("data-depth") == "1"]
    assert sum(top) == pytest.approx(1, abs=1e-5)
    assert top == pytest.approx([child.ns / tree.ns for child in tree.children.values()], abs=1e-6)


def test_each_frame_has_a_title_to_read(recorded):
    titles = [group.find(f"{{{SVG}}}title").text for group in frames(viz.flame(recorded).svg)]
    linear = next(title for title in titles if title.startswith("op linear"))
    assert re.search(r"\d+\.\d %", linear)
    assert "2 calls" in linear
    assert "inputs 3×4, 8×4, 8" in linear
    assert "made" in linear


def test_a_notebook_gets_html_svg_and_text(recorded):
    bundle = recorded._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/svg+xml", "text/plain"}
    html = bundle["text/html"]
    (image,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert ElementTree.fromstring(base64.b64decode(image)).tag == f"{{{SVG}}}svg"
    assert 'alt="Flame of ' in html
    assert not re.search(r"https?://(?!www\.w3\.org)", html)
    assert "├─ loss" in bundle["text/plain"]
    assert profile()._repr_mimebundle_() == {"text/plain": "<profile, nothing recorded>"}
    assert re.fullmatch(r"<profile of \d+ spans, \d+\.\d+ ms>", repr(recorded))


def test_names_stay_text(tmp_path):
    module_class = type(NASTY.replace("\x00", ""), (nn.Identity,), {})
    with profile() as prof, record_function(NASTY):
        module_class()(edutorch.ones(1).exp())
    flame = viz.flame(prof)
    root = ElementTree.fromstring(flame.svg)
    assert not [child for child in root.iter() if child.tag.endswith("script")]
    assert any("<script>" in (child.text or "") for child in root.iter(f"{{{SVG}}}title"))
    assert flame.html.count("<script") == 1
    assert "<script>alert" not in flame.html
    assert "\x00" not in flame.html
    assert all(line.isprintable() for line in prof.text().splitlines())
    flame.save(tmp_path / "nasty.html")


def test_it_can_be_saved(recorded, tmp_path):
    flame = viz.flame(recorded)
    assert flame.save(tmp_path / "a.svg").read_text().startswith("<svg")
    assert flame.save(tmp_path / "a.html").read_text().startswith("<!doctype html>")
    with pytest.raises(ValueError, match=r"save: cannot tell the format of 'a.gif'"):
        flame.save(tmp_path / "a.gif")


def test_the_text_leaves_out_what_is_small(recorded):
    tree = recorded.tree()
    whole = edutorch.profiler.tree.format_tree(tree, smallest=0)
    assert len(whole.splitlines()) == 1 + 1 + sum(1 for _ in all_of(tree)) - 1
    assert edutorch.profiler.tree.format_tree(tree, limit=3).endswith("… (limit= shows more)")
    assert "smaller" in edutorch.profiler.tree.format_tree(tree, smallest=0.9)


def all_of(frame):
    yield frame
    for child in frame.children.values():
        yield from all_of(child)


def test_a_large_profile_stays_a_small_picture():
    with profile() as prof:
        for number in range(5000):
            with record_function(f"part {number}"):
                pass
    flame = viz.flame(prof)
    assert len(frames(flame.svg)) <= 3000
    assert len(flame.svg) < 2_000_000


@pytest.mark.parametrize(("label", "note", "letters", "text"), [
    ("0 (ReLU)", "2 ms", 14, "0 (ReLU)  2 ms"), ("0 (ReLU)", "2 ms", 13, "0 (ReLU)"),
    ("0 (ReLU)", "2 ms", 8, "0 (ReLU)"), ("0 (ReLU)", "2 ms", 7, "0"), ("0 (ReLU)", "2 ms", 1, "0"),
    ("0 (ReLU)", "2 ms", 0, ""), ("attention", "2 ms", 8, "attenti…"),
    ("attention", "2 ms", 3, "at…"), ("attention", "2 ms", 2, ""),
])  # fmt: skip
def test_as_much_of_a_label_as_fits(label, note, letters, text):
    assert fit_label(label, note, 9 + LETTER * (letters + 0.5)) == text


def frame_of(name, ns):
    frame = Frame("op", name)
    frame.ns = ns
    return frame


def test_what_is_too_narrow_is_not_drawn_but_takes_its_room():
    top = frame_of("all", 1_000_000)
    for name, ns in (("wide", 500_000), ("thin", 399), ("just", 400), ("last", 1000)):
        top.children["op", name] = frame_of(name, ns)
    drawn = {frame.label: (left, width, depth) for frame, left, width, depth in place_frames(top)}
    assert drawn["all"] == (0, 1, 0)
    assert "thin" not in drawn
    assert drawn["wide"] == (0, 0.5, 1)
    assert drawn["just"] == pytest.approx((0.500399, 0.0004, 1))
    assert drawn["last"] == pytest.approx((0.500799, 0.001, 1))


def test_the_picture_says_what_it_is_and_explains_its_colours():
    top = frame_of("all", 1_000_000)
    top.children["op", "exp"] = frame_of("exp", 250_000)
    root = picture(top, "1 ms")
    assert (
        root.get("role") == "img" and root.get("viewBox") == f"0 0 960 {TOP + 2 * ROW + MARGIN:g}"
    )
    assert (root.get("width"), root.get("height")) == ("960", f"{TOP + 2 * ROW + MARGIN:g}")
    assert root.find(f"{{{SVG}}}title").text == "Where the time went: 1 ms"
    texts = {text.text: text for text in root.iter(f"{{{SVG}}}text")}
    title = texts["Where the time went: 1 ms"]
    assert (title.get("class"), float(title.get("x"))) == ("title", MARGIN)
    for css_class, words in LEGEND:
        assert texts[words].get("class") == "quiet"
        group = next(group for group in root.iter(f"{{{SVG}}}g") if group.get("class") == css_class)
        sample = group.find(f"{{{SVG}}}rect")
        assert float(texts[words].get("x")) == pytest.approx(float(sample.get("x")) + 20)
        assert [sample.get(name) for name in ("y", "width", "height", "rx")] == [
            "32", "14", "14", "2",
        ]  # fmt: skip
        assert texts[words].get("y") == "43"
    lefts = [float(texts[words].get("x")) for _, words in LEGEND]
    for (_, words), left, after in zip(LEGEND, lefts, lefts[1:], strict=False):
        assert after - left == pytest.approx(40 + 5.8 * len(words))
    hint = texts["width: time · below: what is inside"]
    assert (hint.get("class"), hint.get("text-anchor")) == ("quiet hint", "end")
    whole, exp = (group for group in root.iter(f"{{{SVG}}}g") if "frame" in group.get("class"))
    assert (exp.get("class"), exp.get("data-depth")) == ("frame op", "1")
    assert (exp.get("data-label"), exp.get("data-note")) == ("exp", "250.000us · 25.0 %")
    assert (exp.get("data-left"), exp.get("data-width")) == ("0.000000", "0.250000")
    box, text = exp.find(f"{{{SVG}}}rect"), exp.find(f"{{{SVG}}}text")
    assert [box.get(name) for name in ("x", "y", "width", "height", "rx")] == [
        "8.00", f"{TOP + ROW:g}", "235.00", f"{ROW - 2:g}", "2",
    ]  # fmt: skip
    assert (text.get("x"), text.get("y")) == ("13.00", f"{TOP + ROW + 15:g}")
    assert whole.get("data-note") == "1.000ms · 100.0 %"
