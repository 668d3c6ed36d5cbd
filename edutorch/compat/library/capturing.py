"""A call of an operator while a graph is captured: it becomes one node.

The node's target is the operator. When the graph runs, compiled or not, it is called with arrays;
an operator that writes to its arguments is replaced by one that returns their new values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edutorch.autograd import no_grad
from edutorch.core.tensor import Tensor, wrap
from edutorch.utils._pytree import tree_map

from .operators import OpOverload

Run = Callable[[OpOverload, list[Any]], Any]


def running_tracer() -> Any:
    """Return the tracer of the capture that this call is a part of, or None."""
    patches = sys.modules.get("edutorch.fx.capture_patches")
    tracer = None if patches is None else patches.current_tracer()
    return tracer if tracer is not None and tracer.is_running() else None


def as_tensors(value: Any) -> Any:
    """Replace arrays by tensors of the same memory, at any depth."""
    return tree_map(lambda leaf: wrap(leaf) if isinstance(leaf, np.ndarray) else leaf, value)


def as_arrays(value: Any) -> Any:
    """Replace tensors by their arrays, at any depth."""
    return tree_map(lambda leaf: leaf._array if isinstance(leaf, Tensor) else leaf, value)


def call_with_arrays(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run an operator on arrays, as a graph does."""
    with no_grad():
        return as_arrays(op(*as_tensors(list(args)), **as_tensors(dict(kwargs))))


def call_captured(tracer: Any, op: OpOverload, values: list[Any], run: Run) -> Any:
    """Run an operator, and add the call to the graph."""
    written = [index for index, argument in enumerate(op._schema.arguments) if argument.is_write]
    target: Any = FunctionalCall(op, written) if written else op
    before = tracer.draw_count
    tracer.forward_depth += 1  # inside, tensors hold ordinary arrays, and nothing is recorded
    try:
        held = as_tensors(as_arrays(values))
        result = target.run(held) if written else as_arrays(run(op, held))
    finally:
        tracer.forward_depth -= 1
    meta = {"random": True} if tracer.draw_count != before else {}
    arrays = tree_map(lambda leaf: leaf._array if isinstance(leaf, Tensor) else leaf, values)
    traced = tracer.backend.record_node(target, tuple(arrays), {}, result, **meta)
    if not written:
        return as_traced_tensors(traced, tracer)
    results, new_values = traced[: -len(written)], traced[-len(written) :]
    for index, new_value in zip(written, new_values, strict=True):
        tensor = values[index]
        tracer.backend.setitem(tensor._array, ..., new_value)
        tensor._bump()
    outputs = as_traced_tensors(results, tracer)
    if not op._schema.returns:
        return None
    return outputs[0] if len(op._schema.returns) == 1 else tuple(outputs)


def as_traced_tensors(value: Any, tracer: Any) -> Any:
    """Replace traced arrays by tensors, at any depth."""
    array_type = tracer.backend.array_type
    return tree_map(lambda leaf: wrap(leaf) if isinstance(leaf, array_type) else leaf, value)


class FunctionalCall:
    """An operator that writes to arguments, as a function that returns their new values instead."""

    def __init__(self, op: OpOverload, written: Sequence[int]) -> None:
        self.overload, self.written = op, tuple(written)
        self.__name__ = f"{op._opname}_functional"
        self.__module__ = op.__module__

    def __hash__(self) -> int:
        return hash((self.overload, self.written))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionalCall) and self.overload is other.overload

    def run(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results of the operator, and the new values of what it writes to."""
        copies = list(values)
        for index in self.written:
            copies[index] = copies[index].clone()
        result = self.overload(*copies)
        results = () if result is None else result if isinstance(result, tuple) else (result,)
        return as_arrays((*results, *(copies[index] for index in self.written)))

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        with no_grad():
            return self.run(as_tensors(list(arrays)))
