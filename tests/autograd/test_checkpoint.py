"""Checkpointing: the same derivatives, without saved intermediates."""

from __future__ import annotations

import gc
import weakref
from contextlib import contextmanager
from typing import Any

import pytest

import edutorch
from edutorch import nn
from edutorch.autograd import Function
from edutorch.errors import StaleValueError
from edutorch.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_early_stop,
)  # fmt: skip


def leaf(lib: Any, *values: float) -> Any:
    return lib.tensor(list(values), dtype=lib.float64, requires_grad=True)


def part(x: Any, w: Any, scale: float = 1.0) -> Any:
    y = (x * w).exp() * scale
    return y.sin() / (x + 3), {"sum": y.softmax(0).sum() * y.std()}


@pytest.mark.parametrize("use_reentrant", [True, False, None])
def test_derivatives_are_those_without(use_reentrant):
    results = []
    for run in (part, checkpointed(use_reentrant)):
        x, w = leaf(edutorch, 0.5, 1.0, -1.0), leaf(edutorch, 2.0, -1.0, 0.3)
        y, more = run(x * 1, w, scale=0.7)
        loss = (y * y).sum() + more["sum"]
        first = edutorch.autograd.grad(loss, (x, w), create_graph=True)
        second = edutorch.autograd.grad(
            sum((g * g).sum() for g in first), (x, w), retain_graph=True
        )
        loss.backward()
        results.append([gradient.tolist() for gradient in (*first, *second, x.grad, w.grad)])
    for ours, wanted in zip(*results, strict=True):
        assert ours == pytest.approx(wanted)


def checkpointed(use_reentrant: bool | None) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(part, *args, use_reentrant=use_reentrant, **kwargs)

    return run


@pytest.mark.oracle
def test_the_same_program_in_pytorch(torch):
    results = []
    for lib in (edutorch, torch):
        inner = __import__(f"{lib.__name__}.utils.checkpoint", fromlist=["x"])
        x, w = leaf(lib, 0.5, 1.0, -1.0), leaf(lib, 2.0, -1.0, 0.3)
        y, more = inner.checkpoint(part, x, w, use_reentrant=False, scale=0.5)
        parts = [lib.sin, lib.exp, lib.cos, lib.tanh, lambda t, w=w: t * w]
        z = inner.checkpoint_sequential(parts, 2, y, use_reentrant=False)
        (z.sum() + more["sum"]).backward()
        results.append([x.grad.tolist(), w.grad.tolist()])
    for ours, theirs in zip(*results, strict=True):
        assert ours == pytest.approx(theirs)


def test_a_model_with_dropout_draws_the_same_numbers_again():
    torch = edutorch
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 2))
    x = torch.randn(16, 4)
    results = []
    for run in (model, lambda x: checkpoint(model, x, use_reentrant=False)):
        torch.manual_seed(3)
        model.zero_grad()
        output = run(x)
        after = torch.rand(1)
        output.square().sum().backward()
        results.append(
            [output.detach(), after, torch.rand(1), *(p.grad for p in model.parameters())]
        )
    for ours, wanted in zip(*results, strict=True):
        assert torch.allclose(ours, wanted)


def test_intermediates_are_freed():
    alive = []

    class Watched(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(y)
            alive.append(weakref.ref(y))
            return x * 3

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * 3 + 0 * y

    def run(x):
        for _ in range(3):
            h = x.exp()
            alive.append(weakref.ref(h))
            x = Watched.apply(h * 0.1)
        return x

    gc.disable()
    try:
        x = leaf(edutorch, 1.0)
        y = checkpoint(run, x, use_reentrant=False)
        assert [tensor_ref() for tensor_ref in alive] == [None] * 6
        y.sum().backward()
        del y
        assert all(tensor_ref() is None for tensor_ref in alive)
    finally:
        gc.enable()


def test_nested_checkpoints():
    count = []

    def inner(x):
        count.append("inner")
        return x.exp().sin()

    def outer(x):
        count.append("outer")
        y = checkpoint(inner, x * 2, use_reentrant=False)
        return checkpoint(inner, y, use_reentrant=False) * x

    x = leaf(edutorch, 0.3, 0.5)
    y = checkpoint(outer, x, use_reentrant=False)
    assert count == ["outer", "inner", "inner"]
    (gradient,) = edutorch.autograd.grad(y.sum(), x)
    (wanted,) = edutorch.autograd.grad(outer(x).sum(), x)
    assert gradient.tolist() == pytest.approx(wanted.tolist())


def test_nested_inputs_are_not_kept_either():
    seen = []

    def inner(x):
        return x.exp().sin()

    def outer(x):
        h = x * 2
        seen.append(weakref.ref(h))
        return checkpoint(inner, h, use_reentrant=False)

    x = leaf(edutorch, 0.3)
    y = checkpoint(outer, x, use_reentrant=False)
    gc.collect()
    assert seen[0]() is None
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx((2 * (2 * x).exp() * (2 * x).exp().cos()).tolist())


def test_parameters_from_outside_and_other_arguments():
    w = leaf(edutorch, 2.0)

    def run(x, text, flag=None):
        assert (text, flag) == ("text", {"a": 1})
        return (x * w).exp() if x is not None else w.exp()

    x = leaf(edutorch, 0.5)
    checkpoint(run, x, "text", flag={"a": 1}, use_reentrant=False).sum().backward()
    assert w.grad.item() == pytest.approx(0.5 * 2.718281828)
    w.grad = None
    checkpoint(run, None, "text", flag={"a": 1}, use_reentrant=False).sum().backward()
    assert w.grad.item() == pytest.approx(7.389056)


def test_without_recording_it_just_runs():
    x = leaf(edutorch, 1.0)
    with edutorch.no_grad():
        assert not checkpoint(edutorch.exp, x, use_reentrant=False).requires_grad
    assert not checkpoint(edutorch.exp, x.detach(), use_reentrant=False).requires_grad


def test_backward_twice_needs_retain_graph():
    x = leaf(edutorch, 1.0)
    y = checkpoint(edutorch.exp, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == pytest.approx(2 * 2.718281828)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_overwritten_inputs_are_noticed():
    x, w = leaf(edutorch, 1.0), leaf(edutorch, 2.0)
    for target in (x, w):
        y = checkpoint(lambda x: (x * w).exp(), x, use_reentrant=False).sum()
        with edutorch.no_grad():
            target.add_(1)  # here
        with pytest.raises(StaleValueError, match="modified by an inplace operation") as caught:
            y.backward()
        assert "target.add_(1)  # here" in str(caught.value)


def test_a_value_overwritten_inside_is_noticed_if_it_is_needed():
    def run(x):
        y = x.exp()
        z = y * 1
        y.mul_(2)
        return z

    x = leaf(edutorch, 1.0)
    checkpoint(run, x, use_reentrant=False).sum().backward()  # the second run stops in time
    assert x.grad.item() == pytest.approx(2.718281828)
    with set_checkpoint_early_stop(False):
        y = checkpoint(run, x, use_reentrant=False)
    with pytest.raises(StaleValueError):
        y.sum().backward()


@pytest.mark.oracle
def test_a_function_that_does_something_else_is_noticed(torch):
    for lib in (edutorch, torch):
        inner = __import__(f"{lib.__name__}.utils.checkpoint", fromlist=["x"])
        calls = []

        def fewer(x, calls=calls):
            calls.append(1)
            return x.exp().sin() if len(calls) == 1 else x.exp()

        def other(x, calls=calls):
            calls.append(1)
            return x.exp().sum() if len(calls) == 1 else x[:1].exp().sum()

        y = inner.checkpoint(fewer, leaf(lib, 1.0), use_reentrant=False)
        with pytest.raises(inner.CheckpointError, match="different number of tensors"):
            y.sum().backward()
        calls.clear()
        y = inner.checkpoint(other, leaf(lib, 1.0, 2.0), use_reentrant=False)
        with pytest.raises(inner.CheckpointError, match="different metadata"):
            y.backward()
        with pytest.raises(ValueError, match="determinism_check"):
            inner.checkpoint(
                other, leaf(lib, 1.0), use_reentrant=False, determinism_check="?"
            ).backward()
    assert issubclass(CheckpointError, RuntimeError)


def test_contexts_and_early_stop():
    said = []

    @contextmanager
    def context(name):
        said.append(name)
        yield

    def run(x):
        y = x.exp()
        said.append("half")
        z = y + 1
        said.append("end")
        return z

    def both():
        return context("first"), context("second")

    x = leaf(edutorch, 1.0)
    for stop in (True, False):
        said.clear()
        with set_checkpoint_early_stop(stop):
            y = checkpoint(
                run,
                x,
                use_reentrant=False,
                context_fn=lambda: (context("first"), context("second")),
            )
        y.sum().backward()
        assert said == ["first", "half", "end", "second", *([] if stop else ["half", "end"])]


def test_sequential_with_a_module():
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))
    x = edutorch.randn(4, 3)
    model(x).square().sum().backward()
    wanted = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    checkpoint_sequential(model, 2, x, use_reentrant=False).square().sum().backward()
    for parameter, g in zip(model.parameters(), wanted, strict=True):
        assert edutorch.allclose(parameter.grad, g)
    with pytest.raises(ValueError, match="Unexpected keyword arguments"):
        checkpoint_sequential(model, 2, x, other=1)


def test_inputs_are_freed_without_a_collector_of_garbage():
    gc.collect()
    gc.disable()
    try:
        x = edutorch.ones(3, requires_grad=True) * 2
        array = weakref.ref(x._array)
        checkpoint(lambda x: x.exp(), x, use_reentrant=False).sum().backward()
        del x
        assert array() is None
    finally:
        gc.enable()
