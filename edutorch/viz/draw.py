"""`draw`: the picture of the graph behind a tensor, or of what a function computes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from ..autograd import enable_grad, grad
from ..core.autograd import reachable
from ..core.tensor import Tensor
from ..errors import EdutorchError
from ..events import listening
from ..ops import ones_like
from ..utils._pytree import tree_leaves
from .fx import graph_of, snapshot
from .graph import Snapshot
from .mirror import Part, mirrored
from .names import Names, models_among, variables
from .recorder import Recorder
from .static import Drawing
from .trace import trace

if TYPE_CHECKING:
    from ..nn import Module


class NotDrawableError(EdutorchError, TypeError):
    """Something was to be drawn that has no graph."""


def draw(
    what: Any,
    *inputs: Any,
    model: Module | None = None,
    names: Mapping[str, Tensor] | None = None,
    graph: Part = "forward",
    open: str | Iterable[str] = (),
    rankdir: Literal["LR", "TB"] | None = None,
) -> Drawing:
    """Draw how something is computed: a box for each op and leaf, with what is known.

    Of a tensor, the graph behind it is read: values and gradients of leaves are always
    known, those in between only while the graph still holds them (before `backward`). A
    tensor without a graph is one box. A module or function is called with `inputs`, and
    everything is seen.

    Args:
        what: a tensor, a module or a function; or a graph of `edutorch.fx`, a capture, or a
            compiled function that was called.
        inputs: what the module or function is called with.
        model: parameters are called as in this model; otherwise as in the caller's.
        names: names for leaves; otherwise they are called as the caller's variables.
        graph: "forward", "backward" (the derivatives, from the result to the leaves) or
            "both", one above the other.
        open: groups to show open: paths of modules, as "layers.0".
        rankdir: "LR" draws from left to right, "TB" from top to bottom; left out, what suits the
            graph, if need be in rows.

    Raises: NotDrawableError: `what` is something else.

    >>> x = tensor(3.0, requires_grad=True)
    >>> picture = edutorch.viz.draw(x * x)
    >>> print(picture.table())
    node    module  shape           value  gradient  from
    n0 x            scalar float32  3      —
    n1 mul          scalar float32  9      —         n0 n0
    """
    if graph not in ("forward", "backward", "both"):
        raise NotDrawableError(
            "viz.draw", f"unknown graph {graph!r}", hint="use 'forward', 'backward' or 'both'"
        )
    frame = sys._getframe(1)
    known = graph_of(what)
    if known is not None:
        whole = snapshot(known)
    elif isinstance(what, Tensor):
        model = model_given(model, inputs)
        whole = trace(what, GivenNames(model, names or {}, frame))
    elif callable(what):
        whole = called(what, inputs, GivenNames(model, names or {}, frame), graph)
    else:
        raise NotDrawableError(
            "viz.draw",
            f"expected a tensor, a module or a function, got {type(what).__name__}",
            hint="draw a result: y = f(x); viz.draw(y)",
        )
    drawing = Drawing(mirrored(whole, graph), rankdir)
    return drawing.open(*([open] if isinstance(open, str) else open)) if open else drawing


def model_given(model: Module | None, inputs: tuple[Any, ...]) -> Module | None:
    """Return the model of `draw(tensor, model)`.

    Raises: NotDrawableError: something else was given beside a tensor.
    """
    if len(inputs) == 1 and hasattr(inputs[0], "named_parameters"):
        return inputs[0]
    if inputs:
        raise NotDrawableError(
            "viz.draw", f"a tensor takes no inputs, got {len(inputs)}",
            hint="draw the result: viz.draw(f(x)), or the function: viz.draw(f, x)",
        )  # fmt: skip
    return model


def called(what: Any, inputs: tuple[Any, ...], names: GivenNames, graph: Part) -> Snapshot:
    """Record one call. For the graph of backward, gradients are computed and thrown away."""
    if hasattr(what, "named_modules"):
        names.learn_once(what)
    recorder = Recorder(names, detailed=True)
    with enable_grad(), listening(recorder):
        result = what(*differentiable(what, inputs, names))
        outputs = [each for each in tree_leaves(result) if wants_gradient(each)]
        if graph != "forward" and len(outputs) == 1 and outputs[0].numel() == 1:
            leaves = [each for each in reachable([outputs[0]._node]) if isinstance(each, Tensor)]
            found = grad(outputs, leaves, [ones_like(outputs[0])], allow_unused=True)
            for leaf, gradient in zip(leaves, found, strict=True):
                recorder.leaf_received(leaf, gradient)
    recorder.finish(each for each in tree_leaves(result) if isinstance(each, Tensor))
    if recorder.snapshot is None:
        raise NotDrawableError(
            "viz.draw", "nothing that has a gradient was computed",
            hint="give the function a floating tensor, and let it return what it computes",
        )  # fmt: skip
    return recorder.snapshot


def wants_gradient(thing: Any) -> bool:
    return isinstance(thing, Tensor) and thing.grad_fn is not None


def differentiable(what: Any, inputs: tuple[Any, ...], names: GivenNames) -> tuple[Any, ...]:
    """Return the inputs, such that something is recorded: a plain function needs a leaf."""
    tensors = [each for each in inputs if isinstance(each, Tensor)]
    if hasattr(what, "parameters") or any(each.requires_grad for each in tensors):
        return inputs
    return tuple(
        names.twin(each) if isinstance(each, Tensor) and each.is_floating_point() else each
        for each in inputs
    )


class GivenNames(Names):
    """Names that the caller of `draw` gave, and those found where it was called."""

    def __init__(self, model: Module | None, given: Mapping[str, Tensor], frame: FrameType) -> None:
        super().__init__([model] if model is not None else models_among(variables(frame)), frame)
        for name, tensor in given.items():
            kind, module, _ = self.of(tensor)
            self._leaves[id(tensor)] = kind, module, name

    def learn_once(self, model: Module) -> None:
        """Take the names from a model, unless it is one of those that are known."""
        if id(model) not in self.modules:
            self.learn(model)

    def twin(self, tensor: Tensor) -> Tensor:
        """Return a leaf with the same numbers that wants a gradient and has the same name."""
        made = tensor.detach().requires_grad_()
        self._leaves[id(made)] = self.of(tensor)
        return made
