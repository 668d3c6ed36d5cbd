"""Gradient clipping, between `backward` and the optimizer's step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ... import backends
from ...backends.kernel_registry import run_on_device, slot
from ...backends.numpy import Array
from ...core.tensor import Tensor, wrap
from ...errors import ValueRangeError, warn
from ...linalg import vector_norm
from ...modes import is_grad_enabled, no_grad
from ...ops import clamp, isfinite, stack, tensor

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "get_total_norm",
]  # fmt: skip

Tensors = Tensor | Iterable[Tensor]

UNSCALE = slot("UNSCALE")
"""The kernel of a device that goes over all gradients in one launch."""


def multiply_all(gradients: list[Tensor], factor: Array, found_inf: Array) -> Array | None:
    """Multiply gradients in place by one kernel; return the sum of all squares.

    `GradScaler` and `clip_grad_norm_` share it. Nothing waits: the numbers stay on the device.

    Args:
        factor: float32, shape (1,), on the device of the gradients.
        found_inf: becomes 1 if a product is inf or NaN: float32, shape (1,).

    Returns: float64, shape (); None, and nothing is done: the device has no such kernel, or the
        gradients are not all contiguous floats of one dtype there.
    """
    arrays = [gradient._array for gradient in gradients]
    backend = backends.of(arrays[0])
    if not backend.kernels or any(backends.of(array) is not backend for array in arrays):
        return None
    values = (arrays, factor, found_inf)
    return backend.on_card(run_on_device, backend.kernels, "UNSCALE", 1, values)


def euclidean_norm(gradients: list[Tensor]) -> Tensor | None:
    """Return the norm of all gradients by one kernel; None where there is none."""
    backend = backends.of(gradients[0]._array)
    if not backend.kernels:
        return None
    one, found_inf = (backend.xp.full((1,), value, np.float32) for value in (1, 0))
    squares = multiply_all(gradients, one, found_inf)
    if squares is None:
        return None
    return wrap(backend.asarray(backend.xp.sqrt(squares))).to(gradients[0].dtype)


def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the norm of all tensors together, as if concatenated into one vector.

    Args:
        norm_type: the p of the norm; `inf` for the largest absolute value.
        error_if_nonfinite: refuse a norm that is infinite or NaN.
        foreach: accepted; an implementation option of PyTorch.

    Raises: RuntimeError: the norm is not finite, with `error_if_nonfinite`.

    >>> nn.utils.get_total_norm([tensor([3.0]), tensor([4.0])])
    tensor(5.)
    """
    tensor_list = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not tensor_list:
        return tensor(0.0)
    is_whole = not any(hasattr(t, "full_tensor") for t in tensor_list)  # no DTensor
    is_simple = norm_type == 2 and is_whole and not is_grad_enabled()
    total = euclidean_norm(tensor_list) if is_simple else None
    if total is None:
        # The norm of the norms is that of all elements together, without a copy of them.
        norms: Any = [vector_norm(t, norm_type) for t in tensor_list]
        if not is_whole:
            norms = [n.full_tensor() if hasattr(n, "full_tensor") else n for n in norms]
        norms = [to_same_device(tensor_list[0], norm) for norm in norms]
        total = vector_norm(stack(norms), norm_type)
    if error_if_nonfinite and not bool(isfinite(total)):
        raise ValueRangeError(
            "clip_grad_norm_", f"The total norm of order {float(norm_type)} for gradients from "
            "`parameters` is non-finite, so it cannot be clipped", {"total norm": total.item()},
            "error_if_nonfinite=False scales the gradients anyway",
        )  # fmt: skip
    return total


def to_same_device(tensor: Tensor, value: Tensor) -> Tensor:
    """Return a scalar tensor on the device of another tensor."""
    if backends.of(tensor._array) is backends.of(value._array):
        return value
    return value.to(tensor.device)


def select_with_grad(parameters: Tensors, op: str) -> list[Tensor]:
    """Return the parameters that have a gradient."""
    candidates = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if not candidates:
        warn(f"`parameters` is an empty generator, no gradient clipping will occur in {op}.")
    return [parameter for parameter in candidates if parameter.grad is not None]


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients, in place, by max_norm / total_norm if that is below 1.

    >>> x = tensor([1.0], requires_grad=True)
    >>> x.grad = tensor([10.0])
    >>> nn.utils.clip_grads_with_norm_(x, 2.0, tensor(10.0))
    >>> x.grad
    tensor([2.0000])
    """
    # A tensor, not a number: on a GPU reading it would wait for all kernels.
    factor = clamp(max_norm / (total_norm + 1e-6), max=1.0)
    with no_grad():
        selected = select_with_grad(parameters, "clip_grads_with_norm_")
        gradients: Any = [parameter.grad for parameter in selected]
        if gradients and multiply_by(gradients, factor):
            return
        for gradient in gradients:
            gradient.mul_(to_same_device(gradient, factor))


def multiply_by(gradients: list[Tensor], factor: Tensor) -> bool:
    """Multiply gradients in place by one kernel; False, and nothing is done: there is none."""
    backend = backends.of(gradients[0]._array)
    if not backend.kernels or backends.of(factor._array) is not backend:
        return False
    if factor.dtype.itemsize > 4:  # the kernel's is float32
        return False
    found_inf = backend.xp.zeros((1,), np.float32)
    number = factor._array.reshape(1).astype(np.float32)
    if multiply_all(gradients, number, found_inf) is None:
        return False
    for gradient in gradients:
        gradient._bump()
    return True


def clip_grad_norm_(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Clip the total norm of the gradients, in place, to `max_norm`.

    All gradients are scaled by the same factor. Returns the total norm before.

    Args: as for `get_total_norm`.

    Raises: RuntimeError: the norm is not finite, with `error_if_nonfinite`.

    Paper: Pascanu, Mikolov and Bengio, On the difficulty of training recurrent networks, 2013.

    >>> x = tensor([1.0, 1.0], requires_grad=True)
    >>> x.grad = tensor([30.0, 40.0])
    >>> nn.utils.clip_grad_norm_([x], max_norm=5.0)
    tensor(50.)
    >>> x.grad
    tensor([3., 4.])
    """
    selected = select_with_grad(parameters, "clip_grad_norm_")
    gradients: Any = [parameter.grad for parameter in selected]
    with no_grad():
        total = get_total_norm(gradients, norm_type, error_if_nonfinite, foreach)
        if selected:
            clip_grads_with_norm_(selected, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """The deprecated name of `clip_grad_norm_`."""
    warn("torch.nn.utils.clip_grad_norm is now deprecated; use torch.nn.utils.clip_grad_norm_")
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp each element of the gradients, in place, to ±clip_value.

    >>> x = tensor([1.0, 1.0], requires_grad=True)
    >>> x.grad = tensor([3.0, -0.5])
    >>> nn.utils.clip_grad_value_(x, 1.0)
    >>> x.grad
    tensor([ 1.0000, -0.5000])
    """
    limit = float(clip_value)
    with no_grad():
        for parameter in select_with_grad(parameters, "clip_grad_value_"):
            parameter.grad.clamp_(-limit, limit)  # type: ignore[union-attr]
