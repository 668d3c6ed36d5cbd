"""The graph that backward walks: for each op its derivative, and the arrows reversed."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ..graph.model import Graph, GraphEdge, GraphNode, Snapshot, gradient_label
from ..tensors.summaries import Stats

GraphDirection = Literal["forward", "backward", "both"]


def backward_snapshot(snapshot: Snapshot, part: GraphDirection) -> Snapshot:
    """Return the backward graph of a forward one, alone or beside it.

    The node of a derivative holds the gradient that arrives at it, that of a leaf what is
    accumulated there. Beside the forward graph, an arrow of its own shows each value that a
    derivative needs and that is therefore saved.
    """
    if part == "forward":
        return snapshot
    return BackwardGraphBuilder(snapshot, part == "both").snapshot()


class BackwardGraphBuilder:
    """Builds the backward graph, node by node."""

    def __init__(self, forward: Snapshot, both: bool) -> None:
        self.forward, self.both = forward, both
        self.rows: list[tuple[GraphNode, Stats | None, Stats | None]] = []
        self.forward_id: dict[str, str] = {}
        self.backward_id: dict[str, str] = {}
        self.edges: list[GraphEdge] = []
        self.flows: list[Stats | None] = []

    def snapshot(self) -> Snapshot:
        """Return the whole graph."""
        forward = self.forward
        rows = list(zip(forward.graph.nodes, forward.values, forward.grads, strict=True))
        for node, value, grad in rows if self.both else rows[::-1]:
            if self.both:
                self.forward_id[node.id] = self._add(node, value, grad)
            if node.differentiable:
                self.backward_id[node.id] = self._add(derivative(node), grad, None)
        for edge, flow in zip(forward.graph.edges, forward.flows, strict=True):
            self._reverse(edge, flow)
        if self.both:
            for node in forward.graph.nodes:
                self._connect_saved(node)
        nodes, values, grads = zip(*self.rows, strict=True) if self.rows else ((), (), ())
        graph = Graph(tuple(nodes), tuple(self.edges), forward.graph.modules)
        return Snapshot(graph, tuple(values), tuple(grads), tuple(self.flows))

    def _add(self, node: GraphNode, value: Stats | None, grad: Stats | None) -> str:
        id = f"n{len(self.rows)}"
        self.rows.append((replace(node, id=id), value, grad))
        return id

    def _connect(self, edge: GraphEdge, flow: Stats | None) -> None:
        self.edges.append(replace(edge, id=f"e{len(self.edges)}"))
        self.flows.append(flow)

    def _reverse(self, edge: GraphEdge, flow: Stats | None) -> None:
        """Add the arrow itself, if the forward graph is shown, and the one of its gradient."""
        if self.both:
            source, target = self.forward_id[edge.source], self.forward_id[edge.target]
            self._connect(replace(edge, source=source, target=target), None)
        source, target = self.backward_id.get(edge.target), self.backward_id.get(edge.source)
        if source is not None and target is not None:
            turned = replace(edge, source=source, target=target, kind="backward")
            self._connect(turned, flow)

    def _connect_saved(self, node: GraphNode) -> None:
        makers = {edge.input: edge.source for edge in self.forward.graph.edges
                  if edge.target == node.id}  # fmt: skip
        for name, _ in node.saved:
            maker = node.id if name == "y" else makers.get(name)
            if maker is not None and node.id in self.backward_id:
                source, target = self.forward_id[maker], self.backward_id[node.id]
                self._connect(GraphEdge("", source, target, name, "kept"), None)


def derivative(node: GraphNode) -> GraphNode:
    """Return the node of the derivative of an op, or of a leaf's gradient."""
    label = node.grad_fn or gradient_label(node.label)
    return replace(node, kind="gradient", label=label, variable="", differentiable=False)
