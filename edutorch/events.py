"""What happens inside, told to whoever listens.

The engine and the modules know nothing of pictures, profilers or tracers. They
make one of the small objects below, and only when somebody listens:

    with listening(print):
        loss = model(x)

Events carry live tensors and arrays. A listener that keeps them keeps their
memory: turn them into plain data at once (see `viz/recorder.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .modes import current, listening

__all__ = [
    "GradientAccumulated",
    "GradientFlowed",
    "ModuleEntered",
    "ModuleLeft",
    "OpApplied",
    "Stepped",
    "emit",
    "listening",
]


@dataclass(frozen=True, slots=True, eq=False)
class OpApplied:
    """An op ran. `inputs` are its tensor arguments in order (a Tensor, a number
    or None each), `settings` the others by name; `node` is what was recorded,
    or None where no gradient is needed."""

    op: Any
    inputs: tuple[Any, ...]
    settings: dict[str, Any]
    output: Any
    node: Any


@dataclass(frozen=True, slots=True, eq=False)
class GradientFlowed:
    """During backward, `gradient` left `node` along its edge number `index`
    (towards `node.edges[index]`). It is an array, or a Tensor with `create_graph`."""

    node: Any
    index: int
    gradient: Any


@dataclass(frozen=True, slots=True, eq=False)
class GradientAccumulated:
    """`gradient`, this backward's whole sum, was added to `tensor.grad`."""

    tensor: Any
    gradient: Any


@dataclass(frozen=True, slots=True, eq=False)
class ModuleEntered:
    """A module's `forward` begins with the positional `inputs`."""

    module: Any
    inputs: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ModuleLeft:
    """A module's `forward` ended with `output` (None when it raised)."""

    module: Any
    output: Any


@dataclass(frozen=True, slots=True, eq=False)
class Stepped:
    """An optimizer has updated its parameters."""

    optimizer: Any


def emit(event: Any) -> None:
    """Hand `event` to every listener of this thread, in the order they came."""
    for listener in current().listeners:
        listener(event)
