"""Graphs: nodes, insertion, erasing, generated code, interpreters."""

from __future__ import annotations

import copy
import operator

import pytest

import edutorch as torch
from edutorch import fx, nn


def small():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.mul, (x, 2))
    z = graph.call_function(torch.add, (y, x))
    graph.output(z)
    return graph, x, y, z


def test_users_and_inputs_follow_changes():
    graph, x, y, z = small()
    assert z.all_input_nodes == [y, x]
    assert list(x.users) == [y, z]
    z.args = (x, 1)
    assert list(y.users) == []
    assert graph.eliminate_dead_code()
    assert [node.name for node in graph.nodes] == ["x", "add", "output"]
    graph.lint()


def test_inserting_and_replacing():
    graph, _, y, z = small()
    with graph.inserting_after(y):
        new = graph.call_function(torch.relu, (y,))
    y.replace_all_uses_with(new, lambda user: user is not new)
    graph.lint()
    assert z.args[0] is new
    with graph.inserting_before(z):
        graph.call_function(torch.exp, (new,))
    assert [node.name for node in graph.nodes] == ["x", "mul", "relu", "exp", "add", "output"]


def test_erasing_what_is_used_is_refused():
    graph, _, y, _ = small()
    with pytest.raises(RuntimeError, match="Tried to erase Node mul but it still had 1 users"):
        graph.erase_node(y)


def test_lint_finds_what_is_used_too_early():
    graph, x, y, _ = small()
    y.append(x)
    with pytest.raises(RuntimeError, match="'x' of Node 'mul' was used before it has been defined"):
        graph.lint()


def test_nodes_of_another_graph_are_refused():
    graph, *_ = small()
    other = fx.Graph().placeholder("q")
    with pytest.raises(ValueError, match="the argument q belongs to another graph"):
        graph.call_function(torch.exp, (other,))


def test_names_are_free_and_not_pythons_own():
    graph = fx.Graph()
    x = graph.placeholder("x")
    names = [graph.call_function(torch.sum, (x,)).name for _ in range(3)]
    names += [graph.placeholder("lambda").name, graph.call_function(operator.add, (x, x)).name]
    assert names == ["sum_1", "sum_2", "sum_3", "lambda_1", "add"]


def test_copies_are_apart():
    graph, *_ = small()
    copied = copy.deepcopy(graph)
    copied.erase_node(copied.output_node())
    assert len(copied.nodes) == len(graph.nodes) - 1
    assert str(graph).count("\n") == 4


def test_code_is_python_and_runs():
    graph, *_ = small()
    module = fx.GraphModule(nn.Module(), graph)
    assert module.code == (
        "def forward(self, x):\n"
        "    mul = torch.mul(x, 2)\n"
        "    add = torch.add(mul, x);  mul = x = None\n"
        "    return add\n"
    )
    assert module(torch.ones(2)).tolist() == [3.0, 3.0]
    graph.output_node().args = (graph.find_nodes(op="placeholder")[0],)
    graph.eliminate_dead_code()
    module.recompile()
    assert module(torch.ones(2)).tolist() == [1.0, 1.0]


def test_a_table_shows_shapes(capsys):
    graph = fx.capture(lambda x: x.sum(0), torch.ones(2, 3)).graph
    graph.print_tabular()
    text = capsys.readouterr().out
    assert "float32[2, 3]" in text
    assert "torch.sum" in text


def test_interpreter_and_transformer():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    x = torch.randn(3, 2)
    seen = []

    class Looking(fx.Interpreter):
        def run_node(self, n):
            result = super().run_node(n)
            seen.append(n.op)
            return result

    assert torch.equal(Looking(traced).run(x), traced(x))
    assert seen == ["placeholder", "call_module", "call_module", "output"]
    again = fx.Transformer(traced).transform()
    assert torch.equal(again(x), traced(x))


def test_patterns_are_replaced():
    traced = fx.symbolic_trace(lambda x, y: torch.relu(x + y) * torch.relu(x + 1))
    matches = fx.replace_pattern(
        traced, lambda a, b: torch.relu(a + b), lambda a, b: torch.tanh(a - b)
    )
    assert len(matches) == 1  # 1 is no value of the graph
    assert "tanh(sub)" in traced.code.replace("torch.", "")
    x, y = torch.ones(1), torch.zeros(1)
    assert torch.allclose(traced(x, y), torch.tanh(x - y) * 2)


def test_graphs_can_be_pickled():
    import pickle

    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    again = pickle.loads(pickle.dumps(traced))
    x = torch.randn(3, 2)
    assert torch.equal(again(x), traced(x))
    assert again.code == traced.code
    graph = fx.capture(lambda x: (x[1:] + torch.ones(2)).relu(), torch.ones(3)).graph
    assert str(pickle.loads(pickle.dumps(graph))) == str(graph)


def test_the_text_of_a_graph_is_that_of_torch_fx(torch):
    """But for the % before what is returned."""
    import torch.fx as theirs

    import edutorch

    def make(library):
        class Model(library.nn.Module):
            def __init__(self):
                super().__init__()
                self.first = library.nn.Linear(3, 4)
                self.scale = library.nn.Parameter(library.ones(4))

            def forward(self, x, k=2):
                y = library.relu(self.first(x)) + self.scale * k
                return library.cat([y, y], dim=1)

        return Model()

    ours = str(fx.symbolic_trace(make(edutorch)).graph)
    assert ours.replace("return %", "return ") == str(theirs.symbolic_trace(make(torch)).graph)


@pytest.mark.parametrize("times", range(1, 7))
def test_occurrences_of_a_pattern_do_not_overlap(times, torch):
    import torch.fx as theirs

    import edutorch

    def replaced(library, tools):
        def function(x):
            for _ in range(times):
                x = library.relu(x)
            return x

        traced = tools.symbolic_trace(function)
        matches = tools.replace_pattern(
            traced, lambda a: library.relu(library.relu(a)), lambda a: library.tanh(a)
        )
        return len(matches), traced.code.split()

    assert replaced(edutorch, fx) == replaced(torch, theirs)


def test_constants_of_a_graph_are_in_no_checkpoint():
    import pickle

    graph = fx.capture(lambda x: x + torch.arange(2.0), torch.ones(2)).graph
    module = fx.GraphModule(nn.Module(), graph)
    for variant in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert list(variant.state_dict()) == []
        assert [name for name, _ in variant.named_buffers()] == ["constant"]
        assert variant(torch.ones(2))[0].tolist() == [1.0, 2.0]
    norm = fx.symbolic_trace(nn.Sequential(nn.BatchNorm1d(2)))
    assert "0.running_mean" in norm.state_dict()


def test_packed_arguments_keep_their_names():
    graph = fx.symbolic_trace(lambda x, *others, k=1, **more: x * k).graph
    arguments = [(node.name, node.target) for node in graph.nodes if node.op == "placeholder"]
    assert arguments == [("x", "x"), ("others", "*others"), ("k", "k"), ("more", "**more")]
