"""Conversion of parameters to one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.tensor import Tensor
from ...errors import DeviceError, ShapeError
from ...ops import cat, reshape

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate the elements of all parameters into one vector.

    Raises: TypeError: they are on different devices.

    >>> nn.utils.parameters_to_vector([tensor([1.0]), tensor([[2.0, 3.0]])])
    tensor([1., 2., 3.])
    """
    tensors = list(parameters)
    if len({str(tensor.device) for tensor in tensors}) > 1:
        raise DifferentDevicesError(
            "parameters_to_vector", "Found two parameters on different devices, this is currently "
            "not supported.",
        )  # fmt: skip
    return cat([reshape(tensor, (-1,)) for tensor in tensors])


class DifferentDevicesError(DeviceError, TypeError):
    """Parameters are on different devices (a TypeError, as in PyTorch)."""


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set the parameters, in order, from slices of a vector.

    Raises: TypeError: not a tensor. ShapeError: the vector is too short.

    >>> x = nn.Parameter(zeros(2))
    >>> nn.utils.vector_to_parameters(tensor([1.0, 2.0]), [x])
    >>> x.data
    tensor([1., 2.])
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec)}")
    start = 0
    for parameter in parameters:
        part = vec[start : start + parameter.numel()]
        if part.numel() != parameter.numel():
            raise ShapeError(
                "vector_to_parameters", f"the vector ends before the parameters: {vec.numel()} "
                "numbers are too few", {"vec": tuple(vec.shape)},
            )  # fmt: skip
        # A view: the parameters share the vector's memory, as in PyTorch.
        parameter.data = reshape(part, parameter.shape).detach()
        start += parameter.numel()
