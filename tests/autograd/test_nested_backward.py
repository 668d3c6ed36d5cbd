"""Backward passes inside backward passes, deeper than Python's stack allows."""

from __future__ import annotations

import sys
import threading
from typing import ClassVar

import pytest

import edutorch


class Deep(edutorch.autograd.Function):
    """Its backward runs that of another instance, until `n` is 0."""

    seen: ClassVar[list] = []
    fails = False

    @staticmethod
    def forward(ctx, x, n):
        ctx.n = n
        return x * 2

    @staticmethod
    def backward(ctx, g):
        with edutorch.enable_grad():
            x = edutorch.ones(1, requires_grad=True)
            if ctx.n:
                Deep.apply(x, ctx.n - 1).sum().backward()
                Deep.seen.append(x.grad.item())
            elif Deep.fails:
                raise KeyError("at the bottom")
        return 2 * g, None


@pytest.fixture(autouse=True)
def start():
    Deep.seen, Deep.fails = [], False


def run(depth):
    x = edutorch.ones(1, requires_grad=True)
    Deep.apply(x, depth).sum().backward()
    return x.grad.item()


@pytest.mark.parametrize("depth", [1, 19, 20, 21, 2000])
def test_a_custom_backward_may_run_backward(depth):
    limit, before = sys.getrecursionlimit(), threading.active_count()
    assert run(depth) == 2
    assert Deep.seen == [2.0] * depth
    assert sys.getrecursionlimit() == limit
    assert threading.active_count() == before


def test_its_error_arrives():
    Deep.fails = True
    with pytest.raises(KeyError, match="at the bottom"):
        run(100)
    Deep.fails = False
    assert run(100) == 2


def test_a_hook_may_run_backward():
    count = 500

    def hook(g):
        nonlocal count
        count -= 1
        if count:
            x = edutorch.ones(1, requires_grad=True)
            x.register_hook(hook)
            with edutorch.enable_grad():
                (x * 3).sum().backward()
            assert x.grad.item() == 3

    hook(None)
    assert count == 0


def test_modes_go_along():
    results = []

    class Last(edutorch.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            ctx.n = n
            return x * 1

        @staticmethod
        def backward(ctx, g):
            results.append(edutorch.is_grad_enabled())
            with edutorch.enable_grad():
                x = edutorch.ones(1, requires_grad=True)
                if ctx.n:
                    Last.apply(x, ctx.n - 1).sum().backward()
            return g, None

    x = edutorch.ones(1, requires_grad=True)
    Last.apply(x, 50).sum().backward()
    assert results == [False] * 51
