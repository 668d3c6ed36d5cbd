"""A fast sample gives the numbers that a full sample would have given, or nothing."""

import gc
import time

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.modes import DEFAULT, current
from edutorch.nn import functional as F
from edutorch.viz import live
from edutorch.viz.graph.fold import Choice
from edutorch.viz.live import sampler as sampler_module
from edutorch.viz.live.messages import Message, pack, pack_values, row_statistics, texts_of
from edutorch.viz.live.sampler import STABLE_AFTER
from edutorch.viz.tensors.summaries import summarize


class Page:
    """A page that keeps the pictures it is sent."""

    def __init__(self):
        self.pictures = []

    def show(self, picture, patch, numbers, curves):
        if picture:
            self.pictures.append(picture)


def mlp():
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
    x, y = torch.randn(4, 5), torch.tensor([0, 1, 2, 1])
    return model, lambda: F.cross_entropy(model(x), y)


def cnn():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(32, 1))
    model.eval()
    x = torch.randn(2, 1, 6, 6)
    return model, lambda: model(x).square().mean() * 0.5


def attention():
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    x = torch.randn(2, 3, 8)
    return model, lambda: model(x).square().sum()


def words():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5))
    x = torch.tensor([[1, 2], [0, 4]])
    return model, lambda: F.cross_entropy(model(x).flatten(0, 1), x.flatten())


def scalars():
    model = nn.ParameterList([torch.tensor(2.0), torch.tensor(-3.0)])
    a, b = model
    return model, lambda: ((a * 3 + b) * a).tanh() + (a / b) ** 2 + abs(b) + 1 / a - (1 - b)


def several():
    """Broadcasting, results with two parts, a list of operands, float64, a large array."""
    model = nn.ParameterList([torch.randn(3, 1), torch.randn(4).double(), torch.randn(60, 50)])
    a, b, c = model

    def loss():
        highest = (a + b.float()).max(1)
        joined = torch.cat([highest.values, b.float(), c.flatten()])
        return (joined * joined).sum() + c.std() + b.prod().float()

    return model, loss


def two_backwards():
    model = nn.Linear(3, 2)
    x = torch.randn(5, 3)

    def loss():
        model(x).pow(2).mean().backward()
        return model(x).abs().mean()

    return model, loss


def slopes():
    """A gradient inside the loss."""
    model = nn.Linear(2, 1)
    x = torch.randn(4, 2, requires_grad=True)

    def loss():
        x.grad = None  # no optimizer looks after it
        y = model(x).tanh().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return (g.norm(dim=1) - 1).square().mean() + y * 0

    return model, loss


def over_time():
    """A weight that is used in each of several steps: its gradient is computed at the end."""
    model = nn.Linear(80, 80)
    x = torch.randn(64, 80)
    return model, lambda: model(model(model(x).tanh()).tanh()).square().mean()


def written():
    """Writes in place, through a view and by an index; and ops that have no gradient."""
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))
    pixels = torch.arange(10.0).reshape(2, 5)

    def loss():
        h = model(pixels / 255 - 0.5)
        h[0].mul_(2)
        h[:, 1] = 3.0
        h += 1
        target = h.detach().abs()
        return (h * target).sum()

    return model, loss


def adversarial():
    """A generator and a critic, whose weights are written between two uses of them."""
    model = nn.ModuleList([nn.Linear(3, 4), nn.Linear(4, 1)])
    generator, critic = model
    noise = torch.randn(6, 3)

    def loss():
        fake = generator(noise)
        critic(fake.detach()).mean().backward()
        with torch.no_grad():
            for weight in critic.parameters():
                weight.mul_(1.0)
        return -critic(fake).mean()

    return model, loss


LOOPS = [
    written, adversarial, over_time, mlp, cnn, attention, words, scalars, several,
    two_backwards, slopes,
]  # fmt: skip


class Loop:
    """A training loop that changes nothing, so that all its steps have the same numbers."""

    def __init__(self, make):
        torch.manual_seed(0)
        self.model, self.loss = make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0)

    def step(self):
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()


def stable_view(loop, choice=None):
    """Return a view inside its block, after full samples at the same structure."""
    view = live(loop.model)
    view._page_state.page = Page()
    view._page_state.choice = choice or Choice(limit=5000, everything=True)
    view.__enter__()
    view._sampler.throttle.share = 1.0
    for _ in range(STABLE_AFTER + 2):
        loop.step()
    deadline = time.monotonic() + 60
    while not view._page_state.page.pictures:  # the layout is made beside the loop
        assert time.monotonic() < deadline
        view._sampler.throttle._next = 0.0
        loop.step()
    return view


def sample_fast(view, loop):
    """Take a fast sample of the next step, and return its numbers (None: it was another one)."""
    let_alone(view, loop)
    return changed(view, loop)


def let_alone(view, loop):
    """Take the step that is chosen already; the view chooses none after it by itself."""
    view._sampler._full_due = time.perf_counter() + 1000
    view._sampler.throttle._early, view._sampler.throttle._next = 0.0, float("inf")
    loop.step()
    view._sampler.gauges._due = 0.0


def changed(view, loop):
    """Take a fast sample of the step that comes now, which may be another one than those before."""
    recorder = view._recorder
    view._sampler._full_due = time.perf_counter() + 1000
    view._sampler.throttle._next = float("inf")
    view._sampler.throttle._early = recorder.idle.until = 0.0
    view._sampler.choose(True, False)
    view._sampler.follow()
    assert recorder.light is not None
    loop.step()
    return recorder.step_values


@pytest.mark.parametrize("make", LOOPS)
def test_the_same_numbers(make):
    loop = Loop(make)
    view = stable_view(loop)
    looked = view._recorder.snapshot
    graph = view._recorder.trace.snapshot.graph
    assert graph == looked.graph
    for _ in range(3):  # the first finds out in which order backward runs
        result = sample_fast(view, loop)
        assert result is not None
    view.__exit__(None, None, None)
    wanted, result = pack(looked), result.packed
    assert (result.broken, wanted.broken) == (False, False)
    assert np.array_equal(result.marks, wanted.marks)
    assert result.texts == wanted.texts
    np.testing.assert_allclose(result.statistics, wanted.statistics, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(result.few, wanted.few, rtol=1e-6, atol=1e-7)
    plan = view._page_state.plan(graph)
    wire = Message(plan, graph)
    seen = plan.pick(looked)
    assert wire.texts(result) == texts_of(seen)
    ours, theirs = wire.values(result), pack_values(seen)
    assert len(ours) == len(theirs)
    count = 4 * (len(ours) - len(seen.graph.nodes) - len(seen.graph.edges)) // 4
    np.testing.assert_allclose(
        np.frombuffer(ours[:count], "f4"), np.frombuffer(theirs[:count], "f4"), 2e-5, 1e-6
    )
    assert ours[count:] == theirs[count:]  # the signs


class Twice(nn.Module):
    """Uses its input twice: folded, it is reached by one arrow that stands for two."""

    def forward(self, x):
        return x.sin() * x.cos()


def twice():
    model = nn.Sequential(nn.Linear(3, 3), Twice(), nn.Linear(3, 1))
    x = torch.randn(2, 3)
    return model, lambda: model(x).sum()


@pytest.mark.parametrize("make", [attention, words, twice])
def test_only_what_is_open_is_taken(make):
    loop = Loop(make)
    view = stable_view(loop, Choice(limit=6))
    graph = view._recorder.trace.snapshot.graph
    plan = view._page_state.plan(graph)
    assert len(plan.nodes) < len(graph.nodes)
    result = sample_fast(view, loop)
    view.__exit__(None, None, None)
    assert result is not None
    known = np.flatnonzero(result.packed.marks[: len(graph.nodes)] >= 0)
    aside = {key for item in view._recorder.trace.unrecorded for key in (item.key, *item.operands)}
    order = view._recorder.trace.snapshot.order
    assert {place for place in known.tolist() if order[place] not in aside} <= set(plan.nodes)
    whole, _ = view._sampler.whole
    wire = Message(plan, graph)
    assert wire.values(pack(whole)) == pack_values(plan.pick(whole))
    assert len(wire.values(result)) == len(wire.values(pack(whole)))
    assert min(plan.edges) < 0 or make is not twice


def test_ops_that_are_glanced_at_take_their_fast_path():
    loop = Loop(mlp)
    view = stable_view(loop)
    seen = []
    inner = loop.loss

    def loss():
        seen.append(current())
        return inner()

    loop.loss = loss
    assert sample_fast(view, loop) is not None
    assert seen[-1].listeners == ()
    assert seen[-1].op_recorder is not None
    view.__exit__(None, None, None)
    assert current() is DEFAULT


def test_what_was_bad_at_a_glance_is_looked_at():
    loop = Loop(mlp)
    view = stable_view(loop)
    with torch.no_grad():
        loop.model[0].weight[0, 0] = float("nan")
    view._sampler._full_due = time.perf_counter() + 1000
    seen = []
    for _ in range(9):
        view._sampler.throttle._next = view._recorder.idle.until = 0.0
        loop.step()
        seen.append("full" if view._recorder.sampled else view._recorder.step_values is not None)
    view.__exit__(None, None, None)
    assert seen.count("full") == 1  # once is enough
    assert True in seen[: seen.index("full")]
    assert True in seen[seen.index("full") :]
    assert "NaN" in view.trouble.text()


def test_the_garbage_collector_is_held_only_while_a_step_is_looked_at(monkeypatch):
    monkeypatch.setattr(sampler_module, "FIRST_STEPS", 0)  # else the first ones are sampled fast
    loop = Loop(mlp)
    inner, seen = loop.loss, []

    def loss():
        seen.append((current().listeners != (), gc.isenabled()))
        return inner()

    loop.loss = loss
    view = live(loop.model)

    def run():
        with view:
            for _ in range(3):
                loop.step()
            view._sampler.throttle._early, view._sampler.throttle._next = 0.0, float("inf")
            for _ in range(3):
                loop.step()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert gc.isenabled()
    assert (True, False) in seen
    assert seen[-1] == (False, True)


def test_it_is_held_for_a_full_look_right_after_a_glance_too():
    loop = Loop(mlp)
    view = stable_view(loop)
    assert sample_fast(view, loop) is not None
    inner, seen = loop.loss, []

    def loss():
        seen.append((view._recorder.sampling and current().listeners != (), gc.isenabled()))
        return inner()

    loop.loss = loss
    for _ in range(9):
        view._sampler.throttle._next = view._sampler._full_due = view._recorder.idle.until = 0.0
        loop.step()
    view.__exit__(None, None, None)
    assert gc.isenabled()
    looked_at = [garbage for full, garbage in seen if full]
    assert looked_at
    assert not any(looked_at)


def test_gauges_hear_of_a_glance():
    loop = Loop(mlp)
    view = stable_view(loop)
    let_alone(view, loop)
    gauges = view._sampler.gauges
    samples, alive = (
        gauges._samples,
        {key: activation.samples for key, activation in gauges.activations.items()},
    )
    assert changed(view, loop) is not None
    view.__exit__(None, None, None)
    assert gauges._samples == samples + 1
    assert alive
    assert all(gauges.activations[key].samples == count + 1 for key, count in alive.items())


def test_history_keeps_glances():
    loop = Loop(mlp)
    view = stable_view(loop)
    assert sample_fast(view, loop) is not None
    view.__exit__(None, None, None)
    assert view.history.steps[-1] == view.step
    one, other = view.history.moment(-1).snapshot, view._recorder.snapshot
    assert one.graph == other.graph
    assert one.values[0].mean == pytest.approx(other.values[0].mean)


def test_steps_that_rest_are_counted_with_their_losses():
    w = torch.tensor(1.0, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.01)
    losses = []
    with live() as view:
        for _ in range(3000):
            optimizer.zero_grad()
            loss = (w - 3) ** 2
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            assert view.loss == losses[-1]
            assert view.step == len(losses)
    points = view._curves["loss"].points()
    assert points[-1][0] == 3000
    assert points[0][1] == pytest.approx(np.mean(losses[: 3000 // len(points) + 1]), rel=0.2)
    total = sum(point[2] for point in view._curves["loss"]._points)
    assert total == 3000


def test_a_loss_that_goes_bad_while_resting_is_said():
    w = torch.tensor(1.0, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.0)
    with live() as view:
        end = time.perf_counter() + 1.2
        while time.perf_counter() < end:
            (w * 2).backward()
            optimizer.step()
        view._sampler.throttle._next = float("inf")
        view._recorder.idle.until = float("inf")
        for _ in range(5):
            (w * float("nan")).backward()
            optimizer.step()
    assert "nan" in view.trouble.text().lower()


def test_half_precision_is_summed_one_by_one():
    model = nn.ParameterList([torch.randn(40)])
    (weight,) = model
    loop = Loop(lambda: (model, lambda: (weight.half() * 3).float().sum()))
    view = stable_view(loop)
    wanted = pack(view._recorder.snapshot)
    result = sample_fast(view, loop)
    view.__exit__(None, None, None)
    assert result is not None
    np.testing.assert_allclose(result.statistics, wanted.statistics, rtol=1e-3)


@pytest.mark.parametrize("values", [
    [1.0, 2.0], [0.0], [1e200, -1e200], [1e-200, 0.0], [np.nan, 1.0], [np.inf, 1.0], [-5.0] * 9,
])  # fmt: skip
def test_sums_of_many_arrays_at_once(values):
    data = np.array([[3.0] * len(values), values, [-1.0] * len(values)])
    with np.errstate(all="ignore"):
        row = row_statistics(data)[0][1]
    wanted = summarize(np.array(values * 5)[: len(values)])
    assert row[0] == len(values)
    if not wanted.bad:
        np.testing.assert_allclose(
            row[1:], [wanted.mean, wanted.min, wanted.max, wanted.norm], rtol=1e-12
        )
    else:
        assert np.isnan(row[4])
