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

from ..fast.lazy_gradients import OutputGradients, as_array
from ..precision import WideSum
from .engine import Engine, match_shape_and_dtype
from .graph import Node


class ReferenceEngine(Engine):
    """One backward pass: `pending` maps each node or leaf to the sum of its gradients so far."""

    def run(self, edges: tuple[Any, ...], partials: Sequence[Any]) -> None:
        """Send gradients to the roots, then visit every node behind them, the youngest first."""
        self.send(edges, partials)
        while nodes := [edge for edge in self.pending if isinstance(edge, Node)]:
            node = max(nodes, key=lambda node: node._order)
            _, edges, partials = self.watched_step(node, self.take_gradient(node), node.edges)
            self.send(edges, partials)
            if node.holds and not self.retain:
                node.saved = None  # a second backward pass would need it: see `retain_graph`

    def send(self, edges: tuple[Any, ...], partials: Sequence[Any]) -> None:
        """Add each gradient to the sum that waits for its node or leaf."""
        for edge, partial in zip(edges, partials, strict=True):
            if edge is None or partial is None:
                continue
            target = edge if isinstance(edge, Node) else edge._array
            partial = match_shape_and_dtype(
                as_array(partial), target.shape, target.dtype, self.recording
            )
            held = self.pending.get(edge)
            if held is None:
                self.pending[edge] = partial
                if not isinstance(edge, Node):
                    self.register_leaf(edge, partial, borrowed=True)
            elif isinstance(held, WideSum):
                held += partial
            elif target.dtype.itemsize == 2 and not isinstance(held, OutputGradients):
                self.start_float32_sum(edge, held, partial)  # 16-bit floats are summed in float32
            else:
                self.pending[edge] = held + partial
