"""What is said and drawn when a loop ends by an exception, and what is framed in red."""

import contextlib

import pytest

import edutorch as torch
from edutorch import nn, viz
from edutorch.nn import functional as F
from tests.viz.viewers import PLACES

X = torch.arange(15).float().reshape(5, 3) / 10


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(5, 2)

    def forward(self, x):
        return self.last(self.first(x).relu())


def failed(snapshot):
    return [node for node in snapshot.graph.nodes if node.kind == "failed"]


def ended(place, code, error, *models):
    """Run code in a view that an exception ends; return the view."""
    view = PLACES[place](*models)

    def run():
        with view:
            for step in range(20):
                code(step)

    with pytest.raises(error):
        run()
    return view


@pytest.mark.parametrize("place", PLACES)
def test_a_failed_layer_is_drawn_where_it_was_called(place):
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

    def step(number):
        if number == 19:
            net[2].weight = nn.Parameter(torch.ones(2, 5))
        net(X).sum().backward()

    view = ended(place, step, RuntimeError, net)
    (node,) = failed(view.drawing().whole)
    assert (node.label, node.module) == ("✗ linear", "2")
    assert [scope.name for scope in node.scopes if scope.kind == "module"][-1] == "2"


def test_of_what_was_computed_before_a_failure_nothing_is_an_output():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(5, 2))
    with pytest.raises(RuntimeError):
        viz.check(net, X)
    kinds = {node.label: node.kind for node in viz.post_mortem().snapshot.graph.nodes}
    assert kinds["relu"] == "op" and "output" not in kinds.values()


def test_a_failed_layer_inside_of_another_one():
    net = nn.Sequential(Inner())
    with pytest.raises(RuntimeError):
        viz.check(net, X)
    (node,) = failed(viz.post_mortem().snapshot)
    assert node.module == "0.last"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", [ValueError, KeyError, ZeroDivisionError])
def test_an_error_of_ones_own_is_no_failed_op(place, error):
    net = nn.Linear(3, 2)

    def step(number):
        net(X).sum().backward()
        if number == 19:
            raise error("of my own")

    view = ended(place, step, error, net)
    finding = view.trouble.findings["error"]
    assert finding.kind == "stopped" and "by your own code" in finding.says
    assert finding.line.endswith('raise error("of my own")')
    assert "shapes" not in str(finding)
    assert failed(view.drawing().whole) == []


@pytest.mark.parametrize("place", PLACES)
def test_an_error_of_ones_own_in_a_forward(place):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x):
            raise NotImplementedError("not yet written")

    view = ended(place, lambda step: Net()(X), NotImplementedError)
    assert view.trouble.findings["error"].kind == "stopped"


def test_a_failure_that_was_caught_is_not_the_one_that_ended_the_block():
    w = torch.ones(2, 3, requires_grad=True)

    def step(number):
        with contextlib.suppress(RuntimeError):
            w @ torch.ones(2, 2)
        w.exp().sum().backward()
        raise ValueError("later")

    assert ended("script", step, ValueError).trouble.findings["error"].kind == "stopped"


def test_an_interrupt_is_no_trouble():
    w = torch.ones(2, requires_grad=True)

    def step(number):
        (w * w).sum().backward()
        raise KeyboardInterrupt

    assert ended("script", step, KeyboardInterrupt).trouble.findings == {}


class Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        raise RuntimeError("not like this")


FIRST_OPS = {
    "linear": (lambda x: F.linear(x, torch.ones(4, 4)), [("input", "2×3"), ("weight", "4×4")]),
    "matmul": (lambda x: x @ torch.ones(2, 2), [("input", "2×3"), ("other", "2×2")]),
    "cat": (lambda x: torch.cat([x, x[:, :2]]), [("[0]", "2×3"), ("[1]", "2×2")]),
    "stack": (lambda x: torch.stack([x, x[0]]), [("[0]", "2×3"), ("[1]", "3")]),
    "einsum": (lambda x: torch.einsum("ij->jk", x), [("[0]", "2×3")]),
    "conv2d": (lambda x: F.conv2d(x[None], torch.ones(1, 2, 3, 3)),
               [("input", "1×1×2×3"), ("weight", "1×2×3×3")]),
    "Refused": (lambda x: Refused.apply(x, x.exp()), [("[0]", "2×3"), ("[1]", "2×3")]),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST_OPS)
def test_a_failed_op_has_its_name_and_all_its_operands(name):
    code, operands = FIRST_OPS[name]
    x = torch.ones(2, 3, requires_grad=True)
    for place, run in {
        "check": lambda: viz.check(code, x),
        "view": lambda: ended("script", lambda step: code(x), RuntimeError),
    }.items():
        with contextlib.suppress(RuntimeError):
            run()
        snapshot = viz.post_mortem().snapshot
        (node,) = failed(snapshot)
        assert node.label == f"✗ {name}", place
        inputs = [edge.input for edge in snapshot.graph.edges if edge.target == node.id]
        assert inputs == [item for item, _ in operands], place
        assert node.dtype == " with ".join(shape for _, shape in operands), place


@pytest.mark.parametrize("place", PLACES)
def test_the_first_layer_has_its_parameters_also_where_it_fails(place):
    net = nn.Sequential(nn.Linear(4, 2))
    view = ended(place, lambda step: net(X), RuntimeError, net)
    graph = view.drawing().whole.graph
    assert {(node.label, node.module) for node in graph.nodes} >= {("weight", "0"), ("bias", "0")}
    (node,) = failed(view.drawing().whole)
    assert (node.label, node.dtype) == ("✗ linear", "5×3 with 2×4 with 2")


# Red ----------------------------------------------------------------------------------------


def red(function, *inputs):
    snapshot = viz.draw(function, *inputs).whole
    return [node.label for node in snapshot.graph.nodes if node.id in snapshot.bad]


def test_a_mask_that_softmax_takes_away_is_not_red():
    scores = torch.zeros(3, 3, requires_grad=True)
    later = torch.ones(3, 3).triu(1).bool()
    mask = torch.full((3, 3), float("-inf")).triu(1)
    assert red(lambda s: F.softmax(s.masked_fill(later, float("-inf")), -1).sum(), scores) == []
    assert red(lambda s: F.softmax(s + mask, -1).sum(), scores) == []
    assert red(lambda s: torch.where(later, float("-inf"), s).softmax(-1).sum(), scores) == []


def test_what_reaches_a_result_is_red():
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    assert red(lambda x: x.log().sum(), x) == ["log", "sum"]
    assert "masked_fill" in red(lambda x: x.masked_fill(x > 0, float("inf")).mean(), x)
    assert "div" in red(lambda x: (x / x).nan_to_num().sum(), x)  # a NaN always is


def test_a_view_frames_a_correct_attention_nowhere():
    later = torch.ones(4, 4).triu(1).bool()
    net = nn.Linear(3, 3)
    for watch in PLACES.values():
        with watch(net) as view:
            for _ in range(12):
                hidden = net(torch.randn(4, 3))
                scores = (hidden @ hidden.T).masked_fill(later, float("-inf"))
                loss = (scores.softmax(-1) @ hidden).square().mean()
                loss.backward()
                net.zero_grad()
        assert view.drawing().whole.bad == ()
        assert not view.trouble.findings


# Asked for ----------------------------------------------------------------------------------


def test_a_bad_gradient_of_a_leaf_is_found_and_its_rule():
    w = torch.tensor([0.0, 4.0], requires_grad=True)
    loss = w.sqrt().sum()
    loss.backward(retain_graph=True)
    (result,) = viz.trouble(loss).findings
    assert result.kind == "nan-gradient" and "rule of sqrt" in result.says
    assert "loss = w.sqrt().sum()" in result.line or not result.line
    kept = w.grad.clone()
    viz.trouble(loss)
    assert torch.equal(kept, w.grad)  # a look changes nothing


def test_layers_in_a_list_are_reported_by_check_and_trouble():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(3, 3), nn.Linear(3, 2)]
            self.scale = torch.ones(2, requires_grad=True)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x * self.scale

    net = Net()
    for report in (viz.check(net, X), viz.trouble(net(X).sum(), net)):
        assert report.kinds == ["unregistered", "unregistered"]
        listed, scale = report.findings
        assert "`layers` is a plain list" in listed.says and "nn.ModuleList" in listed.do
        assert "`layers[0].weight`" in listed.says
        assert "`scale` is a plain tensor" in scale.says and "nn.Parameter" in scale.do
