"""Symbolic tracing, compared with torch.fx node by node."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import fx

MODELS = ("plain", "functions", "methods", "containers")


def make(torch, name):
    nn = torch.nn
    F = nn.functional

    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 4)
            self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
            self.scale = nn.Parameter(torch.ones(2))

        def forward(self, x, k=2):
            return self.rest(self.first(x)) + self.scale * k

    class Functions(nn.Module):
        def forward(self, x, y):
            a = F.gelu(x) @ y.T
            b = torch.cat([a, a[0:1]])
            return torch.softmax(b, dim=-1), torch.relu(-x) ** 2, abs(y) / 3

    class Methods(nn.Module):
        def forward(self, x):
            n = x.size(0)
            q, k = x.chunk(2, 1)
            return q.view(n, -1).sum(dim=-1, keepdim=True), k.mean(), x.shape[1]

    class Containers(nn.Module):
        def forward(self, x, *, shift=1):
            return {"a": x + 1, "b": [x * shift, (x - 1,)]}

    return {"plain": Plain, "functions": Functions, "methods": Methods,
            "containers": Containers}[name]()  # fmt: skip


def nodes(graph):
    def target(node):
        return node.target if isinstance(node.target, str) else node.target.__name__

    return [(n.name, n.op, target(n), str(n.args), str(n.kwargs)) for n in graph.nodes]


@pytest.mark.oracle
@pytest.mark.parametrize("name", MODELS)
def test_nodes_are_those_of_torch_fx(name, torch):
    import torch.fx as theirs

    assert nodes(fx.symbolic_trace(make(edutorch, name)).graph) == nodes(
        theirs.symbolic_trace(make(torch, name)).graph
    )


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["plain", "methods", "containers"])
def test_code_is_that_of_torch_fx(name, torch):
    import torch.fx as theirs

    ours = fx.symbolic_trace(make(edutorch, name)).code
    assert ours.split() == theirs.symbolic_trace(make(torch, name)).code.split()


@pytest.mark.parametrize("name", MODELS)
def test_traced_modules_compute_the_same(name):
    model = make(edutorch, name)
    x = edutorch.randn(4, 3) if name in ("plain", "functions") else edutorch.randn(4, 6)
    args = (x, edutorch.randn(5, 3)) if name == "functions" else (x,)
    leaves = edutorch.utils._pytree.tree_leaves
    for ours, expected in zip(
        leaves(fx.symbolic_trace(model)(*args)), leaves(model(*args)), strict=True
    ):
        same = ours == expected
        assert same.all() if isinstance(same, edutorch.Tensor) else same


def f_if(x):
    return x if x.sum() > 0 else -x


def f_len(x):
    return len(x)


def f_loop(x):
    return [row for row in x]  # noqa: C416


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (f_if, fx.TraceError, "cannot be used as inputs to control flow"),
        (f_len, RuntimeError, "'len' is not supported in symbolic tracing by default"),
        (f_loop, fx.TraceError, "Proxy object cannot be iterated"),
    ],
)
def test_what_needs_numbers_is_refused(function, kind, words):
    with pytest.raises(kind, match=words):
        fx.symbolic_trace(function)


def test_own_leaves_and_concrete_arguments():
    class Everything(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return False

    graph = Everything().trace(edutorch.nn.Sequential(edutorch.nn.ReLU()))
    assert [n.op for n in graph.nodes] == ["placeholder", "call_function", "output"]
    traced = fx.symbolic_trace(lambda x, up: x + 1 if up else x - 1, {"up": False})
    assert traced(edutorch.ones(1)).item() == 0.0


def test_placeholders_are_made_by_create_proxy():
    class Recorder(fx.Tracer):
        def create_proxy(self, op, target, *args, **kwargs):
            made.append((op, target))
            return super().create_proxy(op, target, *args, **kwargs)

    made = []
    graph = Recorder().trace(lambda x, *others, scale=2.0: x * scale)
    assert made[:3] == [("placeholder", "x"), ("placeholder", "*others"), ("placeholder", "scale")]
    assert [node.args for node in graph.find_nodes(op="placeholder")] == [(), (), (2.0,)]


def test_nothing_stays_changed_after_a_trace():
    import math

    before = edutorch.nn.functional.gelu, math.sqrt, edutorch.nn.Module.__call__
    fx.symbolic_trace(make(edutorch, "functions"))
    with pytest.raises(fx.TraceError):
        fx.symbolic_trace(f_if)
    assert (edutorch.nn.functional.gelu, math.sqrt, edutorch.nn.Module.__call__) == before
