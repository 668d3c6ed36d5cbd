"""The result of a capture: the graph, the sources of its inputs, and the uses of its outputs."""

from __future__ import annotations

import inspect
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.autograd.graph import record
from ..core.registry import REGISTRY
from ..core.tensor import Tensor, fill, share_version
from ..dtypes import dtype
from ..nn import Module
from ..utils._pytree import tree_flatten
from .captured_state import CapturedState
from .gradients import Backward
from .graph import Graph

__all__ = ["Captured", "Input", "Output", "argument_names"]


@dataclass
class Input:
    """The source of an input of the graph in each call.

    `kind`: "argument" (element `index` of the flattened arguments), "tensor" (always this
    one), "grad" (the gradient of `tensor`), "number" (`holder[key]`).
    """

    kind: str
    name: str
    index: int = -1
    tensor: Any = None
    holder: Any = None
    key: Any = None


@dataclass
class Output:
    """The use of an output of the graph.

    `kind`: "result" (leaf `index` of what the function returns), "grad" (becomes the
    gradient of `tensor`), "write" (is written into input `index`), "saved" (for backward).
    """

    kind: str
    index: int = -1
    tensor: Any = None
    shares: int = -1  # the input, or -2 - the earlier output, that it shares memory with
    view: Any = None  # (shape, strides, offset in bytes, dtype) within that input


@dataclass
class Captured:
    """The result of a capture.

    `graph` computes `outputs` from `inputs`. `result` is what the function returned, and
    `leaves` describes it: for each leaf ("tensor", index of the output), ("input", index),
    ("same", earlier leaf) or ("value", the value). `backward` is the graph of the gradients, if
    the result has any. `reasons` says why the graph must not be used.
    """

    graph: Graph
    inputs: list[Input] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    leaves: list[tuple[str, Any]] = field(default_factory=list)
    spec: Any = None
    result: Any = None
    reasons: list[tuple[str, str]] = field(default_factory=list)
    reach: CapturedState | None = None
    backward: Backward | None = None
    spent: list[int] = field(default_factory=list)  # outputs whose autograd graph was freed inside
    grads: list[tuple[Any, Any]] = field(default_factory=list)  # (tensor, None or shape before)
    dropped: list[Any] = field(default_factory=list)  # tensors whose gradient becomes None
    again: bool = False  # capture the next call: this one initialized some state
    changes: bool = False  # the function changes Python state: it can never be compiled
    original: Graph | None = None  # forward and backward together, as captured

    def __repr__(self) -> str:
        count = sum(1 for _ in self.graph.nodes)
        why = f", not usable: {self.reasons[0][0]}" if self.reasons else ""
        return f"<captured graph of {count} nodes{why}>"


def flat_tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]


def is_plain_value(value: Any) -> bool:
    """Return True for an immutable Python value, which every call may return."""
    return value is None or isinstance(value, bool | int | float | complex | str | bytes | dtype)


def has_user_hooks(optimizer: Any) -> bool:
    """Return True if users have registered step hooks on an optimizer."""
    hooks = (hook for when in ("step_pre", "step_post") for hook in optimizer.hooks_for(when))
    ours = ("edutorch.",)  # schedulers count the steps
    return any(not (getattr(hook, "__module__", "") or "").startswith(ours) for hook in hooks)


def python_random_state() -> Any:
    """Return the states of the global generators of Python and NumPy."""
    state: Any = np.random.get_state()
    return random.getstate(), state[0], state[1].tobytes(), state[2:]


def argument_names(function: Any, args: Any, kwargs: Any) -> list[str]:
    """Return a name for each leaf of the arguments: that of its parameter."""
    target = function.forward if isinstance(function, Module) else function
    try:
        bound = inspect.signature(target).bind(*args, **kwargs)
        parameters = list(bound.arguments)
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for position, value in enumerate(args):
        name = parameters[position] if position < len(parameters) else f"arg{position}"
        count = len(tree_flatten(value)[0])
        names += [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
    for key, value in kwargs.items():
        count = len(tree_flatten(value)[0])
        names += [key] if count == 1 else [f"{key}_{i}" for i in range(count)]
    return names


def add_identity_step(tensor: Tensor) -> Tensor:
    """Return an alias of a tensor in the same memory, with the tensor as its history."""
    step = fill(object.__new__(Tensor), tensor._array)
    record(REGISTRY["convert_dtype"], step, {"input": tensor, "dtype": tensor.dtype})
    return share_version(step, tensor)
