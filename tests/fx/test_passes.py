"""Optimization passes preserve every bit, and simplify as documented."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from edutorch import fx, nn
from edutorch.fx.interpreter import run_on_arrays
from edutorch.fx.passes import PASSES


def names(graph):
    return [n.target.__name__ for n in graph.nodes if n.op == "call_function"]


def both(function, *args):
    graph = fx.capture(function, *args).graph
    better = fx.passes.standard(graph)
    arrays = [argument._array for argument in args]
    for before, after in zip(
        run_on_arrays(graph)(arrays), run_on_arrays(better)(arrays), strict=True
    ):
        assert np.array_equal(before, after)
    return graph, better


def test_the_given_graph_stays():
    graph, better = both(lambda x: (x * 1).exp() + x.exp(), torch.ones(2))
    assert names(graph) == ["mul", "exp", "exp", "add"]
    assert names(better) == ["exp", "add"]


def test_dead_code_goes_but_random_numbers_are_still_drawn():
    def function(x):
        x.sin()
        torch.rand(2)
        return x + torch.rand(2)

    _, better = both_random(function, torch.zeros(2))
    assert names(better) == ["draw", "draw", "add"]


def both_random(function, *args):
    graph = fx.capture(function, *args).graph
    return graph, fx.passes.standard(graph)


def test_random_numbers_are_never_merged():
    _, better = both_random(lambda x: torch.rand(2) + torch.rand(2) + x, torch.zeros(2))
    assert names(better) == ["draw", "draw", "add", "add"]


def test_constants_are_computed_once():
    _, better = both(lambda x: x + torch.arange(4).float().sqrt().sum(), torch.ones(2))
    assert names(better) == ["add"]
    assert len(better.constants) == 1


def test_equal_is_what_has_equal_bits():
    _, better = both(lambda x: (x * 2 + x * 2.0) / (x * 2), torch.ones(2))
    assert names(better).count("mul") == 2  # 2 and 2.0 are two numbers
    _, better = both(lambda x: torch.atan2(x * 0.0, x) + torch.atan2(x * -0.0, x), -torch.ones(2))
    assert names(better).count("mul") == 2


def test_results_never_share_memory():
    def function(x):
        return (x * 2).view(-1), (x * 2).t(), x * 3, x * 3

    graph, better = both(function, torch.ones(2, 2))
    assert names(better) == names(graph)
    results = run_on_arrays(better)([np.ones((2, 2), "float32")])
    for i, first in enumerate(results):
        assert not any(np.shares_memory(first, other) for other in results[i + 1 :])


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: (x * 1).exp(), ["exp"]),
        (lambda x: (x / 1).exp(), ["exp"]),
        (lambda x: (x - 0).exp(), ["exp"]),
        (lambda x: (x + 0).exp(), ["add", "exp"]),  # -0 + 0 is 0
        (lambda x: x.t().t().exp(), ["exp"]),
        (lambda x: x.reshape(4).reshape(2, 2).exp(), ["exp"]),
        (lambda x: x.permute(1, 0).permute(1, 0).exp(), ["exp"]),
        (lambda x: x.permute(0, 1).exp(), ["exp"]),
        (lambda x: x.float().exp(), ["exp"]),
    ],
)
def test_steps_that_change_nothing_are_left_out(function, left):
    _, better = both(function, torch.tensor([[-0.0, 1.0], [2.0, -3.0]]))
    assert names(better) == left


@pytest.mark.parametrize("single_pass", PASSES)
def test_each_pass_alone_keeps_a_whole_step(single_pass):
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.randn(5, 3)
    fx.capture(step, x)
    captured = fx.capture(step, x)
    better = single_pass(captured.graph)
    better.lint()
    inputs = [
        input_.holder[input_.key] if input_.kind == "number"
        else (x if input_.kind == "argument" else input_.tensor)._array
        for input_ in captured.inputs
    ]  # fmt: skip
    before, after = run_on_arrays(captured.graph)(inputs), run_on_arrays(better)(inputs)
    assert all(map(np.array_equal, before, after))
    assert len(better.nodes) <= len(captured.graph.nodes)
    assert better.writes == captured.graph.writes
