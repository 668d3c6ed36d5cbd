"""`draw(tensor)`: the picture of the graph behind a tensor."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor
from ..errors import EdutorchError
from .names import Names, models_among, variables
from .static import Drawing
from .trace import trace

if TYPE_CHECKING:
    from ..nn import Module


class NotDrawableError(EdutorchError, TypeError):
    """Something was to be drawn that has no graph."""


def draw(
    tensor: Tensor,
    model: Module | None = None,
    names: Mapping[str, Tensor] | None = None,
    rankdir: str = "LR",
) -> Drawing:
    """Draw how `tensor` was computed: a box for each op and leaf, with what is known.

    Values and gradients of leaves are always known, those in between only while the
    graph still holds them (before `backward`). A tensor without a graph is one box.

    Args:
        model: parameters are called as in this model; otherwise as in the caller's.
        names: names for leaves; otherwise they are called as the caller's variables.
        rankdir: "LR" draws from left to right, "TB" from top to bottom.

    Raises: NotDrawableError: `tensor` is not a tensor.

    >>> x = tensor(3.0, requires_grad=True)
    >>> picture = edutorch.viz.draw(x * x)
    >>> print(picture.table())
    node    module  shape           value  gradient  from
    n0 x            scalar float32  3      —
    n1 mul          scalar float32  9      —         n0 n0
    """
    if not isinstance(tensor, Tensor):
        raise NotDrawableError(
            "viz.draw",
            f"expected a tensor, got {type(tensor).__name__}",
            hint=_hint(tensor),
        )
    frame = sys._getframe(1)
    return Drawing(trace(tensor, GivenNames(model, names or {}, frame)), rankdir)


def _hint(thing: Any) -> str:
    if callable(getattr(thing, "named_parameters", None)):
        return "draw what the model computes: viz.draw(model(x)), or watch it with viz.live(model)"
    return "draw a result: y = f(x); viz.draw(y)"


class GivenNames(Names):
    """Names that the caller of `draw` gave, and those found where it was called."""

    def __init__(self, model: Module | None, given: Mapping[str, Tensor], frame: FrameType) -> None:
        super().__init__([model] if model is not None else models_among(variables(frame)), frame)
        for name, tensor in given.items():
            kind, module, _ = self.of(tensor)
            self._leaves[id(tensor)] = kind, module, name
