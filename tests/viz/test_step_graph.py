"""What a step's graph holds after writes, detours without a gradient, and several passes."""

import gc
import weakref

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.events import listening
from edutorch.nn import functional as F
from edutorch.viz import draw
from edutorch.viz.graph.names import Names
from edutorch.viz.live.recorder import Recorder


def recorded(run, *models):
    recorder = Recorder(Names(models))
    with listening(recorder):
        kept = run()
    recorder.finish()
    del kept
    return recorder.snapshot


def described(snapshot):
    """Return (label, version, differentiable) of each box, and (source, target, kind) of arrows."""
    nodes = snapshot.graph.nodes
    place = {node.id: at for at, node in enumerate(nodes)}
    boxes = [(node.label, node.version, node.differentiable) for node in nodes]
    arrows = [
        (nodes[place[edge.source]].label, nodes[place[edge.target]].label, edge.kind)
        for edge in snapshot.graph.edges
    ]
    return boxes, arrows


def value_of(snapshot, label):
    return [
        value for node, value in zip(snapshot.graph.nodes, snapshot.values, strict=True)
        if node.label == label
    ][-1]  # fmt: skip


def test_a_write_in_place_is_the_same_tensor_in_a_new_version():
    w = torch.ones(3, requires_grad=True)

    def run():
        h = w * 2
        h += 1
        h.sum().backward()

    snapshot = recorded(run)
    boxes, arrows = described(snapshot)
    assert ("add", 1, True) in boxes
    assert {("mul", "add", "forward"), ("add", "sum", "forward")} <= set(arrows)
    assert value_of(snapshot, "mul").text == "[2, 2, 2]"
    assert value_of(snapshot, "add").text == "[3, 3, 3]"


def test_a_write_through_a_view_reaches_its_base_and_other_views():
    w = torch.ones(3, requires_grad=True)

    def run():
        h = w * 2
        first, last = h[0:1], h[2:]
        first.add_(5)
        (h.sum() + last.sum()).backward()

    snapshot = recorded(run)
    boxes, arrows = described(snapshot)
    assert ("as_strided_scatter", 1, True) in boxes
    assert ("mul", "as_strided_scatter", "forward") in arrows
    assert ("add", "as_strided_scatter", "forward") in arrows
    assert value_of(snapshot, "as_strided_scatter").text == "[7, 2, 2]"
    assert value_of(snapshot, "mul").text == "[2, 2, 2]"


def test_an_index_that_is_written_to():
    w = torch.ones(3, requires_grad=True)

    def run():
        h = w * 2
        h[1] = 9.0
        h[0] = w[2] * 4
        h.sum().backward()

    snapshot = recorded(run)
    boxes, arrows = described(snapshot)
    assert [box for box in boxes if box[0] == "setitem"] == [
        ("setitem", 1, True), ("setitem", 2, True)
    ]  # fmt: skip
    assert ("value", "setitem", "forward") in arrows
    assert ("setitem", "setitem", "forward") in arrows
    assert value_of(snapshot, "setitem").text == "[4, 9, 2]"


def test_data_that_is_refilled_between_two_uses_is_two_versions():
    w = torch.ones(2, requires_grad=True)
    data = torch.tensor([1.0, 2.0])

    def run():
        once = w * data
        data.copy_(torch.tensor([5.0, 6.0]))
        (once + w * data).sum().backward()

    # Backward of the first product needs the old numbers, and says so; the picture is of forward.
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        recorded(run)

    def run_with_copies():
        once = w + data
        data.copy_(torch.tensor([5.0, 6.0]))
        (once + w + data).sum().backward()

    nodes = recorded(run_with_copies).graph.nodes
    assert [node.version for node in nodes if node.label in ("data", "copy_")] == [0, 0, 1]


def test_numpy_writes_make_a_version_too():
    w = torch.ones(2, requires_grad=True)
    data = torch.tensor([1.0, 2.0])

    def run():
        once = w + data
        data.numpy()[:] = 7
        (once + w + data).sum().backward()

    snapshot = recorded(run)
    leaves = [node for node in snapshot.graph.nodes if node.label == "data"]
    values = [
        value.text for node, value in zip(snapshot.graph.nodes, snapshot.values, strict=True)
        if node in leaves
    ]  # fmt: skip
    assert values == ["[1, 2]", "[7, 7]"]


def test_what_has_no_gradient_is_drawn_grey_and_where_it_is_cut():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    model[1].bias.requires_grad_(False)
    images = torch.ones(3, 2, 2)

    def run():
        scores = model(images / 255)
        target = scores.detach().sigmoid()
        with torch.no_grad():
            weight = scores.abs()
        (scores * target * weight).sum().backward()

    snapshot = recorded(run, model)
    boxes, arrows = described(snapshot)
    for label in ("div", "flatten", "reshape", "detach", "sigmoid", "abs"):
        known = [box for box in boxes if box[0] == label]
        assert not known or known == [(label, 0, False)]
    assert ("div", 0, False) in boxes
    assert ("linear", "detach", "cut") in arrows
    assert ("linear", "abs", "cut") in arrows
    bias = next(node for node in snapshot.graph.nodes if node.label == "bias")
    assert bias.marks == ("frozen",)
    assert not bias.differentiable


def test_one_tensor_given_three_times_is_one_box():
    attention = nn.MultiheadAttention(4, 2)
    x = torch.randn(3, 1, 4)
    snapshot = recorded(lambda: attention(x, x, x)[0].sum().backward(), attention)
    inputs = [node for node in snapshot.graph.nodes if node.kind == "leaf"]
    assert len(inputs) == 1


@pytest.mark.parametrize("zeroed", [False, True])
def test_two_passes_over_a_shared_body_add_up_in_box_and_arrow(zeroed):
    w = torch.tensor([1.0, 2.0], requires_grad=True)

    def run():
        h = w * 3
        square, plain = (h * h).sum(), h.sum()
        square.backward(retain_graph=True)
        if zeroed:
            w.grad.zero_()
        plain.backward()

    snapshot = recorded(run)
    nodes = snapshot.graph.nodes
    at = next(place for place, node in enumerate(nodes) if node.label == "mul")
    total = 2 * 3 * np.array([1.0, 2.0]) + 1
    assert snapshot.grads[at].few == pytest.approx(total)
    arrow = next(
        place for place, edge in enumerate(snapshot.graph.edges)
        if edge.target == nodes[at].id and edge.input == "input"
    )  # fmt: skip
    assert snapshot.flows[arrow].few == pytest.approx(3 * total)
    assert snapshot.grads[0].few == pytest.approx((3, 3) if zeroed else 3 * total)
    assert [tab.title for tab in snapshot.graph.tabs] == ["backward 1", "backward 2"]


def test_a_gradient_of_grad_does_not_hide_what_backward_accumulates():
    w = torch.tensor([1.0, 2.0], requires_grad=True)

    def run():
        loss = (w * w).sum()
        torch.autograd.grad(loss, w, torch.tensor(100.0), retain_graph=True)
        loss.backward()

    snapshot = recorded(run)
    assert snapshot.grads[0].few == (2.0, 4.0)
    assert snapshot.flows[0].few == (1.0, 2.0)


def test_calls_of_functions_and_modules_are_noted():
    model = nn.Linear(2, 3)

    def run():
        x, classes = torch.ones(2, 2), torch.tensor([0, 2])
        loss = F.cross_entropy(model(x), classes) + F.cross_entropy(model(x), classes)
        loss.backward()

    scopes = [node.scopes for node in recorded(run, model).graph.nodes if node.kind == "op"]
    names = [[(scope.kind, scope.name, scope.call) for scope in item] for item in scopes]
    assert [("module", "", 1)] in names
    assert [("module", "", 2)] in names
    assert names.count([("function", "cross_entropy", 1)]) == 2
    assert names.count([("function", "cross_entropy", 2)]) == 2


def test_a_hook_is_marked():
    w = torch.ones(2, requires_grad=True)
    w.register_hook(lambda g: g)

    def run():
        h = w * 2
        h.register_hook(lambda g: g * 2)
        h.sum().backward()

    marks = {node.label: node.marks for node in recorded(run).graph.nodes}
    assert marks["mul"] == ("hook",)
    assert marks["sum"] == ()
    assert ("hook",) in marks.values()
    assert marks["other"] == ()


def test_a_custom_function_is_one_box():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

    w = torch.ones(2, requires_grad=True)
    boxes, _ = described(recorded(lambda: Cube.apply(w).sum().backward()))
    assert [label for label, _, _ in boxes] == ["leaf", "Cube", "sum"]


def test_data_prepared_before_the_first_recorded_op_belongs_to_the_step_it_is_for():
    w = torch.ones(2, requires_grad=True)
    graphs = []
    recorder = Recorder(Names(), lambda recorder: graphs.append(recorder.snapshot.graph))
    with listening(recorder):
        for _ in range(3):
            x = torch.tensor([1.0, 2.0]) / 255
            (w * x).sum().backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
    recorder.finish()
    assert [node.label for node in graphs[-1].nodes] == [
        "data", "other", "div", "leaf", "mul", "sum"
    ]  # fmt: skip
    assert len({graph.structure for graph in graphs}) == 1


def test_no_tensor_is_kept_alive():
    w = torch.ones(1000, requires_grad=True)
    recorder = Recorder(Names())
    with listening(recorder):
        h = w * 2
        view = h[:10]
        view.mul_(2)
        grey = h.detach() + 1
        alive = [weakref.ref(item) for item in (h, view, grey)]
        h.sum().backward(retain_graph=True)
        del h, view, grey
        gc.collect()
        assert [item() for item in alive] == [None] * 3


def test_a_number_in_front_is_a_number():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    snapshot = recorded(lambda: (1 - w + 2 / w).sum().backward())
    assert [node.label for node in snapshot.graph.nodes if node.kind == "leaf"] == ["leaf"]
    values = [
        value.text for node, value in zip(snapshot.graph.nodes, snapshot.values, strict=True)
        if node.kind == "constant"
    ]  # fmt: skip
    assert values == ["1", "2"]
    read = draw((1 - w).sum()).whole
    assert [node.kind for node in read.graph.nodes].count("constant") == 1


def test_a_parameter_that_is_frozen_in_one_pass_has_a_box_for_each():
    w = torch.ones(2)
    x = torch.ones(2, requires_grad=True)

    def run():
        first = (w * x).sum()
        w.requires_grad_()
        second = (w * 2).sum()
        first.backward()
        second.backward()

    snapshot = recorded(run)
    wanted = [node.differentiable for node in snapshot.graph.nodes if node.kind == "leaf"]
    assert sorted(wanted) == [False, True, True]
    grads = [grad.few for grad in snapshot.grads if grad is not None]
    assert (2.0, 2.0) in grads


def test_a_detached_result_that_becomes_a_leaf():
    w = torch.ones(2, requires_grad=True)

    def run():
        middle = (w * 2).detach().requires_grad_()
        (middle * 3).sum().backward()

    boxes, arrows = described(recorded(run))
    assert ("detach", 0, False) in boxes
    assert ("detach", "leaf", "forward") in arrows or ("detach", "middle", "forward") in arrows
    assert ("mul", "detach", "cut") in arrows
