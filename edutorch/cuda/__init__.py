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
from ..core.tensor import Tensor
from ..errors import DeviceError
from ..errors import OutOfMemory as OutOfMemoryError
from ..ops.random import default_generator
from . import amp

__all__ = [
    "OutOfMemoryError",
    "amp",
    "current_device",
    "device",
    "device_count",
    "device_of",
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
    return backends.cards_of("cuda").count if is_available() else 0


def current_device() -> int:
    """Return the index of the current GPU, which new tensors are created on."""
    return backends.cards_of("cuda").current_index()


def set_device(device: DeviceLike) -> None:
    """Set the current GPU: an index, or a device such as "cuda:1". Less than 0: it stays.

    Raises: DeviceError: there is no such GPU.
    """
    index = _device_index(device)
    if index >= 0:
        backends.cards_of("cuda").select(index)


class device:
    """A context manager that sets the current GPU; None or an index below 0 changes nothing.

    >>> with cuda.device(None):
    ...     tensor([1.0]).device
    device(type='cpu')
    """

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None else _device_index(device)
        self.prev_idx: list[int] = []

    def __enter__(self) -> device:
        if self.idx >= 0:
            self.prev_idx.append(current_device())
            set_device(self.idx)
        return self

    def __exit__(self, *exception: object) -> None:
        if self.prev_idx:
            set_device(self.prev_idx.pop())


class device_of(device):
    """A context manager that sets the current GPU to that of a tensor; on the CPU, nothing.

    >>> with cuda.device_of(tensor([1.0])) as where:
    ...     where.idx
    -1
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else None)


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
    for index in range(device_count()):
        default_generator(backends.get("cuda", index)).manual_seed(seed)


def get_rng_state(device: DeviceLike = "cuda") -> Tensor:
    """Return the state of the generator of a GPU."""
    return default_generator(backends.get("cuda", _device_index(device))).get_state()


def set_rng_state(new_state: Tensor, device: DeviceLike = "cuda") -> None:
    """Restore the state of the generator of a GPU."""
    default_generator(backends.get("cuda", _device_index(device))).set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """Return the states of the generators of all GPUs: an empty list without a GPU.

    >>> len(cuda.get_rng_state_all()) == cuda.device_count()
    True
    """
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Restore the states of the generators of all GPUs."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def synchronize(device: DeviceLike = None) -> None:
    """Wait until all work on the GPU is done."""
    cards, index = backends.cards_of("cuda"), _device_index(device)
    with cards.selected(index):
        cards.get(index).synchronize()


def empty_cache() -> None:
    """Release cached memory that is not in use; does nothing without a GPU.

    >>> cuda.empty_cache()
    """
    if is_available() and not backends.simulated_cards():
        _cupy().get_default_memory_pool().free_all_blocks()


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the bytes that tensors use on the GPU; 0 without a GPU."""
    if not is_available() or backends.simulated_cards():
        return 0
    cupy = _cupy()
    with cupy.cuda.Device(_device_index(device)):
        return cupy.get_default_memory_pool().used_bytes()


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the bytes that are in use or cached on the GPU; 0 without a GPU."""
    if not is_available() or backends.simulated_cards():
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
    """Return the index of a device; None is the current one.

    Raises: DeviceError: it is no GPU.
    """
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    chosen = Device(device)
    if not chosen.is_accelerator:
        raise DeviceError("cuda", f"Expected a cuda device, but got: {chosen}")
    index = chosen.index
    return current_device() if index is None else index


def _properties(device: DeviceLike) -> dict[str, Any]:
    index = _device_index(device)
    backends.cards_of("cuda").check(index)
    if backends.simulated_cards():  # those of an H100, so that programs choose what one can do
        return {"name": b"simulated card (edutorch, on the CPU)", "major": 9, "minor": 0}
    return _cupy().cuda.runtime.getDeviceProperties(index)
