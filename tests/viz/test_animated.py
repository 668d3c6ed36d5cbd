"""A run as a picture that moves by itself: when each frame is seen, and where its loss is."""

import math
import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from edutorch.viz.history.export import (
    HOLD,
    MARGIN,
    SECONDS,
    STRIP,
    Clock,
    Strip,
    animated_svg,
    edge_style,
)
from edutorch.viz.render.arrangement import (
    AROUND,
    BROKEN,
    DOWN,
    WINDOW,
    WRAP_COST,
    Arrangement,
    Size,
    legibility,
)
from edutorch.viz.render.style import ALARM, FLOW_COLOURS, NEUTRAL
from edutorch.viz.tensors.summaries import Stats
from tests.viz.test_export import trained

SVG = "{http://www.w3.org/2000/svg}"


def test_each_frame_is_seen_as_long_and_the_last_one_longer():
    clock = Clock(4)
    assert clock.seconds == pytest.approx(4 * SECONDS + HOLD)
    wanted = [100 * frame * SECONDS / clock.seconds for frame in range(4)]
    assert [clock.percent(frame) for frame in range(4)] == pytest.approx(wanted)
    assert clock.percent(4) == clock.percent(9) == 100
    assert [clock.frame(number) for number in range(4)] == [
        "frame f0", "frame f1", "frame f2", "frame last",
    ]  # fmt: skip
    rules = clock.base()
    delays = dict(re.findall(r"\.f(\d+)\{animation-delay:(-[\d.]+)s\}", rules))
    assert delays == {str(frame): f"{frame * SECONDS - clock.seconds:.2f}" for frame in (1, 2)}
    assert rules.startswith(".frame{visibility:hidden}.frame.last{visibility:visible}")
    assert f"0%{{visibility:visible}}{wanted[1]:.4f}%,100%{{visibility:hidden}}" in rules
    assert f"0%{{visibility:hidden}}{wanted[3]:.4f}%,100%{{visibility:visible}}" in rules
    assert "(prefers-reduced-motion:no-preference)" in rules  # else the last one stands still
    assert Clock(1).base() == "" and Clock(1).frame(0) == "frame last"


def test_what_changes_has_a_state_from_each_frame_on_and_ends_with_the_last():
    clock = Clock(4)
    assert clock.rule("a", ".a", [(0, "color:red")]) == ".a{color:red}"
    text = clock.rule("a", ".a", [(0, "x:1"), (2, "x:2")])
    assert text.startswith(".a{x:2}\n@keyframes a{0.0000%{x:1}")
    assert f"{clock.percent(2):.4f}%{{x:2}}100%{{x:2}}}}" in text
    assert f"animation:a {clock.seconds:g}s step-end infinite both" in text


def test_an_arrow_looks_as_in_a_picture_that_stands():
    flow = Stats(9, 0.5, 0.0, 1.0, 0.5)
    assert edge_style(None) == f"color:{NEUTRAL};stroke-width:1"
    assert edge_style(flow._replace(bad=True)) == f"color:{ALARM};stroke-width:4"
    assert edge_style(flow) == f"color:{FLOW_COLOURS[3]};stroke-width:2.8"


def strip_of(losses, width=420.0, top=100.0):
    root = ElementTree.Element("svg")
    moments = [SimpleNamespace(step=10 * place, loss=loss) for place, loss in enumerate(losses)]
    strip = Strip(root, moments, width, top)
    strip.draw(Clock(len(moments)))
    return root, strip


def test_the_curve_of_the_loss_runs_over_the_whole_strip():
    root, strip = strip_of([4.0, None, 2.0, 3.0, math.nan])
    axis, line = (path.get("d") for path in root.iter(f"{SVG}path"))
    left, right = MARGIN + 120, 420 - MARGIN - 6
    low, high = 100 + STRIP - 8 - 4, 100 + 14
    assert axis == f"M{left:g},{100 + STRIP - 8:g}H{right:g}"
    at = [left + (right - left) * part / 4 for part in range(5)]
    assert line == (
        f"M{at[0]:.1f},{high:.1f}M{at[2]:.1f},{low:.1f}L{at[3]:.1f},{(low + high) / 2:.1f}"
    )
    dots = [(float(dot.get("cx")), float(dot.get("cy"))) for dot in root.iter(f"{SVG}circle")]
    assert [x for x, _ in dots] == pytest.approx(at, abs=0.06)
    heights = [high, low + 4, low, (low + high) / 2, low + 4]  # without a loss: on the axis
    assert [y for _, y in dots] == pytest.approx(heights, abs=0.06)
    texts = [[text.text for text in group] for group in root.iter(f"{SVG}g")]
    assert [[word for word in words if word] for words in texts] == [
        ["step 0", "loss 4"], ["step 10"], ["step 20", "loss 2"], ["step 30", "loss 3"],
        ["step 40", "loss nan"],
    ]  # fmt: skip
    assert strip._point(0)[1] == high


def test_a_loss_that_stays_is_in_the_middle():
    root, _ = strip_of([2.0, 2.0])
    (_, line) = (path.get("d") for path in root.iter(f"{SVG}path"))
    assert len({point.split(",")[1] for point in re.findall(r"[\d.]+,[\d.]+", line)}) == 1
    alone, _ = strip_of([2.0])
    (dot,) = alone.iter(f"{SVG}circle")
    assert float(dot.get("cx")) == MARGIN + 120


def test_all_of_it_is_in_the_picture():
    view = trained(4, branch=lambda step: step == 3)
    root = ElementTree.fromstring(animated_svg(view.history.moments, view._page_state))
    left, top, width, height = map(float, root.get("viewBox").split())
    assert (left, top, root.get("width")) == (0, 0, f"{width:g}")
    assert root.find(f"{SVG}title").text == "A run from step 1 to step 4, 4 frames"
    offsets = []
    for scene in root.findall(f"{SVG}g"):
        moved = re.fullmatch(r"translate\(([\d.]+),([\d.]+)\)", scene.get("transform", ""))
        if moved:
            offsets.append(tuple(map(float, moved.groups())))
    assert len(offsets) == 3 and all(x >= MARGIN and y >= MARGIN for x, y in offsets)
    circles = [circle for circle in root.iter(f"{SVG}circle") if circle.get("r") == "4"]
    assert len(circles) == 4
    assert all(float(circle.get("cx")) + 4 <= width for circle in circles)
    lowest = max(float(text.get("y")) for text in root.iter(f"{SVG}text") if text.get("y"))
    assert max(float(circle.get("cy")) for circle in circles) < lowest < height


# How well a picture can be read -------------------------------------------------------------


@pytest.mark.parametrize(("size", "arrangement", "wanted"), [
    (Size(*WINDOW), Arrangement("LR"), 1), (Size(1, 1), Arrangement("TB"), 1),
    (Size(2 * WINDOW[0], WINDOW[1]), Arrangement("LR"), 0.5),
    (Size(WINDOW[0], 4 * WINDOW[1]), Arrangement("LR"), 0.25), (Size(0, 0), Arrangement("LR"), 1),
    (Size(1, 1), Arrangement("LR", (0, 1, 1), True), BROKEN * WRAP_COST),
    (Size(1, 1), Arrangement("LR", (0, 1, 2)), BROKEN * AROUND * WRAP_COST**2),
    (Size(2 * WINDOW[0], 1), Arrangement("TB", (0, 1), True), BROKEN * DOWN * WRAP_COST / 2),
])  # fmt: skip
def test_a_picture_is_read_best_that_fits_and_is_not_broken(size, arrangement, wanted):
    assert legibility(size, arrangement) == pytest.approx(wanted)
