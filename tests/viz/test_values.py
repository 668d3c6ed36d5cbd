"""The numbers in a picture are the tensors': every node and every edge of random graphs."""

from __future__ import annotations

import random

import numpy as np
import pytest

import edutorch
from edutorch import autograd
from edutorch.events import OpApplied, listening
from edutorch.viz.graph.fold import Choice, fold_snapshot
from edutorch.viz.graph.graph_reader import input_names
from edutorch.viz.graph.names import Names
from edutorch.viz.live.messages import pack_values
from edutorch.viz.live.recorder import Recorder

GRAPHS = 50
UNARY = ("tanh", "sigmoid", "sin", "relu", "exp")
BINARY = ("add", "sub", "mul")


class Listener:
    """Keeps each recorded op's output and inputs, which a recorder never does."""

    def __init__(self):
        self.applied = []

    def __call__(self, event):
        if isinstance(event, OpApplied) and event.node is not None:
            self.applied.append(event)


def random_graph(seed):
    """Compute something with leaves of several shapes that are broadcast, reused and left out."""
    choose = random.Random(seed)
    edutorch.manual_seed(seed)
    shapes = [(), (3,), (2, 3), (2, 1), (4, 2, 3)]
    leaves = [
        (edutorch.randn(choose.choice(shapes)) * 0.5).requires_grad_(choose.random() < 0.8)
        for _ in range(choose.randint(2, 4))
    ]
    leaves[0].requires_grad_()
    pool = list(leaves)
    for _ in range(choose.randint(3, 14)):
        if choose.random() < 0.45:
            pool.append(getattr(edutorch, choose.choice(UNARY))(choose.choice(pool).clamp(-2, 2)))
        elif choose.random() < 0.15:
            pool.append(choose.choice(pool) * choose.choice([0.5, -2.0, 3.0]))
        else:
            one, other = choose.choice(pool), choose.choice(pool)
            pool.append(getattr(edutorch, choose.choice(BINARY))(one, other))
    total = (pool[-1] * 0.1 + leaves[0]).sum()
    return leaves, total


def watched(seed):
    """Return a snapshot of a random graph, its op events by node order, and its leaves."""
    recorder, listener = Recorder(Names()), Listener()
    with listening(listener), listening(recorder):
        leaves, total = random_graph(seed)
        total.backward(retain_graph=True)
    recorder.finish()
    return recorder.snapshot, listener.applied, leaves, total


def described(array):
    """Return mean, smallest, largest and norm of an array, in double precision."""
    array = np.asarray(array, "f8")
    return array.mean(), array.min(), array.max(), np.sqrt((array**2).sum())


def same(stats, array):
    found = stats.mean, stats.min, stats.max, stats.norm
    assert found == pytest.approx(described(array), rel=2e-5, abs=2e-6)


def grad_by_hand(total, tensors):
    return autograd.grad(total, tensors, retain_graph=True, allow_unused=True)


@pytest.mark.parametrize("seed", range(GRAPHS))
def test_every_node_and_edge_tells_the_truth(seed):
    snapshot, applied, leaves, total = watched(seed)
    graph = snapshot.graph
    events = applied  # also those that the result was not computed from
    ops = [at for at, node in enumerate(graph.nodes)
           if node.kind in ("op", "output") and node.differentiable]  # fmt: skip
    assert [graph.nodes[at].label for at in ops] == [event.op.name for event in events]
    outputs = [event.output for event in events]
    gradients = grad_by_hand(total, outputs)
    for at, output, gradient in zip(ops, outputs, gradients, strict=True):
        same(snapshot.values[at], output.detach().numpy())
        assert tuple(graph.nodes[at].shape) == tuple(output.shape)
        if gradient is not None:
            same(snapshot.grads[at], gradient.numpy())
    by_id = {node.id: at for at, node in enumerate(graph.nodes)}
    made = dict(zip(ops, events, strict=True))
    edges = 0
    for edge, flow in zip(graph.edges, snapshot.flows, strict=True):
        if by_id[edge.target] not in made:  # computed without a gradient
            assert flow is None
            continue
        event = made[by_id[edge.target]]
        place = input_names(event.node).index(edge.input)
        source = event.inputs[place]
        if isinstance(source, edutorch.Tensor):
            same(snapshot.values[by_id[edge.source]], source.detach().numpy())
        if flow is None:
            continue
        edges += 1
        incoming = gradients[ops.index(by_id[edge.target])]
        same(flow, gradient_of_edge(event, place, incoming))
    assert edges >= 2
    for leaf in leaves:
        if leaf.requires_grad and leaf.grad is not None:
            # It is the result of an op without a gradient, or of none.
            found = [stats for stats in snapshot.grads if stats is not None]
            wanted = described(leaf.grad.numpy())
            assert any(
                (each.mean, each.min, each.max, each.norm)
                == pytest.approx(wanted, rel=2e-5, abs=2e-6)
                for each in found
            )


def gradient_of_edge(event, place, incoming):
    """Compute what flows along one edge: this op alone, once more, with a leaf in that place."""
    inputs = [
        input_.detach() if isinstance(input_, edutorch.Tensor) else input_
        for input_ in event.inputs
    ]
    inputs[place] = inputs[place].clone().requires_grad_()
    output = getattr(edutorch, event.op.name)(*inputs, **event.settings)
    return autograd.grad(output, inputs[place], incoming)[0].numpy()


@pytest.mark.parametrize("seed", range(0, GRAPHS, 10))
def test_the_page_is_sent_the_same_numbers(seed):
    snapshot, *_ = watched(seed)
    visible = fold_snapshot(snapshot, Choice())
    nodes, edges = visible.graph.nodes, visible.graph.edges
    count = 2 * len(nodes) + len(edges)
    sent = np.frombuffer(pack_values(visible)[: 4 * count], "<f4")
    for at, (value, grad) in enumerate(zip(visible.values, visible.grads, strict=True)):
        wanted = [value.mean if value else np.nan, grad.norm if grad else np.nan]
        np.testing.assert_allclose(sent[2 * at : 2 * at + 2], wanted, rtol=1e-6)
    norms = [flow.norm if flow else np.nan for flow in visible.flows]
    np.testing.assert_allclose(sent[2 * len(nodes) :], norms, rtol=1e-6)
