"""Cards: which one is the current one, and what each says of itself."""

from __future__ import annotations

import warnings
from typing import Any

from .. import backends
from ..backends.device import Device, DeviceLike
from ..core.tensor import Tensor
from ..errors import DeviceError, InvalidValueError, missing_extra
from .driver import CardProperties, driver

__all__ = [
    "can_device_access_peer", "card_index", "clock_rate", "device", "device_memory_used",
    "device_of", "get_arch_list", "get_device_properties", "get_gencode_flags",
    "get_sync_debug_mode", "init", "ipc_collect", "is_initialized", "is_tf32_supported",
    "list_gpu_processes", "memory_usage", "power_draw", "set_sync_debug_mode", "temperature",
    "utilization",
]  # fmt: skip

ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"]
"""The GPUs that CuPy for CUDA 13 compiles for, and that its libraries come for."""


def card_index(device: DeviceLike) -> int:
    """Return the index of a card; None, and "cuda" without a number, are the current one.

    Raises: DeviceError: there are no cards, or none with this index. ValueError: another device.
    """
    cards = backends.cards_of()
    if device is None:
        return cards.current_index()
    if isinstance(device, int):
        index: int | None = device
    else:
        chosen = Device(device)
        if chosen.type != backends.ACCELERATOR:
            raise InvalidValueError("cuda", f"Expected a cuda device, but got: {chosen}")
        index = chosen.index
    if index is None:
        return cards.current_index()
    cards.check(index)
    return index


class device:
    """A context manager that makes a card the current one; None or an index below 0: no change.

    >>> with cuda.device(None):
    ...     tensor([1.0]).device
    device(type='cpu')
    """

    def __init__(self, device: Any) -> None:
        is_nothing = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if is_nothing else card_index(device)
        self.prev_idx: list[int] = []

    def select(self) -> None:
        """Make it the current card, until another one is chosen."""
        if self.idx >= 0:
            backends.cards_of().select(self.idx)

    def __enter__(self) -> device:
        if self.idx >= 0:
            self.prev_idx.append(card_index(None))
            self.select()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.prev_idx:
            backends.cards_of().select(self.prev_idx.pop())


class device_of(device):
    """A context manager that makes the card of a tensor the current one; on the CPU: no change.

    >>> with cuda.device_of(tensor([1.0])) as where:
    ...     where.idx
    -1
    """

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else None)


def get_device_properties(device: DeviceLike = None) -> CardProperties:
    """Return what a card says of itself: `name`, `major`, `minor`, `total_memory`, …"""
    return driver().properties(card_index(device))


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return True if a card can read the memory of another one directly."""
    index, peer = card_index(device), card_index(peer_device)
    return index != peer and driver().can_access_peer(index, peer)


def get_arch_list() -> list[str]:
    """Return the architectures that kernels are compiled for; empty without a card."""
    return list(ARCHITECTURES) if not backends.is_unavailable(backends.ACCELERATOR) else []


def get_gencode_flags() -> str:
    """Return the same as flags of the compiler nvcc."""
    versions = [name.removeprefix("sm_") for name in get_arch_list()]
    return " ".join(f"-gencode compute=compute_{n},code=sm_{n}" for n in versions)


def is_tf32_supported() -> bool:
    """Return True if the current card multiplies in TensorFloat-32."""
    if backends.is_unavailable(backends.ACCELERATOR) or driver().is_simulated:
        return False
    return get_device_properties().major >= 8


def init() -> None:
    """Load what the cards need now, and not at their first use.

    Raises: DeviceError: there are none.
    """
    driver()


def is_initialized() -> bool:
    """Return True if the cards are in use."""
    return backends.is_loaded(backends.ACCELERATOR)


def ipc_collect() -> None:
    """Do nothing: memory on a card is not shared between processes."""


# How much a card has to do: from NVIDIA's management library -----------------------------------


class _Debug:
    mode = 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Store the level 0 "default", 1 "warn" or 2 "error": waits of the host are not watched.

    The device "strict" counts them: see `backends/strict.py`.
    """
    modes = {"default": 0, "warn": 1, "error": 2}
    number = modes.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if number not in modes.values():
        raise InvalidValueError(
            "set_sync_debug_mode",
            f"invalid debug_mode {debug_mode!r}: expected one of `default`, `warn`, `error`",
        )
    if number:
        warnings.warn("Synchronization debug mode has no effect here", stacklevel=2)
    _Debug.mode = number


def get_sync_debug_mode() -> int:
    """Return the level that `set_sync_debug_mode` has stored."""
    return _Debug.mode


def management(device: DeviceLike) -> tuple[Any, Any]:
    """Return NVIDIA's management library, and its handle of a card.

    Raises: MissingExtraError: it is not installed. DeviceError: the card is simulated.
    """
    index = card_index(device)
    if driver().is_simulated:
        raise DeviceError("cuda", "a simulated card has no sensors", hint="ask a real one")
    try:
        import pynvml
    except ImportError as error:
        raise missing_extra(
            "cuda", "the sensors of a GPU", "nvidia-ml-py is not installed"
        ) from error
    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByIndex(index)


def utilization(device: DeviceLike = None) -> int:
    """Return the percent of the last moments in which the card computed."""
    library, handle = management(device)
    return library.nvmlDeviceGetUtilizationRates(handle).gpu


def memory_usage(device: DeviceLike = None) -> int:
    """Return the percent of the last moments in which the card's memory was read or written."""
    library, handle = management(device)
    return library.nvmlDeviceGetUtilizationRates(handle).memory


def temperature(device: DeviceLike = None) -> int:
    """Return the temperature in degrees Celsius."""
    library, handle = management(device)
    return library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU)


def power_draw(device: DeviceLike = None) -> int:
    """Return the power in milliwatts."""
    library, handle = management(device)
    return library.nvmlDeviceGetPowerUsage(handle)


def clock_rate(device: DeviceLike = None) -> int:
    """Return the clock of the multiprocessors in MHz."""
    library, handle = management(device)
    return library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)


def device_memory_used(device: DeviceLike = None) -> int:
    """Return the bytes in use on a card, by all processes."""
    free, total = driver().memory_info(card_index(device))
    return total - free


def list_gpu_processes(device: DeviceLike = None) -> str:
    """Return a text with the processes that use a card, and their memory."""
    index = card_index(device)
    lines = [f"GPU:{index}"]
    if driver().is_simulated:
        return "\n".join([*lines, "no processes are running (a simulated card)"])
    library, handle = management(index)
    processes = library.nvmlDeviceGetComputeRunningProcesses(handle)
    lines += [
        f"process {one.pid:>10d} uses {one.usedGpuMemory / 2**20:>12.3f} MB GPU memory"
        for one in processes
    ]
    return "\n".join(lines if processes else [*lines, "no processes are running"])
