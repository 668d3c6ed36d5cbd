"""`draw` of modules and functions, and of the graph that backward walks."""

import pytest

import edutorch
from edutorch import nn
from edutorch.viz import draw
from edutorch.viz.draw import NotDrawableError
from edutorch.viz.tensors.summaries import bar_text, summarize


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def rows(drawing):
    graph = drawing.whole.graph
    return {node.label: node for node in graph.nodes}


def test_a_module_is_called_and_every_value_is_seen():
    model, x = network(), edutorch.ones(5, 3)
    drawing = draw(model, x)
    assert [(node.module, node.label) for node in drawing.whole.graph.nodes] == [
        ("", "x"), ("0", "weight"), ("0", "bias"), ("0", "linear"), ("1", "tanh"),
        ("2", "weight"), ("2", "bias"), ("2", "linear"),
    ]  # fmt: skip
    assert all(value is not None for value in drawing.whole.values)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_function_of_plain_tensors_is_drawn_too():
    def energy(mass, speed):
        return (mass * speed**2).sum() / 2

    mass, speed = edutorch.ones(3), edutorch.ones(3)
    drawing = draw(energy, mass, speed)
    labels = [node.label for node in drawing.whole.graph.nodes if node.kind == "leaf"]
    assert sorted(labels) == ["mass", "speed"]
    assert not mass.requires_grad


def test_drawing_changes_no_gradient_and_no_graph():
    x = edutorch.tensor(2.0, requires_grad=True)
    y = x * x
    draw(y, graph="both")
    y.backward()
    assert x.grad.item() == 4
    draw(lambda: x**3, graph="backward")
    assert x.grad.item() == 4


def test_the_backward_graph_has_the_true_gradients():
    model, x = network(), edutorch.randn(5, 3)
    loss = lambda: (model(x) ** 2).mean()  # noqa: E731
    drawing = draw(loss, graph="backward")
    named = {
        (node.module, node.label): value
        for node, value in zip(drawing.whole.graph.nodes, drawing.whole.values, strict=True)
    }
    loss().backward()
    for path, parameter in model.named_parameters():
        module, _, name = path.rpartition(".")
        result = named[module, f"{name}.grad"]
        assert result.norm == pytest.approx(parameter.grad.norm().item(), rel=1e-5)


def test_arrows_run_from_the_result_to_the_leaves():
    x = edutorch.tensor(3.0, requires_grad=True)
    drawing = draw((x * 2).sin(), graph="backward")
    labels = {node.id: node.label for node in drawing.whole.graph.nodes}
    arrows = [(labels[edge.source], labels[edge.target]) for edge in drawing.whole.graph.edges]
    assert arrows == [("MulBackward0", "x.grad"), ("SinBackward0", "MulBackward0")]


def test_names_of_derivatives_are_those_of_the_nodes():
    x = edutorch.ones(2, 3, requires_grad=True)
    for y in (x.log_softmax(1), x @ x.T, x.sum(0), x.exp()):
        result = rows(draw(y, graph="backward"))
        assert type(y.grad_fn).__name__ in result


def test_both_shows_what_waits_for_backward():
    x = edutorch.tensor(3.0, requires_grad=True)
    drawing = draw(x.exp(), graph="both")
    labels = {node.id: node.label for node in drawing.whole.graph.nodes}
    types = [(edge.kind, labels[edge.source], labels[edge.target])
             for edge in drawing.whole.graph.edges]  # fmt: skip
    assert types == [
        ("forward", "x", "exp"), ("backward", "ExpBackward0", "x.grad"),
        ("kept", "exp", "ExpBackward0"),
    ]  # fmt: skip
    assert "<svg" in drawing.svg


def test_each_node_says_what_it_keeps_and_which_line_made_it():
    drawing = draw(lambda x: x.exp().sum(), edutorch.ones(10, 10))
    node = rows(drawing)["exp"]
    assert node.saved == (("y", 400),)
    assert "test_draw_anything.py" in node.line
    assert "x.exp().sum()" in node.line


def test_variables_are_named():
    x = edutorch.ones(3, requires_grad=True)
    hidden = x.tanh()
    loss = hidden.sum()
    table = draw(loss).table()
    assert "hidden = tanh" in table
    assert "loss = sum" in table


def test_groups_are_opened_by_name():
    blocks = nn.Sequential(*(nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
                             for _ in range(12)))  # fmt: skip
    x = edutorch.ones(1, 2)
    closed = draw(blocks, x)
    assert any("×12" in node.label for node in closed.snapshot.graph.nodes)
    opened = draw(blocks, x, open="3")
    assert any(frame.key == "3" for frame in opened.snapshot.graph.frames)
    assert len(opened.close("3").snapshot.graph.nodes) < len(opened.snapshot.graph.nodes)


def test_a_dtype_and_a_device_are_said(device):
    x = edutorch.ones(3, dtype=edutorch.float64, device=device)
    node = rows(draw(lambda x: x.exp(), x))["exp"]
    assert (node.dtype, node.device) == ("float64", str(x.device))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: draw(x, 3), "a tensor takes no inputs, got 1"),
        (lambda x: draw(x, graph="sideways"), "unknown graph 'sideways'"),
        (lambda x: draw(lambda: 3), "nothing was computed from a tensor, and no tensor was"),
        (lambda x: draw(lambda x: None, x), "let it return what it computes"),
        (
            lambda x: draw(lambda x: x + 1, edutorch.arange(3), graph="backward"),
            "nothing that has a gradient was computed",
        ),
        (lambda x: draw([]), "expected tensors, got a list with nothing in it"),
        (lambda x: draw([x, 1.0]), "expected tensors, got a list with a float in it"),
        (lambda x: draw({"a": {"b": None}}), "expected tensors, got a dict with a NoneType in it"),
        (lambda x: draw(x * 2, scale=3), "a tensor takes no argument 'scale'"),
        (lambda x: draw([x], 3), "a tensor takes no inputs, got 1"),
    ],
)
def test_what_cannot_be_drawn(call, text):
    with pytest.raises(NotDrawableError, match=text):
        call(edutorch.ones(3))


def test_an_error_inside_the_function_goes_on_its_way():
    with pytest.raises(ZeroDivisionError):
        draw(lambda x: x * (1 / 0), edutorch.ones(3))


def test_histograms_count_every_number(device):
    x = edutorch.linspace(0, 1, 1600, device=device)
    stats = summarize(x._array, bars=True)
    assert sum(stats.bars) == 1600
    assert max(stats.bars) - min(stats.bars) <= 2
    assert stats.std == pytest.approx(x.std(correction=0).item(), rel=1e-3)


def test_a_histogram_of_very_many_numbers_is_one_of_a_sample():
    assert sum(summarize(edutorch.ones(1_000_000)._array, bars=True).bars) <= 65_536
    assert bar_text([0, 0, 0]) == "   "


def test_a_histogram_is_in_the_picture():
    drawing = draw(lambda x: x.exp(), edutorch.linspace(-1, 1, 100))
    for value in drawing.snapshot.values:
        assert bar_text(value.bars).strip()
    assert drawing.svg.count('class="bars"') == 2


def test_a_call_of_a_compiled_function_is_one_box():
    @edutorch.compile
    def bell(x):
        return (-x * x).exp()

    x = edutorch.ones(3, requires_grad=True)
    bell(x)  # captures the function
    assert [*rows(draw(bell(x)))] == ["x", "compiled bell"]
