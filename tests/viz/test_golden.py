"""The golden files say what Python sends today. The page's tests read the same files."""

import json
import re

import pytest

from edutorch.viz.live.messages import pack_values
from edutorch.viz.live.throttle import Gate
from tests.viz.golden import FOLDER, everything, example, patch


def stored(name):
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def as_json(content):
    return json.loads(json.dumps(content))


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


@pytest.mark.parametrize("name", ["picture.json", "nasty.json"])
def test_pictures(name):
    new, old = as_json(everything()[name]), stored(name)
    new_svg, old_svg = new.pop("svg"), old.pop("svg")
    assert new == old
    # Coordinates depend on the engine's version; what is said does not.
    assert texts(new_svg) == texts(old_svg)
    assert re.findall(r'<g id="\w+" class="\w+"', new_svg) == re.findall(
        r'<g id="\w+" class="\w+"', old_svg
    )


def test_patch():
    assert as_json(patch()) == stored("patch.json")


def test_the_buffer_has_two_numbers_per_node_one_per_edge_and_each_of_few():
    graph = example().graph
    things = len(graph.nodes) + len(graph.edges)
    assert len(pack_values(example())) == 4 * (things + len(graph.nodes) + 2 * 2) + things


def test_commands():
    for command in stored("command.json"):
        gate = Gate()
        gate.command(command)
        assert gate.answered
        assert gate.paused == (command["type"] in ("pause", "step"))


def test_each_field_of_the_protocol_is_sent():
    protocol = (FOLDER.parents[1] / "widgets" / "protocol.d.ts").read_text(encoding="utf-8")
    sent = everything()
    for name, content in (
        ("Picture", sent["picture.json"]),
        ("PictureNode", sent["picture.json"]["nodes"][0]),
        ("PictureEdge", sent["picture.json"]["edges"][0]),
        ("Patch", sent["patch.json"]["patch"]),
    ):
        body = re.search(rf"interface {name} {{(.*?)^}}", protocol, re.S | re.M).group(1)
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
        fields = set(re.findall(r"^\s*(\w+)\??:", body, re.M))
        assert fields - {"note"} == set(content)  # which only simulated cards have
