"""`autograd.graph`: hooks on saved tensors, edges, and attributes of nodes."""

from __future__ import annotations

from typing import Any

import pytest

import edutorch
from edutorch.autograd import graph
from edutorch.errors import GradientError, StaleValueError


def leaf(lib: Any, *values: float) -> Any:
    return lib.tensor(list(values), dtype=lib.float64, requires_grad=True)


def program(lib: Any, x: Any, w: Any) -> Any:
    y = (x * w).exp() / (x + 2)
    y = lib.cat([y, y.softmax(0)]).sin()
    z = y[1:] @ y[1:]
    return (z.tanh() * y.std() + (y**3).max()).sum()


def cubes(lib: Any) -> Any:
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y)
            return y * x, y

        @staticmethod
        def backward(ctx, g, h):
            x, y = ctx.saved_tensors
            return 3 * y * g + 2 * x * h

    return Cube.apply


PACKS = {
    "as it is": (lambda x: x, lambda x: x),
    "a copy": (lambda x: x.detach().clone(), lambda x: x),
    "in a list": (lambda x: [x.detach().clone(), "more"], lambda x: x[0]),
    "halved and doubled": (
        lambda x: x / 2 if x.is_floating_point() else x,
        lambda x: x * 2 if x.is_floating_point() else x,
    ),
}


@pytest.mark.parametrize("name", PACKS)
def test_derivatives_go_through_the_hooks(name):
    results = []
    for hooks in ((lambda x: x, lambda x: x), PACKS[name]):
        x, w = leaf(edutorch, 0.5, 1.0, -1.0), leaf(edutorch, 2.0, -1.0, 0.3)
        with graph.saved_tensors_hooks(*hooks):
            y, z = cubes(edutorch)(x)
            loss = program(edutorch, x, w) + (y + z).sum()
        first = edutorch.autograd.grad(loss, (x, w), create_graph=True)
        second = edutorch.autograd.grad(sum((g * g).sum() for g in first), (x, w))
        results.append([gradient.tolist() for gradient in (*first, *second)])
    x, w = leaf(edutorch, 0.5, 1.0, -1.0), leaf(edutorch, 2.0, -1.0, 0.3)
    y, z = cubes(edutorch)(x)
    loss = program(edutorch, x, w) + (y + z).sum()
    first = edutorch.autograd.grad(loss, (x, w), create_graph=True)
    second = edutorch.autograd.grad(sum((g * g).sum() for g in first), (x, w))
    for row in results:
        for ours, wanted in zip(row, (*first, *second), strict=True):
            assert ours == pytest.approx(wanted.tolist())


@pytest.mark.oracle
def test_the_same_values_are_packed_and_used(torch):
    results = []
    for lib in (edutorch, torch):
        packed, unpacked = [], []

        def pack(x, packed=packed):
            packed.append(x.tolist())
            return x * 2

        def unpack(x, unpacked=unpacked):
            unpacked.append(True)
            return x

        x, w = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
        with lib.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = x * w
            z = y.exp()
        (z.sum() * 1).backward()
        results.append([packed, len(unpacked), x.grad.tolist(), w.grad.tolist()])
    ours, theirs = results
    assert sorted(ours[0]) == sorted(theirs[0])
    assert ours[1] == theirs[1]
    assert ours[2] == pytest.approx(theirs[2])
    assert ours[3] == pytest.approx(theirs[3])


@pytest.mark.oracle
def test_wrong_hooks_are_refused_as_in_pytorch(torch):
    for lib in (edutorch, torch):
        x = leaf(lib, 1.0)
        hooks = lib.autograd.graph.saved_tensors_hooks
        with hooks(lambda x: x, lambda x: 5):
            y = x * x
        with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor"):
            y.sum().backward()
        with (
            hooks(lambda x: x.zero_(), lambda x: x),
            pytest.raises(RuntimeError, match="modifying"),
        ):
            (x * 1).exp()
        disable = lib.autograd.graph.disable_saved_tensors_hooks
        with disable("not here"), pytest.raises(RuntimeError, match="not here"):
            hooks(lambda x: x, lambda x: x).__enter__()
        with hooks(lambda x: x, lambda x: x), pytest.raises(RuntimeError, match="no more"):
            disable("no more").__enter__()
        with disable("not here"):
            assert (x * x).requires_grad
    with pytest.raises(TypeError, match="callable"):
        graph.saved_tensors_hooks(1, 2)


def test_only_the_innermost_hooks_are_called():
    said = []
    x = leaf(edutorch, 1.0)
    with graph.saved_tensors_hooks(lambda x: said.append("outer") or x, lambda x: x):
        x * x
        with graph.saved_tensors_hooks(lambda x: said.append("inner") or x, lambda x: x):
            x.exp()
        x.exp()
    x.exp()
    assert said == ["outer", "outer", "inner", "outer"]


def test_what_is_packed_in_place_is_noticed_or_right():
    """A hook that keeps the tensor itself: an overwritten value is an error, never wrong."""
    x, w = leaf(edutorch, 1.0, 2.0), edutorch.tensor([3.0, 4.0], dtype=edutorch.float64)
    with graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        y = (x * w).sum()
        z = x.exp()
        total = z.sum()
    w += 1
    with pytest.raises(StaleValueError, match="its input `other`"):
        y.backward()
    z *= 2
    with pytest.raises(StaleValueError, match="the result"):
        total.backward()
    with graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        z = x * 1
        z.mul_(z)
    z.sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_values_may_be_overwritten_where_that_is_allowed():
    x, w = leaf(edutorch, 1.0, 2.0), edutorch.tensor([3.0, 4.0], dtype=edutorch.float64)
    for context in (graph.allow_mutation_on_saved_tensors, graph.save_on_cpu):
        with context():
            y = x * w
            z = y.exp()
        before = w.clone()
        w.zero_()
        y.detach().zero_()
        z.detach().zero_()
        (g,) = edutorch.autograd.grad(z.sum(), x)
        assert g.tolist() == pytest.approx((before * (before * x).exp()).tolist())
        w.copy_(before)


@pytest.mark.oracle
def test_a_hook_on_several_tensors(torch):
    results = []
    for lib in (edutorch, torch):
        said = []
        x, w, v = leaf(lib, 1.0), leaf(lib, 2.0), leaf(lib, 3.0)

        def told(gradients, said=said):
            said.append([None if gradient is None else gradient.tolist() for gradient in gradients])

        handle = lib.autograd.graph.register_multi_grad_hook((x, w, v), told)
        y = x * w
        y.sum().backward(retain_graph=True)
        (y * v + x * w).sum().backward()
        handle.remove()
        (x * w * v).sum().backward()
        once = []
        lib.autograd.graph.register_multi_grad_hook((x, w), once.append, mode="any")
        (x * w).sum().backward()
        (x * w).sum().backward()
        results.append([said, len(once)])
        with pytest.raises(ValueError, match="Expects mode to be one of"):
            lib.autograd.graph.register_multi_grad_hook((x,), told, mode="some")
    assert results[0] == results[1]


def test_gradient_edges():
    x = leaf(edutorch, 1.0)
    y, z = cubes(edutorch)(x)
    assert graph.get_gradient_edge(x).node.variable is x
    assert graph.get_gradient_edge(z) == (y.grad_fn, 1)
    with pytest.raises(GradientError):
        graph.get_gradient_edge(edutorch.ones(2))
    graph.increment_version([x])
    assert x._version == 1


# What a node can be asked ----------------------------------------------------------------


@pytest.mark.oracle
def test_nodes_show_what_they_saved(torch):
    for lib in (edutorch, torch):
        x, w = leaf(lib, 1.0, 2.0), leaf(lib, 3.0, 4.0)
        y = x * w
        node = y.grad_fn
        assert node._saved_self is x
        assert node._saved_other is w
        assert y.exp().grad_fn._saved_result.tolist() == y.exp().tolist()
        assert isinstance(node._sequence_nr(), int)
        assert y.exp().grad_fn._sequence_nr() > node._sequence_nr()
        node.metadata["mine"] = 3
        assert y.grad_fn.metadata == {"mine": 3}
        assert node.name() == "MulBackward0"
        with pytest.raises(AttributeError):
            node._saved_nothing  # noqa: B018
        y.sum().backward()
        with pytest.raises(RuntimeError):
            node._saved_self  # noqa: B018


def test_nodes_know_op_formulas_and_source():
    x = leaf(edutorch, 1.0, 2.0)
    assert x.exp().grad_fn.source is None
    with edutorch.autograd.detect_anomaly():
        y = x.exp()
        z = y[:1].sum()  # through a function of several frames
    assert y.grad_fn.op is edutorch.exp.op
    assert y.grad_fn.formulas == edutorch.exp.op.formulas
    assert (y.grad_fn.source.file, y.grad_fn.source.text) == (__file__, "y = x.exp()")
    assert z.grad_fn.source.line == y.grad_fn.source.line + 1
    assert z.grad_fn.source.text.startswith("z = y[:1].sum()")


# Stale values name their lines -------------------------------------------------------------


def test_a_stale_value_names_the_line_of_the_write():
    x, w = leaf(edutorch, 1.0, 2.0), leaf(edutorch, 3.0, 4.0).detach()
    y = (x * w).sum()
    w.mul_(2)  # the write
    with pytest.raises(StaleValueError) as caught:
        y.backward()
    text = str(caught.value)
    assert "overwritten" in text
    assert __file__ in text
    assert "w.mul_(2)  # the write" in text
    assert "saved        = at a line that was not recorded" in text
    assert "with autograd.detect_anomaly()" in text


def test_with_lines_recorded_it_names_both():
    x, w = leaf(edutorch, 1.0, 2.0), leaf(edutorch, 3.0, 4.0).detach()
    with edutorch.autograd.detect_anomaly():
        y = (x * w).sum()  # the forward
        w[0] = 5  # the write
        with pytest.raises(StaleValueError) as caught:
            y.backward()
    text = str(caught.value)
    assert "y = (x * w).sum()  # the forward" in text
    assert "w[0] = 5  # the write" in text
    assert "detect_anomaly" not in text


@pytest.mark.parametrize(
    "write",
    [
        lambda w: w.zero_(), lambda w: w.detach().fill_(1), lambda w: w.data.add_(1),
        lambda w: edutorch.add(w.detach(), 1, out=w), lambda w: w.view(-1)[:1].zero_(),
        lambda w: edutorch.nn.init.ones_(w), lambda w: w.__setitem__(0, 1.0),
    ],
)  # fmt: skip
def test_every_kind_of_write_is_located(write):
    x, w = leaf(edutorch, 1.0, 2.0), leaf(edutorch, 3.0, 4.0).detach()
    y = (x * w).sum()
    write(w)
    with pytest.raises(StaleValueError) as caught:
        y.backward()
    assert __file__ in caught.value.arguments["overwritten"]


def test_an_optimizers_step_is_located():
    w = leaf(edutorch, 3.0, 4.0)
    optimizer = edutorch.optim.SGD([w], lr=0.1)
    y = (w * w).sum()
    y.backward(retain_graph=True)
    optimizer.step()  # here
    with pytest.raises(StaleValueError) as caught:
        y.backward()
    assert "optimizer.step()  # here" in str(caught.value)
