"""Devices, and the default device of new tensors."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

from .. import backends
from ..errors import DeviceError, ValueRangeError
from . import Backend


class Device:
    """A device by name: `device("cpu")`, `device("cuda")`, `device("cuda:0")`.

    As a context manager it sets the device of new tensors.

    >>> device("cuda:0").type, device("cuda:0").index
    ('cuda', 0)
    """

    __slots__ = ("_tokens", "index", "type")

    def __init__(self, type: Any, index: int | None = None) -> None:
        if isinstance(type, Device):
            type, index = type.type, type.index
        if type.__class__ is int:
            type, index = accelerator(type), type
        if not isinstance(type, str):
            raise TypeError(f"device: expected a name such as 'cpu', got {type!r}")
        self.type, colon, number = type.partition(":")
        if colon:
            index = card_number(type, number, index)
        elif index is not None and index < 0:
            raise negative_index(index)
        self.index = index
        self._tokens: list[Token[Any]] = []

    @property
    def is_accelerator(self) -> bool:
        """Whether it computes beside the CPU, with memory of its own."""
        return self.type in backends.DEVICES and backends.DEVICES[self.type].is_accelerator

    @property
    def backend(self) -> Backend:
        """The backend behind it. Raises: DeviceError: it cannot be used here."""
        return backends.get(self.type, self.index)

    def __repr__(self) -> str:
        number = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{number})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index or 0) == (
            other.type,
            other.index or 0,
        )

    def __hash__(self) -> int:
        return hash((self.type, self.index or 0))

    def __enter__(self) -> Device:
        self._tokens.append(_default.set(self))
        return self

    def __exit__(self, *exception: object) -> None:
        _default.reset(self._tokens.pop())


device = Device
DeviceLike = Device | str | int | None
"""What an argument `device` takes; None is the default device."""

_default: ContextVar[Device | None] = ContextVar("edutorch_default_device", default=None)
_CPU = _process_default = Device("cpu")


def get_default_device() -> Device:
    """Return the default device of new tensors.

    >>> get_default_device()
    device(type='cpu')
    """
    return _default.get() or _process_default


def set_default_device(device: Any) -> None:
    """Set the default device of new tensors.

    Raises: DeviceError: the device cannot be used here.

    >>> set_default_device("cpu")
    """
    global _process_default
    chosen = Device("cpu" if device is None else device)
    chosen.backend  # noqa: B018  (raises now if it cannot be used)
    _process_default = chosen


def card_number(name: str, number: str, index: int | None) -> int:
    """Return the number in a name such as "cuda:1".

    Raises: DeviceError: it is none, or an index was passed as well.
    """
    if index is not None:
        raise DeviceError(
            "device",
            "type (string) must not include an index because index was passed explicitly",
            {"type": name, "index": index},
        )
    if not (number.isascii() and number.isdigit()) or (number[0] == "0" and number != "0"):
        raise DeviceError(
            "device", f"Invalid device string: {name!r}",
            hint="write the number of the card behind the colon: 'cuda:0'",
        )  # fmt: skip
    return int(number)


def negative_index(index: int) -> ValueRangeError:
    """Return the error about a number of a card below 0."""
    return ValueRangeError("device", "Device index must not be negative", {"index": index})


def accelerator(index: int) -> str:
    """Return the name of the accelerator that an index alone refers to, as in PyTorch.

    Raises: DeviceError: there is none. ValueRangeError: a negative number.
    """
    if index < 0:
        raise negative_index(index)
    try:
        return backends.cards_of().name
    except DeviceError as error:
        raise DeviceError(
            "device", f"Cannot access accelerator device {index} when none is available",
            {backends.ACCELERATOR: error.message}, "device='cpu' is the computer's own processor",
        ) from None  # fmt: skip


def accelerator_device(device: Any = None) -> Any:
    """Return the device that `.cuda(device)` means: an index, a device, or None for the first one.

    >>> accelerator_device(1)
    'cuda:1'
    """
    if device.__class__ is int:
        return f"{backends.ACCELERATOR}:{device}"
    return device or backends.ACCELERATOR


def backend_for(device: Any = None) -> Backend:
    """Return the backend of a device, its name, or None (the default)."""
    if device is None:
        chosen = _default.get() or _process_default
        return backends.CPU if chosen is _CPU else backends.get(chosen.type, chosen.index)
    return Device(device).backend
