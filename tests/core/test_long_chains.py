"""Graphs deeper than Python's stack: built, run backward, and freed without recursion."""

from __future__ import annotations

import sys
import weakref

from edutorch import autograd, tensor

CHAIN = 100_000


def test_a_long_chain():
    limit = sys.getrecursionlimit()
    x = tensor(1.0, requires_grad=True)
    y = x
    for _ in range(CHAIN // 2):
        y = y + 1
        y = y * 1.0
    first = weakref.ref(y.grad_fn)
    y.backward()
    assert x.grad.item() == 1
    z = x
    for _ in range(CHAIN):
        z = z * 1.0
    del y, z
    assert first() is None
    assert sys.getrecursionlimit() == limit


def test_a_long_chain_with_create_graph():
    x = tensor(1.0, requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    (y * y).backward(create_graph=True)
    (second,) = autograd.grad(x.grad, x)
    assert second.item() == 2
    x.grad = None
