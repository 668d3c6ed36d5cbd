"""What happens in a step, kept by a listener that does nothing clever and keeps all alive.

It shares no code with `edutorch/viz/`, so that the two can be compared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from edutorch.core.autograd.graph import Node
from edutorch.core.op import REGISTRY
from edutorch.core.tensor import Tensor, wrap
from edutorch.events import (
    GradientAccumulated,
    OpApplied,
    TensorAliased,
    TensorWritten,
    ViewRebased,
    WorkEnded,
    WorkStarted,
    listen_backward,
    listening,
)
from edutorch.utils._pytree import tree_leaves

Box = tuple[str, tuple[int, ...]]
"""A label and a shape. All tensors from outside are called "leaf"."""


class Ran(NamedTuple):
    """An op that ran: what it is, the norm of its result, and where its operands came from."""

    box: Box
    norm: float
    sources: tuple[Any, ...]  # numbers of ops, or tensors from outside
    recorded: bool
    latent: bool  # it counts only if something uses it


class PlainListener(listening):
    """Keeps the ops that run inside a `with` block, and the graphs on which backward ran."""

    def __init__(self, step: Callable[[], int] = lambda: 0) -> None:
        """Listen; forget all whenever `step` returns another number."""
        super().__init__(self.take)
        self.step_now, self.step_then = step, 0
        self.kept: list[Any] = []  # alive, so that identities stay unique
        self.elsewhere = 0
        self.before: dict[str, Any] = {}
        self.backward = listen_backward(self.walk)
        self.forget()

    def forget(self) -> None:
        """Begin a step."""
        self.ran: list[Ran] = []
        self.maker: dict[int, Any] = {}  # of a tensor or node, by identity
        self.shown: dict[int, Tensor] = {}  # by array
        self.written: dict[int, Any] = {}  # the same, by memory: what was written into it last
        self.norms: dict[int, float] = {}  # of the tensors from outside, when they were first used
        self.gradients: dict[int, float] = {}  # norms, when backward had ended
        self.walked, self.arrows = Counter(), Counter()
        self.seen: set[int] = set()
        self.ended = 0

    def __enter__(self):
        self.backward.__enter__()
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if not any(item.recorded for item in self.ran):  # what came after the last step
            self.__dict__.update(self.before)
        self.backward.__exit__(*exception)

    def take(self, event: Any) -> None:
        if self.step_now() != self.step_then:
            self.step_then = self.step_now()
            if any(item.recorded for item in self.ran):
                self.before = dict(self.__dict__)
                del self.before["elsewhere"], self.before["step_then"]
            self.forget()
        self.kept.append(event)
        match event:
            case WorkStarted() if is_elsewhere(event):
                self.elsewhere += 1
            case WorkEnded() if is_elsewhere(event):
                self.elsewhere -= 1
                self.ended = len(self.ran) if event.kind == "backward" else self.ended
            case OpApplied() if event.node is not None or not self.elsewhere:
                outputs = event.output if isinstance(event.output, tuple) else (event.output,)
                inputs = (*event.inputs, *tree_leaves(event.settings))
                self.note(name_of(event.op), inputs, outputs, event.node)
            case ViewRebased() if event.node is not None:
                self.note(name_of(event.op), (event.base,), (event.view,), event.node, True)
            case TensorAliased() if event.detached and event.tensor.requires_grad:
                self.note("detach", (event.tensor,), (event.alias,), None, True)
            case TensorAliased():
                self.maker[id(event.alias)] = self.maker_of(event.tensor)
            case TensorWritten() if event.result is not None and not self.elsewhere:
                self.maker[id(event.tensor)] = self.maker_of(event.result)
                self.kept.append(event.tensor._writes)
                self.written[id(event.tensor._writes)] = self.maker_of(event.result)
            case GradientAccumulated():
                self.gradients[id(event.tensor)] = norm_of(event.tensor.grad)

    def note(self, label, inputs, outputs, node, latent=False) -> None:
        inputs = [self.shown.get(id(input_), input_) for input_ in inputs]  # an index is an array
        inputs = [wrap(input_) if isinstance(input_, np.ndarray) else input_ for input_ in inputs]
        operands = [
            input_
            for input_ in inputs
            if isinstance(input_, Tensor) and not hasattr(input_, "_number")
        ]  # 1 of `1 - x`
        for operand in operands:
            self.norms.setdefault(id(operand), norm_of(operand))
        sources = tuple(self.maker_of(operand) for operand in operands)
        shape = tuple(outputs[0].shape) if node is None else tuple(node.shape)
        for output in outputs:
            self.shown[id(output._array)] = output
        for output in (*outputs, *([node] if node is not None else [])):
            self.maker[id(output)] = len(self.ran)
        self.kept.append(node)
        norm = norm_of(outputs[0])
        self.ran.append(Ran((label, shape), norm, sources, node is not None, latent))

    def maker_of(self, tensor: Tensor) -> Any:
        """Return the number of the op that made a tensor's elements, or the tensor itself."""
        node = tensor._node
        if isinstance(node, Node) and id(node) in self.maker:
            return self.maker[id(node)]
        made = self.maker.get(id(tensor), tensor)
        written = self.written.get(id(tensor._writes), -1)  # through whichever view
        return written if written > (made if isinstance(made, int) else -1) else made

    def walk(self, roots: tuple[Tensor, ...]) -> None:
        """Walk over the graph behind the tensors on which backward is about to run."""
        stack = [root._node for root in roots if isinstance(root._node, Node)]
        while stack:
            node = stack.pop()
            if id(node) in self.seen:
                continue
            self.seen.add(id(node))
            self.kept.append(node)
            self.walked[box_of(node)] += 1
            for edge in node.edges:
                if edge is not None:
                    self.arrows[box_of(edge), box_of(node)] += 1
                if isinstance(edge, Node):
                    stack.append(edge)

    def step(self) -> tuple[Counter, Counter, dict[Box, list[float]]]:
        """Return boxes, arrows and norms of the ops that belong to the step.

        What ran before the first recorded op or after the last backward belongs to it only if
        something in it, or a loss, came from there.
        """
        first = next(at for at, item in enumerate(self.ran) if item.recorded)
        inside = range(first, self.ended or len(self.ran))
        stack = [at for at in inside if not self.ran[at].latent]
        wanted: set[int] = set()
        while stack:
            at = stack.pop()
            if at not in wanted:
                wanted.add(at)
                stack += [source for source in self.ran[at].sources if isinstance(source, int)]
        boxes, arrows, norms = Counter(), Counter(), {}
        for at in wanted:
            item = self.ran[at]
            boxes[item.box] += 1
            norms.setdefault(item.box, []).append(item.norm)
            for source in item.sources:
                outside = isinstance(source, Tensor)
                arrows[box_of(source) if outside else self.ran[source].box, item.box] += 1
        return boxes, arrows, norms


def is_elsewhere(event: WorkStarted | WorkEnded) -> bool:
    """Return True for work whose unrecorded ops are no part of the graph of a step."""
    inside_function = event.kind == "op" and isinstance(event.subject, type)
    return inside_function or event.kind in ("data", "optimizer", "backward")


def norm_of(tensor: Tensor) -> float:
    """Return the norm; NaN if there is an infinity, too."""
    array = np.asarray(tensor._array)
    if array.dtype.kind not in "fc" or array.dtype.itemsize < 4:
        array = array.astype(np.float32)
    size = np.abs(array).astype(np.float64)
    return float(np.sqrt((size**2).sum())) if np.isfinite(size).all() else math.nan


def box_of(thing: Any) -> Box:
    """Return name and shape of a recorded node, or of a tensor from outside."""
    if isinstance(thing, Node):
        return name_of(thing.op), tuple(thing.shape)
    return "leaf", tuple(thing._array.shape)


def families() -> dict[str, str]:
    """Return one name for all names that some ops share: convolutions are parts of one another."""
    result: dict[str, set[str]] = {}
    for op in REGISTRY.values():
        names = {op.name, *op.public}
        for item in tuple(names):
            names |= result.get(item, set())
        result.update(dict.fromkeys(names, names))
    return {name: min(names) for name, names in result.items()}


FAMILIES = families()


def name_of(op: Any) -> str:
    return FAMILIES.get(op.name, op.name)


def name_of_label(label: str) -> str:
    """Return what `name_of` says, from the label of a box: "group_norm", "dropout: to"."""
    label = label.rpartition(": ")[2]
    return FAMILIES.get(label, label)
