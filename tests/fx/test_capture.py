"""Captured graphs contain exactly the ops that ran, including whole training steps."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from edutorch import backends, fx, nn
from edutorch.fx.interpreter import run_on_arrays
from edutorch.nn import functional as F


def targets(graph):
    return [node.target.__name__ for node in graph.nodes if node.op == "call_function"]


def test_each_op_is_one_node_with_shapes_lines_and_modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 4)

        def forward(self, x):
            return self.layer(x).relu()

    captured = fx.capture(Net(), torch.ones(2, 3))
    nodes = {node.name: node for node in captured.graph.nodes}
    assert targets(captured.graph) == ["linear", "relu"]
    linear, relu = nodes["linear"], nodes["relu"]
    assert linear.meta["shape"] == (2, 4)
    assert linear.meta["dtype"] == np.float32
    assert linear.meta["device"] == "cpu"
    assert linear.meta["line"].startswith("test_capture.py:")
    assert (linear.meta["module"], linear.meta["phase"]) == ("layer", "forward")
    assert relu.meta["module"] == ""
    assert [input_.name for input_ in captured.inputs] == ["x", "layer.weight", "layer.bias"]
    assert list(nodes)[:3] == ["x", "layer_weight", "layer_bias"]
    for node in list(nodes.values())[:3]:  # inputs come from outside: no line, and no module
        assert [node.meta[key] for key in ("line", "module", "phase")] == [None, "", "forward"]


def test_a_definition_may_name_the_dtype_of_an_array():
    def function(x):
        xp = backends.of(x._array).xp
        for convert in (xp.asarray, xp.array):
            for y in (convert(x._array, np.float64), convert(x._array, dtype="float64")):
                dtypes.append(y.dtype)
        return x

    dtypes: list[np.dtype] = []
    fx.capture(function, torch.ones(2))
    assert dtypes == [np.dtype("float64")] * 4


def test_the_run_is_a_real_one():
    x = torch.ones(2)
    captured = fx.capture(lambda x: x.add_(1) * 3, x)
    assert captured.result.tolist() == [6.0, 6.0]
    assert x.tolist() == [2.0, 2.0]
    assert type(captured.result._array) is np.ndarray
    assert type(x._array) is np.ndarray


def test_the_graph_computes_what_the_function_computes():
    def f(x, y):
        z = torch.cat([x, y], 1) @ torch.ones(5, 2)
        return {"a": z.softmax(-1), "b": [z.mean(), z.max(dim=0).values]}

    x, y = torch.randn(4, 2), torch.randn(4, 3)
    captured = fx.capture(f, x, y)
    again = run_on_arrays(captured.graph)([x._array, y._array])
    leaves = [captured.result["a"], *captured.result["b"]]
    assert len(again) == 3
    for leaf, (_, position) in zip(leaves, captured.leaves, strict=True):
        assert np.array_equal(leaf._array, again[position])


def test_conversions_are_nodes_of_their_own():
    captured = fx.capture(lambda i: i + 0.5, torch.arange(3))
    assert targets(fx.passes.standard(captured.graph)) == ["convert_dtype", "add"]


def test_gradients_become_a_graph():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    captured = fx.capture(model, x)
    back = captured.backward
    assert [captured.inputs[number].name for number in back.targets] == [
        "0.weight", "0.bias", "2.weight", "2.bias",
    ]  # fmt: skip
    forward = run_on_arrays(captured.graph)
    arrays = [input_.tensor._array for input_ in captured.inputs]
    outputs = forward(arrays)
    saved = [arrays[n] if source == "input" else outputs[n] for source, n in back.saved]
    g = np.random.default_rng(0).normal(size=(5, 2)).astype("float32")
    gradients = run_on_arrays(back.graph)([*saved, g])
    model(x).backward(torch.from_numpy(g))
    for number, gradient in zip(back.targets, gradients, strict=True):
        assert np.array_equal(captured.inputs[number].tensor.grad._array, gradient)


def test_the_result_of_the_run_can_be_run_backward():
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    captured = fx.capture(lambda x: (w * x).sum(), torch.ones(2))
    captured.result.backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_a_whole_step_is_one_graph():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
    first = fx.capture(step, x, y)
    assert first.again  # it has only made the state of Adam
    captured = fx.capture(step, x, y)
    assert not captured.again
    assert not captured.reasons
    assert {node.meta["phase"] for node in captured.graph.nodes if node.op == "call_function"} == {
        "forward", "backward", "optimizer",
    }  # fmt: skip
    roles = [output.kind for output in captured.outputs]
    assert (roles.count("result"), roles.count("write"), roles.count("grad")) == (1, 8, 2)
    names = {input_.name for input_ in captured.inputs}
    assert {"x", "y", "lr"} <= names
    assert any("exp_avg" in name for name in names)


def test_running_statistics_are_writes():
    norm = nn.BatchNorm1d(2)
    captured = fx.capture(norm, torch.randn(4, 2))
    written = {captured.inputs[number].name for number in captured.graph.writes.values()}
    assert written == {"running_mean", "running_var", "num_batches_tracked"}


def test_random_numbers_are_drawn_anew():
    captured = fx.capture(lambda x: x + torch.randn(2), torch.zeros(2))
    (drawn,) = [node for node in captured.graph.nodes if node.meta.get("random")]
    assert drawn.target.__name__ == "draw"
    run = run_on_arrays(captured.graph)
    assert not np.array_equal(*(run([np.zeros(2, "float32")])[0] for _ in range(2)))


def test_views_and_writes_become_functional():
    def f(x):
        row = x[0]
        x[:, 1] = 5.0
        return row * 1

    x = torch.zeros(2, 2)
    captured = fx.capture(f, x)
    assert captured.result.tolist() == [0.0, 5.0]
    result, new = run_on_arrays(captured.graph)([np.ones((2, 2), "float32")])
    assert result.tolist() == [1.0, 5.0]
    assert new.tolist() == [[1.0, 5.0], [1.0, 5.0]]
    assert captured.graph.writes == {1: 0}


REFUSED = {
    "item": (lambda x: x.sum().item(), "with .item()"),
    "if": (lambda x: x if x.sum() > 0 else -x, "the way depends on the numbers"),
    "float": (lambda x: x * float(x[0]), "is taken for Python"),
    "numpy": (lambda x: torch.tensor(x.detach().numpy().copy()), "are read"),
    "tolist": (lambda x: torch.tensor(x.tolist()), "are read"),
    "mask": (lambda x: x[x > 0], "x[mask]"),
    "nonzero": (lambda x: x.nonzero(), "nonzero"),
    "unique": (lambda x: x.unique(), "depends on the numbers"),
    "format": (lambda x: f"{x}", "are read"),
    "range": (lambda x: [x * i for i in range(int(x[0]))], "is taken for Python"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_looks_at_numbers_is_noticed_and_runs_on(name):
    function, words = REFUSED[name]
    x = torch.tensor([1.0, 2.0])
    expected = function(x)
    captured = fx.capture(function, x)
    what, line = captured.reasons[0]
    assert words in what
    assert line.startswith("test_capture.py:")
    assert repr(captured.result) == repr(expected)


def test_an_error_leaves_everything_as_it_was():
    w = torch.ones(2, requires_grad=True)

    def f(x):
        x.mul_(3)
        (w * x).sum().backward()
        raise KeyError("stop")

    x = torch.ones(2)
    with pytest.raises(KeyError, match="stop"):
        fx.capture(f, x)
    assert x.tolist() == [1.0, 1.0]
    assert w.grad is None


def test_a_tensor_from_nowhere_is_noticed():
    class Hidden:
        __slots__ = ("t",)

    hidden = Hidden()
    hidden.t = torch.ones(2)
    captured = fx.capture(lambda x: x + hidden.t, torch.ones(2))
    assert "nothing says where it will be found" in captured.reasons[0][0]


def test_other_threads_are_not_captured():
    import threading

    other = torch.ones(3)
    arrays = []

    def f(x):
        thread = threading.Thread(target=lambda: arrays.append((other * 2)._array))
        thread.start()
        thread.join()
        return x + 1

    captured = fx.capture(f, torch.ones(2))
    assert type(arrays[0]) is np.ndarray
    assert targets(captured.graph) == ["add"]
