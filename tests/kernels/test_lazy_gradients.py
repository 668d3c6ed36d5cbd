"""Gradients of weights that are used again and again: sums of products, computed all at once."""

from __future__ import annotations

import tracemalloc
from weakref import ref

import numpy as np
import pytest

import edutorch
from edutorch.backends import reference_only
from edutorch.core.fast import lazy_gradients
from edutorch.nn.functional import linear

products = pytest.importorskip("edutorch.kernels.cpu.matmul", reason="needs the extra `fast`")

ROWS, INPUTS, OUTPUTS = 32, 160, 192


@pytest.fixture
def made(monkeypatch):
    """Counts the products that were left for later, and how often some were computed."""
    counts = {"kept": 0, "computed": 0}

    begin, compute = (
        lazy_gradients.DeferredMatmulGradient.__init__,
        lazy_gradients.DeferredMatmulGradient.materialize,
    )

    def materialize(self):
        counts["computed"] += 1
        return compute(self)

    def noted(self, *arguments):
        counts["kept"] += 1
        begin(self, *arguments)

    monkeypatch.setattr(lazy_gradients.DeferredMatmulGradient, "__init__", noted)
    monkeypatch.setattr(lazy_gradients.DeferredMatmulGradient, "materialize", materialize)
    return counts


def weights(dtype=edutorch.float32):
    edutorch.manual_seed(1)
    own, back = edutorch.randn(OUTPUTS, INPUTS) / 20, edutorch.randn(INPUTS, OUTPUTS) / 20
    return own.to(dtype).requires_grad_(), back.to(dtype).requires_grad_()


def network(w, v, steps=5, rows=ROWS):
    """A recurrent network: each step uses both matrices."""
    edutorch.manual_seed(2)
    h = edutorch.randn(rows, INPUTS).to(w.dtype)
    for _ in range(steps):
        h = linear(linear(h, w).tanh(), v)
    return h.square().mean()


def gradients(loss_of, dtype=edutorch.float32):
    w, v = weights(dtype)
    loss_of(w, v).backward()
    return [w.grad.numpy(), v.grad.numpy()]


def agree(result, exact):
    for one, other in zip(result, exact, strict=True):
        assert one.shape == other.shape
        tolerance = 3e-6 if one.dtype == np.float32 else 1e-13
        assert abs(one - other).max() <= tolerance * abs(other).max()


@pytest.mark.parametrize("dtype", [edutorch.float32, edutorch.float64])
@pytest.mark.parametrize("steps", [1, 2, 5, 40])
def test_each_weight_gets_one_product_for_all_its_uses(steps, dtype, made):
    result = gradients(lambda w, v: network(w, v, steps), dtype)
    assert made["kept"] >= 2 * steps
    folded = 2 * (steps * ROWS // lazy_gradients.MAX_ROWS)
    assert made["computed"] == 2 + folded
    with reference_only():
        agree(result, gradients(lambda w, v: network(w, v, steps), edutorch.float64))


def test_factors_are_gone_before_there_is_a_product():
    def multiply(a, b):
        alive.append([factor() is not None for factor in factors])
        return a @ b

    def one(rows):
        g, x = np.ones((rows, 3), np.float32), np.ones((rows, 2), np.float32)
        factors.extend((ref(g), ref(x)))
        return lazy_gradients.DeferredMatmulGradient(g, x, multiply)

    alive, factors = [], []
    products = one(4)
    products += one(5)
    for _ in range(2):  # what is computed stays
        assert (products.materialize() == np.full((3, 2), 9)).all()
    assert alive == [[False] * 4]
    products += one(1)
    assert (products.materialize() == np.full((3, 2), 10)).all()


def test_backward_takes_little_memory_for_products_that_wait():
    w, v = weights()
    network(w, v, steps=40).backward()
    w.grad = v.grad = None
    tracemalloc.start()
    try:
        loss = network(w, v, steps=40)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        loss.backward()
        more = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert more < 8 * w.grad.numpy().nbytes  # the factors of all steps are 29 times as large


def test_many_rows_are_not_kept(made):
    gradients(lambda w, v: network(w, v, rows=200))
    assert made["kept"] == 0


USES = {
    "in a penalty too, before": lambda w, v: (w * w).sum() + network(w, v),
    "in a penalty too, behind": lambda w, v: network(w, v) + (w * w).sum(),
    "through an op": lambda w, v: network(w * 2, v.tanh()),
    "as a part": lambda w, v: network(w[:, :], v),
    "turned": lambda w, v: network(v.T, w.T),
    "as input and as weight": lambda w, v: linear(v.T[:64, :], w).square().mean() + network(w, v),
    "in both roles": lambda w, v: linear(w[:48], w[:, :]).square().mean() + v.sum(),
    "in several types": lambda w, v: network(w.double(), v.double()) + network(w, v),
}


@pytest.mark.parametrize("use", USES)
def test_other_uses_of_the_same_weights(use):
    result = gradients(USES[use])
    with reference_only():
        agree(result, gradients(USES[use], edutorch.float64))


def test_a_second_backward_adds_to_the_first():
    w, v = weights()
    for _ in range(2):
        network(w, v).backward()
    with reference_only():
        once = gradients(network, edutorch.float64)
    agree([w.grad.numpy(), v.grad.numpy()], [2 * gradient for gradient in once])


def test_the_gradient_is_nobody_elses_array():
    w, v = weights()
    loss = network(w, v, steps=1)
    loss.backward(retain_graph=True)
    first = w.grad.clone()
    loss.backward()
    agree([w.grad.numpy()], [2 * first.numpy()])


def test_grad_returns_arrays():
    w, v = weights()
    result = edutorch.autograd.grad(network(w, v), [w, v])
    with reference_only():
        agree([gradient.numpy() for gradient in result], gradients(network, edutorch.float64))


def by_hook(h, spoil):
    h.register_hook(lambda g: spoil())
    return h.sum()


def by_function(h, spoil):
    class Spoiled(edutorch.autograd.Function):
        @staticmethod
        def forward(ctx, h):
            return h.sum()

        @staticmethod
        def backward(ctx, g):
            spoil()
            return g.expand(ROWS, INPUTS)

    return Spoiled.apply(h)


def by_unpacking(h, spoil):
    def unpack(kept):
        spoil()
        return kept

    with edutorch.autograd.graph.saved_tensors_hooks(lambda kept: kept, unpack):
        return (h * h).sum()


@pytest.mark.parametrize("by", [by_hook, by_function, by_unpacking])
def test_the_users_code_may_write_where_backward_has_been(by, made):
    """As in PyTorch that changes nothing any more: so nothing may still wait for it."""
    w, _ = weights()
    x = edutorch.ones(ROWS, INPUTS)
    older = by(edutorch.ones(ROWS, INPUTS, requires_grad=True) * 1, lambda: x.zero_())
    w.register_hook(lambda g: seen.append(tuple(g.shape)))
    seen = []
    (linear(x, w).sum() + older).backward()
    assert made["kept"] == 1
    assert seen == [(OUTPUTS, INPUTS)]
    assert (x == 0).all()
    assert (w.grad == ROWS).all()


def test_after_a_failure_nothing_is_owed(made):
    w, _ = weights()
    older = edutorch.ones(2, requires_grad=True) * 1

    def fail(g):
        raise KeyError("of the user")

    older.register_hook(fail)
    for _ in range(2):
        with pytest.raises(KeyError):
            (linear(edutorch.ones(ROWS, INPUTS), w).sum() + older.sum()).backward()
        assert w.grad is None
        linear(edutorch.ones(ROWS, INPUTS), w).sum().backward()
        assert (w.grad == ROWS).all()
        w.grad = None


def test_a_step_inside_of_backward_does_not_reach_the_other_products():
    """A weight that is an input as well is changed as soon as its own gradient is there."""
    w, _ = weights()
    x = edutorch.ones(ROWS, INPUTS, requires_grad=True)
    before = x.detach().clone()

    def step(leaf):
        with edutorch.no_grad():
            leaf.zero_()

    x.register_post_accumulate_grad_hook(step)
    linear(x, w).sum().backward()
    assert (x == 0).all()
    agree([w.grad.numpy()], [np.tile(before.sum(0).numpy(), (OUTPUTS, 1))])


def test_successive_rows_are_joined_without_a_copy():
    new_rows = lazy_gradients.RowBlock().take
    parts = [new_rows(rows, 3, np.dtype(np.float32)) for rows in (2, 5, 1)]
    for value, part in enumerate(parts):
        part[:] = value
    joined = lazy_gradients.join_rows(parts)
    assert joined.base is parts[0].base and (joined == np.concatenate(parts)).all()
    for others in ([parts[1], parts[0]], [parts[0], parts[2]], [parts[1][::2], parts[2]]):
        joined = lazy_gradients.join_rows(others)
        assert joined.base is None and (joined == np.concatenate(others)).all()
    block = ref(parts[0].base)
    del parts, part, others, joined
    assert block() is None
