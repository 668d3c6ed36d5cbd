"""Trouble: each kind is found, says what to do, and is not seen where there is none."""

import gc
import math
import re
import sys
import weakref

import pytest

import edutorch
from edutorch import nn, viz
from edutorch.events import OpApplied
from edutorch.modes import listening
from edutorch.nn import functional as F
from edutorch.viz.diagnostics.checks import NotCheckableError, Trouble
from edutorch.viz.diagnostics.messages import MESSAGES, finding
from edutorch.viz.diagnostics.post_mortem import LastFailure
from edutorch.viz.diagnostics.saved_values import find_bad_gradients, find_bad_values
from edutorch.viz.graph.names import Names


def leaf(*values):
    return edutorch.tensor(list(values), requires_grad=True)


def only(report):
    assert len(report.findings) == 1, str(report)
    return report.findings[0]


@pytest.mark.parametrize("loss", [
    lambda w: (w * math.nan).mean(),  # the data is bad
    lambda w: w.mean() + (w.detach() - 9).log().mean(),  # nothing was kept that says why
    lambda w: (w - 1).sqrt().sum(),  # only the gradient is bad
    lambda w: (w - 2).log().sum(),
])  # fmt: skip
def test_a_diagnosis_applies_no_op_that_a_recorder_hears(loss):
    loss = loss(leaf(1.0, 3.0))
    loss.backward()
    heard = []
    with listening(heard.append):
        assert find_bad_values(loss, Names((), None)) or find_bad_gradients(loss, Names((), None))
    assert [event.op.name for event in heard if isinstance(event, OpApplied)] == []


# The table of messages ------------------------------------------------------------------------


class Anything(dict):
    def __missing__(self, key):
        return f"<{key}>"


@pytest.mark.parametrize("kind", MESSAGES)
def test_each_message_is_a_sentence_and_says_what_to_do(kind):
    says, do = (text.format_map(Anything()) for text in MESSAGES[kind])
    assert says.endswith((".", "<message>")) and len(says) < 200
    assert do == "<hint>" or do.endswith((".", "<advice>"))


def test_a_finding_reads_like_an_error():
    result = finding("never-called", line="a.py:3  x", details=("one",), names="`w`", module="`a`")
    assert str(result).splitlines() == [
        "✗ `w` get no gradient: `a` never ran.",
        "  at a.py:3  x",
        "  one",
        "  → Call the layer in forward(), or delete it.",
    ]


# The first NaN --------------------------------------------------------------------------------

FORWARD = [
    (lambda x: (x - 1).log().sum(), (1.0, 2.0, 1.0), "log", "log of 0 at 2 places"),
    (lambda x: x.log().sum(), (-1.0, 2.0), "log", "log of a number below 0 at 1 place"),
    (lambda x: (x / x).sum(), (0.0, 2.0), "div", "0/0 at 1 place"),
    (lambda x: (1 / x).sum(), (0.0, 0.0, 2.0), "div", "a number divided by 0 at 2 places"),
    (lambda x: x.sqrt().sum(), (-4.0, 4.0), "sqrt", "sqrt of a number below 0 at 1 place"),
    (lambda x: x.exp().sum(), (100.0, 0.0), "exp", "exp of 100, and above 88.7"),
    (lambda x: (x**0.5).sum(), (-1.0, 4.0), "pow", "a negative number to a power"),
    (lambda x: (x**-2.0).sum(), (0.0, 4.0), "pow", "0 to a negative power at 1 place"),
    (lambda x: x.acos().sum(), (2.0, 0.0), "acos", "outside of -1 … 1 at 1 place"),
    (lambda x: (x * x).sum(), (1e30, 1.0), "mul", "leaves the range of float32"),
]


@pytest.mark.parametrize(("function", "numbers", "op", "cause"), FORWARD)
def test_the_first_bad_op_and_the_operand_that_caused_it(function, numbers, op, cause):
    finding = viz.check(function, leaf(*numbers)).findings[0]
    assert finding.kind == "nan"
    assert f"is made by {op}: " in finding.says and cause in finding.says
    assert re.match(r"test_trouble\.py:\d+  ", finding.line)
    assert finding.details


def test_the_operand_is_named_with_its_range():
    speed = leaf(0.0, 4.0)
    result = only(viz.check(lambda: speed.log().sum()))
    assert result.details == ("input = speed (2): from 0 to 4",)


def test_what_follows_from_the_first_is_not_reported():
    report = viz.check(lambda x: ((x.exp() - x.exp()).log() * 0).sum(), leaf(1000.0))
    assert "made by exp" in only(report).says


def test_bad_data_is_called_so():
    speeds = edutorch.tensor([1.0, math.nan, math.inf])
    w = leaf(1.0)
    result = only(viz.check(lambda: (speeds * w).sum()))
    assert result.kind == "nan-data"
    assert result.says.startswith("`speeds` comes in with 2 bad numbers")


def test_a_mask_of_infinities_is_no_trouble():
    mask = edutorch.full((3, 3), -math.inf).triu(1)
    scores = edutorch.zeros(3, 3, requires_grad=True)
    later = edutorch.ones(3, 3).triu(1).bool()
    assert viz.check(lambda s: F.softmax(s + mask, -1)[0].sum(), scores).ok
    assert viz.check(lambda s: F.softmax(s.masked_fill(later, -math.inf), -1)[0].sum(), scores).ok
    result = viz.check(
        lambda s: F.softmax(s.masked_fill(later | True, -math.inf), -1).sum(), scores
    )
    assert "everything is masked" in result.findings[0].says


def test_a_mask_does_not_protect_a_gradient():
    x = leaf(0.0, 4.0)
    report = viz.check(lambda x: edutorch.where(x > 0, x.sqrt(), x * 0).sum(), x)
    result = only(report)
    assert result.kind == "nan-gradient"
    assert (
        "rule of sqrt: the slope of sqrt at 0 is infinite (at 1 place), and 0 · Inf" in result.says
    )
    assert result.do.startswith("Add a small number below the root")


def test_a_gradient_of_zero_times_a_slope_without_end():
    result = only(viz.check(lambda x: x.sqrt().sum(), leaf(0.0, 1.0)))
    assert result.kind == "nan-gradient" and "Inf in a gradient" in result.says


def test_large_numbers_that_are_fine():
    assert viz.check(lambda x: (x * 3).sum(), leaf(*[3e37] * 4)).kinds == ["nan"]
    assert viz.check(lambda x: x * 3, leaf(*[1e38] * 3)).ok  # the sum overflows, the numbers do not


# The chain ------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self, cut=lambda h: h, use=True):
        super().__init__()
        self.first, self.last, self.spare = nn.Linear(3, 4), nn.Linear(4, 2), nn.Linear(2, 2)
        self.cut, self.use = cut, use

    def forward(self, x):
        y = self.last(self.cut(self.first(x).relu()))
        return self.spare(y) if self.use else y


X = edutorch.arange(15).float().reshape(5, 3) / 10


def no_gradients(h):
    with edutorch.no_grad():
        return h * 2


CUTS = {
    "detach": (lambda h: h.detach(), "detach(), .data or numpy() in front of linear"),
    "data": (lambda h: h.data, "detach(), .data or numpy() in front of linear"),
    "numpy": (lambda h: edutorch.from_numpy(h.detach().numpy()), "detach(), .data or numpy()"),
    "no_grad": (no_gradients, "no_grad() around mul"),
    "integers": (lambda h: h.long().float(), "a conversion to integers, which has no slope"),
    "argmax": (lambda h: F.one_hot(h.argmax(1), 4).float(), "argmax, which has no slope"),
}


@pytest.mark.parametrize("name", CUTS)
def test_where_the_chain_is_cut(name):
    cut, words = CUTS[name]
    result = only(viz.check(Net(cut), X))
    assert result.kind == "cut"
    assert result.says.startswith(
        "`first.weight`, `first.bias` get no gradient: the chain is cut by"
    )
    assert words in result.says
    assert "test_trouble.py" in result.line


def test_a_whole_chain_is_no_trouble():
    assert viz.check(Net(), X).ok
    assert viz.check(Net(lambda h: h * (h > 0).float()), X).ok  # a comparison beside the chain
    assert viz.check(Net(lambda h: h + h.detach()), X).ok  # half of it cut, on purpose


def test_a_layer_that_never_runs_and_one_that_nobody_needs():
    result = only(viz.check(Net(use=False), X))
    assert (result.kind, result.says) == (
        "never-called", "`spare.weight`, `spare.bias` get no gradient: `spare` never ran.",
    )  # fmt: skip

    class Idle(Net):
        def forward(self, x):
            self.spare(edutorch.ones(2))
            return self.last(self.first(x))

    assert only(viz.check(Idle(), X)).kind == "unused"


def test_frozen_layers_are_no_trouble():
    net = Net(use=False)
    net.spare.requires_grad_(False)
    assert viz.check(net, X).ok


def test_nothing_wants_a_gradient():
    assert only(viz.check(lambda: edutorch.ones(2).sum())).kind == "no-graph"
    w = leaf(1.0)
    report = viz.check(lambda: (w * 2).detach().sum())
    assert report.kinds[0] == "no-graph"


def test_a_check_changes_nothing():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout())
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = edutorch.get_rng_state()
    assert viz.check(net, X).ok
    assert all(parameter.grad is None for parameter in net.parameters())
    assert all(edutorch.equal(before[name], value) for name, value in net.state_dict().items())
    assert edutorch.equal(state, edutorch.get_rng_state())


def test_softmax_in_front_of_cross_entropy():
    target = edutorch.tensor([0, 1, 0, 1, 0])
    with pytest.warns(UserWarning, match="softmax"):
        result = only(viz.check(lambda x: F.cross_entropy(F.softmax(Net()(x), 1), target), X))
    assert result.kind == "double-softmax" and "Leave softmax out" in result.do
    report = viz.check(lambda x: F.nll_loss(F.softmax(Net()(x), 1), target), X)
    assert "probabilities-to-nll" in report.kinds
    assert viz.check(lambda x: F.cross_entropy(Net()(x), target), X).ok
    assert viz.check(lambda x: F.nll_loss(F.log_softmax(Net()(x), 1), target), X).ok


def test_a_check_leaves_buffers_and_gradients_as_they_are():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    net[0].weight.grad = edutorch.ones(4, 3)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    arrays = [buffer._array for buffer in net.buffers()]
    assert viz.check(net, X).ok
    assert all(edutorch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(one._array is other for one, other in zip(net.buffers(), arrays, strict=True))
    assert net[0].weight.grad.tolist() == [[1.0] * 3] * 4
    assert all(item.grad is None for item in (net[0].bias, *net[2].parameters()))
    net[2] = nn.Linear(5, 2)  # also where it fails behind them
    with pytest.raises(RuntimeError):
        viz.check(net, X)
    assert edutorch.equal(net[1].running_mean, before["1.running_mean"])


def test_wrong_arguments():
    with pytest.raises(NotCheckableError, match="expected a module or a function, got int"):
        viz.check(3)
    with pytest.raises(NotCheckableError, match="expected a tensor, got float"):
        viz.trouble(1.0)


# Exceptions -----------------------------------------------------------------------------------


def red(snapshot):
    return [node for node in snapshot.graph.nodes if node.kind == "failed"]


def test_an_error_in_forward_leaves_the_graph_with_the_op_in_red():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(5, 2))
    with pytest.raises(RuntimeError, match="linear: axis k is 4"):
        viz.check(net, X)
    report = viz.post_mortem()
    (node,) = red(report.snapshot)
    assert node.label == "✗ linear" and node.dtype == "5×4 with 2×5 with 2"
    labels = [node.label for node in report.snapshot.graph.nodes]
    assert labels.count("linear") == 1 and "relu" in labels
    sources = [e.source for e in report.snapshot.graph.edges if e.target == node.id]
    assert len(sources) == 3
    finding = report.findings[0]
    assert finding.kind == "error" and "5" in " ".join(finding.details) and finding.do
    assert "✗ linear" in report.drawing.dot and "#B00020" in report.drawing.dot


def test_an_error_in_a_loop_is_drawn_and_goes_on_its_way():
    w = edutorch.ones(2, 3, requires_grad=True)
    view = viz.live()
    with pytest.raises(RuntimeError, match="matmul"), view:
        (w.exp() @ edutorch.ones(2, 2)).sum().backward()
    assert [node.label for node in red(view.drawing().whole)] == ["✗ matmul"]
    assert view.trouble.findings["error"].says.startswith("matmul failed: axis")
    assert viz.post_mortem().findings[0].kind == "error"


def test_an_error_in_backward_marks_the_node():
    w = leaf(1.0, 2.0)

    class Wrong(edutorch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no rule")

    view = viz.live()
    with pytest.raises(ValueError, match="no rule"), view:
        Wrong.apply(w.exp()).sum().backward()
    (node,) = red(view.drawing().whole)
    assert node.label.startswith("✗ backward of ")


def test_an_error_that_nobody_watched_is_read_from_the_traceback(monkeypatch):
    def lesson():
        x = edutorch.ones(2, 3, requires_grad=True)
        hidden = x.exp()
        return hidden @ edutorch.ones(2, 2)

    monkeypatch.setattr(LastFailure, "failure", None)
    monkeypatch.delattr(sys, "last_value", raising=False)
    with pytest.raises(NotCheckableError, match="nothing has failed yet"):
        viz.post_mortem()
    with pytest.raises(RuntimeError) as caught:
        lesson()
    monkeypatch.setattr(sys, "last_value", caught.value, raising=False)
    report = viz.post_mortem()
    labels = [node.label for node in report.snapshot.graph.nodes]
    assert labels == ["x", "exp", "✗ matmul"]


def test_a_failure_keeps_no_tensor_alive():
    def lesson():
        x = edutorch.ones(2, 3, requires_grad=True)
        with pytest.raises(RuntimeError):
            viz.check(lambda x: x @ edutorch.ones(2, 2), x)
        return weakref.ref(x)

    gone = lesson()
    gc.collect()
    assert gone() is None
    assert viz.post_mortem().snapshot is not None


# How it looks ---------------------------------------------------------------------------------


def test_a_report_is_text_and_html_and_escapes_all_names():
    nasty = '<img src=x onerror="alert(1)">'
    holder = {"x": leaf(0.0)}
    names = {nasty: holder["x"]}
    scope = {**names}
    report = viz.check(lambda: scope[nasty].log().sum())
    object.__setattr__(report.findings[0], "details", (nasty + "\x00",))
    bundle = report._repr_mimebundle_()
    assert "<img src=x" not in bundle["text/html"]
    assert "&lt;img src=x" in bundle["text/html"] and "\x00" not in bundle["text/html"]
    assert "✗" in bundle["text/html"] and "log of 0" in bundle["text/plain"]
    assert viz.check(lambda x: (x * 2).sum(), leaf(1.0)).html().count("✓ No trouble found.")


def test_the_part_is_named_in_the_view():
    view = viz.live()
    assert isinstance(view.trouble, Trouble) and view.trouble in view.parts


def test_an_error_names_the_line_of_the_program():
    with pytest.raises(RuntimeError, match="matmul"), viz.live():
        _ = edutorch.ones(2, 3, requires_grad=True) @ edutorch.ones(2, 2)  # here
    finding = viz.post_mortem().findings[0]
    assert "test_trouble.py" in finding.line and "edutorch.ones(2, 2)  # here" in finding.line
