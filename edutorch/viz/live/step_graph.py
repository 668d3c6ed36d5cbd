"""The graph of one step while it is gathered: ops and tensors as vertices, then their gradients.

Only plain data is kept. Tensors and nodes are known by their identity (`tensor_keys.py`), so that
a write, which makes an older node the youngest, cuts nothing off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from numpy import ndarray

from ... import dtypes
from ...backends.numpy import Array
from ...core.autograd.graph import LEAF, Node
from ...core.op import Op
from ...core.tensor import Tensor
from ...events import GradientFlowed, TensorAliased, TensorWritten
from ..graph.fold import VisibleSet
from ..graph.graph_reader import (
    argument_names,
    leaf_vertex,
    name_variables,
    number_vertex,
    received_gradient,
    vertex_of_call,
)
from ..graph.model import (
    ArrangedGraph,
    Key,
    Snapshot,
    Tab,
    Vertex,
    ancestors,
    arrange_graph,
    gradient_label,
)
from ..graph.names import CallScopes, Names, variables
from ..graph.tensor_keys import TensorKeys, has_node
from ..tensors.summaries import Stats, summarize
from .step_trace import Call, Constant, StepTrace, UnrecordedOp

MAX_UNRECORDED = 2000
"""With more ops that have no gradient (an evaluation inside the loop), those that lead to no loss
are left out."""


class Pass(NamedTuple):
    """A backward pass.

    `accumulates`: it is `backward`, not `grad`; `retains`: the graph is kept for another one;
    `root`: the vertex it began at, None if that is not of this step.
    """

    accumulates: bool
    retains: bool
    root: int | None = None


class StepGraph:
    """Gathers the vertices of one step. Each is known by its key, a number in order of appearance.

    Args:
        names: the names of tensors and modules.
        scopes: the calls that are running.
        visible: the vertices whose values are taken; None: all.
        detailed: also compute histograms.
        before: the graph of the step before, where nothing marks the end of a step: what was
            computed since its last backward may be the beginning of this one.

    Attributes:
        orders: the vertices of the recorded ops by the order of their nodes when they ran.
        index_keys: the vertices of indices and masks.
        calls: the recorded ops, as a light sampler compares them.
        unrecorded: the ops that were not recorded.
        passes: the backward passes of the step so far.
        received: the leaves that got a gradient.
        again: a later version of a tensor from outside, and the vertex of an earlier one.
        has_joined_passes: whether a gradient was added to that of an earlier pass.
        tail: the first vertex that was made after the last backward; 0: none has run.
        results: what a function has returned, where that is what is drawn.
    """

    def __init__(
        self,
        names: Names,
        scopes: CallScopes,
        visible: VisibleSet | None,
        detailed: bool,
        before: StepGraph | None = None,
    ) -> None:
        self.names, self.scopes, self.visible, self.detailed = names, scopes, visible, detailed
        self.before = before
        if before is not None:
            before.before = None
        self.keys = TensorKeys()
        self.vertices: dict[int, Vertex] = {}
        self.orders: dict[int, int] = {}
        self.index_keys: set[int] = set()
        self.calls: list[Call] = []
        self.unrecorded: list[UnrecordedOp] = []
        self.passes: list[Pass] = []
        self.received: set[int] = set()
        self.again: dict[int, int] = {}
        self.has_joined_passes = False
        self.tail = 0
        self.results: list[int] | None = None
        self._own: set[int] = set()  # vertices of the parameters of this view's models
        self._latent: set[int] = set()  # vertices that are drawn only if something uses them
        self._adopted: dict[int, int] = {}  # by key in the step before
        self._sums: dict[tuple[int, str], Any] = {}  # gradients that a later pass is added to
        self._drawn: tuple[Any, Any] = None, None  # vertices and roots, and their graph
        self._flowed: tuple[Any, Stats | None] = (
            None,
            None,
        )  # what left a node last, and its summary

    @property
    def has_content(self) -> bool:
        """Whether anything of a step was gathered."""
        return bool(self.vertices or self.passes or self.unrecorded)

    def _add(self, vertex: Vertex) -> int:
        """Add a vertex, and decide whether its values are wanted."""
        # Keys are counted, so the same program gives the same keys in each step.
        key = len(self.vertices)
        if self.visible is not None:
            vertex.watched = key in self.visible.nodes
            vertex.tracked = key in self.visible.flows
        self.vertices[key] = vertex
        return key

    # Forward ----------------------------------------------------------------------------

    def record(
        self,
        op: Op,
        inputs: tuple[Any, ...],
        outputs: tuple[Tensor, ...],
        node: Node | None,
        settings: Mapping[str, Any] | None = None,
    ) -> int:
        """Add the vertex of an op that ran, and those of its operands that are new."""
        output, names = outputs[0], argument_names(op, len(inputs))
        keys = [self._source(value, name) for name, value in zip(names, inputs, strict=True)]
        index_sources = [pair for name, value in (settings or {}).items()
                  for pair in self._index_tensors(name, value)]  # fmt: skip
        vertex = vertex_of_call(op, output, node)
        vertex.scopes, vertex.module = self.scopes.current(), self.scopes.module
        pairs = zip(names, keys, strict=True)
        vertex.sources = (*((name, key) for name, key in pairs if key is not None), *index_sources)
        key = self._add(vertex)
        for result in outputs:
            if isinstance(result, Tensor):
                self.keys.record(result, key)
        vertex.version = self.keys.version(output)  # of a view's base that was written into
        if node is None:
            self.unrecorded.append(UnrecordedOp(op, key, tuple(keys)))
        else:
            self.keys.record_node(node, key)
            self.orders[node._order] = key
            operands = tuple(map(self._operand, inputs, keys))
            edges = tuple(edge is not None for edge in node.edges)
            self.calls.append(Call(node.origin, node.shape, key, operands, edges, tuple(names),
                                    node.gathers, vertex.module))  # fmt: skip
        if vertex.watched:
            vertex.value = summarize(output._array, self.detailed)
        if vertex.watched and node is not None and not node.gathers:
            # A hook sees the sum of all that arrives at the node; no event reports that.
            node.add_hook("gradient", lambda gradient: self._record_gradient(key, gradient))
        return key

    def _source(self, value: object, name: str) -> int | None:
        """Return the vertex of one operand, and add it if it is new."""
        if isinstance(value, Tensor):
            scalar = value.__dict__.get("_number")
            if scalar is not None:
                return self._add(number_vertex(name, scalar))
            key = self.keys.find(value)
            if key is None:
                return self._leaf(value)
            self._refresh(value, key)
            vertex = self.vertices[key]
            if vertex.kind != "op" and vertex.differentiable != value.requires_grad:
                return self._leaf(value)  # frozen in one pass of the step, trained in another
            if vertex.kind == "op" and value._node is LEAF and not vertex.differentiable:
                return self._leaf(value, made=key)  # x.detach().requires_grad_()
            return key
        if isinstance(value, int | float):
            return self._add(number_vertex(name, value))
        return None

    def _index_tensors(self, name: str, value: object) -> Iterator[tuple[str, int]]:
        """Yield the tensors in a setting: the indices and masks of an indexing op."""
        if isinstance(value, Tensor):
            key = self._source(value, name)
        elif isinstance(value, ndarray) and value.dtype.kind in "biu":
            key = self._index(value, name)
        elif isinstance(value, tuple | list) and any(
            isinstance(item, Tensor | ndarray) for item in value
        ):
            for index, item in enumerate(value):
                yield from self._index_tensors(f"{name}[{index}]", item)
            return
        else:
            return
        if key is not None:
            self.index_keys.add(key)
            yield name, key

    def _index(self, array: ndarray, name: str) -> int:
        """Return the vertex of an index, which the op gets as a bare array."""
        tensors = (value for _, value in variables(self.names.frame) if isinstance(value, Tensor))
        tensor = self.keys.owner_of_array(array)
        if tensor is None:
            tensor = next((value for value in tensors if value._array is array), None)
        key = None if tensor is None else self._source(tensor, name)
        if key is not None:
            return key
        stats = summarize(array, self.detailed)
        return self._add(Vertex("leaf", name, shape=array.shape, dtype=dtypes.of(array.dtype).name,
                                differentiable=False, value=stats))  # fmt: skip

    def _refresh(self, tensor: Tensor, key: int) -> None:
        """Update the elements of a recorded tensor that was overwritten without a record."""
        if not self.keys.is_stale(tensor):
            return
        vertex = self.vertices[key]
        self.keys.record(tensor, key)
        vertex.version = self.keys.version(tensor)
        if vertex.watched:
            vertex.value = summarize(tensor._array, self.detailed)

    def _operand(self, value: object, key: int | None) -> int | Constant | None:
        if key is None:
            return None
        is_number = not isinstance(value, Tensor) or "_number" in value.__dict__
        return Constant(key) if is_number else key

    def _leaf(self, tensor: Tensor, made: int | None = None) -> int:
        """Return the vertex of a tensor from outside the step, or of its newest version.

        Args:
            made: the op whose result became a leaf.
        """
        adopted = self._adopt(tensor)
        if adopted is not None:
            return adopted
        known = self.keys.last(tensor)
        writer = self.keys.writer(tensor) if made is None else made
        vertex = leaf_vertex(tensor, self.names)
        if id(tensor) in self.names.own:
            self._own.add(len(self.vertices))
        if vertex.kind == "leaf" and not vertex.differentiable:
            self._name_gradient(vertex, tensor)
        if writer is not None:
            vertex.sources = (("write", writer),)
        key = self._add(vertex)
        self.keys.record(tensor, key)
        vertex.version = self.keys.version(tensor)
        if known is not None:
            self.again[key] = known.key
        if vertex.watched:
            vertex.value = summarize(tensor._array, self.detailed)
        return key

    def _name_gradient(self, vertex: Vertex, tensor: Tensor) -> None:
        """Name the `.grad` of a tensor of this step or the last after that tensor."""
        for graph in (self, self.before):
            owner = None if graph is None else graph.keys.owner_of_gradient(tensor)
            if graph is not None and owner is not None:
                vertex.label = gradient_label(graph.vertices[owner].label)
                vertex.module = graph.vertices[owner].module
                return

    def _adopt(self, tensor: Tensor) -> int | None:
        """Take over what an unrecorded op computed for this step before the last one was over.

        Without an optimizer nothing marks the end of a step: `x = images / 255` comes before the
        first recorded op of the next one.
        """
        before = self.before
        key_before = None if before is None else before.keys.find(tensor)
        if before is None or key_before is None or key_before < before.tail:
            return None
        if before.vertices[key_before].differentiable:
            return None
        key = self._take_over(key_before, before)
        self.keys.record(tensor, key)
        return key

    def _take_over(self, key: int, before: StepGraph) -> int:
        """Add a vertex of the step before, with everything it was computed from since backward."""
        if key not in self._adopted:
            vertex = before.vertices[key]
            vertex.sources = tuple(
                (name, self._take_over(source, before))
                for name, source in vertex.sources
                if source >= before.tail or before.vertices[source].kind != "op"
            )
            self._adopted[key] = self._add(vertex)
        return self._adopted[key]

    # Writes -----------------------------------------------------------------------------

    def note_latent(self, key: int) -> None:
        """Mark a vertex to be drawn only if something uses it."""
        self._latent.add(key)

    def follow_alias(self, event: TensorAliased) -> None:
        """Follow a tensor to its second object; `detach` of one with a gradient is drawn."""
        if not event.detached:
            if self.keys.last(event.tensor) is None and self.keys.find(event.tensor) is None:
                self._leaf(event.tensor)
            self.keys.alias(event.tensor, event.alias)
            return
        key = self._source(event.tensor, "input")
        if key is not None and event.tensor.requires_grad:
            source = self.vertices[key]
            vertex = Vertex("op", "detach", self.scopes.module, source.shape, source.dtype,
                            differentiable=False, device=source.device)  # fmt: skip
            vertex.sources, vertex.scopes = (("input", key),), tuple(self.scopes.stack)
            if vertex.watched:
                vertex.value = summarize(event.alias._array, self.detailed)
            key = self._add(vertex)
            self._latent.add(key)
            self.keys.record(event.alias, key)
        else:
            self.keys.alias(event.tensor, event.alias)

    def follow_write(self, event: TensorWritten) -> None:
        """Follow a tensor to the result that was written into it: its new version."""
        tensor, result = event.tensor, event.result
        key = None if result is None else self.keys.find(result)
        if key is not None and tensor._node is not LEAF and tensor._base is None:
            self.keys.record(tensor, key)
            self.vertices[key].version = max(1, self.keys.version(tensor))
        elif key is not None and has_node(tensor) and has_node(result):
            self.vertices[key].version = max(1, self.keys.version(tensor))
        self.keys.record_write(tensor, key)

    # Backward ---------------------------------------------------------------------------

    def begin_backward(self, running: Pass, node: Node | None) -> None:
        """Record a backward pass, whose first gradient leaves `node` now."""
        self.passes.append(running._replace(root=self.keys.of_node(node)))
        name_variables(self.vertices, self.names, self.keys.find)  # later they may hold others
        self._mark_hooks()

    def _mark_hooks(self) -> None:
        """Mark the results that have hooks. One of each node that is watched is ours."""
        for node, key in self.keys.nodes():
            vertex, hooks = self.vertices[key], node.hooks
            if hooks is not None:
                ours = vertex.watched and not node.gathers
                count = len(hooks.gradient) - ours + len(hooks.before) + len(hooks.after)
                vertex.marks = ("hook",) if count > 0 else ()

    def _record_gradient(self, key: int, gradient: Tensor) -> None:
        array, known = self._flowed  # mostly exactly what reaches the next node
        total = self._total(key, "", gradient._array)
        if total is not None:
            self.vertices[key].grad = known if total is array else summarize(total)

    def gradient_flowed(self, event: GradientFlowed) -> None:
        """Record the gradient that left a node along one of its edges."""
        node = event.node
        key = self.keys.of_node(node)
        if key is None or not self.vertices[key].tracked:
            return
        name = argument_names(node.op, len(node.edges))[event.index]
        total = self._total(key, name, received_gradient(event.gradient, node.edges[event.index]))
        if total is not None:
            stats = self.vertices[key].flows[name] = summarize(total)
            self._flowed = total, stats

    def _total(self, key: int, name: str, array: Array) -> Any:
        """Return a gradient plus those of the earlier passes of this step along the same edge.

        None: it belongs to a pass of `grad`, and what `backward` has accumulated is shown.
        """
        if not self.passes:
            return array
        edge_key, running = (key, name), self.passes[-1]
        earlier = self._sums.get(edge_key)
        if not running.accumulates:
            return array if earlier is None else None
        # A new array: the engine may still use the old ones in place.
        if earlier is not None:
            self.has_joined_passes = True
            array = self._sums[edge_key] = earlier + array
        elif running.retains:
            self._sums[edge_key] = array.copy()
        return array

    def record_leaf_gradient(self, leaf: Tensor, gradient: Tensor | None) -> None:
        """Record the gradient of a leaf."""
        known = self.keys.last(leaf)
        if gradient is not None and known is not None:
            key = known.key
            while not self.vertices[key].differentiable and key in self.again:
                key = self.again[key]  # it is frozen by now
            vertex = self.vertices[key]
            self.received.add(key)
            vertex.grad = summarize(gradient._array) if vertex.watched else None

    def gradient_norm(self, leaf: Tensor) -> float | None:
        """Return the norm of the gradient that a leaf received in this step, if it was taken."""
        known = self.keys.last(leaf)
        grad = None if known is None else self.vertices[known.key].grad
        return None if grad is None else grad.norm

    # The whole --------------------------------------------------------------------------

    def arrange(self) -> ArrangedGraph:
        """Return the graph, which is known when backward begins, before most of its values are."""
        roots = self._outputs()
        of = len(self.vertices), tuple(roots), self.tail
        if self._drawn[0] != of:
            if not self.passes:
                name_variables(self.vertices, self.names, self.keys.find)
            others = self._others(roots)
            tabs = self._tabs if len(roots) > 1 and self.passes else None
            self._drawn = of, arrange_graph(self.vertices, roots, self.names.classes, others, tabs)
        return self._drawn[1]

    def _outputs(self) -> list[int]:
        """Return what is drawn as outputs: the roots of backward, else the unused results."""
        if self.results is not None:
            return self.results
        ran = [pass_.root for pass_ in self.passes if pass_.accumulates]
        roots = list(dict.fromkeys(root for root in ran if root is not None))
        if roots:
            return self._own_roots(roots)
        ends = self._unused()
        with_gradient = [key for key in ends if self.vertices[key].differentiable]
        return with_gradient or ends

    def keys_of_results(self, results: Iterable[Tensor]) -> list[int]:
        """Return the vertices of what a function returned; an input given back is its own."""
        keys = (self._source(result, "result") for result in results)
        return list(dict.fromkeys(key for key in keys if key is not None))

    @property
    def is_foreign(self) -> bool:
        """Whether this step only belongs to the models of another view."""
        return bool(self.names.own) and not self._own

    def _own_roots(self, roots: list[int]) -> list[int]:
        """Return the roots that have to do with the models of this view, inside another one."""
        if not self._own:
            return roots
        return [root for root in roots if ancestors(self.vertices, [root]) & self._own] or roots

    def _unused(self) -> list[int]:
        """Return the ops whose results no op used."""
        used = {key for vertex in self.vertices.values() for _, key in vertex.sources}
        return [
            key
            for key, vertex in self.vertices.items()
            if vertex.kind == "op" and key not in used and key not in self._latent
        ]

    def _others(self, roots: Iterable[int]) -> list[int]:
        """Return the further results of the step that are drawn, with what they were computed from.

        What ran before the first recorded op, or after the last backward, and leads to no loss, is
        not part of the picture: an evaluation between two steps, or an update written by hand.
        """
        others = [key for key in self._unused() if key not in roots]
        if self._own:
            others = [key for key in others if ancestors(self.vertices, [key]) & self._own]
        if self.tail:
            first = self.calls[0].key if self.calls else 0
            others = [key for key in others if first <= key < self.tail]
        grey = sum(not vertex.differentiable for vertex in self.vertices.values())
        if grey > MAX_UNRECORDED:
            return [key for key in others if self.vertices[key].differentiable]
        return others

    def trace(self, snapshot: Snapshot) -> StepTrace | None:
        """Return what the step did, None where a light sample could not be compared with it.

        A backward from outside the step's graph has no root here, and the sum of two passes along
        one edge is seen by no hook.
        """
        roots = tuple(pass_.root for pass_ in self.passes if pass_.root is not None)
        if len(roots) < len(self.passes) or self.has_joined_passes:
            return None
        results = (vertex for vertex in self.vertices.values() if vertex.kind == "op")
        nbytes = sum(4 * math.prod(vertex.shape) for vertex in results)
        return StepTrace(
            tuple(self.calls), roots, frozenset(self.received), snapshot, nbytes,
            dict(self.again), tuple(self.unrecorded), frozenset(self.index_keys),
        )  # fmt: skip

    def by_identity(self) -> dict[Key, Vertex]:
        """Return the vertices by keys that are known outside too, as in `graph_reader.py`.

        These are the order of a node when it ran, and the identity of a tensor from outside.
        """
        names: dict[int, Key] = {key: ("vertex", key) for key in self.vertices}
        names |= {key: order for order, key in self.orders.items()}
        names |= {
            key: ("leaf", identity)
            for identity, key in self.keys.identities()
            if self.vertices[key].kind != "op"
        }
        return {
            names[key]: replace(
                vertex, sources=tuple((name, names[source]) for name, source in vertex.sources)
            )
            for key, vertex in self.vertices.items()
        }

    def _tabs(self, order: dict[int, str]) -> tuple[Tab, ...]:
        """Return, for each backward pass, the part of the graph behind its root."""
        tabs = []
        for number, root in enumerate(self._outputs(), start=1):
            behind = ancestors(self.vertices, [root])
            title = self.vertices[root].variable or f"backward {number}"
            tabs.append(Tab(title, tuple(at for at, key in enumerate(order) if key in behind)))
        return tuple(tabs)
