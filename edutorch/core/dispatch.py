"""An op call, step by step.

    numbers and tensors → one device, one dtype → forward → record → events

Tensors of one floating dtype on the CPU, under the usual modes, stay in this file and in
`autograd/graph.py`. What is rarer is called from here where it has its turn: conversions of
operands (`promotion.py`), kernels, views, `vmap`, forward mode, subclasses. Everyday calls do not
even come here: `fast/call_codegen.py` writes the same steps for each op as one straight function,
without the checks. Inside `backends.reference_only()` all calls do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import backends, dtypes
from ..backends.numpy import Array, Backend, Shared
from ..errors import user_location
from ..events import OpApplied, emit, work
from ..modes import ObservedModes, current, pause_listeners
from .autograd import graph
from .autograd.forward_mode import propagate
from .autograd.graph import array_of, fill
from .autograd.multi_output import notify_views, wrap_views_in_modes
from .autograd.saved_tensors import PackedValues
from .autograd.versions import InferenceVersionCounter
from .error_messages import ARRAY_ERRORS, explain, sequence_of, wrong_operand
from .fast.device_kernels import forward_on_device
from .numpy_aliasing import copy_mutable, copy_saved_shared, plain_operands
from .promotion import choose_backend, convert_operands, is_operand, round_result
from .registry import op_function
from .shapes import reduced_dims
from .subclasses import (
    call_function_mode,
    call_op_override,
    cast_to_class,
    find_overrides,
    result_class,
)
from .tensor import PLAIN_TENSORS, Tensor, attach_view, wrap, writes_of
from .tensor_methods import write_out

if TYPE_CHECKING:
    from .op import Op

OP: Any = None  # every op's function has globals of its own, in which these are set
bind: Any = None

ORDINARY_TYPES = {
    int,
    float,
    bool,
    complex,
    type(None),
    np.ndarray,
    np.float64,
    np.float32,
    np.int64,
}
"""Classes other than tensors whose objects have no `__torch_function__` (`subclasses.py`)."""


def call(*args: Any, **named: Any) -> Any:
    """The body of every op's function inside `reference_only()`."""
    if named or OP.settings or len(args) != len(OP.inputs):
        return bind(*args, **named)  # sorts the arguments by name, and then calls `apply` too
    return apply(OP, args, {})


def apply_operator(op: Op, inputs: tuple[Any, ...], settings: dict[str, Any], *out: Any) -> Any:
    """Apply an op as the operator `x * y`: NotImplemented for an operand of an unknown class."""
    if not all(isinstance(operand, Tensor) or is_operand(operand) for operand in inputs):
        return NotImplemented
    if not isinstance(inputs[0], Tensor):  # Tensor.__add__(2, x), which Python never calls
        raise wrong_operand(op, op.inputs[0], inputs[0])
    return apply(op, inputs, settings)


def apply(
    op: Op, inputs: tuple[Any, ...], settings: dict[str, Any], out: Tensor | None = None
) -> Any:
    """Run `op` on any mix of tensors, numbers and arrays, and record it where recording is on.

    Given only arrays it just computes: this is how derivative rules run.
    """
    modes = current()
    if modes.function_modes:
        return call_function_mode(op, modes.function_modes, inputs, settings, out)
    if modes.autocast is not None and out is None:
        inputs = modes.autocast.cast_operands(op.name, inputs, settings)
    operands = sequence_of(op, inputs[0]) if op.variadic else inputs
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    special = [
        operand for operand in operands
        if operand.__class__ not in PLAIN_TENSORS and operand.__class__ not in ORDINARY_TYPES
    ]  # fmt: skip
    overrides = find_overrides(special) if special else ()
    if overrides:
        return call_op_override(op, overrides, inputs, settings, out)
    if op.allow_unbatched and lacks_batch_axis(op, operands[0]):
        batch = op_function("unsqueeze")(operands[0], 0)
        return op_function("squeeze")(op.function(batch, *operands[1:], **settings), 0)
    if op.composed is not None and out is None:
        result = op.composed(*operands, **settings)
        if result is not None:
            return result
    may_observe = modes.__class__ is ObservedModes and tensors and not special and out is None
    if may_observe and all(tensor._array.__class__ is np.ndarray for tensor in tensors):
        return execute_observed(op, inputs, tuple(operands), settings)
    backend = backends.CPU
    if modes.batches or not all(array_of(x).__class__ is np.ndarray for x in operands):
        if out is None and not special and (plain := plain_operands(op, operands)) is not None:
            return op.function(**dict(zip(op.inputs, plain, strict=True)), **settings)
        backend, operands = choose_backend(op, operands, settings)
        tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    if not tensors or not modes.listeners:
        return execute(op, backend, operands, settings, out, tensors, special)
    with work("op", op, operands) as around:
        result = execute(op, backend, operands, settings, out, tensors, special)
        around.result = result if out is None else None
    return notify(op, operands, settings, result)


def lacks_batch_axis(op: Op, first: object) -> bool:
    """Return True if the first operand has one axis less than the contract gives it."""
    return bool(op.contract) and getattr(first, "ndim", 0) == len(op.contract.terms[0]) - 1


def execute(
    op: Op,
    backend: Backend,
    operands: tuple[Any, ...],
    settings: dict[str, Any],
    out: Tensor | None,
    tensors: Sequence[Tensor],
    special: Sequence[Any],
) -> Any:
    """Compute and record an op whose operands are on one device."""
    arrays = [array_of(operand) for operand in operands]
    if not share_floating_dtype(op, arrays):
        arrays = convert_operands(op, operands, settings, backend)
    normal = settings
    if op.family.reduces:  # -1 and (0, 1) as the forward and the rule expect them
        normal = {**settings, "dim": reduced_dims(op, settings["dim"], arrays[0].ndim)}
    y = compute(op, backend, arrays, normal)
    if not tensors:
        return y
    if op.family.makes_views:
        outputs = wrap_views_in_modes(op, tensors[0], y, settings)
        return cast_to_class(result_class(tensors) or Tensor, outputs, tensors)
    outputs = tuple([new_tensor(array) for array in (y if isinstance(y, tuple) else (y,))])
    output = outputs[0]
    if op.family.makes_view and backend.shares_memory(output._array, arrays[0]):
        if isinstance(tensors[0]._array, Shared):
            output._array = output._array.view(type(tensors[0]._array))
        attach_view(output, tensors[0])
    modes = current()
    may_record = modes.grad and op.rules and output._array.dtype in dtypes.DIFFERENTIABLE
    if may_record and any(tensor._node is not None for tensor in tensors):
        record(op, outputs, operands, normal)
    if modes.op_recorder is not None and output._node is None:
        modes.op_recorder.unrecorded(op, output, operands)
    if modes.inference and output._writes is None:
        output._writes = InferenceVersionCounter()
    if modes.levels:
        propagate(op, operands, settings, output)
    cls = result_class(tensors) if special else None
    if cls is not None:
        cast_to_class(cls, outputs, tensors)
    if len(op.outputs) > 1:
        return outputs
    return output if out is None else write_out(op, out, output)


def share_floating_dtype(op: Op, arrays: Sequence[Any]) -> bool:
    """Return True if all arrays are of one floating dtype, so that there is nothing to convert."""
    if not arrays or not all(array.__class__ is np.ndarray for array in arrays):
        return False
    dtype = arrays[0].dtype  # of kind "f": NumPy counts bfloat16 among the unknown dtypes
    return dtype.kind == "f" and "f" in op.dtypes and all(array.dtype == dtype for array in arrays)


def compute(op: Op, backend: Backend, arrays: list[Any], settings: dict[str, Any]) -> Any:
    """Check the contract and run the forward, with errors explained."""
    if op.contract is not None and not op.variadic:
        op.contract.check(op.inputs, arrays, settings)
    arguments: Sequence[Any] = (arrays,) if op.variadic else arrays
    named = dict(zip(op.inputs, arguments, strict=True))
    try:
        may_have_kernel = op.slot is not None or backend.kernels
        y = run_kernel(op, backend, named, settings) if may_have_kernel else None
        if y is None and backend is backends.CPU:
            y = op.forward(backend.xp, **named, **settings)
        elif y is None:
            y = backend.run_op(op, named, settings)
    except ARRAY_ERRORS as error:
        raise explain(op, arguments, error, settings) from error
    # NumPy computes bfloat16 in float32: back to the dtype of the operands.
    if op.family.broadcasts and any(getattr(a, "dtype", y.dtype) != y.dtype for a in arrays):
        return round_result(op, y, arrays)
    return y


def run_kernel(op: Op, backend: Backend, arrays: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Compute with the op's kernel, as its fast path would. None: no kernel for this case."""
    if backend.kernels:
        return forward_on_device(op, backend, arrays, settings)
    if backend is not backends.CPU or op.slot is None:
        return None
    first = arrays[op.inputs[0]]
    if first.__class__ is not np.ndarray or first.size < op.slot.min_size:
        return None
    values = {**arrays, **settings}
    return op.slot(*(values[name] for name in op.signature.parameters))


def new_tensor(array: Array) -> Tensor:
    """Make the tensor of a result."""
    if isinstance(array, np.generic):  # NumPy returns scalars for 0-d results
        array = np.asarray(array)
    return fill(object.__new__(Tensor), array) if array.__class__ is np.ndarray else wrap(array)


def record(
    op: Op, outputs: Sequence[Tensor], operands: Sequence[Any], settings: dict[str, Any]
) -> None:
    """Record a call in the graph, as the modes want it."""
    output, further = outputs[0], outputs[1:]
    values = settings | dict(zip(op.inputs, (operands,) if op.variadic else operands, strict=True))
    values |= {name: extra._array for name, extra in zip(op.outputs[1:], further, strict=True)}
    # Writes into arrays of indices and further outputs are not tracked: what is saved are copies.
    values |= {name: copy_mutable(values[name]) for name in op.copied if name in op.saved}
    graph.record(op, output, values)
    if any(isinstance(array_of(operand), Shared) for operand in operands):
        copy_saved_shared(output._node)
    modes = current()
    if modes.saving.__class__ is tuple:  # hooks of `saved_tensors_hooks`
        writes_of(output)
        output._node.saved = PackedValues(output._node, modes.saving)
    if modes.op_recorder is not None:
        modes.op_recorder.recorded.extend((output, operands))


# Events ---------------------------------------------------------------------------------


def execute_observed(
    op: Op, inputs: tuple[Any, ...], operands: tuple[Any, ...], settings: dict[str, Any]
) -> Any:
    """Run `op` on its fast path, and emit events before and after it."""
    with work("op", op, operands) as around, pause_listeners():
        named = dict(zip(op.inputs, inputs, strict=True))
        around.result = result = op.function(**named, **settings)
    return notify(op, operands, settings, result)


def notify(op: Op, operands: tuple[Any, ...], settings: dict[str, Any], result: Any) -> Any:
    """Emit the event of an op that has run, and return its result."""
    if op.family.makes_views:
        notify_views(op, operands, settings, result)
        return result
    node = (result[0] if isinstance(result, tuple) else result)._node
    if node is not None:
        node.notes["location"] = user_location()
    emit(OpApplied(op, operands, settings, result, node))
    return result
