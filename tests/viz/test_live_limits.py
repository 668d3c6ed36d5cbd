"""What a page is sent has limits: so many bytes per node, and panels only now and then."""

from __future__ import annotations

import itertools
import json
import time

import pytest

import edutorch
from benchmarks.live import deep
from edutorch.events import listening
from edutorch.viz import live
from edutorch.viz.graph.fold import Choice
from edutorch.viz.graph.names import Names
from edutorch.viz.live import page as page_module
from edutorch.viz.live.messages import patch_of
from edutorch.viz.live.page import PageState
from edutorch.viz.live.recorder import Recorder
from tests.viz.test_fold import until

PER_NODE, PER_UPDATE = 16, 1000
"""Bytes."""

SELDOM = {"gauges": 0.25}
"""Panels that are told at most so often, in seconds."""


class Scales:
    """A page that is done at once, and weighs what it is sent."""

    def __init__(self):
        self.nodes = 0
        self.updates, self.times, self.kinds, self.extra = [], [], [], []
        self.numbers = []

    def show(self, picture, patch, values, curves):
        self.nodes = len(picture["nodes"]) if picture else self.nodes
        parts = {name: data for name, data in patch["parts"].items() if name not in SELDOM}
        told = json.dumps({**patch, "parts": parts}, separators=(",", ":"))
        self.times.append(time.monotonic())
        self.numbers.append(len(values))
        # The small pictures in the boxes come with a new one, and with a step looked at in full.
        if picture is None and self.nodes and "thumbs" not in patch:
            self.updates.append(len(values) + len(told))
        self.kinds.append(set(patch["parts"]) | ({"curves"} if curves else set()))
        self.extra.append(len(json.dumps([curves, patch["parts"]])))


SIZES = [(8, 8), (2, 2), ()]


@pytest.mark.parametrize(
    ("nodes", "size"),
    [
        *((nodes, size) for nodes in (100, 500) for size in SIZES),
        (2000, (8, 8)),
        *(pytest.param(2000, size, marks=pytest.mark.slow) for size in SIZES[1:]),
    ],
)
def test_an_update_has_at_most_16_bytes_per_node_and_1_kb(nodes, size, monkeypatch):
    # Where the boxes lie does not matter here, and 2,000 of them take a second.
    monkeypatch.setattr(page_module, "render", lambda dot, **options: b"<svg/>")
    step = deep(nodes, size)
    view = live()
    view._page_state.choice = Choice().open_all()
    page = view._page_state.page = Scales()
    with view:
        view._sampler.throttle.share = 1.0
        until(lambda: step() or (page.nodes and len(page.updates) >= 6))
    assert page.nodes >= 0.9 * nodes
    updates = page.updates[:-1]  # the last one says that it is over: then, everything is listed
    assert max(updates) <= PER_NODE * page.nodes + PER_UPDATE
    assert max(updates) > 8 * page.nodes  # each has been told of


def test_a_small_graph_lists_the_numbers_of_its_vectors_and_a_paused_one_always_does():
    def few(nodes, state):
        """Return how much longer a message is than it would be with means alone."""
        page_state, page = PageState(choice=Choice().open_all()), Scales()
        page_state.page = page
        steps = deep(nodes, (2, 2))
        recorder = Recorder(Names())
        with listening(recorder):
            steps()
        page_state.show(recorder.snapshot, patch_of(1, state, {}), patience=30)
        return page.numbers[-1] - 9 * page.nodes - 5 * (page.nodes - 1)

    assert few(20, "running") > 20 * 20
    assert few(300, "running") == 0
    assert few(300, "paused") > 300 * 20


def test_panels_and_curves_are_told_seldom():
    page = fast_loop(seconds=1.6)
    for name, every in (*SELDOM.items(), ("curves", 1.0)):
        times = [
            at for at, types in zip(page.times[:-1], page.kinds, strict=False) if name in types
        ]
        assert times, name
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert all(gap >= 0.8 * every for gap in gaps), (name, gaps)
    assert max(page.extra) < 8000


def fast_loop(seconds):
    """Run a small loop with a page that takes nothing of its time."""
    model = edutorch.nn.Linear(2, 1)
    optimizer = edutorch.optim.SGD(model.parameters(), lr=1e-3)
    view = live(model)
    page = view._page_state.page = Scales()
    end = time.monotonic() + seconds
    with view:
        view._sampler.throttle.share = 1.0  # what it costs is not what limits it
        while time.monotonic() < end:
            optimizer.zero_grad()
            model(edutorch.ones(3, 2)).square().mean().backward()
            optimizer.step()
    return page
