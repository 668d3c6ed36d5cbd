"""Graphs deeper than Python's stack: built, run backward, and freed without recursion."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

import pytest

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


@pytest.mark.parametrize("count", [200_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_many_nodes_are_built_and_freed(count):
    """In a separate process with a stack of 2 MiB, which a recursive release would crash.

    (Python itself releases up to fifty objects within each other: 3.13 takes a third of that.)
    """
    code = f"""
import resource, threading
from edutorch import tensor

def build():
    x = tensor(1.0, requires_grad=True)
    y = x
    for _ in range({count}):
        y = y * 1.0
    del y                                   # freed without backward
    y = x
    for _ in range({count // 4}):
        y = y.sin()
    y.backward()
    print("done", x.grad.isfinite().item())

threading.stack_size(1 << 21)
thread = threading.Thread(target=build)
thread.start()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "done True"), done.stderr


def test_a_graph_has_no_cycles():
    """The graph is freed at once, by reference counting alone."""
    gc.collect()
    gc.disable()
    try:
        x = tensor([1.0, 2.0], requires_grad=True)
        y = (x.exp() * x).softmax(0)
        z = y[:1].sum() + y.clone().mul_(2).std()
        nodes = [weakref.ref(reference) for reference in (y.grad_fn, z.grad_fn, z.grad_fn.edges[0])]
        z.backward(retain_graph=True)
        del y, z
        assert [node() for node in nodes] == [None] * 3
    finally:
        gc.enable()
