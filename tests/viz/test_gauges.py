"""The gauges: what is measured, and what is said about it."""

import json
import math
import re

import numpy as np
import pytest

import edutorch
from edutorch import nn, optim
from edutorch.viz.live.layer_health import (
    FINE,
    GAUGE_MESSAGES,
    MOST_ROWS,
    SAMPLE,
    Activation,
    Gauges,
    Row,
    alive_units,
    health_messages,
    sample_of,
)
from edutorch.viz.live.sampler import State
from edutorch.viz.live.view import live


def gauges_of(view):
    return next(part for part in view.parts if isinstance(part, Gauges))


def trained(model, optimizer, steps=8, x=None, scale=1.0):
    """Train on noise inside a view that looks at every step, and return its gauges."""
    edutorch.manual_seed(0)
    x = edutorch.randn(16, 6) if x is None else x
    view = live(model)
    with view:
        for _ in range(steps):
            view._sampler.enter(State.FULL)
            optimizer.zero_grad()
            (model(x) * scale).pow(2).mean().backward()
            optimizer.step()
            view._sampler.throttle._early = 1e9
    return gauges_of(view)


def mlp(activation=nn.ReLU, layers=2, width=8):
    edutorch.manual_seed(1)
    blocks = [part for _ in range(layers) for part in (nn.Linear(width, width), activation())]
    return nn.Sequential(nn.Linear(6, width), activation(), *blocks, nn.Linear(width, 1))


def test_norms_and_ratios_are_those_of_the_tensors():
    model = nn.Linear(6, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    x = edutorch.randn(16, 6)
    view = live(model)
    with view:
        for _ in range(3):
            before = model.weight.detach().numpy().copy()
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            gradient = model.weight.grad.numpy().copy()
            optimizer.step()
    rows = {name: values for name, *values in gauges_of(view).patch()["layers"]}
    assert list(rows) == ["weight", "bias"]
    assert rows["weight"][0] == pytest.approx(np.linalg.norm(gradient), rel=1e-2)
    ratio = 0.01 * np.linalg.norm(gradient) / np.linalg.norm(before)
    assert rows["weight"][2] == pytest.approx(ratio, rel=1e-2)


def test_a_loop_without_an_optimizer_has_them_too():
    w = edutorch.tensor([5.0, -3.0], requires_grad=True)
    view = live()
    with view:
        for _ in range(4):
            w.grad = None
            (w * w).sum().backward()
            with edutorch.no_grad():
                w -= 0.1 * w.grad
    (row,) = gauges_of(view).patch()["layers"]
    assert row[0] == "w"
    assert row[3] == pytest.approx(0.2, rel=1e-2)  # 0.1 · 2w beside w


def test_vanishing_gradients_are_said():
    gauges = trained(mlp(nn.Sigmoid, layers=12), optim.SGD(mlp().parameters(), lr=0.1))
    assert any("Gradients vanish" in item for item in gauges.patch()["words"])


def test_exploding_gradients_are_said():
    model = mlp(nn.Identity)
    gauges = trained(model, optim.SGD(model.parameters(), lr=0.0), scale=1e6)
    assert any("Gradients explode" in item for item in gauges.patch()["words"])


def test_a_nan_is_said_and_the_message_stays_json():
    model = mlp()
    gauges = trained(
        model, optim.SGD(model.parameters(), lr=0.0), x=edutorch.full((4, 6), math.nan)
    )
    told = gauges.patch()
    json.dumps(told, allow_nan=False)
    assert "NaN or infinite" in told["words"][0]
    assert told["layers"][0][1] is None


def test_dead_units_are_counted():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
    with edutorch.no_grad():
        model[0].bias[:6] = -1e6
    gauges = trained(model, optim.SGD(model.parameters(), lr=1e-4))
    ((name, what, share),) = gauges.patch()["activations"]
    assert (name, what) == ("1 relu", "dead")
    assert share >= 0.75
    assert any("of the units of 1 relu are 0" in item for item in gauges.patch()["words"])


@pytest.mark.parametrize(("kind", "edge"), [(nn.Tanh, "-1 or 1"), (nn.Sigmoid, "0 or 1")])
def test_saturation_is_seen(kind, edge):
    model = nn.Sequential(nn.Linear(6, 8), kind(), nn.Linear(8, 1))
    with edutorch.no_grad():
        model[0].weight *= 1e4
    gauges = trained(model, optim.SGD(model.parameters(), lr=0.0))
    assert any(f"close to {edge}" in item for item in gauges.patch()["words"])


def test_learning_rates_are_read_and_get_a_curve_once_they_change():
    model = mlp()
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    schedule = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    view = live(model)
    x = edutorch.randn(4, 6)
    with view:
        for _ in range(4):
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
            schedule.step()
    assert gauges_of(view).patch()["rates"] == [["SGD", 0.0625]]
    assert view._curves["learning rate"].latest == (4, 0.0625)


def test_a_healthy_network():
    model = mlp()
    gauges = trained(model, optim.Adam(model.parameters(), lr=1e-3))
    assert gauges.patch()["words"] == [FINE]


def test_many_parameters_share_bars():
    model = mlp(layers=40)
    gauges = trained(model, optim.SGD(model.parameters(), lr=0.01), steps=3)
    told = gauges.patch()
    assert 1 < len(told["layers"]) <= MOST_ROWS
    assert len(json.dumps(told)) < 4000


def test_only_a_sample_is_copied():
    for array in (np.zeros((300, 500)), np.zeros((300, 500)).T, np.zeros(3), np.zeros(())):
        assert min(array.size, SAMPLE // 2) <= sample_of(array).size <= SAMPLE
    big = np.arange(1e6)
    assert np.shares_memory(sample_of(big), big)


def test_units():
    image = np.zeros((2, 3, 4, 4))
    image[:, 1] = 1
    assert alive_units(image).tolist() == [False, True, False]
    assert alive_units(np.array([[0.0, 1.0], [0.0, 0.0]])).tolist() == [False, True]
    assert alive_units(np.zeros((2, 5, 7))).shape == (7,)
    assert alive_units(np.array(1.0)).tolist() == [True]


def bar(name="w", norm=1.0, ratio=1e-3, samples=9, weights=True, **medians):
    """Return a bar of something healthy, but for what is said here."""
    norm_median = medians.get("norm_median", norm)
    return Row(name, norm, norm_median, ratio, medians.get("ratio_median", ratio), samples, weights)


def kinds(rows, activations=()):
    """Return which sentences are said, by their names."""
    patterns = {
        name: re.sub(r"\\{[^}]*\\}", ".*", re.escape(text)) for name, text in GAUGE_MESSAGES.items()
    }
    return [next(name for name, pattern in patterns.items() if re.fullmatch(pattern, said))
            for said in health_messages(rows, activations)]  # fmt: skip


def layers(*norms, **more):
    return [bar(f"layer {number}", norm, **more) for number, norm in enumerate(norms)]


NAN = math.nan
GAUGE_EDGES = [
    ([bar()], ["fine"]),
    ([bar(norm=NAN, ratio=NAN), bar()], ["lost"]),
    ([bar(norm=NAN), bar()], ["fine"]),  # the weights stay good: a GradScaler left it out
    ([bar(norm=math.inf, ratio=math.inf)], ["lost"]),
    ([bar(norm=0.0), bar(norm=0.0)], ["nowhere"]),
    ([bar(norm=0.0, samples=3)], ["nowhere"]), ([bar(norm=0.0, samples=2)], ["fine"]),
    ([bar(norm=0.0), bar(norm=0.0, samples=2)], ["fine"]),
    ([bar(norm=0.0, norm_median=0.0), bar()], ["missing"]),
    ([bar("bias", norm=0.0, weights=False), bar()], ["fine"]),
    ([bar(norm=0.5, norm_median=0.0), bar()], ["fine"]),  # now and then there is one
    (layers(1e-4, 1e-2, 1e-1, 1.0), ["vanishing"]), (layers(1e-4, 1e-2, 1.0), ["fine"]),
    (layers(1e-3, 1e-2, 1e-1, 0.99), ["fine"]), (layers(1.0, 1e-1, 1e-2, 1e-4), ["exploding"]),
    (layers(0.99, 1e-1, 1e-2, 1e-3), ["fine"]), (layers(1.0, 1e-4), ["fine"]),
    (layers(1.0, 1e3), ["fine"]), (layers(1.0, 1001.0), ["exploding"]),
    # Of many, a third at each end is looked at, in the middle of it.
    (layers(1e-4, 1e-4, 1.0, 1.0, 1.0, 1.0), ["vanishing"]),
    (layers(1e-9, 1e-4, 1.0, 1.0, 1.0, 1.0), ["vanishing"]),
    (layers(1e-9, 1.0, 1.0, 1.0, 1.0, 1.0), ["fine"]),
    (layers(1e-9, 1.0, 1.0, 1.0, 1.0), ["vanishing"]),
    ([bar(ratio=0.2)], ["fast"]), ([bar(ratio=0.15)], ["fine"]), ([bar(ratio=0.151)], ["fast"]),
    ([bar(ratio=0.1, ratio_median=0.2)], ["fine"]),  # it was so only at first
    ([bar(ratio=0.2, ratio_median=0.1)], ["fine"]), ([bar(ratio=0.2, samples=2)], ["fine"]),
    ([bar(ratio=9e-6)], ["slow"]), ([bar(ratio=1e-5)], ["fine"]), ([bar(ratio=0.0)], ["fine"]),
    ([bar(ratio=9e-6, samples=2)], ["fine"]), ([bar(ratio=9e-6), bar(), bar()], ["fine"]),
    ([bar(ratio=9e-6), bar(ratio=9e-6), bar()], ["slow"]),
    ([bar(ratio=0.2, norm=0.0, norm_median=0.0), bar()], ["missing"]),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "said"), GAUGE_EDGES)
def test_what_is_said_at_the_edges(rows, said):
    assert kinds(rows) == said


def test_the_sentences_name_the_worst():
    (said,) = health_messages(layers(2e-5, 1e-2, 1e-1, 1.0), [])
    assert "2.0e-05 at layer 0, 1.0e+00 at layer 3." in said
    (said,) = health_messages(layers(1.0, 2e3, 5e3), [])
    assert "up to 5.0e+03 at layer 2." in said
    fast = [bar("a", ratio=0.2), bar("b", ratio=0.4), bar("c", ratio=0.3)]
    assert "by 30% (about 0.1% is usual), most of all b:" in health_messages(fast, [])[0]
    slow = [bar("a", ratio=3e-6), bar("b", ratio=1e-6), bar("c", ratio=2e-6)]
    assert (
        "only 2e-06 of their size (about 1e-03 is usual), least of all b:"
        in health_messages(slow, [])[0]
    )
    missing = [bar(name, norm=0.0, weights=name == "b") for name in "abcd"]
    assert health_messages([*missing, bar("e")], []) == ["No gradient arrives at a, b and 2 more."]
    lost = [bar(name, norm=NAN, ratio=NAN) for name in "abc"]
    assert health_messages(lost, [])[0].startswith("The gradient of a, b, c is NaN or infinite")


def unit(name, op, share):
    seen = Activation(name, op)
    seen.shares.append(share)
    return seen


def test_activations_are_told_of_from_half_of_them_on():
    for op in ("relu", "tanh", "sigmoid"):
        half, most, more = unit("a", op, 0.5), unit("b", op, 0.9), unit("c", op, 0.6)
        assert kinds([bar()], [half]) == ["fine"]
        (said,) = health_messages([bar()], [half, more, most])
        assert said.startswith("90% of the ") and " of c, b are " in said
    mixed = [unit("a", "sigmoid", 0.9), unit("b", "relu", 0.9)]
    assert kinds(layers(1e-4, 1e-2, 1e-1, 1.0, ratio=0.2), mixed) == [
        "vanishing", "fast", "relu", "sigmoid",
    ]  # fmt: skip


def test_nothing_known_nothing_said():
    assert Gauges(live()._names).patch() is None
    assert health_messages([], []) == [FINE]
