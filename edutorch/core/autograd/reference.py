"""The backward pass of the textbook.

A node turns the gradient of its output into one gradient for each of its inputs: the chain rule.
Where the gradients of several uses of a tensor meet, they are summed. A node is younger than the
nodes that it was computed from, so the youngest node has received everything that it will receive:
visiting nodes from the youngest to the oldest is a correct order.

`engine.py` computes the same with less work. `backends.reference_only()` runs this file instead,
and a test compares both for every op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import events
from ...modes import DEFAULT, current
from ..tensor import Tensor
from . import engine as fast
from .backward import accumulate_leaf, backward_method, finish
from .graph import Node, accumulate, array_of, fill


class ReferenceEngine(fast.Engine):
    """One backward pass: `pending` maps each node or leaf to the sum of its gradients so far."""

    @fast.register_engine("self")
    def run(self, edges: tuple[Any, ...], partials: Sequence[Any]) -> None:
        """Send gradients to the roots, then visit every node behind them, the youngest first."""
        self.send(edges, partials)
        while nodes := [edge for edge in self.pending if isinstance(edge, Node)]:
            node = max(nodes, key=lambda node: node._order)
            g = self.take_gradient(node) if self.wide else self.pending.pop(node)
            if node.hooks or self.wanted is not None or current().listeners:
                _, edges, partials = self.watched_step(node, g, node.edges)
            else:
                edges, partials = node.edges, node.backward(g, node.edges, self.recording)
            self.send(edges, partials)
            if node.holds and not self.retain:
                node.saved = None  # a second backward pass would need it: see `retain_graph`
        self.leaves, self.borrowed = list(self.pending), dict(self.pending)

    def send(self, edges: tuple[Any, ...], partials: Sequence[Any]) -> None:
        """Add each gradient to the sum that waits for its node or leaf."""
        for edge, partial in zip(edges, partials, strict=True):
            if edge is None or partial is None:
                continue
            target = edge if isinstance(edge, Node) else edge._array
            if partial.shape != target.shape or partial.dtype is not target.dtype:
                partial = self.match_array(partial, edge, target)  # sums what was broadcast
            if edge in self.pending:
                total, is_half = self.pending[edge], target.dtype.itemsize == 2
                partial = self.add_in_float32(edge, partial) if is_half else total + partial
            self.pending[edge] = partial


def backward(self: Tensor, gradient: Tensor | None = None, *further: Any, **options: Any) -> None:
    """`Tensor.backward` inside `reference_only()`: walk back, and add to `.grad` of the leaves."""
    array = self._array
    g = np.ones(array.shape, array.dtype) if gradient is None else array_of(gradient)
    is_ordinary = (
        isinstance(self._node, Node) and g.__class__ is array.__class__ is np.ndarray
        and g.dtype == array.dtype and g.shape == array.shape and g.dtype.kind == "f"
        and (array.size == 1 or gradient is not None) and not (further or options)
        and current() is DEFAULT and fast.NUMPY_STATE.get() is fast.USUAL_STATE
        and not (events._BEFORE_BACKWARD.get() or events._STEP_LISTENERS.get())
    )  # fmt: skip
    if not is_ordinary:
        return backward_method(self, gradient, *further, **options)
    engine = ReferenceEngine()
    with np.errstate(divide="call", over="call", invalid="call", call=fast.record_non_finite):
        engine.run((self._node,), (g,))
    for leaf, g in tuple(engine.pending.items()):
        is_plain = isinstance(g, np.ndarray | np.floating) and g.dtype.kind == "f"
        if leaf._hooks or not is_plain:  # not complex numbers, nor sums of 16-bit floats
            accumulate_leaf(engine, leaf)
        else:  # a copy: other tensors may hold the array
            accumulate(leaf, fill(object.__new__(Tensor), np.array(g, order="C")))
    return finish(engine) if engine.non_finite_message or engine.end_callbacks else None
