"""`draw` of functions as people write them: backward inside, any inputs, any results."""

from collections import namedtuple

import pytest

import edutorch
from edutorch import nn
from edutorch.viz import draw

Batch = namedtuple("Batch", "image mask")


def nodes(drawing):
    return drawing.whole.graph.nodes


def outputs(drawing):
    return [node.label for node in nodes(drawing) if node.kind == "output"]


def leaves(drawing):
    return [node.label for node in nodes(drawing) if node.kind == "leaf"]


def reached(drawing):
    """Return the labels of all that the outputs were computed from."""
    graph = drawing.whole.graph
    labels = {node.id: node.label for node in graph.nodes}
    result = [node.id for node in graph.nodes if node.kind == "output"]
    for id in result:
        result += [edge.source for edge in graph.edges
                  if edge.target == id and edge.source not in result]  # fmt: skip
    return {labels[id] for id in result}


def maml(support, query):
    weight = edutorch.ones(3, requires_grad=True)
    loss = ((weight * support) ** 2).sum()
    (gradient,) = edutorch.autograd.grad(loss, weight, create_graph=True)
    adapted = weight - 0.1 * gradient
    return (adapted * query).sum().tanh()


def gradient_penalty(x):
    score = (x**3).sum()
    (gradient,) = edutorch.autograd.grad(score, x, create_graph=True)
    return (gradient.norm() - 1) ** 2


def test_an_inner_step_does_not_end_the_picture():
    support, query = edutorch.ones(3), edutorch.full((3,), 2.0)
    drawing = draw(maml, support, query)
    assert outputs(drawing) == ["tanh"]
    assert {"weight", "support", "query", "sub", "tanh"} <= reached(drawing)


def test_a_gradient_penalty_is_whole_and_has_its_gradient():
    x = edutorch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    drawing = draw(gradient_penalty, x, graph="both")
    (expected,) = edutorch.autograd.grad(gradient_penalty(x), x)
    gradients = [value for node, value in zip(nodes(drawing), drawing.whole.values, strict=True)
                 if node.label == "x.grad"]  # fmt: skip
    assert {"x", "vector_norm", "sub"} <= reached(draw(gradient_penalty, x))
    assert gradients[0].norm == pytest.approx(expected.norm().item(), rel=1e-5)
    assert x.grad is None


def test_backward_inside_a_function_ends_nothing():
    def function(x):
        y = (x * 2).sum()
        y.backward()
        return (x.grad * x).sum().exp()

    drawing = draw(function, edutorch.ones(3))
    assert outputs(drawing) == ["exp"]
    assert {node.label for node in nodes(drawing)} >= {"x", "x.grad", "exp", "mul"}


@pytest.mark.parametrize("optimizer", [True, False])
def test_a_training_loop_in_a_function_is_one_picture(optimizer):
    def train(x):
        layer = nn.Linear(3, 1)
        rule = edutorch.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(3):
            rule.zero_grad()
            loss = layer(x).sum()
            loss.backward()
            if optimizer:
                rule.step()
        return loss

    drawing = draw(train, edutorch.ones(2, 3))
    assert outputs(drawing) == ["sum"]
    assert [node.label for node in nodes(drawing)].count("linear") == 3


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: (x.exp(), x.tanh()), ["exp", "tanh"]),
        (lambda x: {"a": x.exp(), "b": [x.tanh(), None, 3]}, ["exp", "tanh"]),
        (lambda x: Batch(x.exp(), x.tanh()), ["exp", "tanh"]),
        (lambda x: (y := x.exp(), y.tanh()), ["exp", "tanh"]),
    ],
)
def test_all_results_are_outputs(function, expected):
    drawing = draw(function, edutorch.ones(3))
    assert outputs(drawing) == expected


@pytest.mark.parametrize("graph", ["both", "backward"])
def test_gradients_are_those_of_the_sum_of_all_results(graph):
    x = edutorch.ones(3)
    drawing = draw(lambda x: (x * 2, (x * 5).sum()), x, graph=graph)
    values = [value for node, value in zip(nodes(drawing), drawing.whole.values, strict=True)
              if node.label == "x.grad"]  # fmt: skip
    assert [value.few for value in values] == [(7.0, 7.0, 7.0)]


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (nn.Flatten(), edutorch.ones(2, 3)),
        (lambda x: x + 1, edutorch.tensor([1, 2])),
        (lambda x: x > 1, edutorch.ones(3)),
        (lambda x: x.argmax(), edutorch.ones(3)),
        (lambda x: x.detach() * 2, edutorch.ones(3)),
    ],
)
def test_what_has_no_gradient_is_grey(function, x):
    drawing = draw(function, x)
    ends = [node for node in nodes(drawing) if node.kind == "output"]
    assert len(ends) == 1
    assert not ends[0].differentiable
    assert "x" in reached(drawing)


def test_an_input_that_is_given_back_is_a_box():
    assert leaves(draw(lambda x: x, edutorch.ones(3))) == ["x"]


def test_keyword_arguments_go_to_the_function():
    def function(x, scale, shift=None):
        return x * scale + shift

    shift = edutorch.ones(3)
    drawing = draw(function, edutorch.ones(3), scale=2, shift=shift)
    assert leaves(drawing) == ["x", "shift"]
    attention = nn.MultiheadAttention(4, 2)
    x, mask = edutorch.randn(3, 1, 4), edutorch.zeros(3, 3)
    drawing = draw(attention, x, x, x, attn_mask=mask, need_weights=False)
    assert sorted(leaves(drawing)) == ["mask", "x"]


def test_a_tensor_given_three_times_is_one_box():
    x = edutorch.ones(3)
    drawing = draw(lambda a, b, c: a * b + c, x, x, x)
    assert leaves(drawing) == ["x"]


def test_nested_inputs_are_named_by_their_path():
    def function(batch, pair, *rest):
        return batch["image"] * batch["mask"] + pair[1] * rest[0]

    batch = {"image": edutorch.ones(3), "mask": edutorch.ones(3)}
    drawing = draw(function, batch, (1, edutorch.ones(3)), edutorch.ones(3))
    assert sorted(leaves(drawing)) == ["batch.image", "batch.mask", "pair[1]", "rest[0]"]
    assert all(node.differentiable for node in nodes(drawing) if node.kind == "output")
    drawing = draw(lambda b: b.image + b.mask, Batch(edutorch.ones(3), edutorch.ones(3)))
    assert sorted(leaves(drawing)) == ["b.image", "b.mask"]


def test_a_state_of_an_lstm_in_a_tuple():
    lstm, x = nn.LSTM(2, 3), edutorch.ones(4, 1, 2)
    drawing = draw(lstm, x, (edutorch.zeros(1, 1, 3), edutorch.zeros(1, 1, 3)))
    assert leaves(drawing) == ["x", "hx[0]", "hx[1]"]


def test_arguments_name_what_no_variable_holds():
    assert leaves(draw(lambda q: q * 2, edutorch.ones(3))) == ["q"]
    assert leaves(draw(nn.Tanh(), edutorch.ones(3))) == ["input"]


def test_what_a_function_makes_is_called_by_its_variables():
    def function(x):
        weight = edutorch.full((3,), 2.0, requires_grad=True)
        return x * weight

    assert leaves(draw(function, edutorch.ones(3))) == ["x", "weight"]


def test_a_wrong_call_is_the_functions_own_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        draw(lambda a, b: a * b, edutorch.ones(3))


@pytest.mark.parametrize("container", [list, tuple, lambda pair: {"a": pair[0], "b": pair[1]}])
def test_several_tensors_are_one_picture(container):
    x = edutorch.ones(3, requires_grad=True)
    hidden = x * 2
    drawing = draw(container((hidden.exp(), hidden)))
    assert nodes(drawing)[0].label == "x"
    assert sorted(outputs(drawing)) == ["exp", "mul"]
    assert [node.label for node in nodes(drawing)].count("mul") == 1
    values = {node.label: value for node, value in
              zip(nodes(drawing), drawing.whole.values, strict=True)}  # fmt: skip
    assert values["mul"].few == (2.0, 2.0, 2.0)
    assert values["exp"] is not None
