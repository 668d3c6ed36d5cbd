"""Trouble in training loops: found after some steps, and not seen in loops that are good."""

import math
import random
import re

import pytest

import edutorch
from edutorch import nn, optim, viz
from edutorch.events import OpApplied
from edutorch.modes import current, switch
from edutorch.nn import functional as F
from edutorch.viz.diagnostics.checks import Trouble
from edutorch.viz.diagnostics.graph_leaks import OLD_GRAPHS
from edutorch.viz.diagnostics.training_loop import LoopChecks
from edutorch.viz.graph.names import Names
from edutorch.viz.live.recorder import Recorder
from edutorch.viz.live.sampler import Sampler, State
from tests.viz.golden import FOLDER


def leaf(*values):
    return edutorch.tensor(list(values), requires_grad=True)


class Page:
    """Lets every step be looked at, and keeps what it is sent."""

    def __init__(self):
        self.patches = []

    def show(self, picture, patch, numbers, curves):
        self.patches.append(patch)


def train(model=None, optimizer=None, loss=None, steps=14, clear=True, after=lambda loss: None):
    """A training loop of which every step is looked at; return what was found, by kind."""
    edutorch.manual_seed(0)
    model = model or nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = optimizer(model) if optimizer else optim.SGD(model.parameters(), lr=0.1)
    x, target = edutorch.randn(16, 3), edutorch.randint(0, 2, (16,))
    loss = loss or (lambda model, x, target: F.cross_entropy(model(x), target))
    view = viz.live(model)
    with view:
        for _ in range(steps):
            view._sampler.enter(State.FULL)
            if clear:
                optimizer.zero_grad()
            value = loss(model, x, target)
            value.backward()
            optimizer.step()
            after(value)
            look_at_the_next(view)
    return {finding.kind: finding for finding in view.trouble.findings.values()}


def look_at_the_next(view):
    """Let the next step be looked at too, however little time has gone by."""
    recorder, modes = view._recorder, current()
    view._sampler.enter(State.FULL)
    recorder.sampled_whole = True
    if view._sampler.event not in modes.listeners:
        switch(modes, listeners=(*modes.listeners, view._sampler.event))


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam])
def test_a_good_loop_is_no_trouble(kind):
    assert train(optimizer=lambda model: kind(model.parameters(), lr=0.01), steps=30) == {}


def test_good_loops_of_other_kinds_are_no_trouble():
    values = []
    assert train(after=lambda loss: values.append(loss.item())) == {}
    assert train(after=lambda loss: values.append(loss.detach())) == {}
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 2))
    model[1].eval()  # one frozen layer, on purpose
    assert train(model) == {}
    frozen = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    frozen[0].requires_grad_(False)
    assert train(frozen) == {}
    assert train(loss=lambda m, x, t: m(x).relu().sum() * 0) == {}  # a loss of 0 is reached


def test_gradients_added_up_over_batches_are_no_trouble():
    def twice(model, x, target):
        F.cross_entropy(model(x[:8]), target[:8]).backward()
        return F.cross_entropy(model(x[8:]), target[8:])

    assert train(loss=twice) == {}


def test_zero_grad_is_forgotten():
    result = train(clear=False)["no-zero-grad"]
    assert "zero_grad() before backward()" in result.do


def test_the_optimizer_has_not_all_parameters():
    result = train(optimizer=lambda model: optim.SGD(model[0].parameters(), lr=0.1), steps=30)
    assert list(result) == ["not-optimized"]
    assert result["not-optimized"].says.startswith("`2.weight`, `2.bias` get gradients, but no")


def test_two_optimizers_are_no_trouble():
    def both(model):
        return Pair(optim.SGD(model[0].parameters(), lr=0.1), optim.SGD(model[2].parameters(), 0.1))

    assert train(optimizer=both, steps=16) == {}


class Pair:
    def __init__(self, *optimizers):
        self.optimizers = optimizers

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()


def test_a_model_left_in_eval_mode():
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(), nn.Linear(8, 2)).eval()
    assert "`Dropout` behave as in a test" in train(model)["eval-mode"].says


def test_eval_mode_changes_nothing_where_no_layer_depends_on_it():
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    assert "eval-mode" not in train(model)
    batch_norm = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)).eval()
    assert "`BatchNorm1d`" in train(batch_norm)["eval-mode"].says


def test_a_loss_that_never_changes():
    result = train(optimizer=lambda model: optim.SGD(model.parameters(), lr=0.0), steps=30)
    assert list(result) == ["loss-constant"]


def test_dead_units():
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    with edutorch.no_grad():
        model[0].bias.fill_(-100)
    result = train(model)
    assert list(result) == ["zero-gradient"]
    assert result["zero-gradient"].says.startswith("`0.weight`, `0.bias`, `2.weight` had")


def test_a_cut_chain_in_a_loop():
    result = train(loss=lambda m, x, t: F.cross_entropy(m[2](m[0](x).relu().detach()), t))
    assert list(result) == ["cut"]


def test_a_teacher_that_is_not_trained_is_no_trouble():
    teacher = nn.Linear(3, 2)

    def distilled(model, x, target):
        with edutorch.no_grad():
            wanted = teacher(x)
        return F.mse_loss(model(x), wanted)

    assert train(loss=distilled) == {}


def test_steps_that_are_too_long():
    result = train(
        optimizer=lambda model: optim.SGD(model.parameters(), lr=3.0),
        loss=lambda m, x, t: (m(x) ** 2).mean(), steps=12,
    )  # fmt: skip
    assert "divide the learning rate (3) by 10" in result["exploding"].do


def test_losses_of_many_steps_at_once_are_compared_as_one_by_one():
    chance = random.Random(0)
    one, other = LoopChecks(Names((), None)), LoopChecks(Names((), None))
    for _ in range(200):
        losses = [float(chance.randrange(9)) for _ in range(chance.randrange(0, 8))]
        losses += losses[-1:] * chance.randrange(0, 30)  # now and then one that stays
        one.record_losses(losses)
        for loss in losses:
            other.record_losses([loss])
        assert (one._same, one._same_seen) == (other._same, other._same_seen)
        assert one._losses[-6:] == other._losses[-6:]


def test_losses_that_explode_to_nan_unseen_are_both_said():
    trouble = Trouble(Names((), None), Recorder(Names((), None)))
    trouble.record_idle([4.0**n for n in range(6)])
    assert trouble._findings == {}  # it can wait until somebody asks
    trouble.record_idle([5e3, math.nan, math.nan, 1.0])
    assert list(trouble._findings) == ["exploding", "nan-loss"]
    trouble.record_idle([1e308, 1e308])  # their sum is not finite, but they are
    assert list(trouble.findings) == ["exploding", "nan-loss"]


def test_losses_are_heard_when_somebody_asks_what_was_found():
    trouble = Trouble(Names((), None), Recorder(Names((), None)))
    trouble.record_idle([4.0**n for n in range(6)])
    assert list(trouble.findings) == ["exploding"]


def test_a_list_of_losses_is_noticed_and_named():
    losses = []
    frame_holds = losses
    view = viz.live()
    w = leaf(1.0, 2.0)
    with view:
        for _ in range(OLD_GRAPHS + 4):
            w.grad = None
            loss = ((w - 1) ** 2).sum()
            loss.backward()
            losses.append(loss)
            with edutorch.no_grad():
                w -= 0.1 * w.grad
            look_at_the_next(view)
    finding = view.trouble.findings["kept"]
    assert "kept alive by `losses`" in finding.says and "loss.item()" in finding.do
    assert frame_holds is losses


def test_a_history_that_grows():
    view = viz.live()
    w, total = leaf(1.0, 2.0), 0
    with view:
        for _ in range(12):
            w.grad = None
            loss = ((w - 1) ** 2).sum()
            loss.backward()
            total = total + loss
            with edutorch.no_grad():
                w -= 0.1 * w.grad
            look_at_the_next(view)
    finding = view.trouble.findings["history"]
    assert "behind add" in finding.says and "total = total + loss" in finding.line


def test_a_graph_of_the_gradient_is_pointed_out():
    view = viz.live()
    w = leaf(1.0, 2.0)
    with view:
        for _ in range(2):
            w.grad = None
            (w**3).sum().backward(create_graph=True)
            w.grad = None
            look_at_the_next(view)
    assert "create_graph=True" in view.trouble.findings["double"].says


def test_a_nan_in_a_loop_is_sent_to_the_page_with_its_node():
    w = leaf(3.0, 2.0)
    view = viz.live()
    page = view._page_state.page = Page()
    with view:
        for _ in range(6):
            w.grad = None
            loss = (w - 2).log().sum()
            loss.backward()
            with edutorch.no_grad():
                w -= 0.5
            look_at_the_next(view)
    sent = page.patches[-1]["parts"]["trouble"]
    protocol = (FOLDER.parents[1] / "widgets" / "protocol.d.ts").read_text(encoding="utf-8")
    body = re.search(r"interface TroubleFinding {(.*?)}", protocol, re.S)[1]
    first = sent["findings"][0]
    assert set(re.findall(r"^\s*(\w+):", body, re.M)) == set(first)
    assert first["kind"] == "nan" and sent["more"] == 0
    graph = view.drawing().snapshot.graph
    assert {node.id: node.label for node in graph.nodes}[first["node"]] == "log"


@pytest.mark.parametrize("seen_again", [False, True])
def test_a_nan_of_a_step_that_is_not_looked_at_has_a_node_in_the_picture(seen_again, monkeypatch):
    choose, sampled = Sampler.choose, []

    def choose_by_number(self, look, full, *rest, **options):
        step = self.recorder.step
        full = step < 3 or (seen_again and step > 7)
        return choose(self, full, full, *rest, **options)

    monkeypatch.setattr(Sampler, "choose", choose_by_number)
    w = leaf(3.0, 2.5)
    view = viz.live()
    view._page_state.page = Page()
    with view:
        for step in range(12):
            w.grad = None
            loss = (w - (4 if step > 5 else 2)).log().sum()
            loss.backward()
            sampled.append(view._recorder.sampled)
            if step == 7 and seen_again:  # as if the picture had had no such op
                view.trouble._positions.clear()
    assert (True in sampled[8:]) == seen_again and True not in sampled[5:8]
    first = view.trouble.patch()["findings"][0]
    graph = view.drawing().snapshot.graph
    assert "made by log" in first["says"] and first["step"] in (6, 7)
    assert {node.id: node.label for node in graph.nodes}[first["node"]] == "log"


def test_a_mistake_in_here_never_breaks_a_loop(monkeypatch):
    view = viz.live()
    monkeypatch.setitem(view.trouble._handlers, (OpApplied, ""), [lambda event: 1 / 0])
    w = leaf(1.0)
    with pytest.warns(UserWarning, match="nothing more is said about trouble"), view:
        (w * 2).sum().backward()
    assert w.grad is not None
