"""Graphs that are kept: who keeps them, and how to let go; what a finished graph still tells."""

import functools
import gc
import sys
import threading
import traceback
import types

import pytest

import edutorch
from edutorch import viz
from edutorch.viz.diagnostics import graph_leaks
from edutorch.viz.diagnostics.graph_leaks import Referrers, find_holders
from tests.viz.test_trouble import Net, X, leaf, only


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch):
    """Other tests of this process may have left many objects."""
    monkeypatch.setattr(graph_leaks, "MOST_SECONDS", 60)


def test_who_keeps_a_graph():
    gc.collect()
    x = leaf(1.0)
    kept = [(x * 2).sum() for _ in range(3)]

    class Notes:
        pass

    notes = Notes()
    notes.last = (x * 3).sum()
    words = str(viz.trouble())
    assert (
        "3 graphs of earlier computations" in words and "`kept in test_who_keeps_a_graph()" in words
    )
    assert "notes in test_who_keeps_a_graph().last" in words
    del kept, notes
    gc.collect()
    assert "test_who_keeps" not in str(viz.trouble())


class WithSlots:
    __slots__ = ("last",)

    def __init__(self, last):
        self.last = last


def waiting(loss):
    yield 1
    yield loss


def begun(loss):
    made = waiting(loss)
    next(made)
    return made


HOLDERS = {
    "slots": (WithSlots, "kept in holding().last"),
    "a generator": (begun, "kept in holding().loss"),
    "a partial": (lambda loss: functools.partial(print, loss), "kept in holding()"),
    "a method": (lambda loss: loss.sum, "kept in holding()"),
    "a tuple in a tuple": (lambda loss: (1, (loss, 2)), "kept in holding()"),
    "a class": (lambda loss: type("Cached", (), {"last": loss}), "Cached.last"),
}


@pytest.mark.parametrize("way", HOLDERS)
def test_every_kind_of_holder_is_named(way):
    hold, name = HOLDERS[way]
    gc.collect()
    tensor = (leaf(1.0) * 2).sum()

    def holding():
        kept = hold(tensor)
        assert kept is not None
        return {finding.says for finding in viz.trouble().findings}, find_holders(
            tensor, Referrers(set())
        )

    said, result = holding()
    assert any(f"`{name}`" in sentence for sentence in said), said
    assert all(category != "unknown" for _, category in result), result


@pytest.mark.parametrize(
    ("module", "named"), [(__name__, True), ("IPython.core", False), ("edutorch.nn", False)]
)
def test_functions_that_run_around_the_users_code_are_not_named(module, named):
    def holding():
        tensor = (leaf(1.0) * 2).sum()

        def inside():
            return tensor

        inside.__module__ = module
        return [category for _, category in find_holders(tensor, Referrers(set()))]

    assert ("closure" in holding()) == named


def test_a_search_for_holders_ends(monkeypatch):
    """In a large process each question to the garbage collector takes a while."""
    monkeypatch.setattr(graph_leaks, "MOST_SECONDS", -1)
    kept = [[(leaf(1.0) * 2).sum()] for _ in range(3)]
    assert "1 graph of" in str(viz.trouble())
    assert len(kept) == 3


def test_the_cells_of_a_notebook_are_known():
    space = types.ModuleType("shell_of_a_notebook")
    sys.modules["shell_of_a_notebook"] = space
    x = leaf(1.0)
    space.Out = {4: (x * 2).sum()}
    try:
        findings = [finding for finding in viz.trouble().findings if "`Out[4]`" in finding.says]
        assert findings and "%reset -f out" in findings[0].do
    finally:
        del sys.modules["shell_of_a_notebook"]


def test_trouble_of_a_loss():
    net = Net(use=False)
    report = viz.trouble(net(X).sum(), net)
    assert only(report).says.startswith("`spare.weight`, `spare.bias` get no gradient")
    assert viz.trouble(Net()(X).sum()).ok
    x = leaf(0.0, 1.0)
    assert "log of 0" in only(viz.trouble(x.log().sum())).says
    w = leaf(1.0, 2.0)
    loss = (w * w).sum()
    assert viz.trouble(loss).ok
    with edutorch.no_grad():
        w.sub_(1)
    assert only(viz.trouble(loss)).kind == "stale"


def test_an_error_that_is_kept_keeps_the_variables_of_its_functions():
    def fails():
        loss = (leaf(1.0) * 2).sum()
        raise ValueError(len(loss.shape))

    kept = []
    try:
        fails()
    except ValueError as error:
        kept.append(error)
    words = str(viz.trouble())
    assert "`loss in fails() (of an error that is kept)`" in words
    assert "An exception that is kept holds the variables" in words
    traceback.clear_frames(kept[0].__traceback__)
    assert "fails()" not in str(viz.trouble())


def test_the_variables_of_other_threads_are_known():
    stop, started = threading.Event(), threading.Event()

    def works():
        loss = (leaf(1.0) * 2).sum()
        started.set()
        stop.wait(60)
        return loss

    thread = threading.Thread(target=works)
    thread.start()
    started.wait(60)
    try:
        assert "`loss in works()`" in str(viz.trouble())
    finally:
        stop.set()
        thread.join()
    assert "works()" not in str(viz.trouble())
