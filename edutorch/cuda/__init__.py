"""`torch.cuda`: availability, device selection and memory statistics of NVIDIA GPUs.

The module can be imported, and `is_available()` called, on any machine; the other functions raise
`DeviceError`, which says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import backends
from ..backends.cupy import problems
from ..backends.device import Device, DeviceLike
from ..backends.pending_checks import read_now
from ..core.tensor import Tensor
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
    "get_rng_state",
    "get_rng_state_all",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "manual_seed",
    "manual_seed_all",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "synchronize",
]


def is_available() -> bool:
    """Return True if `device="cuda"` works. Cheap, and never raises.

    >>> cuda.is_available() in (True, False)
    True
    """
    return not problems()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return True if the GPU supports bfloat16; False if there is no GPU.

    Before compute capability 8.0 it is emulated, which counts if `including_emulation`.
    """
    return is_available() and (including_emulation or get_device_capability() >= (8, 0))


def is_current_stream_capturing() -> bool:
    """Return False: work on a GPU is not captured as a graph."""
    return False


def device_count() -> int:
    """Return the number of GPUs, 0 if CUDA is not available."""
    return _cupy().cuda.runtime.getDeviceCount() if is_available() else 0


def current_device() -> int:
    """Return the index of the current GPU, which new tensors are created on."""
    return _cupy().cuda.runtime.getDevice()


def set_device(device: DeviceLike) -> None:
    """Set the current GPU: an index, or a device such as "cuda:1"."""
    _cupy().cuda.runtime.setDevice(_device_index(device))


def get_device_name(device: DeviceLike = None) -> str:
    """Return the name of the GPU."""
    return _properties(device)["name"].decode()


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Return the GPU's compute capability, such as (9, 0)."""
    properties = _properties(device)
    return properties["major"], properties["minor"]


def manual_seed(seed: int) -> None:
    """Seed the generator of the GPU; does nothing without a GPU."""
    if is_available():
        default_generator(backends.get("cuda")).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs; does nothing without a GPU.

    >>> cuda.manual_seed_all(0)
    """
    manual_seed(seed)


def get_rng_state(device: DeviceLike = "cuda") -> Tensor:
    """Return the state of the generator of a GPU."""
    return default_generator(backends.get(str(device))).get_state()


def set_rng_state(new_state: Tensor, device: DeviceLike = "cuda") -> None:
    """Restore the state of the generator of a GPU."""
    default_generator(backends.get(str(device))).set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """Return the states of the generators of all GPUs: an empty list without a GPU.

    >>> len(cuda.get_rng_state_all()) == cuda.device_count()
    True
    """
    return [get_rng_state()] if is_available() else []


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Restore the states of the generators of all GPUs."""
    for state in new_states:
        set_rng_state(state)


def synchronize(device: DeviceLike = None) -> None:
    """Wait until all work on the GPU is done."""
    cupy = _cupy()
    with cupy.cuda.Device(_device_index(device)):
        cupy.cuda.runtime.deviceSynchronize()
    read_now()


def empty_cache() -> None:
    """Release cached memory that is not in use; does nothing without a GPU.

    >>> cuda.empty_cache()
    """
    if is_available():
        _cupy().get_default_memory_pool().free_all_blocks()


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the bytes that tensors use on the GPU; 0 without a GPU."""
    if not is_available():
        return 0
    cupy = _cupy()
    with cupy.cuda.Device(_device_index(device)):
        return cupy.get_default_memory_pool().used_bytes()


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the bytes that are in use or cached on the GPU; 0 without a GPU."""
    if not is_available():
        return 0
    cupy = _cupy()
    with cupy.cuda.Device(_device_index(device)):
        return cupy.get_default_memory_pool().total_bytes()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the free and the total memory of the GPU, in bytes."""
    cupy = _cupy()
    with cupy.cuda.Device(_device_index(device)):
        return cupy.cuda.runtime.memGetInfo()


def _cupy() -> Any:
    return backends.get("cuda").xp


def _device_index(device: DeviceLike) -> int:
    """Return the index of a device; None is the current one."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    index = Device(device).index
    return current_device() if index is None else index


def _properties(device: DeviceLike) -> dict[str, Any]:
    return _cupy().cuda.runtime.getDeviceProperties(_device_index(device))
