"""Walks beside others, walks that fail, and walks that nobody ends."""

# ruff: noqa: RUF059  (the picture calls things as the variables here that hold them)

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from edutorch import ones, viz
from edutorch.errors import GradientError
from edutorch.viz.backward_walk import stepping
from edutorch.viz.backward_walk.walk import WalkError
from tests.viz.walks import Failing, gone, leaf, simple, walk_threads


def test_two_walks_of_one_graph():
    x, w, y, loss = simple()
    one, other = viz.walk(loss), viz.walk(loss, retain_graph=True)
    one.next()
    other.finish()
    loss.backward(retain_graph=True)
    one.finish()
    assert x.grad.item() == 12


def test_a_backward_that_frees_the_graph_meanwhile():
    x, w, y, loss = simple()
    walk = viz.walk(loss)
    walk.next()
    loss.backward()
    with pytest.raises(GradientError, match="were freed"):
        walk.next()
    assert x.grad.item() == 4 and gone()


@pytest.mark.parametrize("has_threads", [True, False])
def test_what_backward_raises_arrives(has_threads, monkeypatch):
    monkeypatch.setattr(stepping, "HAS_THREADS", has_threads)
    x = leaf(1.0)
    loss = Failing.apply(x * 3) + 1
    walk = viz.walk(loss)
    walk.next()
    with pytest.raises(ValueError, match="this one cannot"):
        walk.next()
    assert walk.station.number == 1 and x.grad is None
    with pytest.raises(ValueError, match="this one cannot"):
        walk.next()
    assert gone()


def test_a_hook_cannot_move_its_own_walk():
    x, w, y, loss = simple()
    walks = []
    y.register_hook(lambda g: walks[0].next())
    walks.append(viz.walk(loss))
    with pytest.raises(WalkError, match="a hook cannot move"):
        walks[0].finish()


def test_a_dropped_walk_has_never_been():
    x, w, y, loss = simple()
    walk = viz.walk(loss)
    walk.run_to("y")
    assert len(walk_threads()) == 1
    del walk
    gc.collect()
    assert gone() and x.grad is None and w.grad is None
    loss.backward()
    assert x.grad.item() == 4


def test_a_walk_dropped_while_grads_are_written_writes_the_rest():
    x, w, y, loss = simple()
    viz.walk(loss).run_to(x)
    gc.collect()
    assert gone()
    assert (x.grad.item(), w.grad.item()) == (4, 3)


def test_a_program_can_end_in_the_middle():
    program = """
import edutorch as torch
from edutorch import ones, viz
x = torch.tensor(3.0, requires_grad=True)
walk = viz.walk((x * x).sin())
print(walk.next())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0 and done.stderr == ""
    assert "g cos x = 1·cos(9) = -0.9111" in done.stdout


def test_a_long_chain():
    x = leaf(1.0)
    y = x
    for _ in range(300):
        y = y + 1
    walk = viz.walk(y)
    walk.finish()
    assert len(walk.stations) == 301 and x.grad.item() == 1


def test_a_walk_goes_through_writes():
    x = ones(3, requires_grad=True)
    h = x * 2
    h.mul_(3)
    walk = viz.walk((h**2).sum())
    assert [station.title for station in walk] == ["sum", "pow", "h = mul", "mul", "x"]
    assert x.grad.tolist() == [72.0, 72.0, 72.0]
