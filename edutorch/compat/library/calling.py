"""A call of an operator: which of its implementations runs, and what is around it.

    arguments → schema → autocast → vmap → autograd → kernel of the device

PyTorch's dispatcher does this by a table of keys. Here it is written as the steps that it takes.
`capturing.py` has the step for `fx.capture` and `compile`: there the call becomes one node.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from edutorch.autograd import no_grad
from edutorch.core.autograd.view_tracking import notify_write
from edutorch.core.subclasses import find_overrides
from edutorch.core.tensor import Tensor
from edutorch.errors import GradientError, NotHereError
from edutorch.modes import current, is_grad_enabled
from edutorch.overrides import handle_torch_function

from .autograd_formula import apply_formula
from .batching import call_batched, is_batched
from .capturing import call_captured, call_with_arrays, running_tracer
from .operators import OpOverload
from .schema import OperatorError

COMPOSITE = "CompositeImplicitAutograd"

_STATE = threading.local()


def call(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run an operator on tensors, or, in a graph that is being run, on arrays.

    Raises: OperatorError: the arguments do not fit its schema.
        NotHereError: it has no kernel for their device.
    """
    leaves = list(flat_leaves([*args, *kwargs.values()]))
    if any(isinstance(leaf, np.ndarray) for leaf in leaves):
        return call_with_arrays(op, args, kwargs)
    overrides = find_overrides(leaves)
    if overrides:
        return handle_torch_function(op, overrides, *args, **kwargs)
    values = op._schema.bind(args, kwargs)
    if current().autocast is not None and op.implementations.autocast:
        values = cast_for_autocast(op, values)
    if current().batches and any(is_batched(leaf) for leaf in leaves):
        return call_batched(op, values)
    return call_recorded(op, values)


def flat_leaves(values: Sequence[Any]) -> Iterator[Any]:
    """Yield the values, and those inside of lists."""
    for value in values:
        if isinstance(value, list | tuple):
            yield from flat_leaves(value)
        else:
            yield value


def tensors_of(values: Sequence[Any]) -> list[Tensor]:
    """Return the tensors among the arguments of a call."""
    return [leaf for leaf in flat_leaves(values) if isinstance(leaf, Tensor)]


def cast_for_autocast(op: OpOverload, values: list[Any]) -> list[Any]:
    """Return the arguments with floating tensors in the dtype of `register_autocast`."""

    def cast(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)(cast(element) for element in value)
        dtype = op.implementations.autocast.get(getattr(getattr(value, "device", None), "type", ""))
        is_float = isinstance(value, Tensor) and value.is_floating_point()
        return value.to(dtype) if dtype is not None and is_float else value

    return [cast(value) for value in values]


# Autograd -----------------------------------------------------------------------------------------


def call_recorded(op: OpOverload, values: list[Any]) -> Any:
    """Run an operator, and record it if it has a gradient of its own."""
    registered = op.implementations
    kernel = registered.kernels.get("Autograd") or registered.kernels.get("AutogradCPU")
    if kernel is not None and op not in running_operators():
        with mark_running(op):  # inside, the operator means what is below its autograd kernel
            return invoke(kernel, op, values)
    if registered.formula is None and not registered.is_custom:
        return run_kernel(op, values)  # the ops inside are recorded
    wants_gradient = is_grad_enabled() and any(x.requires_grad for x in tensors_of(values))
    if not wants_gradient:
        with no_grad():
            return run_kernel(op, values)
    if op._schema.is_mutable:
        raise GradientError(
            op.name(), "writes to its arguments and has no gradient, but one of them requires grad",
            hint="call it inside no_grad(), or write an operator that returns a new tensor",
        )  # fmt: skip
    return apply_formula(op, values, run_kernel)


def running_operators() -> set[OpOverload]:
    """Return the operators whose autograd kernel is running in this thread."""
    if not hasattr(_STATE, "running"):
        _STATE.running = set()
    return _STATE.running


@contextmanager
def mark_running(op: OpOverload) -> Iterator[None]:
    """Note that the autograd kernel of an operator is running."""
    running_operators().add(op)
    try:
        yield
    finally:
        running_operators().discard(op)


# Kernels ------------------------------------------------------------------------------------------


def run_kernel(op: OpOverload, values: list[Any]) -> Any:
    """Run the kernel for the device of the arguments.

    Raises: NotHereError: there is none. OperatorError: a result shares memory with an argument.
    """
    key = dispatch_key(values)
    kernel = find_kernel(op, key)
    composite = op.implementations.kernels.get(COMPOSITE)
    tracer = running_tracer()
    if tracer is not None and kernel is not composite:
        return call_captured(tracer, op, values, run_checked)
    return run_checked(op, values)


def run_checked(op: OpOverload, values: list[Any]) -> Any:
    """Run the kernel, count its writes, and check what it returns."""
    result = invoke(find_kernel(op, dispatch_key(values)), op, values)
    for argument, value in zip(op._schema.arguments, values, strict=True):
        if argument.is_write:
            for tensor in tensors_of([value]):
                tensor._bump()
                notify_write(tensor, tensor)
    if op.implementations.is_custom:
        refuse_aliases(op, values, result)
    return result


def dispatch_key(values: Sequence[Any]) -> str:
    """Return the dispatch key of the device of the arguments: "CPU", "CUDA" or "Meta"."""
    devices = {tensor.device.type for tensor in tensors_of(values)}
    for device, key in (("meta", "Meta"), ("cuda", "CUDA")):
        if device in devices:
            return key
    return "CPU"


def find_kernel(op: OpOverload, key: str) -> Callable[..., Any]:
    """Return the kernel for a dispatch key.

    Raises: NotHereError: there is none.
    """
    registered = op.implementations
    kernels = registered.kernels
    if key in registered.disabled:
        kernels = {name: kernel for name, kernel in kernels.items() if name != key}
    if key == "Meta":
        kernel = kernels.get("Meta") or registered.fake or kernels.get(COMPOSITE)
        if kernel is None and not registered.is_custom:
            kernel = kernels.get("CompositeExplicitAutograd")
    else:
        kernel = kernels.get(key) or kernels.get("CompositeExplicitAutograd")
        kernel = kernel or kernels.get(COMPOSITE)
    if kernel is None and key == "Meta":
        raise NotHereError(
            op.name(), "There was no fake impl registered, so nothing says which shape it returns",
            hint=f'add one: @torch.library.register_fake("{op.name()}")',
        )  # fmt: skip
    if kernel is None:
        raise NotHereError(
            op.name(), f"Could not run '{op.name()}' with arguments from the '{key}' backend",
            {"kernels": ", ".join(kernels) or "none"},
            f'register one: torch.library.impl("{op.name()}", "{key.lower()}")(function)',
        )  # fmt: skip
    return kernel


def invoke(function: Callable[..., Any], op: OpOverload, values: Sequence[Any]) -> Any:
    """Call an implementation with the arguments of a schema."""
    arguments = op._schema.arguments
    pairs = list(zip(arguments, values, strict=True))
    positional = [value for argument, value in pairs if not argument.kwarg_only]
    named = {argument.name: value for argument, value in pairs if argument.kwarg_only}
    return function(*positional, **named)


def refuse_aliases(op: OpOverload, values: Sequence[Any], result: Any) -> None:
    """Raise OperatorError if a result shares memory with an argument or another result."""
    outputs = tensors_of([result])
    inputs = tensors_of(values)
    for position, output in enumerate(outputs):
        for other in (*inputs, *outputs[:position]):
            if output is other or share_memory(output, other):
                role = "an argument" if any(other is input_ for input_ in inputs) else "another one"
                raise OperatorError(
                    op.name(), f"The output of this custom operator is {role}, or a view of it",
                    {"output": tuple(output.shape), "other": tuple(other.shape)},
                    "return x.clone(); an operator that writes to x names it in mutates_args "
                    "and returns None",
                )  # fmt: skip


def share_memory(first: Tensor, second: Tensor) -> bool:
    """Return True if two tensors show the same memory."""
    arrays = first._array, second._array
    return all(isinstance(array, np.ndarray) for array in arrays) and np.may_share_memory(*arrays)
