"""A walk through backward: what it shows is what autograd computes, and nothing hangs."""

# ruff: noqa: RUF059  (the picture calls things as the variables here that hold them)

from __future__ import annotations

import random

import numpy as np
import pytest

import edutorch as torch
from edutorch import viz
from edutorch.errors import GradientError
from edutorch.viz.backward_walk.walk import WalkError
from tests.viz.walks import cnn, gone, leaf, simple

UNARY = [
    torch.tanh, torch.sin, torch.exp, torch.sigmoid, torch.relu, lambda x: x**2, torch.square,
    lambda x: x * 0.5, torch.neg,
]  # fmt: skip
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum, lambda a, b: a / b.cosh()]


# What it shows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_gradients_are_those_of_autograd(seed):
    """Of each node, and of each arrow: behind an arrow lies a copy, whose gradient is asked for."""
    draw = random.Random(seed)
    shapes = [(), (2,), (4,), (1,)]
    shape = draw.choice(shapes)
    small = np.random.default_rng(seed)
    pool = [leaf(small.normal(size=draw.choice([(), shape])).tolist()) for _ in range(3)]
    made, copies = [], {}
    for _ in range(draw.randint(3, 9)):
        function = draw.choice(UNARY + BINARY)
        operands = []
        for _ in range(2 if function in BINARY else 1):
            operands.append(draw.choice(pool).clone())
            copies[operands[-1]._node._order] = operands[-1]
        result = function(*operands)
        pool.append(result)
        made.append(result)
    loss = sum((item.sum() for item in pool if item.grad_fn is not None), torch.zeros(()))
    tensors = [*made, *copies.values()]
    expected = torch.autograd.grad(loss, tensors, retain_graph=True, allow_unused=True)
    leaves = [item for item in pool if item.grad_fn is None]
    of_leaves = torch.autograd.grad(loss, leaves, retain_graph=True, allow_unused=True)
    walk = viz.walk(loss)
    stations = {station.node: station for station in walk}
    boxes = walk.chart.box_of
    arrows = [flow for station in stations.values() for flow in station.flows]
    seen = 0
    for tensor, gradient in zip(tensors, expected, strict=True):
        if gradient is None:
            continue
        box = boxes[tensor._node._order]
        assert few(stations[box].incoming) == flat(gradient)
        if tensor._node._order in copies:  # the only arrow that leads to it
            (into,) = (flow for flow in arrows if flow.target == box)
            assert few(into.gradient) == flat(gradient)
        seen += 1
    assert seen >= 3
    snapshot = walk.snapshot
    for item, gradient in zip(leaves, of_leaves, strict=True):
        if gradient is not None:
            box = boxes["leaf", id(item)]
            assert few(stations[box].after) == flat(gradient) == flat(item.grad)
            assert list(snapshot.grads[box].few) == flat(gradient)
    sent = {flow.edge: flow.gradient.stats for flow in arrows}
    assert len(sent) == len(arrows)
    assert [sent.get(edge) for edge in range(len(snapshot.flows))] == list(snapshot.flows)


def few(amount):
    return pytest.approx(list(amount.stats.few), rel=1e-5, abs=1e-6)


def flat(tensor):
    return tensor.flatten().tolist()


def test_a_station_is_a_lesson():
    x, w, y, loss = simple()
    walk = viz.walk(loss)
    assert repr(walk) == "walk through backward, 0 of 5 steps\nnext: loss"
    first = walk.next()
    assert first.title == "loss = add" and first.op == "add"
    walk.next()
    product = walk.next()
    assert str(product).splitlines() == [
        "3  y = mul",
        "   g = 1   (from loss)",
        "   → x: g·b = 1·(-2) = -2",
        "       x has 6 + (-2) = 4 so far",
        "   → w: g·a = 1·3 = 3",
    ]
    leaf_x = walk.next()
    assert leaf_x.lines() == ["   arrived: 6 + (-2) = 4   (from pow, y)", "   x.grad = 4"]
    walk.next()
    assert repr(walk).endswith("that was all")
    assert "3     y" in walk.table() and "w.grad" in walk.table()


def test_what_was_in_grad_is_added_to():
    x, w, y, loss = simple()
    x.grad = torch.tensor(10.0)
    station = viz.walk(loss).run_to(x)
    assert station.lines()[1] == "   x.grad = 10 + 4 = 14"
    assert x.grad.item() == 14


def test_large_gradients_are_summarized():
    x = torch.randn(30, 40, requires_grad=True)
    station = viz.walk((x * 2).sum()).next()
    text = str(station)
    assert "30×40, mean +1.0000" in text and len(text) < 500
    assert station.flows[0].gradient.stats.size == 1200


def test_broadcasting_is_told():
    bias = leaf([1.0, 2.0])
    x = torch.ones(3, 2)
    station = viz.walk((x + bias).sum()).run_to("add")
    (flow,) = station.flows
    assert "copies add up: (3, 2) → (2,)" in flow.note
    assert flow.gradient.text == "[3, 3]"


def test_the_picture_follows():
    x, w, y, loss = simple()
    walk = viz.walk(loss)
    boxes = walk.chart.box_of
    before = walk.snapshot
    assert before.grads[boxes[loss._node._order]].few == (1.0,)
    assert before.grads[boxes["leaf", id(x)]] is None
    walk.next()
    assert walk.snapshot.grads[boxes[y._node._order]].few == (1.0,), "what waits there"
    assert sum(flow is not None for flow in walk.snapshot.flows) == 2
    walk.finish()
    assert walk.snapshot.grads[boxes["leaf", id(w)]].few == (3.0,)
    assert "14" not in walk.drawing().table() and "4" in walk.drawing().table()
    assert walk.drawing().svg.startswith("<svg")


class TwoOutputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        return first * 2 + second * 3


def test_functions_of_the_user():
    x = leaf(1.0)
    first, second = TwoOutputs.apply(x)
    walk = viz.walk(first + second * 10)
    text = "\n".join(map(str, walk))
    assert "def backward(ctx, first, second):" in text
    assert x.grad.item() == 32


def test_complex_numbers():
    z = torch.tensor(1.0 + 2.0j, requires_grad=True)
    walk = viz.walk((z * z.conj()).real)
    walk.finish()
    assert z.grad.item() == pytest.approx(2 + 4j)
    assert "2+4i" in walk.stations[-1].accumulation()[1].replace("j", "i")


def test_hooks_are_mentioned():
    x, w, y, loss = simple()
    y.register_hook(lambda g: g * 100)
    station = viz.walk(loss).run_to(y)
    assert "hook" in station.note
    assert station.flows[0].rule.equation == ""
    assert station.flows[0].gradient.text == "-200"


# Going ------------------------------------------------------------------------------------------


def test_the_engine_stands_still_between_steps():
    x, w, y, loss = simple()
    ran = []
    loss._node.register_hook(lambda *gradients: ran.append("loss"))
    walk = viz.walk(loss)
    assert ran == []
    walk.next()
    assert ran == ["loss"]
    walk.run_to("y")
    assert x.grad is None, "nothing is written before the end"
    walk.next()
    assert x.grad.item() == 4 and w.grad is None
    walk.next()
    assert w.grad.item() == 3 and walk.over and gone()


def test_back_and_forth_over_what_is_recorded():
    x, w, y, loss = simple()
    walk = viz.walk(loss)
    first = walk.next()
    second = walk.next()
    assert walk.back() is first and walk.upcoming == second.name
    assert walk.next() is second and len(walk.stations) == 2
    walk.back()
    assert walk.back() is None and walk.back() is None and walk.position == 0
    assert [station.number for station in walk] == [1, 2, 3, 4, 5]
    assert walk.next() is walk.stations[-1] and x.grad.item() == 4
    assert list(walk) == [] and len(walk) == 5


def test_run_to_what_is_meant():
    x, w, y, loss = simple()
    for target in (y, y.grad_fn, "y", "mul"):
        assert viz.walk(loss).run_to(target).name == "y"
    walk = viz.walk(loss)
    assert walk.run_to(x).kind == "leaf"
    assert walk.run_to("pow").number == 2, "what lies behind is looked at"
    assert walk.position == 2
    id = walk.whole.graph.nodes[walk.chart.box_of[y._node._order]].id
    assert walk.run_to(id).name == "y"
    with pytest.raises(WalkError, match=r"does not go to 'nobody'(?s:.)*names +="):
        walk.run_to("nobody")
    with pytest.raises(WalkError, match=r"does not go to this tensor of shape \(2,\)"):
        walk.run_to(torch.ones(2))
    with pytest.raises(WalkError, match="does not go to 'exponent'"):
        walk.run_to("exponent")


def test_a_cnn():
    model, loss = cnn()
    expected = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    walk = viz.walk(loss, model=model)
    assert walk.run_to("4").name == "linear"
    assert walk.run_to("0").name == "conv2d", "until the gradient reaches the module"
    assert walk.run_to("4.weight").title == "4.weight"
    walk.finish()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert torch.equal(parameter.grad, gradient)
        station = walk.run_to(parameter)
        assert station.after.stats.norm == pytest.approx(gradient.norm().item(), rel=1e-5)


def test_freed_or_retained():
    x, w, y, loss = simple()
    walk = viz.walk(loss)
    walk.next()
    walk.restart()  # half-way, nothing has happened yet
    walk.finish()
    assert x.grad.item() == 4
    with pytest.raises(WalkError, match=r"the graph was freed(?s:.)*retain_graph=True"):
        walk.restart()
    with pytest.raises(GradientError, match="freed"):
        loss.backward()

    x, w, y, loss = simple()
    walk = viz.walk(loss, retain_graph=True)
    walk.finish()
    walk.restart()
    assert walk.run_to(x).lines()[1] == "   x.grad = 4 + 4 = 8"
    walk.finish()
    loss.backward()
    assert x.grad.item() == 12


def test_a_gradient_to_begin_with():
    x = leaf([1.0, 2.0])
    walk = viz.walk(x * 3, torch.tensor([10.0, 1.0]))
    assert walk.next().incoming.text == "[10, 1]"
    walk.finish()
    assert x.grad.tolist() == [30, 3]
    with pytest.raises(GradientError, match=r"viz.walk: grad can be implicitly created only"):
        viz.walk(x * 3)
    with pytest.raises(GradientError, match="does not require grad"):
        viz.walk(torch.ones(()))
    with pytest.raises(WalkError, match=r"viz.walk: expected a tensor, got float"):
        viz.walk(3.0)


def test_a_leaf_alone():
    x = leaf(3.0)
    walk = viz.walk(x)
    assert [station.kind for station in walk] == ["leaf"]
    assert x.grad.item() == 1


def test_inside_no_grad_and_under_live():
    x, w, y, loss = simple()
    with torch.no_grad():
        viz.walk(loss).finish()
    assert x.grad.item() == 4
    with viz.live():
        x, w, y, loss = simple()
        viz.walk(loss).finish()
    assert x.grad.item() == 4


IN_FRONT = {
    "1 - x": lambda x: 1 - x, "1 / x": lambda x: 1 / x, "2 ** x": lambda x: 2**x,
    "5 % x": lambda x: 5 % x, "3 + x": lambda x: 3 + x, "3 * x": lambda x: 3 * x,
}  # fmt: skip


@pytest.mark.parametrize("code", IN_FRONT)
def test_a_number_in_front_of_an_operator_is_in_the_lesson(code):
    x = torch.tensor(0.25, requires_grad=True)
    walk = viz.walk(IN_FRONT[code](x))
    number = code.split()[0]
    for _ in (0, 1):  # also when the graph is freed
        whole = walk.whole
        [constant] = (at for at, node in enumerate(whole.graph.nodes) if node.kind == "constant")
        assert whole.values[constant].text == number
        arrows = [edge.source for edge in whole.graph.edges]
        assert whole.graph.nodes[constant].id in arrows
        walk.finish()
    assert number in walk.drawing().svg
