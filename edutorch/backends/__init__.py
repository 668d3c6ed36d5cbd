"""Backends: one file per device; everything else is written once for all of them.

Generic code receives `xp`, the device's NumPy-like module, and calls its
`Backend` for the few operations in which array libraries differ.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..errors import DeviceError

# PyTorch's switches: `torch.backends.cuda` is in `compat/backends/`.
__path__.append(__path__[0].removesuffix("backends") + "compat/backends")

from . import cuda  # switches that scripts set, kept
from . import numpy as _numpy
from .cards import Cards
from .numpy import Backend
from .kernel_registry import reference_only

__all__ = [
    "ACCELERATOR", "DEVICES", "Backend", "cards_of", "get", "of", "reference_only", "register",
    "simulate_cards", "simulated_cards",
]  # fmt: skip

# Made by `compat/small_modules.py`: libraries that PyTorch has and scripts ask for.
cudnn: ModuleType
mkl: ModuleType
mkldnn: ModuleType
mps: ModuleType
openmp: ModuleType


class DeviceType(NamedTuple):
    """A type of device: what is known of it before its array library is imported.

    Attributes:
        module, backend: the file here and its class.
        is_accelerator: whether it computes beside the CPU, with memory of its own.
        has_gpu_rules: whether autocast treats it as a GPU (`strict` replaces one in the tests).
        dlpack: its number in the DLPack standard.
    """

    module: str
    backend: str
    is_accelerator: bool = False
    has_gpu_rules: bool = False
    dlpack: int = 1


DEVICES = {
    "cpu": DeviceType("numpy", "NumpyBackend"),
    "cuda": DeviceType("cupy", "CupyBackend", is_accelerator=True, has_gpu_rules=True, dlpack=2),
    "meta": DeviceType("meta", "MetaBackend"),
    "strict": DeviceType("strict", "StrictBackend", has_gpu_rules=True),
}
"""All devices. A new one is a line here, and a file with its `Backend`."""

ACCELERATOR = next(name for name, device in DEVICES.items() if device.is_accelerator)
"""The device that `tensor.cuda()` and an index alone refer to."""

_BY_NAME: dict[str, Backend] = {}
_CARDS: dict[str, Cards] = {}
_BY_ARRAY: dict[type, Backend | None] = {}
_FINDERS: dict[type, Callable[[Any], Backend]] = {}


switched_cards = False
"""Whether cards are in use between which the current one has to be switched (see `cards.py`)."""


def register(backend: Backend) -> Backend:
    """Register `backend` by its name and by the class of its arrays."""
    _BY_NAME[backend.name] = backend
    return register_array(backend)


def register_array(backend: Backend) -> Backend:
    """Register the backend to which all arrays of its class belong."""
    _BY_ARRAY[backend.array_type] = backend
    return backend


def register_type(array_type: type, find: Callable[[Any], Backend] | None = None) -> None:
    """Register a class of arrays of several backends.

    Args:
        find: returns the backend of an array; by default its attribute `backend`, as in
            `batching.py`.
    """
    _BY_ARRAY[array_type] = None
    if find is not None:
        _FINDERS[array_type] = find


CPU = register(_numpy.NumpyBackend())
for _shared in (_numpy.Shared, _numpy.Exported, _numpy.Stored):
    _shared.backend = CPU
    register_type(_shared)


def get(name: str, index: int | None = None) -> Backend:
    """Return the backend of a device, loading it at first use.

    Args:
        name: the type of device.
        index: which of its cards, where there are several: see `cards_of`. None is the current one.

    Raises: DeviceError: there is no such device, or it cannot be used here.
    """
    backend = _BY_NAME.get(name)
    if backend is None and name not in _CARDS:
        backend = _load(name)
    return _CARDS[name].get(index) if backend is None else backend


def cards_of(name: str = ACCELERATOR) -> Cards:
    """Return the cards of a type of device: how many there are, and which is the current one.

    Raises: DeviceError: there is no such device, it cannot be used here, or it has no cards.
    """
    if name not in _CARDS and (name in _BY_NAME or _load(name) is not None):
        raise DeviceError("device", f"{name!r} is one device, and has no cards")
    return _CARDS[name]


def _load(name: str) -> Backend | None:
    """Load the backend of a device; None for one that has cards, which are then known."""
    device = DEVICES.get(name)
    if device is None:
        raise DeviceError(
            "device",
            f"there is no device {name!r}",
            hint="the devices are 'cpu', 'cuda' and 'meta'",
        )  # fmt: skip
    module = import_module(f".{device.module}", __name__)
    if not hasattr(module, "make_cards"):
        return register(getattr(module, device.backend)())
    _CARDS[name] = module.make_cards()
    return None


def all_cards() -> list[Cards]:
    """Return the cards of all types of devices that are loaded and may have several."""
    return list(_CARDS.values())


def simulated_cards() -> int:
    """Return how many simulated cards answer for "cuda"; 0: none (see `simulated.py`)."""
    known = _CARDS.get(ACCELERATOR)
    return known.count if known is not None and known.is_simulated else 0


def computes_on_cpu(collectives: str) -> bool:
    """Return whether a backend of `torch.distributed` means the CPU's: "nccl" if simulated."""
    return collectives == "nccl" and simulated_cards() > 0


forget_cards: list[Callable[[str], None]] = []
"""Called with a type of device when its cards are replaced: what is kept for each of them goes."""


def simulate_cards(count: int) -> None:
    """Let simulated cards answer for "cuda"; 0 takes them away."""
    from .simulated import SimulatedArray, make_cards

    _CARDS.pop(ACCELERATOR, None)
    for forget in forget_cards:
        forget(ACCELERATOR)
    if count:
        register_type(SimulatedArray)
        _CARDS[ACCELERATOR] = make_cards(count)


def from_dlpack_type(number: int) -> Backend:
    """Return the backend of the device with this number in the DLPack standard; else the CPU's."""
    names = (name for name, device in DEVICES.items() if device.dlpack == number)
    return get(next(names, CPU.name))


def is_loaded(name: str) -> bool:
    """Return True if a type of device is in use, without loading it."""
    return name in _CARDS or name in _BY_NAME


def is_unavailable(name: str) -> bool:
    """Whether a device is an accelerator that does not work here."""
    if simulated_cards():
        return False
    from .cupy import problems

    return DEVICES[name].is_accelerator and bool(problems())


def of(array: Any) -> Backend:
    """Return the backend that owns `array`."""
    return _BY_ARRAY[type(array)] or _locate(array)


def _locate(array: Any) -> Backend:
    """Return the backend of an array whose class does not tell it."""
    find = _FINDERS.get(type(array))
    return array.backend if find is None else find(array)


def backend_of_type(array_type: type) -> Backend | None:
    """Return the backend that has arrays of this class, or None: no array's, or one of several."""
    return _BY_ARRAY.get(array_type)


def has_elements(array: Any) -> bool:
    """Return True if `array` has elements to look at: one of the device `meta` has none."""
    return isinstance(array, np.generic) or of(array).has_elements


def is_array(value: Any) -> bool:
    """Return True if `value` is an array of a backend that is loaded."""
    return type(value) in _BY_ARRAY


if os.environ.get("EDUTORCH_CUDA_AS_CPU"):
    from .simulated import start_by_environment

    start_by_environment()
