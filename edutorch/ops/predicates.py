"""Predicates and properties of tensors that PyTorch also has as functions."""

from __future__ import annotations

from typing import Any

from ..core.error_messages import need_tensor
from ..core.tensor import Tensor
from ..core.tensor_methods import as_method
from ..errors import ShapeError


def is_tensor(obj: Any) -> bool:
    """Return True if `obj` is a tensor.

    >>> is_tensor(ones(2)), is_tensor([1, 2])
    (True, False)
    """
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """Return the number of elements.

    >>> numel(ones(2, 3))
    6
    """
    return input.numel()


def is_floating_point(input: Tensor) -> bool:
    """Return True if the dtype is floating-point (and not complex).

    >>> is_floating_point(ones(2))
    True
    """
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Return True if the dtype is complex.

    >>> is_complex(ones(2))
    False
    """
    return input.is_complex()


@as_method
def is_nonzero(input: Tensor) -> bool:
    """Return True if the only element is not zero.

    Raises: ShapeError: there is not exactly one element.

    >>> is_nonzero(tensor(5))
    True
    """
    if input.numel() != 1:
        raise ShapeError("is_nonzero", "needs a single number", {"input": tuple(input.shape)})
    return bool(input)


def is_signed(input: Tensor) -> bool:
    """Return True if the dtype is signed.

    >>> is_signed(tensor([1])), is_signed(tensor([True]))
    (True, False)
    """
    return input.is_signed()


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return True if two tensors have the same shape.

    >>> is_same_size(zeros(2, 3), ones(2, 3))
    True
    """
    need_tensor("is_same_size", "other", other)
    return tuple(input.shape) == tuple(other.shape)


def is_distributed(input: Tensor) -> bool:
    """Return False: tensors are never distributed over processes here.

    >>> is_distributed(ones(2))
    False
    """
    return input.is_distributed()


def get_device(input: Tensor) -> int:
    """Return the index of the GPU that holds the tensor, -1 for the CPU.

    >>> get_device(ones(2, device="cpu"))
    -1
    """
    return input.get_device()


def is_inference(input: Tensor) -> bool:
    """Return True if the tensor was created in inference mode.

    >>> is_inference(ones(2))
    False
    """
    return input.is_inference()
