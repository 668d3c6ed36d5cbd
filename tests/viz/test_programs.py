"""The programs of `tests/programs/`, watched: the picture holds all that happened, and fits a page.

Each is compared with two witnesses: a walk over the graphs behind its losses, and a plain listener
(`plain_listener.py`).
"""

from __future__ import annotations

import importlib
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest

from edutorch import viz
from edutorch.viz.graph.model import GraphNode, Snapshot
from tests.viz.plain_listener import Box, PlainListener, name_of_label

FOLDER = Path(__file__).parent.parent / "programs"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")

pytestmark = pytest.mark.programs

LEAVES = ("leaf", "parameter", "buffer")
MOST_BOXES, FEW_BOXES, WIDEST = 40, 12, 4.0
PAGE, LEAST_TEXT, MOST_BYTES = 1200.0, 9.0, 150_000

ROUNDS = {"cyclegan", "dcgan", "gradient_accumulation", "lbfgs", "wgan_gp"}
"""Several backward passes make a step. That they are one round is known when it comes again."""

each_program = pytest.mark.parametrize("program", PROGRAMS)


class Run(NamedTuple):
    """A program that was watched: the view, the witness, and the name of each parameter."""

    view: viz.View
    listener: PlainListener
    names: dict[int, str]


@cache
def run(program: str, steps: int = 0) -> Run:
    """Run a program while it is watched, and while a plain listener hears the same."""
    steps = steps or (3 if program in ROUNDS else 1)
    main = importlib.import_module(f"tests.programs.{program}").main
    seen: list[Run] = []

    @contextmanager
    def watch(*models: Any) -> Iterator[viz.View]:
        frame = sys._getframe(2)  # of the program, whose variables name the models
        view = viz.View(models, frame, None, False, None)
        view.history.every = 1  # each step is looked at in full
        listener = PlainListener(lambda: view.step)
        seen.append(Run(view, listener, parameter_names(models, frame.f_locals)))
        with view, listener:
            yield view

    main(steps, watch)
    (watched,) = seen
    return watched


def parameter_names(models: tuple[Any, ...], variables: dict[str, Any]) -> dict[int, str]:
    """Return the name of each parameter, as `named_parameters` says; by hand, its variable."""
    names: dict[int, str] = {}
    for model in models:
        called = next(name for name, value in variables.items() if value is model)
        inside = called if len(models) > 1 else ""
        known: dict[int, list[str]] = {}  # a tied one has several
        for path, module in model.named_modules(prefix=inside):
            for name, tensor in module.named_parameters(path, recurse=False):
                known.setdefault(id(tensor), []).append(name)
        names |= {key: " = ".join(paths) for key, paths in known.items()}
    if not models:
        wanted = (item for item in variables.items() if getattr(item[1], "requires_grad", False))
        names = {id(tensor): name for name, tensor in wanted}
    return names


def test_there_are_sixty_programs_with_a_source():
    assert len(PROGRAMS) >= 60
    for program in PROGRAMS:
        assert importlib.import_module(f"tests.programs.{program}").__doc__, program


# What is drawn ------------------------------------------------------------------------------


def box_of(node: GraphNode) -> Box:
    return "leaf" if node.kind in LEAVES else name_of_label(node.label), node.shape


def makers(snapshot: Snapshot) -> dict[str, GraphNode]:
    """Return the node that made what each node shows: a leaf that was refilled shows a result."""
    nodes = {node.id: node for node in snapshot.graph.nodes}
    result = dict(nodes)
    for edge in snapshot.graph.edges:  # in the order of computation
        if nodes[edge.target].kind in LEAVES:
            result[edge.target] = result[edge.source]
    return result


def everything(snapshot: Snapshot) -> tuple[Counter[Box], Counter[tuple[Box, Box]]]:
    """Return all ops that are drawn, and all arrows to them but those from numbers."""
    made = makers(snapshot)
    boxes = Counter(box_of(node) for node in snapshot.graph.nodes if is_op(node))
    arrows = Counter(
        (box_of(made[edge.source]), box_of(made[edge.target]))
        for edge in snapshot.graph.edges
        if is_op(made[edge.target]) and made[edge.source].kind != "constant"
        and made[edge.target].id == edge.target
    )  # fmt: skip
    return boxes, arrows


def with_gradient(snapshot: Snapshot, behind_losses: bool) -> tuple[Counter, Counter]:
    """Return the same for what has a gradient, or only for what the losses were computed from."""
    nodes = {node.id: node for node in snapshot.graph.nodes}
    into: dict[str, list[str]] = {}
    for edge in snapshot.graph.edges:
        if nodes[edge.source].differentiable and nodes[edge.target].differentiable:
            into.setdefault(edge.target, []).append(edge.source)
    stack = [
        node.id for node in nodes.values()
        if node.kind == "output" or (not behind_losses and node.differentiable)
    ]  # fmt: skip
    seen: set[str] = set()
    boxes, arrows = Counter(), Counter()
    while stack:
        target = stack.pop()
        if target in seen or not is_op(nodes[target]):
            continue
        seen.add(target)
        boxes[box_of(nodes[target])] += 1
        for source in into.get(target, ()):
            arrows[box_of(nodes[source]), box_of(nodes[target])] += 1
            stack.append(source)
    return boxes, arrows


def is_op(node: GraphNode) -> bool:
    return node.kind in ("op", "output")


def differences(drawn: Counter, expected: Counter) -> tuple[dict, dict]:
    """Return what is missing in the drawing, and what is drawn too much."""
    return dict(expected - drawn), dict(drawn - expected)


@each_program
def test_the_graph_behind_the_losses_is_drawn(program):
    listener = run(program).listener
    whole = run(program).view.drawing().whole
    for drawn, walked in zip(
        with_gradient(whole, behind_losses=False), (listener.walked, listener.arrows), strict=True
    ):
        assert dict(walked - drawn) == {}, "missing in the picture"
    for drawn, walked in zip(
        with_gradient(whole, behind_losses=True), (listener.walked, listener.arrows), strict=True
    ):
        assert dict(drawn - walked) == {}, "only in the picture"


@each_program
def test_all_that_happened_is_drawn(program):
    expected, between, _ = run(program).listener.step()
    boxes, arrows = everything(run(program).view.drawing().whole)
    assert differences(boxes, expected) == ({}, {})
    assert differences(arrows, between) == ({}, {})


@each_program
def test_values_are_those_of_the_tensors(program):
    snapshot = run(program).view.drawing().whole
    drawn: dict[Box, list[float]] = {}
    for node, value in zip(snapshot.graph.nodes, snapshot.values, strict=True):
        if is_op(node):
            assert value is not None, node
            drawn.setdefault(box_of(node), []).append(value.norm)
    _, _, expected = run(program).listener.step()
    for box, norms in expected.items():
        np.testing.assert_allclose(sorted(drawn[box]), sorted(norms), rtol=1e-4, err_msg=str(box))


@each_program
def test_parameters_have_their_names_values_and_gradients(program):
    _, listener, names = run(program)
    snapshot = run(program).view.drawing().whole
    drawn: dict[str, list[tuple[Any, Any]]] = {}
    for node, value, grad in zip(
        snapshot.graph.nodes, snapshot.values, snapshot.grads, strict=True
    ):
        if node.kind in ("leaf", "parameter"):
            name = f"{node.module}.{node.label}".strip(".")  # one box for each version
            drawn.setdefault(name, []).append((value, grad))
    used = {names[key]: key for key in listener.norms if key in names}
    assert set(used) - set(drawn) == set()
    parameters = {
        f"{node.module}.{node.label}".strip(".")
        for node in snapshot.graph.nodes if node.kind == "parameter"
    }  # fmt: skip
    assert parameters - set(used) == set()
    for name, key in used.items():
        values = [value.norm for value, _ in drawn[name]]
        assert np.isclose(values, listener.norms[key], rtol=1e-4).any(), name
        if key in listener.gradients:
            grads = [grad.norm for _, grad in drawn[name] if grad is not None]
            assert np.isclose(grads, listener.gradients[key], rtol=1e-4, atol=1e-7).any(), name


@each_program
def test_a_step_is_one_round_of_the_loop_and_nothing_is_wrong(program):
    view = run(program, 4).view
    assert view.step == 4
    assert view.trouble.text() == ""


@each_program
def test_the_curve_of_each_loss_has_every_step(program):
    assert steps_of_curves(run(program, 4).view) == [1, 2, 3, 4]


@pytest.mark.parametrize("program", ["char_rnn", "dcgan", "lbfgs", "seq2seq_attention", "vit"])
def test_the_curves_of_a_loop_that_is_glanced_at_have_every_step(program):
    """Without `history.every` most steps are not looked at in full."""
    views: list[viz.View] = []

    def watch(*models: Any) -> viz.View:
        views.append(viz.View(models, sys._getframe(1), None, True, None))
        return views[-1]

    importlib.import_module(f"tests.programs.{program}").main(6, watch)
    assert steps_of_curves(views[0]) == [1, 2, 3, 4, 5, 6]


def steps_of_curves(view: viz.View) -> list[int]:
    """Return the steps of the curves of the losses, which have to be the same."""
    losses = {name: curve for name, curve in view._curves.items() if name != "learning rate"}
    (steps,) = {tuple(step for step, _ in curve.points()) for curve in losses.values()}
    return list(steps)


# The page -----------------------------------------------------------------------------------


@each_program
def test_the_picture_fits_on_a_page(program):
    start = time.perf_counter()
    drawing = run(program).view.drawing()
    svg = drawing.svg
    boxes = sum(node.kind != "constant" for node in drawing.snapshot.graph.nodes)
    _, _, width, height = map(float, ElementTree.fromstring(svg).get("viewBox", "").split())
    shown = min(1.0, PAGE / (width * 4 / 3)) * 4 / 3  # a point is 4/3 of a pixel
    text = min(map(float, re.findall(r'font-size="([\d.]+)"', svg))) * shown
    print(f"{boxes} boxes, {width:.0f} × {height:.0f}, text {text:.1f} px, {len(svg)} bytes, "
          f"{time.perf_counter() - start:.2f} s")  # fmt: skip
    assert boxes <= MOST_BOXES
    assert boxes <= FEW_BOXES or 1 / WIDEST <= width / height <= WIDEST
    assert text >= LEAST_TEXT
    assert len(svg.encode()) <= MOST_BYTES


@each_program
def test_no_node_is_lost_by_folding(program):
    drawing = run(program).view.drawing()
    graph = drawing.whole.graph
    shown = drawing.snapshot.graph.nodes
    inside = sum(node.inside or 1 for node in shown if node.kind != "constant")
    assert inside >= sum(node.kind != "constant" for node in graph.nodes) - numbers_inside(drawing)
    opened = viz.Drawing(drawing.whole, None, drawing.choice.open_all()).snapshot.graph
    assert Counter(map(box_of, opened.nodes)) == Counter(map(box_of, graph.nodes))


def numbers_inside(drawing: viz.Drawing) -> int:
    """Return how many numbers are hidden in closed groups."""
    count = Counter(node.kind == "constant" for node in drawing.whole.graph.nodes)[True]
    return count - Counter(node.kind == "constant" for node in drawing.snapshot.graph.nodes)[True]
