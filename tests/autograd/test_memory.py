"""Backward frees each array after its last use; `checkpoint` trades memory for computation."""

from __future__ import annotations

import gc
import linecache
import tracemalloc

import pytest

import edutorch
from edutorch.core.fast.inlining import expression_of
from edutorch.utils.checkpoint import checkpoint, checkpoint_sequential

NUMBERS = 65_536
ARRAY = 4 * NUMBERS  # bytes: below, memory is counted in arrays of this size
LAYERS = 36


@pytest.fixture(autouse=True)
def _traced():
    with edutorch.backends.reference_only():  # kernels take memory of numba's for scratch
        tracemalloc.start()
        yield
        tracemalloc.stop()


def live() -> float:
    """Return the number of live arrays."""
    return tracemalloc.get_traced_memory()[0] / ARRAY


def peak_of(work) -> float:
    """Return the peak number of additional live arrays during `work`."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    work()
    return (tracemalloc.get_traced_memory()[1] - before) / ARRAY


def leaf():
    return edutorch.ones(NUMBERS, requires_grad=True)


def chain(x):
    for _ in range(LAYERS):
        x = x.tanh()
    return x


def residual(x):
    for _ in range(LAYERS // 2):
        x = x + x.tanh()
    return x


def branches(x):
    return sum((x.tanh() * x.sigmoid() for _ in range(LAYERS // 3)), start=edutorch.zeros(()))


@pytest.mark.parametrize("net", [chain, residual, branches])
def test_backward_frees_what_it_has_used(net):
    net(leaf()).sum().backward()  # the code of each op is written at its first call
    x = leaf()
    before = live()
    loss = net(x).sum()
    assert live() - before > 10  # saved for backward
    # A gradient, the one it is turned into, and what the rule needs on the way.
    assert peak_of(loss.backward) < 6
    assert live() - before < 1.5  # x.grad is left, although `loss` and its graph are there
    assert loss.grad_fn is not None


CUTS = {
    "a number": lambda x: x.sum(),
    "a node of several outputs": lambda x: edutorch.stack(x.chunk(2)).prod(0).sum(),
    "one output that is not used": lambda x: x.chunk(2)[0].sum(),
}


@pytest.mark.parametrize("name", CUTS)
def test_nothing_is_left_for_python_to_search(name):
    """Reference cycles would be freed only by the garbage collector."""
    x, cut = leaf(), CUTS[name]

    def step():
        cut(x * x).backward()
        x.grad = None

    step()
    gc.collect()
    gc.disable()
    try:
        before = live()
        step()
        assert live() - before < 0.4
    finally:
        gc.enable()


def test_gradients_on_the_way_are_freed_too():
    x = leaf()
    loss = (x * 2).sum()  # saves no array
    for _ in range(LAYERS):
        loss = loss + (x * 2).sum()
    assert peak_of(loss.backward) < 5


def test_retain_graph_keeps_what_was_saved():
    loss = chain(leaf()).sum()
    held = live()
    loss.backward(retain_graph=True)
    assert live() > held


def test_memory_is_not_taken_for_gradients_that_nobody_wants():
    x, weight = edutorch.ones(NUMBERS), leaf()
    loss = (x * weight).sum()
    assert peak_of(loss.backward) < 4


def test_a_loss_of_probabilities_computes_one_half_after_the_other():
    y, target = edutorch.full((NUMBERS,), 0.25), edutorch.ones(NUMBERS)
    loss = edutorch.nn.functional.binary_cross_entropy
    loss(y, target)
    assert peak_of(lambda: loss(y, target)) < 3.5


def trained(net, x):
    def step():
        net(x).sum().backward()
        x.grad = None

    return step


def test_checkpoint_keeps_the_inputs_of_its_segments_alone():
    """36 saved arrays; with 6 segments 6 inputs, and 6 more while one is recomputed."""
    x = leaf()

    def in_segments(x):
        for _ in range(6):
            x = checkpoint(lambda y: y.tanh().tanh().tanh().tanh().tanh().tanh(), x,
                           use_reentrant=False)  # fmt: skip
        return x

    plain, saving = peak_of(trained(chain, x)), peak_of(trained(in_segments, x))
    assert plain > LAYERS
    assert saving < 6 + 6 + 5


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoint_sequential(use_reentrant):
    layers = edutorch.nn.Sequential(*[edutorch.nn.Tanh() for _ in range(LAYERS)])
    x = leaf()
    saving = peak_of(trained(lambda x: checkpoint_sequential(
        layers, 6, x, use_reentrant=use_reentrant), x))  # fmt: skip
    assert saving < 6 + 6 + 5


def test_files_that_were_read_for_one_function_are_not_kept():
    forward = edutorch.tanh.op.forward
    file = forward.__code__.co_filename
    linecache.cache.pop(file, None)
    assert expression_of(forward) is not None
    assert file not in linecache.cache
    assert linecache.getline(file, 1)  # somebody else wants it, say a traceback
    assert expression_of(forward) is not None
    assert file in linecache.cache
