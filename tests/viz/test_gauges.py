"""The gauges: what is measured, and what is said about it."""

import json
import math

import numpy as np
import pytest

import edutorch
from edutorch import nn, optim
from edutorch.viz.gauge_words import FINE, words_of
from edutorch.viz.gauges import MOST_ROWS, SAMPLE, Gauges, sample_of, units_alive
from edutorch.viz.live import live


def gauges_of(view):
    return next(part for part in view.parts if isinstance(part, Gauges))


def trained(model, optimizer, steps=8, x=None, scale=1.0):
    """Train on noise inside a view that looks at every step, and return its gauges."""
    edutorch.manual_seed(0)
    x = edutorch.randn(16, 6) if x is None else x
    view = live(model)
    with view:
        for _ in range(steps):
            view._recorder.sampling = True
            optimizer.zero_grad()
            (model(x) * scale).pow(2).mean().backward()
            optimizer.step()
            view._throttle._early = 1e9
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
    rows = {name: numbers for name, *numbers in gauges_of(view).patch()["layers"]}
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
    assert any("Gradients vanish" in each for each in gauges.patch()["words"])


def test_exploding_gradients_are_said():
    model = mlp(nn.Identity)
    gauges = trained(model, optim.SGD(model.parameters(), lr=0.0), scale=1e6)
    assert any("Gradients explode" in each for each in gauges.patch()["words"])


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
    assert any("of the units of 1 relu are 0" in each for each in gauges.patch()["words"])


@pytest.mark.parametrize(("kind", "edge"), [(nn.Tanh, "-1 or 1"), (nn.Sigmoid, "0 or 1")])
def test_saturation_is_seen(kind, edge):
    model = nn.Sequential(nn.Linear(6, 8), kind(), nn.Linear(8, 1))
    with edutorch.no_grad():
        model[0].weight *= 1e4
    gauges = trained(model, optim.SGD(model.parameters(), lr=0.0))
    assert any(f"close to {edge}" in each for each in gauges.patch()["words"])


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
    assert units_alive(image).tolist() == [False, True, False]
    assert units_alive(np.array([[0.0, 1.0], [0.0, 0.0]])).tolist() == [False, True]
    assert units_alive(np.zeros((2, 5, 7))).shape == (7,)
    assert units_alive(np.array(1.0)).tolist() == [True]


def test_nothing_known_nothing_said():
    assert Gauges(live()._names).patch() is None
    assert words_of([], []) == [FINE]
