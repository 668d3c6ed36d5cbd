"""Functions that say something about a tensor: what PyTorch also offers outside its methods."""

from __future__ import annotations

from typing import Any

from ..core.error_messages import need_tensor
from ..core.tensor import Tensor
from ..core.tensor_methods import as_method
from ..errors import ShapeError


def is_tensor(obj: Any) -> bool:
    """Say whether it is a tensor.

    >>> is_tensor(ones(2)), is_tensor([1, 2])
    (True, False)
    """
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """Return how many numbers there are.

    >>> numel(ones(2, 3))
    6
    """
    return input.numel()


def is_floating_point(input: Tensor) -> bool:
    """Say whether the numbers are real floating ones.

    >>> is_floating_point(ones(2))
    True
    """
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Say whether the numbers are complex.

    >>> is_complex(ones(2))
    False
    """
    return input.is_complex()


@as_method
def is_nonzero(input: Tensor) -> bool:
    """Say whether the only number is not zero.

    Raises: ShapeError: there is not exactly one.

    >>> is_nonzero(tensor(5))
    True
    """
    if input.numel() != 1:
        raise ShapeError("is_nonzero", "needs a single number", {"input": tuple(input.shape)})
    return bool(input)


def is_signed(input: Tensor) -> bool:
    """Say whether the type of the numbers has negative ones.

    >>> is_signed(tensor([1])), is_signed(tensor([True]))
    (True, False)
    """
    return input.is_signed()


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Say whether two tensors have the same shape.

    >>> is_same_size(zeros(2, 3), ones(2, 3))
    True
    """
    need_tensor("is_same_size", "other", other)
    return tuple(input.shape) == tuple(other.shape)


def is_distributed(input: Tensor) -> bool:
    """Say whether the numbers are spread over processes: never.

    >>> is_distributed(ones(2))
    False
    """
    return input.is_distributed()


def get_device(input: Tensor) -> int:
    """Return the number of the GPU that the numbers are on, -1 for the CPU.

    >>> get_device(ones(2, device="cpu"))
    -1
    """
    return input.get_device()


def is_inference(input: Tensor) -> bool:
    """Say whether it was made in inference mode.

    >>> is_inference(ones(2))
    False
    """
    return input.is_inference()
