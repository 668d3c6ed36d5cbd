"""What the recorder makes of a run: the right numbers, and nothing kept alive."""

import gc
import weakref

import pytest

import edutorch
from edutorch.events import listening
from edutorch.viz import Recorder
from edutorch.viz.graph.names import Names


def record(run, steps=1):
    recorder = Recorder(Names())
    with listening(recorder):
        for _ in range(steps):
            run()
        recorder.finish()
    return recorder


def rows(snapshot):
    """Value and gradient texts by label (of tiny tensors)."""
    return {
        node.label: (value.text, grad.text if grad else None)
        for node, value, grad in zip(
            snapshot.graph.nodes, snapshot.values, snapshot.grads, strict=True
        )
    }


def test_values_and_gradients_of_a_small_graph(device):
    x = edutorch.tensor([1.0, -2.0], requires_grad=True)
    snapshot = record(lambda: (x * x).exp().sum().backward()).snapshot
    e1, e4 = 2.718, 54.6
    assert rows(snapshot) == {
        "leaf": ("[1, -2]", f"[{2 * 2.71828:.3g}, {-4 * 54.59815:.3g}]"),
        "mul": ("[1, 4]", f"[{e1:.3g}, {e4:.3g}]"),
        "exp": (f"[{e1:.3g}, {e4:.3g}]", "[1, 1]"),
        "sum": ("57.32", "1"),
    }


def test_the_gradient_of_a_node_used_twice_is_the_sum(device):
    x = edutorch.tensor(3.0, requires_grad=True)

    def run():
        y = x * 2
        (y * y + y).backward()

    snapshot = record(run).snapshot
    by_label = {node.id: node.label for node in snapshot.graph.nodes}
    mul = next(node.id for node in snapshot.graph.nodes if node.label == "mul")
    flows = [
        flow.text
        for edge, flow in zip(snapshot.graph.edges, snapshot.flows, strict=True)
        if edge.source == mul
    ]
    assert sorted(flows) == ["1", "6", "6"]
    grad = snapshot.grads[list(by_label).index(mul)]
    assert grad.text == "13"


def test_a_broadcast_input_is_told_what_it_received(device):
    b = edutorch.zeros(3, requires_grad=True)
    x = edutorch.ones(5, 3)
    snapshot = record(lambda: (x + b).sum().backward()).snapshot
    edge = next(
        flow
        for edge, flow in zip(snapshot.graph.edges, snapshot.flows, strict=True)
        if edge.input == "other"
    )
    assert edge.text == "[5, 5, 5]"


def test_python_numbers_are_boxes_of_their_own():
    x = edutorch.tensor(3.0, requires_grad=True)
    snapshot = record(lambda: (x**2 + 1).backward()).snapshot
    types = {node.label: node.kind for node in snapshot.graph.nodes}
    assert types == {
        "leaf": "leaf", "exponent": "constant", "pow": "op", "other": "constant", "add": "output",
    }  # fmt: skip


def test_a_changing_number_does_not_change_the_structure():
    x = edutorch.tensor(3.0, requires_grad=True)
    structures = set()
    for factor in (0.1, 0.2):
        structures.add(record(lambda f=factor: (x * f).backward()).snapshot.graph.structure)
    assert len(structures) == 1


def test_ops_that_backward_does_not_reach_are_drawn_if_they_are_of_the_step():
    x = edutorch.ones(3, requires_grad=True)

    def run():
        (edutorch.ones(3) / 255).sum()  # an evaluation before the step
        loss = (x * 2).sum()
        (x.exp() + 5).mean()  # a metric somebody computes on the way
        x.detach().abs().max()
        loss.backward()
        x.detach().sqrt()  # the update, or a metric after it

    graph = record(run).snapshot.graph
    labels = [node.label for node in graph.nodes]
    assert {"exp", "mean", "sum", "detach", "abs"} <= set(labels)
    assert not {"div", "sqrt"} & set(labels)
    cut = [edge for edge in graph.edges if edge.kind == "cut"]
    assert [graph.nodes[int(edge.target[1:])].label for edge in cut] == ["detach"]
    grey = {node.label for node in graph.nodes if node.kind == "op" and not node.differentiable}
    assert grey == {"detach", "abs", "amax"}


def test_two_losses_of_one_graph_are_drawn_together():
    x = edutorch.ones(3, requires_grad=True)

    def run():
        hidden = x.exp()
        first, second = hidden.sum(), hidden.mean()
        first.backward(retain_graph=True)
        second.backward()

    types = {node.label: node.kind for node in record(run).snapshot.graph.nodes}
    assert types["sum"] == types["mean"] == "output"


def test_without_backward_the_results_are_drawn():
    x = edutorch.ones(3, requires_grad=True)
    snapshot = record(lambda: x.exp().sum()).snapshot
    assert [node.label for node in snapshot.graph.nodes] == ["leaf", "exp", "sum"]
    assert snapshot.graph.nodes[-1].kind == "output"


def test_steps_are_counted_without_an_optimizer():
    w = edutorch.tensor(4.0, requires_grad=True)
    losses = []

    def run():
        loss = (w - 1) ** 2
        w.grad = None
        loss.backward()
        with edutorch.no_grad():
            w.sub_(w.grad * 0.25)

    recorder = Recorder(Names(), lambda recorder: losses.append(recorder.loss))
    with listening(recorder):
        for _ in range(4):
            run()
        recorder.finish()
    assert recorder.step == 4
    assert losses == [9.0, 2.25, 0.5625, 0.140625]


def test_the_loss_is_known_even_when_nothing_else_is_recorded():
    w = edutorch.tensor([1.0, 2.0], requires_grad=True)
    recorder = Recorder(Names())
    recorder.sampling = False
    with listening(recorder):
        loss = (w * w).sum()
        loss.backward()
        recorder.finish()
    assert recorder.loss == 5.0
    assert recorder.snapshot is None


def test_second_derivatives_are_one_step():
    x = edutorch.tensor(2.0, requires_grad=True)

    def run():
        (first,) = edutorch.autograd.grad(x**3, x, create_graph=True)
        (first * first).backward()

    recorder = record(run)
    assert recorder.step == 1
    assert x.grad.item() == 2 * 12 * 12
    assert "mul" in [node.label for node in recorder.snapshot.graph.nodes]


@pytest.mark.parametrize("sampling", [True, False])
def test_no_tensor_is_kept_alive(sampling):
    recorder = Recorder(Names())
    recorder.sampling = sampling
    with listening(recorder):
        x = edutorch.ones(4, 4, requires_grad=True)
        hidden = x.exp()
        loss = hidden.sum()
        loss.backward()
        alive = [weakref.ref(item) for item in (x, hidden, loss, loss.grad_fn)]
        del x, hidden, loss
        gc.collect()
        assert [item() for item in alive] == [None] * 4


def test_temporary_tensors_at_the_same_address_are_two_boxes():
    x = edutorch.ones(3, requires_grad=True)

    def run():
        y = x
        for value in range(5):  # each constant may take the place of the one before
            y = y + edutorch.full((3,), float(value))
        y.sum().backward()

    nodes = record(run).snapshot.graph.nodes
    assert len([node for node in nodes if node.label == "data"]) == 5


def test_nan_is_noticed():
    x = edutorch.tensor([1.0, -1.0], requires_grad=True)
    snapshot = record(lambda: x.log().sum().backward()).snapshot
    bad = {node.label for node in snapshot.graph.nodes if node.id in snapshot.bad}
    assert bad == {"log", "sum"}


def test_several_results_of_one_op():
    x = edutorch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    snapshot = record(lambda: x.sort()[0].sum().backward()).snapshot
    assert any(node.label.startswith("sort") for node in snapshot.graph.nodes)


def test_a_list_of_tensors_has_numbered_inputs(device):
    a, b = edutorch.ones(2, requires_grad=True), edutorch.ones(3, requires_grad=True)
    snapshot = record(lambda: edutorch.cat([a, b]).sum().backward()).snapshot
    inputs = [edge.input for edge in snapshot.graph.edges]
    assert inputs == ["tensors[0]", "tensors[1]", "input"]


def test_a_value_from_an_earlier_step_is_an_input_of_this_one():
    w = edutorch.tensor(2.0, requires_grad=True)
    recorder = Recorder(Names())
    with listening(recorder):
        hidden = w * 3
        recorder.finish_step()
        (hidden * w).backward()
        recorder.finish()
    types = [(node.kind, node.label) for node in recorder.snapshot.graph.nodes]
    assert types == [("leaf", "leaf"), ("leaf", "leaf"), ("output", "mul")]


def test_only_modules_are_watched():
    with pytest.raises(TypeError, match="expected a module, got int"):
        Names([3])
