"""Copies of a module on several devices, whose parameters are computed from those of the module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ...core.tensor import Tensor
from ..modules.module import Module
from .scatter_gather import place

__all__ = ["replicate"]

M = TypeVar("M", bound=Module)


def replicate(network: M, devices: Sequence[Any], detach: bool = False) -> list[M]:
    """Return a copy of a module for each device.

    Its parameters are no parameters of their own but copies: gradients flow back to those of
    `network`, where those of all copies are added up. Where the device is that of the module, the
    tensors are the same, so that the averages of batch norm are kept.

    Args:
        devices: that of the module first.
        detach: without gradients.

    >>> module = nn.Linear(2, 1, bias=False)
    >>> first, second = nn.parallel.replicate(module, ["cpu", "cpu"])
    >>> (first(ones(1, 2)) + second(ones(1, 2))).backward()
    >>> module.weight.grad
    tensor([[2., 2.]])
    """
    return [copy_to(network, place(device), detach, {}) for device in devices]


def copy_to(network: Any, device: Any, detach: bool, known: dict[int, Any]) -> Any:
    """Return the copy on one device. `known`: modules and tensors that have one, by their ids."""

    def moved(tensor: Tensor | None, is_buffer: bool) -> Tensor | None:
        if tensor is None:
            return None
        if id(tensor) not in known:
            source = tensor.detach() if detach or not tensor.requires_grad else tensor
            copy = source.to(device)
            known[id(tensor)] = tensor if is_buffer and copy is source else copy
        return known[id(tensor)]

    if id(network) in known:
        return known[id(network)]
    copy = known[id(network)] = object.__new__(type(network))
    copy.__dict__.update(network.__dict__)
    for registry in ("_parameters", "_buffers"):
        is_buffer = registry == "_buffers"
        members = {
            name: moved(tensor, is_buffer) for name, tensor in getattr(network, registry).items()
        }
        copy.__dict__[registry] = type(getattr(network, registry))(members)
    copy.__dict__["_modules"] = type(network._modules)(
        (name, None if child is None else copy_to(child, device, detach, known))
        for name, child in network._modules.items()
    )
    return copy
