"""What the page says is what the tensors hold: each node and edge of random graphs, read back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import edutorch
from edutorch.viz.explore.touch import Explorer
from edutorch.viz.graph.fold import Choice
from edutorch.viz.graph.graph_reader import input_names
from edutorch.viz.render.dot import FAINT
from edutorch.viz.render.style import size_class
from edutorch.viz.tensors.summaries import TINY
from tests.browser.bench import Bench
from tests.viz.test_values import (
    GRAPHS,
    grad_by_hand,
    gradient_of_edge,
    watched,
)

pytestmark = pytest.mark.browser

READ = """() => ({
  nodes: [...document.querySelectorAll("g.node")].map((group) => ({
    value: group.querySelector(".value").textContent,
    gradient: group.querySelector(".gradient")?.textContent ?? null,
  })),
  edges: [...document.querySelectorAll("g.edge")].map((group) => ({
    text: group.querySelector("text")?.textContent ?? null,
    size: group.dataset.size ?? null,
  })),
})"""
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf|nan)")


class Looking(Bench):
    """A page whose nodes and edges can be asked for what they say, by their ids."""

    svg = ""

    def show(self, picture: Any, patch: Any, numbers: bytes, curves: Any = None) -> None:
        if picture is not None:
            self.svg = picture["svg"]
        super().show(picture, patch, numbers, curves)

    def read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        texts = self.tab.evaluate(READ)
        nodes = re.findall(r'<g id="(n\d+)" class="node"', self.svg)
        edges = re.findall(r'<g id="(e\d+)" class="edge"', self.svg)
        return (
            dict(zip(nodes, texts["nodes"], strict=True)),
            dict(zip(edges, texts["edges"], strict=True)),
        )


def half_a_digit(text: str) -> float:
    """Return half of the last digit that is written: what rounding may hide.

    >>> half_a_digit("+0.0012"), half_a_digit("-1.5e-07")
    (5e-05, 5e-09)
    """
    mantissa, _, exponent = text.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return float(f"0.5e{int(exponent or 0) - decimals}")


def says(text: str, wanted: Any) -> None:
    """Check that these are the numbers that are written, as far as they are written."""
    words = NUMBER.findall(text.partition(" ")[2] if " " in text else text)
    expected = np.asarray(wanted, "f8").reshape(-1)
    assert len(words) == len(expected), (text, wanted)
    for word, number in zip(words, expected, strict=True):
        room = half_a_digit(word) * 1.001 + 2e-5 * abs(number)
        if "e" not in word and "." not in word:
            room = max(room, 0.5)
        assert abs(float(word) - number) <= room, (text, wanted)


def check_node(told: dict[str, Any], value: Any, gradient: Any) -> None:
    """A few numbers are written whole; of many the mean, and the norm of the gradient."""
    if value.size <= TINY:
        assert told["value"].startswith("value ")
        says(told["value"], value)
    else:
        assert told["value"].startswith("mean ")
        says(told["value"], value.mean(dtype="f8"))
    if gradient is None or told["gradient"] is None:
        return
    few = value.size <= TINY
    says(told["gradient"], gradient if few else np.sqrt(np.square(gradient, dtype="f8").sum()))


def check_edge(told: dict[str, Any], gradient: Any) -> None:
    """An edge says the norm of what `autograd.grad` gives for it; only a scalar has a sign.

    Its colour says the same.
    """
    norm, mean = np.sqrt(np.square(gradient, dtype="f8").sum()), gradient.mean(dtype="f8")
    assert told["size"] in {str(size_class(norm * (1 - 1e-5))), str(size_class(norm * (1 + 1e-5)))}
    says(told["text"].lstrip("+-"), norm)
    if gradient.size > 1:
        assert told["text"][0] not in "+-"
    elif abs(mean) > 2 * FAINT:
        assert told["text"][0] == ("-" if mean < 0 else "+")


def test_each_number_in_the_page_is_that_of_the_tensor(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size({"width": 6000, "height": 3000})  # only what is on screen is written
    bench = Looking(page)
    page.add_style_tag(content=".edutorch-viewport .scroller { max-height: none }")
    checked = {"nodes": 0, "edges": 0}
    for seed in range(GRAPHS):
        snapshot, applied, _, total = watched(seed)
        bench.open(Explorer(snapshot, "LR", Choice(everything=True)))
        nodes, edges = bench.read()
        graph = snapshot.graph
        assert nodes.keys() == {node.id for node in graph.nodes}
        assert edges.keys() == {edge.id for edge in graph.edges}
        ops = [node.id for node in graph.nodes
               if node.kind in ("op", "output") and node.differentiable]  # fmt: skip
        made = dict(zip(ops, applied, strict=True))
        gradients = dict(
            zip(ops, grad_by_hand(total, [event.output for event in applied]), strict=True)
        )
        grey = {node.id for node in graph.nodes if not node.differentiable}
        for box, event in made.items():
            gradient = gradients[box]
            assert nodes[box]["gradient"] is not None
            check_node(nodes[box], event.output.detach().numpy(),
                       None if gradient is None else gradient.numpy())  # fmt: skip
            checked["nodes"] += 1
        for edge in graph.edges:
            if edge.target in grey:  # computed without a gradient
                assert edges[edge.id]["size"] in (None, "none")
                continue
            if edge.target not in made:  # a result that became a leaf, or a refilled one
                assert edges[edge.id]["size"] in (None, "none")
                continue
            event = made[edge.target]
            place = input_names(event.node).index(edge.input)
            source = event.inputs[place]
            if not isinstance(source, edutorch.Tensor):
                assert edges[edge.id]["size"] == "none"  # a number of the program
                assert float(nodes[edge.source]["value"]) == pytest.approx(source, rel=1e-3)
                continue
            if edge.source not in made:
                leaf = source.grad if source.requires_grad else None
                check_node(nodes[edge.source], source.detach().numpy(),
                           None if leaf is None else leaf.numpy())  # fmt: skip
                checked["nodes"] += 1
            if not source.requires_grad or gradients[edge.target] is None:
                assert edges[edge.id]["size"] == "none"
                continue
            check_edge(edges[edge.id], gradient_of_edge(event, place, gradients[edge.target]))
            checked["edges"] += 1
    assert checked["nodes"] > 8 * GRAPHS and checked["edges"] > 8 * GRAPHS, checked
    page.set_viewport_size({"width": 1280, "height": 900})
    assert bench.errors == []
