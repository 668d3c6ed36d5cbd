"""A run as one file: what stands in it, and that no name in it is ever markup."""

import base64
import hashlib
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import edutorch
from edutorch import nn
from edutorch.viz import draw, live
from edutorch.viz.history.export import Clock, ExportError, animated_svg, code, page
from edutorch.viz.live.messages import pack_values
from edutorch.viz.live.page import LayoutQueue
from edutorch.viz.live.view import NothingRecordedError
from edutorch.viz.render.static import FormatError
from tests.viz.golden import NASTY
from tests.viz.test_live import descend, start

pytest.importorskip("anywidget")

SVG = "{http://www.w3.org/2000/svg}"


def trained(steps=5, branch=lambda step: False):
    """A recorded run; where `branch` says so, the graph is another one."""
    w = start()
    view = live()
    view.history.every = 1
    with view:
        for step in range(1, steps + 1):
            if branch(step):
                w.grad = None
                w.exp().sum().backward()
            else:
                descend(w)
            view.log(**{"</script>": float(step)})
    return view


def data_of(text):
    result = re.search(r'<script type="application/json" id="edutorch-data">(.*?)</script>', text)
    return json.loads(result.group(1))


def test_the_page_holds_each_step_and_each_picture_once(tmp_path):
    view = trained(9, branch=lambda step: step % 3 == 0)
    path = view.export(tmp_path / "run.html")
    data = data_of(path.read_text())
    assert [frame["patch"]["step"] for frame in data["frames"]] == view.history.steps
    assert len(data["pictures"]) == view.layouts == 2
    assert data["curves"]["</script>"][-1][1] == 9
    for frame, moment in zip(data["frames"], view.history.moments, strict=True):
        assert data["pictures"][frame["picture"]]["structure"] == frame["patch"]["structure"]
        assert base64.b64decode(frame["numbers"]) == pack_values(moment.snapshot)
        history = frame["patch"]["parts"]["history"]
        assert (history["at"], history["last"]) == (moment.step, 9)
        assert history["loss"] == pytest.approx(moment.loss)


def test_few_frames_are_chosen_evenly(tmp_path):
    view = trained(11)
    data = data_of(view.export(tmp_path / "run.html", frames=3).read_text())
    assert [frame["patch"]["step"] for frame in data["frames"]] == [1, 6, 11]
    one = data_of(view.export(tmp_path / "one.html", frames=1).read_text())
    assert [frame["patch"]["parts"] for frame in one["frames"]] == [{}]  # nothing to scrub


def test_the_policy_names_exactly_what_is_there(tmp_path):
    text = trained(2).export(tmp_path / "run.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1)
    policy = policy.replace("&#x27;", "'")
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)


def test_the_code_can_stand_inside_a_page():
    assert "</script" not in code().lower()
    assert "<!--" not in code()
    assert not re.search(r"^(import|export) ", code(), re.M)


@pytest.mark.parametrize("name", NASTY)
def test_no_name_ends_the_element_it_stands_in(name):
    text = page({"frames": [], "curves": {name: []}, "pictures": []}, name, name, name)
    assert data_of(text)["curves"] == {name: []}
    tags = re.findall(r"<(/?\w+)", re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.S))
    assert tags == [
        "html", "head", "meta", "meta", "meta", "meta", "title", "/title", "/head", "body",
        "header", "h1", "/h1", "p", "/p", "/header", "main", "/main", "noscript", "pre",
        "/pre", "/noscript", "script", "/script", "/body", "/html",
    ]  # fmt: skip


def test_names_that_no_file_could_hold_are_written_all_the_same(tmp_path):
    net = nn.Sequential()
    for place, name in enumerate([*NASTY, "\ud800 alone"]):
        net.add_module(f"{name.replace('.', '')}{place}", nn.Linear(1, 1))
    view = live(net)
    view.history.every = 1
    with view:
        for _ in range(3):
            net(edutorch.ones(1, 1)).sum().backward()
    text = view.export(tmp_path / "run.html").read_text(encoding="utf-8")
    assert len(data_of(text)["frames"]) == 3
    svg = view.export(tmp_path / "run.svg").read_text(encoding="utf-8")
    assert {item.tag for item in ElementTree.fromstring(svg).iter()} <= {
        SVG + tag for tag in ("svg", "g", "title", "style", "rect", "path", "polygon", "polyline",
                              "ellipse", "circle", "text")
    }  # fmt: skip


def test_a_drawing_as_a_page(tmp_path):
    w = start()
    path = draw((w * w).sum()).save(tmp_path / "graph.html")
    (frame,) = data_of(path.read_text())["frames"]
    assert frame["patch"]["state"] == "still"
    assert frame["patch"]["parts"] == {}


def test_what_cannot_be_exported(tmp_path):
    with pytest.raises(FormatError, match=r"export: cannot tell the format of 'run.gif'") as caught:
        trained(1).export(tmp_path / "run.gif")
    assert "ends in .html or .svg" in str(caught.value)
    with pytest.raises(ExportError, match="frames must be at least 1, got 0"):
        trained(1).export(tmp_path / "run.html", frames=0)
    with pytest.raises(NothingRecordedError):
        live().export(tmp_path / "run.html")
    assert list(tmp_path.iterdir()) == []


def test_a_forward_without_backward_is_one_frame(tmp_path):
    w = start()
    with live() as view:
        (w * 2).sum()
    data = data_of(view.export(tmp_path / "run.html").read_text())
    assert len(data["frames"]) == 1


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "run.html"
    path.write_text("before")
    view = trained(2)
    monkeypatch.setattr("edutorch.viz.history.export.code", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        view.export(path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


# The moving picture -------------------------------------------------------------------------


def frames_of(root):
    """Return what is said in each frame: a frame has a group in the picture and one below."""
    said = {}
    for group in root.iter(f"{SVG}g"):
        types = (group.get("class") or "").split()
        if types[:1] == ["frame"]:
            said.setdefault(types[1], []).extend(item.text for item in group.iter(f"{SVG}text"))
    return said


def test_each_frame_says_its_numbers(tmp_path):
    view = trained(6)
    root = ElementTree.fromstring(view.export(tmp_path / "run.svg").read_text())
    said = frames_of(root)
    assert set(said) == {"f0", "f1", "f2", "f3", "f4", "last"}
    for name, moment in zip(said, view.history.moments, strict=True):
        assert f"step {moment.step}" in said[name]
        assert f"loss {moment.loss:.4g}" in said[name]
        weight = next(value for node, value in
                      zip(moment.graph.nodes, moment.snapshot.values, strict=True)
                      if node.label == "w")  # fmt: skip
        assert f"value {weight.text}" in said[name]


def test_another_structure_is_another_scene(tmp_path):
    view = trained(6, branch=lambda step: step in (3, 4))
    text = view.export(tmp_path / "run.svg").read_text()
    assert len(re.findall(r'class="s\d+"', text)) == 3
    assert "@keyframes scene1" in text


def test_less_motion_shows_the_last_frame(tmp_path):
    text = trained(4).export(tmp_path / "run.svg").read_text()
    outside = re.sub(
        r"@media \(prefers-reduced-motion:no-preference\)\{(?:[^{}]|\{[^}]*\})*\}", "", text
    )
    assert "animation:" not in outside
    assert ".frame{visibility:hidden}.frame.last{visibility:visible}" in outside


def test_no_more_frames_than_asked_for(tmp_path):
    view = trained(30)
    count = lambda path: len(frames_of(ElementTree.fromstring(path.read_text())))  # noqa: E731
    assert count(view.export(tmp_path / "few.svg", frames=7)) == 7
    assert count(view.export(tmp_path / "one.svg", frames=1)) == 1


def test_losses_that_are_not_finite_leave_a_gap():
    view = trained(3)
    moments = view.history.moments
    nan = type(moments[1])(2, moments[1].graph, moments[1].packed, float("nan"))
    text = animated_svg([moments[0], nan, moments[2]], view._page_state)
    assert "loss nan" in text
    assert not re.search(r'(?:d|cx|cy)="[^"]*nan', text)


def test_the_clock_shows_one_frame_at_a_time():
    clock = Clock(5)
    begins = [clock.percent(frame) for frame in range(6)]
    assert begins == sorted(begins)
    assert (begins[0], begins[-1]) == (0, 100)
    assert np.allclose(np.diff(begins[:5]), begins[1])


def test_a_picture_that_moves_by_itself_leaves_no_room_for_small_pictures():
    """They are drawn by the page, or into a picture that stands still."""
    w = edutorch.randn(8, 8, requires_grad=True)
    graph = draw((w @ edutorch.ones(8, 8)).sum()).whole.graph
    layouts = LayoutQueue()
    coloured, bare = layouts.styled_svg(graph), layouts.wait(graph)
    sizes = [
        float(ElementTree.fromstring(svg).get("viewBox").split()[3]) for svg in (coloured, bare)
    ]
    assert sizes[0] < 0.7 * sizes[1]
    assert "fill=" in coloured and "fill=" not in bare  # the page has colours of its own
    assert layouts.requests == 1
