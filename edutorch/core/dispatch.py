"""The general path of an op call: what applying an op means, in full.

    numbers and tensors → one device, one dtype → forward → record → events

`fast/call_codegen.py` writes the same steps for the usual case, without the checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import backends, dtypes
from ..backends.aliased_array import Shared, as_plain_array
from ..errors import DeviceError, DTypeError, GradientError, ShapeError
from ..events import OpApplied, emit, work
from ..modes import ObservedModes, current, pause_listeners
from .autograd import graph
from .autograd.forward_mode import propagate
from .autograd.multi_output import notify_views, wrap_views_in_modes
from .autograd.saved_tensors import PackedValues
from .autograd.versions import VersionCounter, write_stretched
from .autograd.view_tracking import notify_write
from .error_messages import (
    explain,
    has_overlap,
    no_tensor,
    operand_names,
    overlap_error,
    sequence_of,
    wrong_operand,
)  # fmt: skip
from .numpy_aliasing import copy_mutable, copy_saved_shared, restore_ordinary
from .precision import SCALING, is_half
from .promotion import EXTENSION_DTYPES, NO_BOOLS, promote, refuse_bools, refuse_dtypes
from .registry import op_function
from .shapes import reduced_dims
from .source_location import CodeLocation, user_location
from .subclasses import call_op_override, cast_to_class, find_overrides, result_class
from .tensor import PLAIN_TENSORS, Tensor, array_of, attach_view, wrap, writes_of

if TYPE_CHECKING:
    from .op import Op


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


class InferenceVersionCounter(VersionCounter):
    """The version counter of an inference tensor: newer than every graph."""

    time = float("inf")

    def bump(
        self, location: CodeLocation | None = None, array: Any = None, index: Any = ...
    ) -> None:
        self.count += 1


def apply(op: Op, inputs: tuple[Any, ...], settings: dict[str, Any], out: Any = None) -> Any:
    """Run `op` on any mix of tensors, numbers and arrays, and record it where recording is on.

    Given only arrays it just computes: this is how derivative rules run.
    """
    autocast = current().autocast
    if autocast is not None and out is None:
        inputs = autocast.cast_operands(op.name, inputs, settings)
    operands = sequence_of(op, inputs[0]) if op.variadic else inputs
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    special = [
        operand for operand in operands
        if operand.__class__ not in PLAIN_TENSORS and operand.__class__ not in ORDINARY_TYPES
    ]  # fmt: skip
    if special:
        overrides = find_overrides(special)
        if overrides:
            return call_op_override(op, overrides, inputs, settings, out)
    if (
        op.allow_unbatched
        and op.contract
        and getattr(operands[0], "ndim", 0) == len(op.contract.terms[0]) - 1
    ):
        batch = op_function("unsqueeze")(operands[0], 0)
        return op_function("squeeze")(op.function(batch, *operands[1:], **settings), 0)
    if op.composed is not None and out is None:
        result = op.composed(*operands, **settings)
        if result is not None:
            return result
    if current().__class__ is ObservedModes and tensors and not special and out is None:
        everyday = all(tensor._array.__class__ is np.ndarray for tensor in tensors)
        if everyday:
            return execute_observed(op, inputs, tuple(operands), settings)
    if not tensors:  # within a rule NumPy makes scalars of 0-d results: they are arrays here
        operands = tuple(
            np.asarray(operand) if isinstance(operand, np.generic) else operand
            for operand in operands
        )
    backend = common_backend(op, operands, tensors)
    if backend.level or current().batches:
        backend, operands = enter_batch(backend, operands, settings)
        tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    for tensor in tensors:
        restore_ordinary(tensor)
    if not tensors or not current().listeners:
        return execute(op, backend, tuple(operands), settings, out, tensors, special)
    operands = tuple(operands)
    with work("op", op, operands) as around:
        result = execute(op, backend, operands, settings, out, tensors, special)
        around.result = result if out is None else None
    return notify(op, operands, settings, result)


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
    if op.family == "multi_view":
        notify_views(op, operands, settings, result)
        return result
    node = (result[0] if isinstance(result, tuple) else result)._node
    if node is not None:
        node.notes["location"] = user_location()
    emit(OpApplied(op, operands, settings, result, node))
    return result


def execute(
    op: Op,
    backend: backends.Backend,
    operands: tuple[Any, ...],
    settings: dict[str, Any],
    out: Any,
    tensors: Sequence[Tensor],
    special: Sequence[Any],
) -> Any:
    """Compute and record an op whose operands are on one device."""
    names = operand_names(op, operands)
    values = [as_operand(op, *pair, backend) for pair in zip(names, operands, strict=True)]
    if op.name in NO_BOOLS:
        refuse_bools(op, values)
    arrays = promote(op, values, settings, backend)
    if op.dtypes != "bifc" and settings.get("dtype") is None:
        refuse_dtypes(op, values if op.promotion == "float" else arrays)
    y = compute(op, backend, arrays, settings)
    if not tensors:
        return y
    if op.family == "multi_view":
        outputs = wrap_views_in_modes(op, tensors[0], y, settings)
        return cast_to_class(result_class(tensors) or Tensor, outputs, tensors)
    outputs = tuple(wrap(array) for array in (y if isinstance(y, tuple) else (y,)))
    output = outputs[0]
    modes = current()
    if op.family == "movement" and backend.shares_memory(output._array, values[0]):
        if isinstance(tensors[0]._array, Shared):
            output._array = output._array.view(type(tensors[0]._array))
        attach_view(output, tensors[0])
    may_record = modes.grad and op.rules and output._array.dtype in dtypes.DIFFERENTIABLE
    if may_record and any(tensor._node is not None for tensor in tensors):
        record(op, outputs, operands, settings)
    if modes.op_recorder is not None and output._node is None:
        modes.op_recorder.unrecorded(op, output, operands)
    if modes.inference and output._writes is None:
        output._writes = InferenceVersionCounter()
    if modes.levels:
        propagate(op, operands, settings, output)
    cls = result_class(tensors) if special else None
    if cls is not None:
        cast_to_class(cls, outputs, tensors)
    return outputs if len(op.outputs) > 1 else write_out(op, out, output)


def record(
    op: Op, outputs: Sequence[Tensor], inputs: tuple[Any, ...], settings: dict[str, Any]
) -> None:
    output, extras = outputs[0], outputs[1:]
    if op.family == "reduction":
        dim = reduced_dims(op, settings["dim"], inputs[0]._array.ndim)
        settings = {**settings, "dim": dim}
    values = {**settings, **dict(zip(op.inputs, (inputs,) if op.variadic else inputs, strict=True))}
    values |= {name: extra._array for name, extra in zip(op.outputs[1:], extras, strict=True)}
    values |= {name: copy_mutable(values[name]) for name in op.copied if name in op.saved}
    graph.record(op, output, values)
    if any(isinstance(array_of(value), Shared) for value in inputs):
        copy_saved_shared(output._node)
    modes = current()
    saving = modes.saving
    if saving.__class__ is tuple:
        writes_of(output)
        output._node.saved = PackedValues(output._node, saving)
    if modes.op_recorder is not None:
        modes.op_recorder.recorded.extend((output, inputs))


def apply_operator(op: Op, inputs: tuple[Any, ...], settings: dict[str, Any], *out: Any) -> Any:
    """Apply an op as the operator `x * y`: NotImplemented for an operand of an unknown class."""
    if not all(is_operand(input_) for input_ in inputs):
        return NotImplemented
    if not isinstance(inputs[0], Tensor):  # Tensor.__add__(2, x), which Python never calls
        raise wrong_operand(op, op.inputs[0], inputs[0])
    return apply(op, inputs, settings)


def is_operand(operand: Any) -> bool:
    """Return True if an operator can compute with `operand`."""
    if isinstance(operand, Tensor | bool | int | float | complex) or hasattr(operand, "dtype"):
        return True
    return hasattr(type(operand), "__torch_function__")


# Operands -------------------------------------------------------------------------------


def common_backend(op: Op, operands: Sequence[Any], tensors: list[Tensor]) -> backends.Backend:
    """Return the backend of the operands; a 0-d CPU tensor may be combined with any device.

    Raises: DeviceError: they are on different devices. TypeError: nothing to compute with.
    """
    arrays = [array_of(operand) for operand in operands]
    arrays = [
        array for array in arrays if backends.is_array(array) or isinstance(array, np.generic)
    ]
    if not arrays:
        names = operand_names(op, operands)
        wrong = [pair for pair in zip(names, operands, strict=True) if pair[0] not in op.optional]
        raise wrong_operand(op, *(wrong or [(op.inputs[0], operands)])[0])
    found_backends = [backends.of(array) for array in arrays if not isinstance(array, np.generic)]
    highest = max(found_backends, key=lambda backend: backend.level, default=backends.CPU)
    if highest.level:
        return highest
    deciding = [
        backends.of(array) for array in arrays if backends.is_array(array) and array.ndim
    ] or found_backends
    if not deciding:
        return backends.CPU
    for other, array in zip(
        found_backends, [a for a in arrays if backends.is_array(a)], strict=True
    ):
        if other is not deciding[0] and (array.ndim or other is not backends.CPU):
            rows = {
                name: f"{tuple(tensor.shape)} on {tensor.device}"
                for name, tensor in zip(operand_names(op, operands), operands, strict=True)
                if isinstance(tensor, Tensor)
            }
            raise DeviceError(
                op.title,
                "Expected all tensors to be on the same device",
                rows,
                "move the tensor, or the model, with .to(device)",
            )
    return deciding[0]


def enter_batch(
    backend: backends.Backend, operands: Sequence[Any], settings: dict[str, Any]
) -> tuple[Any, tuple[Any, ...]]:
    """Return the level of `vmap` that the op belongs to, and its operands wrapped for it.

    Tensors from outside enter by an op, so that their gradients leave the level again.
    """
    for value in settings.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            array = array_of(item)
            if backends.is_array(array) and backends.of(array).level > backend.level:
                backend = backends.of(array)
    if not backend.level:
        return backend, tuple(operands)

    def enter(value: Any) -> Any:
        array = array_of(value)
        if not backends.is_array(array) or backends.of(array) is backend:
            return value
        if isinstance(value, Tensor):
            return op_function("batched")(value, backend, None)
        return backend.enter(array, None)  # type: ignore[attr-defined]

    return backend, tuple(enter(item) for item in operands)


def as_operand(op: Op, name: str, value: Any, backend: backends.Backend) -> Any:
    """Return an operand as the forward takes it: an array of the device, a number, or None."""
    value = as_plain_array(array_of(value))
    if isinstance(value, np.generic):
        value = value.item()
    if value is None and name in op.optional:
        return None
    if name in op.scalars and isinstance(value, bool | int | float | complex):
        return value
    if backends.is_array(value):
        if backends.of(value) is not backend:
            return backend.from_numpy(backends.of(value).to_numpy(value))
        return value
    raise wrong_operand(op, name, value)


def compute(op: Op, backend: backends.Backend, arrays: list[Any], settings: dict[str, Any]) -> Any:
    """Check the contract and run the forward, with errors explained."""
    if op.contract is not None and not op.variadic:
        op.contract.check(op.inputs, arrays, settings)
    if op.family == "reduction":
        settings = {**settings, "dim": reduced_dims(op, settings["dim"], arrays[0].ndim)}
    arguments: Sequence[Any] = (arrays,) if op.variadic else arrays
    from .op import ARRAY_ERRORS

    named = dict(zip(op.inputs, arguments, strict=True))
    try:
        y = run_kernel(op, backend, named, settings)
        if y is None:
            y = backend.run(op.forward, named, settings)
    except ARRAY_ERRORS as error:
        raise explain(op, arguments, error, settings) from error
    return round_result(op, y, arrays) if op.family == "elementwise" else y


def run_kernel(
    op: Op, backend: backends.Backend, arrays: dict[str, Any], settings: dict[str, Any]
) -> Any:
    """Compute with the op's kernel, as its fast path would. None: no kernel for this case."""
    if op.slot is None or op.variadic or backend is not backends.CPU:
        return None
    first = arrays[op.inputs[0]]
    if first.__class__ is not np.ndarray or first.size < op.slot.min_size:
        return None
    values = {**arrays, **settings}
    return op.slot(*(values[name] for name in op.signature.parameters))


def round_result(op: Op, y: Any, arrays: Sequence[Any]) -> Any:
    """Return a result in bfloat16 if it was computed from it: NumPy returns float32."""
    operand_dtypes = {array.dtype for array in arrays if hasattr(array, "dtype")}
    if op.name in SCALING and y.dtype == np.float32:  # a number beside 16-bit floats is float32
        operand_dtypes = {dtype for dtype in operand_dtypes if is_half(dtype)}
        return y.astype(operand_dtypes.pop()) if operand_dtypes else y
    if y.dtype == np.float32 and operand_dtypes and operand_dtypes <= EXTENSION_DTYPES:
        return y.astype(operand_dtypes.pop())
    return y


def write_out(op: Op, out: Any, output: Tensor) -> Tensor:
    """Write the result into `out=`, if that is given."""
    if out is None:
        return output
    if not isinstance(out, Tensor):
        raise no_tensor(op.title, "out", out)
    wanted = out._node is not None and current().grad  # in `no_grad` it keeps its history
    if output._node is not None or wanted or "_tangents" in output.__dict__:
        raise GradientError(
            op.title, "out=... arguments don't support automatic differentiation",
            hint="use the returned tensor, or wrap the call in no_grad()",
        )  # fmt: skip
    if not dtypes.can_cast(output.dtype, out.dtype):
        raise DTypeError(
            op.title, f"result type {output.dtype} can't be cast to the type of `out`, {out.dtype}"
        )
    if output.dtype is not out.dtype and not op.casts_out:
        raise DTypeError(
            op.title, f"expected `out` to have the dtype {output.dtype} of the result",
            {"out": f"{tuple(out.shape)} {out.dtype}"},
            "leave out= away and convert the result: y.to(out.dtype)",
        )  # fmt: skip
    if out._array.shape != output._array.shape:
        if out._array.size:
            raise ShapeError(
                op.title, "`out` does not have the shape of the result",
                {"out": tuple(out.shape), "result": tuple(output.shape)},
            )  # fmt: skip
        out._array = output._array.astype(out._array.dtype)
    else:
        if has_overlap(out._array):
            raise overlap_error(op.title, out)
        try:
            out._array[...] = output._array
        except ValueError:
            write_stretched(out, op.title, out._array, ..., output._array)
    out._bump()
    notify_write(out, output)
    return out
