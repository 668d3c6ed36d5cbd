"""Decorators for the ops of `nn.functional`, which are not tensor methods."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from ... import dtypes
from ...backends.numpy import Array, Namespace
from ...backends.numpy import ArrayOrTensor as ArrayOrTensor
from ...core.error_messages import conversion_hint
from ...core.op import ELEMENTWISE, OTHER, Op
from ...core.shapes import Contract
from ...core.tensor import PLAIN_TENSORS, Tensor
from ...core.tensor_methods import in_place
from ...errors import DTypeError, EdutorchError, ShapeError

Hint = Callable[..., str | None]
Shape = tuple[int, ...]


def layer(
    contract: str | None = None, /, *, hint: Hint | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Make a function an op of `nn.functional`.

    Args:
        contract: each tensor's axes, as for `core.op.op`.
        hint: a function of the arguments that returns a hint if they do not fit the contract.
    """

    def decorator(forward: Callable[..., Any]) -> Any:
        op = Op(forward, OTHER, contract=contract, method=False, **options)
        # The op makes a plain contract; with a hint it is replaced before its first call.
        if contract and hint:
            op.contract = HintingContract(op.name, contract, hint)
        return op.function

    return decorator


def activation(forward: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function an elementwise op; its `in_place` form writes into the input.

    Args:
        options: as for the other ops (`core.op.Options`).
    """
    if forward is None:
        return lambda forward: activation(forward, **options)
    fixed = {"promotion": "float", "out": True, "method": False, "dtypes": "f"}
    op = Op(forward, ELEMENTWISE, **{**fixed, **options})
    op.function.in_place = in_place(op)
    return op.function


def shape_of(tensor: Tensor) -> Shape:
    """Return a tensor's shape: the array's, unless the tensor is of a class that knows better."""
    return tensor._array.shape if tensor.__class__ in PLAIN_TENSORS else tensor.shape


def can_read(tensor: Tensor) -> bool:
    """Whether a composed function may branch on a tensor's values.

    The values must be in CPU memory and not batched by `vmap`, and the call must not be captured:
    a replay may see other values.
    """
    if tensor._array.__class__ is not ndarray:
        return False
    capture = sys.modules.get("edutorch.fx.capture_patches")  # loaded when a capture runs
    return capture is None or capture.current_tracer() is None


class SettingError(EdutorchError, ValueError, RuntimeError):
    """An argument has an invalid value. (PyTorch raises one or the other of these bases.)"""


class HintingContract(Contract):
    """A contract of a layer with a hint for common mistakes."""

    def __init__(self, op: str, text: str, hint: Hint) -> None:
        super().__init__(op, text)
        self.hint = hint

    def error(self, message: str, names: Sequence[str], arrays: Sequence[Any]) -> ShapeError:
        """Return the error with the layer's own hint, if there is one."""
        plain = super().error(message, names, arrays)
        hint = self.hint(*arrays) or plain.hint
        return ShapeError(plain.op, plain.message, plain.arguments, hint)


def compute_in_float32(forward: Callable[..., Array], xp: Namespace, *arguments: Any) -> Array:
    """Compute on 16-bit floats as processors do: in float32, rounded once at the end."""
    dtype = next(argument.dtype for argument in arguments if hasattr(argument, "dtype"))
    operands = (
        argument.astype("float32") if hasattr(argument, "dtype") else argument
        for argument in arguments
    )
    return forward(xp, *operands).astype(dtype)


def check_same_dtype(op: str, arrays: dict[str, Array]) -> None:
    """Raise DTypeError unless all arrays have the same dtype: layers do not convert."""
    if len({array.dtype for array in arrays.values()}) == 1:
        return
    by_name = {name: dtypes.of(array.dtype) for name, array in arrays.items()}
    if len(set(by_name.values())) > 1:
        message = "expected all arguments to have the same dtype"
        raise DTypeError(op, message, by_name, conversion_hint(arrays))


def is_half_array(array: Array) -> bool:
    """Return True if an array holds 16-bit floats."""
    return array.itemsize == 2 and array.dtype.kind not in "iu"
