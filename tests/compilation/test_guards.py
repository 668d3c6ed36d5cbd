"""When a compiled version may be used, and the reason that is given where it may not."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from tests.compilation.comparison import compiled

# A readable reason for each new version ------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (torch.ones(64, 784), torch.ones(32, 784),
         "argument x: shape (64, 784) before, now (32, 784)"),
        (torch.ones(2), torch.ones(2).double(), "argument x: dtype float32 before, now float64"),
        (torch.ones(2, 2), torch.ones(2, 2).t(), "argument x: strides (8, 4) before, now (4, 8)"),
        (torch.ones(2), torch.ones(2, requires_grad=True),
         "argument x: wanted no gradient before, now it was a leaf that wants a gradient"),
        (torch.ones(2), torch.nn.Parameter(torch.ones(2)),
         "argument x: a Tensor before, now a Parameter"),
        (2, 3, "argument x: 2 before, now 3"),
        (2, 2.0, "argument x: a int before, now a float"),
        (2.0, float("nan"), "argument x: 2.0 before, now nan"),
    ],
)  # fmt: skip
def test_arguments(first, second, reason):
    function = compiled(lambda x: torch.ones(1) * 3 if isinstance(x, int | float) else x * 3)
    function(first)
    function(first)
    assert function.retraces == []
    function(second)
    assert function.retraces == [reason]
    function(first)
    function(second)
    assert len(function.retraces) == 1  # both versions are kept


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        (2.0, 3.0, "2.0 before, now 3.0"),
        ("a", "b", "'a' before, now 'b'"),
        ((1, 2), (1, 3), "(1, 2) before, now (1, 3)"),
        ((1, 2), None, "(1, 2) before, now None"),
    ],
)
def test_attributes(before, now, reason):
    class Net(torch.nn.Module):
        def forward(self, x):
            return x if self.setting is None else x * len(str(self.setting))

    net = Net()
    net.setting = before
    function = compiled(lambda x: net(x))
    function(torch.ones(2))
    net.setting = now
    function(torch.ones(2))
    assert [text.partition(": ")[2] for text in function.retraces] == [reason]


K = 3.0


def test_global_names_and_closures():
    global K
    scale = 2.0

    def function(x):
        return x * K + scale

    other = compiled(function)
    x = torch.ones(1)
    assert [other(x).item(), other(x).item()] == [5.0, 5.0]
    K = 4.0
    assert other(x).item() == 6.0
    scale = 10.0
    assert other(x).item() == 14.0
    K = 3.0
    assert other.retraces == ["K: 3.0 before, now 4.0", "scale: 2.0 before, now 10.0"]


def test_settings_parameters_and_hooks_of_modules():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    function = compiled(model)
    x = torch.ones(2)
    function(x)
    model.eval()
    assert torch.equal(function(x), model(x))
    assert function._compiled.retraces == ["training: True before, now False"]
    model[0].weight = nn.Parameter(torch.zeros(2, 2))
    assert torch.equal(function(x), model[0].bias)
    assert "weight" in function._compiled.retraces[-1]
    model[0].register_forward_hook(lambda module, args, output: output * 2)
    assert torch.equal(function(x), model[0].bias * 2)
    model[1] = nn.Identity()
    assert torch.equal(function(x), model[0].bias * 2)
    assert len(function._compiled.retraces) == 4


def test_the_default_type():
    function = compiled(lambda x: x + torch.zeros(2))
    x = torch.ones(2)
    function(x)
    torch.set_default_dtype(torch.float64)
    try:
        assert function(x).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_limit_of_versions():
    function = compiled(lambda x, n: x * n)
    x = torch.ones(1)
    with pytest.warns(UserWarning, match="captured 8 times and runs as it is written") as said:
        assert [function(x, n).item() for n in range(12)] == list(range(12))
    assert len(said) == 1
    assert function.given_up
    assert len(function.entries) == 8


def test_learning_rates_may_change():
    w = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)

    def step():
        optimizer.zero_grad()
        (w * 1).sum().backward()
        optimizer.step()
        return w.detach().clone()

    function = compiled(step)
    results = []
    for lr in (1.0, 1.0, 0.5, 0.25):
        optimizer.param_groups[0]["lr"] = lr
        results.append(function().item())
    assert results == [0.0, -1.0, -1.5, -1.75]
    assert function.retraces == []
    optimizer.param_groups[0]["weight_decay"] = 1.0
    function()
    assert "weight_decay" in function.retraces[0]


def test_gradients_that_are_there_already():
    w = torch.ones(1, requires_grad=True)

    def step(x):
        (w * x).sum().backward()

    function = compiled(step)
    for _ in range(4):
        function(torch.ones(1))
    assert w.grad.tolist() == [4.0]
    w.grad = None
    function(torch.ones(1))
    assert w.grad.tolist() == [1.0]
    assert function.retraces == ["a gradient was None before, now it is a tensor"]


def test_the_state_of_an_optimizer_that_is_loaded():
    w = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.Adam([w], lr=0.1)

    def step():
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()

    function = compiled(step)
    for _ in range(3):
        function()
    saved, value = optimizer.state_dict(), w.item()
    saved = {"state": {0: {k: v.clone() for k, v in saved["state"][0].items()}},
             "param_groups": saved["param_groups"]}  # fmt: skip
    function()
    after = w.item()
    optimizer.load_state_dict(saved)
    with torch.no_grad():
        w.fill_(value)
    function()
    assert w.item() == after


# Around it --------------------------------------------------------------------------------------


def test_containers_as_arguments_and_results():
    def function(d, *, s):
        return {"o": d["a"] * s[0], "k": 3, "t": (d["a"] + s[1], None)}

    other = compiled(function)
    x = torch.ones(1)
    for _ in range(3):
        assert repr(other({"a": x}, s=[x, 2])) == repr(function({"a": x}, s=[x, 2]))
    assert other.retraces == []


def test_the_same_tensors_put_together_in_another_way():
    def function(*args, **kwargs):
        first = args[0] if args else kwargs
        if isinstance(first, dict):
            return first["a"] - first["b"]
        return first[0] * 5 + first[1] if isinstance(first, list | tuple) else first + args[1]

    calls = [
        lambda x, y: ((x, y), {}), lambda x, y: (([x, y],), {}), lambda x, y: (((x, y),), {}),
        lambda x, y: (({"a": x, "b": y},), {}), lambda x, y: ((), {"a": x, "b": y}),
    ]  # fmt: skip
    other = compiled(function)
    for _ in range(2):
        for call in calls:
            args, kwargs = call(torch.ones(1), torch.full((1,), 2.0))
            assert other(*args, **kwargs).item() == function(*args, **kwargs).item()
    assert other.retraces == ["the arguments are put together in another way"] * 4


def test_errors_are_those_of_the_function():
    layer = nn.Embedding(4, 2)
    other = compiled(layer)
    other(torch.tensor([1]))
    for index in (9, 9):
        with pytest.raises(IndexError, match="embedding"):
            other(torch.tensor([index]))
    with pytest.raises(RuntimeError, match="matmul"):
        compiled(lambda x: x @ torch.ones(3, 3))(torch.ones(2, 2))


def test_listeners_hear_the_ops():
    from edutorch.events import OpApplied, listening

    other = compiled(lambda x: x * 2)
    other(torch.ones(1))
    other(torch.ones(1))
    heard = []
    with listening(heard.append):
        other(torch.ones(1))
    assert [event.op.name for event in heard if isinstance(event, OpApplied)] == ["mul"]


def test_compiled_inside_of_others():
    inner = compiled(lambda x: x * 2)
    outer = compiled(lambda x: inner(x) + 1)
    for _ in range(3):
        assert outer(torch.ones(1)).item() == 3.0
    assert inner.entries == []
    assert torch.vmap(compiled(lambda r: (r * 2).sum()))(torch.ones(2, 3)).tolist() == [6.0, 6.0]
    inside = compiled(lambda x: torch.vmap(lambda r: (r * 2).sum())(x))
    assert [inside(torch.ones(2, 3) * i).tolist() for i in (1, 2)] == [[6.0, 6.0], [12.0, 12.0]]
    assert not inside.broken
    slope = compiled(lambda x: torch.func.grad(lambda z: (z**3).sum())(x))
    assert [slope(torch.ones(1) * i).item() for i in (1, 2)] == [3.0, 12.0]


def test_autocast_inside():
    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x

    other = compiled(function)
    for _ in range(2):
        assert other(torch.ones(2, 2)).dtype is torch.bfloat16


def test_numpy_arguments_run_as_written():
    other = compiled(lambda x, n: x * torch.from_numpy(n))
    x = torch.ones(2)
    for value in (1.0, 3.0):
        assert other(x, np.full(2, value, "float32")).tolist() == [value, value]


def test_closed_over_numpy_arrays_are_compared():
    table = np.ones(2, "float32")
    other = compiled(lambda x: x * torch.tensor(table))
    x = torch.ones(2)
    other(x)
    other(x)
    table[0] = 5.0
    assert other(x).tolist() == [5.0, 1.0]


def test_the_usual_call_sees_what_differs():
    """Each change goes past the generated entry, and has the result of the function itself."""
    w = torch.randn(3, 3, requires_grad=True)

    def function(x, n):
        return ((x @ w + n).tanh() * 2).sum(1)

    program = torch.compile(function)
    x, other = torch.randn(3, 3), torch.randn(3, 3, requires_grad=True)
    for _ in range(3):
        program(x, 1.0)
    assert "RECORD" in program.entries[0].entry.source
    for arguments in [(x, 2.0), (x, True), (x.t(), 1.0), (x[:2], 1.0), (other, 1.0),
                      (other * 2, 1.0), (torch.randn(3, 3), 1.0)]:  # fmt: skip
        expected = pytest.approx(function(*arguments).tolist(), rel=1e-5)
        assert program(*arguments).tolist() == expected
        assert program(arguments[0], n=arguments[1]).tolist() == expected
    with torch.no_grad():
        assert not program(x, 1.0).requires_grad
    w.data = torch.ones(3, 3)
    assert program(x, 1.0).tolist() == pytest.approx(function(x, 1.0).tolist(), rel=1e-5)
    y = torch.compile(function)(other, 1.0)
    with torch.no_grad():
        other[0] = 5.0
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()
