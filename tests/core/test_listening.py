"""The events of an op do not depend on its path."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import modes
from edutorch.core import dispatch
from edutorch.errors import ShapeError
from edutorch.events import OpApplied, WorkEnded, WorkStarted
from edutorch.modes import listening
from edutorch.nn import functional as F

CALLS = {
    "one tensor": lambda x, w: x.tanh(),
    "two": lambda x, w: x * w,
    "a number": lambda x, w: 2 - x,
    "an array": lambda x, w: w + np.ones(4, "f4"),
    "of another type": lambda x, w: w * x.double(),
    "integers": lambda x, w: x.int() + 1,
    "a product": lambda x, w: x @ w,
    "a reduction": lambda x, w: w.sum(0, keepdim=True),
    "settings between tensors": lambda x, w: F.layer_norm(x, (4,), w, None, 1e-3),
    "a list": lambda x, w: edutorch.cat([x, w[None]], dim=0),
    "several results": lambda x, w: edutorch.topk(w, 2).values,
    "pieces": lambda x, w: w.chunk(2)[1],
    "a view": lambda x, w: w.reshape(2, 2).t(),
    "without a batch": lambda x, w: F.conv1d(w[None], w.reshape(1, 1, 4)),
    "out=": lambda x, w: edutorch.add(x, 1, out=edutorch.empty(3, 4)),
    "no_grad": lambda x, w: edutorch.no_grad()(lambda: w * 2)(),
    "inference": lambda x, w: edutorch.inference_mode()(lambda: w * 2)(),
    "in place": lambda x, w: x.clone().mul_(w),
    "batched": lambda x, w: edutorch.vmap(lambda row: row * w)(x),
    "a double gradient": lambda x, w: edutorch.autograd.grad(
        (w**3).sum(), w, create_graph=True
    )[0].sin(),
}  # fmt: skip


def observe(call, way):
    """Return the result of a call, its gradient, and all events."""
    edutorch.manual_seed(0)
    x, w = edutorch.randn(3, 4), edutorch.randn(4, requires_grad=True)
    heard = []
    with listening(lambda event: heard.append(describe(event))):
        result = call(x, w)
    assert modes.current() is modes.DEFAULT, way
    if result.requires_grad:
        result.sum().backward()
    return result.detach().numpy(), None if w.grad is None else w.grad.numpy(), heard


def describe(event):
    """Return the fields of an event that do not differ between runs."""
    event_name = type(event).__name__
    if isinstance(event, WorkStarted | WorkEnded):
        subject = event.subject
        name = getattr(subject, "name", type(subject).__name__) if event.kind == "op" else ""
        return event_name, event.kind, name, getattr(event, "failed", None)
    if isinstance(event, OpApplied):
        node = event.node
        shown = None if node is None else (type(node).__name__, node.shape, node.source is None)
        return (
            event_name,
            event.op.name,
            tuple(map(type, event.inputs)),
            sorted(event.settings),
            shown,
        )
    return (event_name,)


@pytest.mark.parametrize("name", CALLS)
def test_the_short_way_tells_what_the_long_one_does(name, monkeypatch):
    result, gradient, heard = observe(CALLS[name], "short")
    monkeypatch.setattr(
        dispatch, "ObservedModes", type(None)
    )  # no modes are of this kind: all go the long way
    other, wanted, all_of_it = observe(CALLS[name], "long")
    assert np.array_equal(result, other)
    assert (gradient is None) == (wanted is None)
    assert gradient is None or np.array_equal(gradient, wanted)
    assert heard == all_of_it
    assert any(event_name == "OpApplied" for event_name, *_ in heard) or name == "inference"


def test_the_short_way_is_taken(monkeypatch):
    """A listener does not cause the checks that only other cases need."""
    asked = []
    usual = dispatch.execute
    monkeypatch.setattr(dispatch, "execute", lambda op, *rest: asked.append(op) or usual(op, *rest))
    x = edutorch.ones(3, requires_grad=True)
    with listening(lambda event: None):
        (x * 2).tanh().sum()
        assert not asked
        x.double() * x
    assert asked


def test_a_mistake_is_told_of_and_the_listener_stays():
    heard, x, y = [], edutorch.ones(2), edutorch.ones(3)
    with listening(heard.append):
        with pytest.raises(ShapeError, match="mul"):
            x * y
        assert [type(event) for event in heard] == [WorkStarted, WorkEnded]
        assert heard[1].failed
        x * 2
    assert isinstance(heard[-1], OpApplied)
