"""Loops that repeat a layer: their small products become large ones, with the same results."""

from __future__ import annotations

import os

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.compilation import batch_matmul_pass, kernel_cache
from edutorch.compilation.explain import Timing

fusing = pytest.mark.skipif(
    not kernel_cache.is_available() or os.environ.get("EDUTORCH_KERNELS") == "off",
    reason="nothing is fused without numba",
)


def contiguous_steps(make, calls=20, **settings):
    """Train a model eager and compiled alike; return the compiled step."""
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model, inputs = make()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

        def step(model=model, inputs=inputs, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(*inputs).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        if compiled:
            step = torch.compile(step, **settings)
        losses = [step().item() for _ in range(calls)]
        results.append(
            (losses, [parameter.detach().numpy() for parameter in model.parameters()], step)
        )
    (eager, ours, _), (compiled, theirs, step) = results
    np.testing.assert_allclose(compiled, eager, rtol=1e-4, atol=1e-6)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-4)
    return step


class Recurrent(nn.Module):
    def __init__(self, bias=True, first=0):
        super().__init__()
        self.of_input, self.of_state = nn.Linear(5, 7, bias), nn.Linear(7, 7, bias)
        self.first = first

    def forward(self, x):
        h = torch.zeros(x.shape[0], 7)
        for t in range(x.shape[1]):
            h = torch.tanh(self.of_input(x[:, t]) + self.of_state(h))
        return h


def products(code):
    return sum("np.dot(" in line or "product(" in line for line in code.splitlines())


@pytest.mark.parametrize("bias", [True, False])
def test_a_loop_over_time(bias):
    step = contiguous_steps(lambda: (Recurrent(bias), [torch.randn(3, 6, 5)]))
    # all inputs at once, each state by itself and its gradient too, two weights' gradients
    assert products(step.code) == 1 + 6 + 5 + 2
    assert "concatenate(" in step.code


def test_what_depends_on_itself_stays_apart():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            parts = [self.a(x[i]) for i in range(4)]
            parts = [self.b(torch.relu(part)) for part in parts]
            late = [self.a(part + 1) for part in parts]  # the same weights, one product later
            return torch.stack([self.b(state.sin()) for state in late]).sum(0)

    contiguous_steps(lambda: (Twice(), [torch.randn(4, 3, 4)]))


def test_other_terms_of_a_sum_stay():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 4))

        def forward(self, x):
            y = sum((x[i] @ self.w) * (i + 1) for i in range(4))
            return y + self.w.sum() + (self.w * self.w).mean() * x[0]

    contiguous_steps(lambda: (Mixed(), [torch.randn(4, 3, 4)]))


def test_rows_of_several_heights():
    class Heights(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, *inputs):
            return torch.cat([self.layer(input_).tanh() for input_ in inputs])

    step = contiguous_steps(lambda: (Heights(), [torch.randn(n, 3) for n in (1, 4, 2, 3)]))
    assert products(step.code) == 2


@pytest.mark.parametrize(
    ("rows", "columns", "joined"), [(8, 5, True), (8, 12, True), (9, 5, False), (9, 12, False)]
)
def test_only_products_of_few_rows_are_joined(rows, columns, joined, monkeypatch):
    monkeypatch.setattr(batch_matmul_pass, "MAX_ROWS", 8)

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(columns, 3)

        def forward(self, x):
            return torch.stack([self.layer(tensor) for tensor in x])

    step = contiguous_steps(lambda: (Shared(), [torch.randn(4, rows, columns)]), calls=4)
    assert products(step.code) == (2 if joined else 8)  # the layer, and the gradient of its weight


def test_results_that_are_wanted_by_themselves():
    w = torch.randn(3, 3)

    def function(x):
        parts = [x[i] @ w for i in range(4)]
        return parts[0], parts[2] + 1, parts[1] + parts[2] + parts[3]

    compiled = torch.compile(function)
    x = torch.randn(4, 2, 3)
    for _ in range(3):
        results = compiled(x)
        for one, other in zip(results, function(x), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
        results[0].zero_()  # each result is memory of its own
        np.testing.assert_allclose(results[2].numpy(), function(x)[2].numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_random_nets_that_share_weights(seed, monkeypatch):
    if seed > 1:
        monkeypatch.setenv("EDUTORCH_KERNELS", "off")  # the order of steps is what counts here
    random = np.random.default_rng(seed)
    plan = [(int(random.integers(3)), *map(int, random.integers(0, 4 + i, 2))) for i in range(12)]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4, bool(seed % 2)) for _ in range(3)])

        def forward(self, x):
            known = [x[i] for i in range(4)]
            for layer, first, second in plan:
                known.append(torch.tanh(self.layers[layer](known[first])) + known[second])
            return torch.stack(known[-3:]).sum(0)

    contiguous_steps(lambda: (Net(), [torch.randn(4, 2, 4)]), calls=8)


# Biases and whole rules ---------------------------------------------------------------------------


@fusing
def test_a_product_begins_with_its_bias():
    model = nn.Linear(64, 32)
    compiled = torch.compile(model)
    x = torch.randn(3, 20, 64)
    for _ in range(3):
        np.testing.assert_allclose(
            compiled(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6
        )
    code = compiled._compiled.code
    assert "bias)" in code
    assert "np.add" not in code


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        n, length, _ = x.shape
        q, k, v = (
            tensor.view(n, length, 2, 8).transpose(1, 2) for tensor in self.qkv(x).chunk(3, -1)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(x.shape))


@pytest.mark.parametrize("backend", ["edutorch", "aot_eager"])
def test_gradients_of_attention_are_one_step(backend):
    step = contiguous_steps(lambda: (Attention(), [torch.randn(4, 12, 16)]), backend=backend)
    if backend == "edutorch":
        assert "scaled_dot_product_attention_gradients" in step.code
        assert "one kernel computes all its gradients" in step.explain()


@pytest.mark.parametrize("network", ["lstm", "gru", "rnn", "cell"])
def test_recurrent_layers(network):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            layers = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN, "cell": nn.LSTMCell}
            self.layer = layers[network](5, 6)

        def forward(self, x):
            if network != "cell":
                return self.layer(x)[0]
            h = c = torch.zeros(x.shape[1], 6)
            for tensor in x:
                h, c = self.layer(tensor, (h, c))
            return h

    contiguous_steps(lambda: (Net(), [torch.randn(4, 3, 5)]), calls=8)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gelu_and_its_slope(approximate, dtype):
    def function(x):
        x.grad = None
        y = nn.functional.gelu(x * 2, approximate=approximate)
        y.sum().backward()
        return y

    results = []
    for variant in (function, torch.compile(function)):
        x = torch.linspace(-9, 9, 2001, dtype=dtype)
        x[0], x[1], x[2] = float("nan"), float("inf"), -200.0
        x.requires_grad_()
        for _ in range(3):
            y = variant(x)
        results.append((y.detach().numpy(), x.grad.numpy()))
    for one, other in zip(*results, strict=True):
        close = 2e-6 if dtype is torch.float32 else 1e-13
        np.testing.assert_allclose(other, one, rtol=close, atol=close)


@fusing
@pytest.mark.parametrize("name", ["gelu", "tanh"])
def test_a_curve_alone_has_a_kernel(name):
    function = getattr(nn.functional, name)
    compiled = torch.compile(function)
    x = torch.linspace(-3, 3, 1000)
    for _ in range(2):
        np.testing.assert_allclose(compiled(x).numpy(), function(x).numpy(), rtol=1e-5, atol=1e-6)
    assert "fused_0(" in compiled.code
    small = torch.compile(function)
    small(x[:3])
    assert "fused_0(" not in small.code


def test_a_rule_as_one_step_can_be_derived_again():
    def function(x):
        y = nn.functional.gelu(x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), x)[0]

    compiled = torch.compile(function)
    x = torch.linspace(-2, 2, 300).requires_grad_()
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).numpy(), function(x).numpy(), rtol=1e-4, atol=1e-5)


# Where the time goes ------------------------------------------------------------------------------


def test_steps_are_timed():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile
    def step(x):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    before = model.weight.detach().clone()
    text = step.timed(torch.ones(4, 3), calls=5)
    assert "median of 5" in text
    assert "np.dot(x, " in text
    assert not torch.equal(before, model.weight)  # the calls are real ones
    assert "nothing" not in step.timed(torch.ones(4, 3), calls=1)


def test_the_slowest_step_comes_first():
    timing = Timing(
        "a step", {"y = a": [1e-3], "y = b": [5e-3, 9e-3, 1.0], "never": [], "y = c": [2e-3]}
    )
    assert timing.medians == {"y = b": 9e-3, "y = c": 2e-3, "y = a": 1e-3}
    assert list(timing.medians) == ["y = b", "y = c", "y = a"]
    timing.shown = 1
    assert str(timing).splitlines()[-1].split() == ["9.000", "75%", "y", "=", "b"]
