"""One visual language: the style sheet has the same colours, and all of them can be read."""

import itertools
import re

import pytest

from edutorch.viz.graph.model import GraphNode
from edutorch.viz.history.difference import (
    ADDED,
    GREW,
    REMOVED,
    SHRANK,
    STILL,
    STRONG_GREW,
    STRONG_SHRANK,
)
from edutorch.viz.render import style
from edutorch.viz.render.graphviz import folder

SHEET = (folder() / "live.css").read_text(encoding="utf-8")
READABLE, VISIBLE = 4.5, 3.0
"""Contrast: of text, and of lines."""


def variables(block):
    return {name: value.upper() for name, value in re.findall(r"--([\w-]+): (#\w{6});", block)}


def themes():
    """The colours in the light, and twice in the dark: as JupyterLab or the system has it."""
    light, *dark = re.findall(r"[^{}]*\.edutorch-live \{\n([^}]*--fill-op[^}]*)\}", SHEET)
    assert len(dark) == 2
    return [variables(light), *({**variables(light), **variables(block)} for block in dark)]


LIGHT, DARK, SYSTEM = themes()


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def test_the_page_has_the_same_colours():
    for name, paint in style.PAINTS.items():
        assert (LIGHT[f"fill-{name}"], LIGHT[f"border-{name}"]) == paint
    assert tuple(LIGHT[f"flow-{place}"] for place in range(6)) == style.FLOW_COLOURS
    for dark in (DARK, SYSTEM):
        assert tuple(dark[f"flow-{place}"] for place in range(6)) == style.FLOW_COLOURS_DARK
        assert dark["fill-op"] != LIGHT["fill-op"]
    assert LIGHT["wrong"] == style.ALARM


def test_dark_is_the_same_however_it_was_asked_for():
    names = [name for name in DARK if name.startswith(("fill", "border", "flow", "wrong"))]
    assert len(names) == 19
    assert {name: DARK[name] for name in names} == {name: SYSTEM[name] for name in names}


@pytest.mark.parametrize(
    ("theme", "ink", "page"), [(LIGHT, "#1B1F24", "#FFFFFF"), (DARK, "#ECEFF3", "#212121")],
    ids=["light", "dark"],
)  # fmt: skip
def test_text_can_be_read_and_lines_be_seen(theme, ink, page):
    for name in style.PAINTS:
        assert contrast(ink, theme[f"fill-{name}"]) >= READABLE, name
        assert contrast(theme[f"border-{name}"], theme[f"fill-{name}"]) >= 2.5, name
        assert contrast(theme[f"border-{name}"], page) >= VISIBLE, name
    for place in range(6):
        assert contrast(theme[f"flow-{place}"], page) >= VISIBLE, place


def test_files_can_be_read():
    for name, paint in style.PAINTS.items():
        assert contrast(style.INK, paint.fill) >= READABLE, name
        assert contrast(style.PALE_INK, paint.fill) >= READABLE, name
    for fill in (GREW, SHRANK, STILL, ADDED, REMOVED, STRONG_GREW, STRONG_SHRANK):
        assert contrast(style.INK, fill) >= READABLE


@pytest.mark.parametrize("colours", [style.FLOW_COLOURS, style.FLOW_COLOURS_DARK])
def test_the_map_of_gradients_rises_for_every_kind_of_colour_vision(colours):
    """Each step is farther from the page in lightness alone, which all kinds of vision see."""
    lights = [luminance(colour) for colour in colours]
    steps = [abs(b - a) / min(a, b) for a, b in itertools.pairwise(lights)]
    assert lights == sorted(lights) or lights == sorted(lights, reverse=True)
    assert min(steps) > 0.25


def reds(colour):
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return red > 120 and green < 0.45 * red and blue < 0.5 * red


def test_red_is_trouble_alone():
    assert reds(style.ALARM)
    others = [
        colour for name, paint in style.PAINTS.items() if name != "trouble" for colour in paint
    ]
    for colour in (*others, *style.FLOW_COLOURS, *style.FLOW_COLOURS_DARK, style.INK, style.ACCENT):
        assert not reds(colour)


def test_every_kind_has_a_role_and_every_role_a_word():
    assert set(style.ROLES.values()) <= set(style.PAINTS) <= set(style.WORDS)
    for node_kind in style.ROLES:
        grey = style.role_of(GraphNode("n0", node_kind, "x", differentiable=False))
        own = {"failed": "trouble", "gradient": "derivative"}
        assert grey == own.get(node_kind, "grey")
