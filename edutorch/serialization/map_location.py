"""PyTorch's `map_location`: the devices that the tensors of a checkpoint are loaded to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..backends.device import Device
from ..core.tensor import Tensor
from ..errors import ArgumentError, DeviceError


def target_device(tensor: Tensor, saved_from: str, where: Any) -> Any:
    """Return the device that a tensor saved from `saved_from` goes to (or another tensor).

    Args:
        tensor: the loaded tensor, on the CPU.
        saved_from: the name of the device it was saved from.
        where: None, a device, a dict from names to devices, or a function of both.
    """
    if where is None:
        return saved_from
    if isinstance(where, Mapping):
        names = {str(key): value for key, value in where.items()}
        return names.get(saved_from, names.get(saved_from.partition(":")[0], saved_from))
    if isinstance(where, str | Device):
        return where
    if callable(where):
        device = where(tensor, saved_from)
        return saved_from if device is None else device
    raise ArgumentError(
        "load", f"argument `map_location` cannot be a {type(where).__name__}",
        hint='use "cpu", a device, a dict such as {"cuda:0": "cpu"}, or a function',
    )  # fmt: skip


def move_to_location(tensor: Tensor, saved_from: str, where: Any) -> Tensor:
    """Move a loaded tensor to its target device.

    Raises: DeviceError: the device is not available.
    """
    destination = target_device(tensor, saved_from, where)
    if isinstance(destination, Tensor):
        return destination
    try:
        return tensor.to(destination)
    except (RuntimeError, TypeError, ValueError) as error:
        raise DeviceError(
            "load",
            f"tensors of this checkpoint go to {str(destination)!r}, which cannot be used here",
            {"saved from": saved_from, "map_location": where},
            'load(path, map_location="cpu")',
        ) from error
