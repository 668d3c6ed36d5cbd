"""The GPU: is there one, which, and how much memory is in use. PyTorch's names.

Everything here can be imported and `is_available()` asked on any machine; the
other functions raise `DeviceError`, which says what is missing.
"""

from __future__ import annotations

from typing import Any

from .. import backends
from ..backends.cupy import problems
from ..errors import OutOfMemory as OutOfMemoryError
from ..ops.random import default_generator
from . import amp

__all__ = [
    "OutOfMemoryError",
    "amp",
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "is_available",
    "is_bf16_supported",
    "manual_seed",
    "manual_seed_all",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """Say whether `device="cuda"` works here. Cheap, and never raises.

    >>> cuda.is_available() in (True, False)
    True
    """
    return not problems()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Say whether the GPU computes in bfloat16: False where there is none.

    Before compute capability 8.0 it is emulated, which counts unless it is excluded.
    """
    return is_available() and (including_emulation or get_device_capability() >= (8, 0))


def device_count() -> int:
    """Return how many GPUs can be used here, 0 where CUDA is not available."""
    return _cupy().cuda.runtime.getDeviceCount() if is_available() else 0


def current_device() -> int:
    """Return the number of the GPU that new tensors go to."""
    return _cupy().cuda.runtime.getDevice()


def set_device(device: Any) -> None:
    """Send new tensors to another GPU: its number, or a device such as "cuda:1"."""
    _cupy().cuda.runtime.setDevice(_device_index(device))


def get_device_name(device: Any = None) -> str:
    """Return what the GPU calls itself."""
    return _properties(device)["name"].decode()


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Return the GPU's compute capability, such as (9, 0)."""
    properties = _properties(device)
    return properties["major"], properties["minor"]


def manual_seed(seed: int) -> None:
    """Restart the GPU's random numbers from `seed`; does nothing where there is no GPU."""
    if is_available():
        default_generator(backends.get("cuda")).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Restart the random numbers of every GPU; does nothing where there is none.

    >>> cuda.manual_seed_all(0)
    """
    manual_seed(seed)


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done everything asked of it."""
    cupy = _cupy()
    with cupy.cuda.Device(_device_index(device)):
        cupy.cuda.runtime.deviceSynchronize()


def empty_cache() -> None:
    """Give memory that is kept for later tensors, but not in use, back to the GPU, if there is one.

    >>> cuda.empty_cache()
    """
    if is_available():
        _cupy().get_default_memory_pool().free_all_blocks()


def memory_allocated(device: Any = None) -> int:
    """Return how many bytes tensors use on the GPU: 0 where there is none."""
    if not is_available():
        return 0
    cupy = _cupy()
    with cupy.cuda.Device(_device_index(device)):
        return cupy.get_default_memory_pool().used_bytes()


def memory_reserved(device: Any = None) -> int:
    """Return how many bytes are used by tensors or kept for later ones: 0 without a GPU."""
    if not is_available():
        return 0
    cupy = _cupy()
    with cupy.cuda.Device(_device_index(device)):
        return cupy.get_default_memory_pool().total_bytes()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the free and the whole memory of the GPU, in bytes."""
    cupy = _cupy()
    with cupy.cuda.Device(_device_index(device)):
        return cupy.cuda.runtime.memGetInfo()


def _cupy() -> Any:
    return backends.get("cuda").xp


def _device_index(device: Any) -> int:
    """Return the GPU meant by None (the current one), a number, or a device."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    from ..backends.device import Device

    index = Device(device).index
    return current_device() if index is None else index


def _properties(device: Any) -> dict[str, Any]:
    return _cupy().cuda.runtime.getDeviceProperties(_device_index(device))
