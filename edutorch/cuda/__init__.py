"""`torch.cuda`: cards, streams, events, graphs and memory of NVIDIA GPUs, real or simulated.

The module can be imported, and `is_available()` called, on any machine; most functions raise
`DeviceError` without a card, which says what is missing. What few programs need is loaded when it
is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .. import backends
from ..backends import memory_counts
from ..backends.cupy import problems
from ..backends.device import DeviceLike
from ..backends.pending_checks import read_now
from ..core.tensor import Tensor
from ..errors import OutOfMemory as OutOfMemoryError
from . import amp

NAMES_BY_MODULE = {
    "devices": (
        "can_device_access_peer", "clock_rate", "device", "device_memory_used", "device_of",
        "get_arch_list", "get_device_properties", "get_gencode_flags", "get_sync_debug_mode",
        "init", "ipc_collect", "is_initialized", "is_tf32_supported", "list_gpu_processes",
        "memory_usage", "power_draw", "set_sync_debug_mode", "temperature", "utilization",
    ),
    "graphs": ("CUDAGraph", "graph", "graph_pool_handle", "make_graphed_callables"),
    "memory": (
        "get_allocator_backend", "get_per_process_memory_fraction", "max_memory_allocated",
        "max_memory_cached", "max_memory_reserved", "memory_cached", "memory_snapshot",
        "memory_stats", "memory_stats_as_nested_dict", "memory_summary",
        "reset_accumulated_memory_stats", "reset_max_memory_allocated",
        "reset_max_memory_cached", "reset_peak_memory_stats", "set_per_process_memory_fraction",
    ),
    "random": (
        "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all",
        "seed", "seed_all", "set_rng_state", "set_rng_state_all",
    ),
    "streams": (
        "Event", "ExternalStream", "Stream", "StreamContext", "current_stream", "default_stream",
        "get_stream_from_external", "set_stream", "stream",
    ),
}  # fmt: skip
"""The names that are loaded when they are first asked for, by their module here."""

MODULES = ("comm", "graphs", "memory", "nvtx", "random", "streams")
_MODULE_OF = {name: module for module, names in NAMES_BY_MODULE.items() for name in names}

__all__ = [
    "OutOfMemoryError", "amp", "current_device", "device_count", "empty_cache",
    "get_device_capability", "get_device_name", "has_half", "has_magma", "is_available",
    "is_bf16_supported", "is_current_stream_capturing", "mem_get_info", "memory_allocated",
    "memory_reserved", "set_device", "synchronize",
    *_MODULE_OF,
]  # fmt: skip

has_half = True
has_magma = False


def __getattr__(name: str) -> Any:
    """Load a module, or the module of a name, when it is first asked for."""
    if name in MODULES:
        return import_module(f"{__name__}.{name}")
    if name == "default_generators":
        return import_module(f"{__name__}.random").default_generators()
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'edutorch.cuda' has no attribute {name!r}", name=name)
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, *MODULES, "default_generators"})


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
    """Return True while work on the current stream is captured as a graph; False without a card.

    >>> cuda.is_current_stream_capturing()
    False
    """
    if not backends.is_loaded(backends.ACCELERATOR):
        return False
    return _module("streams").current_stream().is_capturing()


def device_count() -> int:
    """Return the number of GPUs, 0 if CUDA is not available."""
    return backends.cards_of().count if is_available() else 0


def current_device() -> int:
    """Return the index of the current GPU, which new tensors are created on."""
    return _index(None)


def set_device(device: DeviceLike) -> None:
    """Set the current GPU: an index, or a device such as "cuda:1". Less than 0: it stays."""
    _module("devices").device(device).select()


def get_device_name(device: DeviceLike = None) -> str:
    """Return the name of the GPU."""
    return _driver().properties(_index(device)).name


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """Return the GPU's compute capability, such as (9, 0)."""
    properties = _driver().properties(_index(device))
    return properties.major, properties.minor


def synchronize(device: DeviceLike = None) -> None:
    """Wait until all work on the GPU is done."""
    _driver().synchronize(_index(device))
    read_now()


def empty_cache() -> None:
    """Release cached memory that is not in use; does nothing without a GPU.

    >>> cuda.empty_cache()
    """
    if is_available():
        _driver().release_cached(_index(None))


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the bytes that tensors use on the GPU; 0 without a GPU."""
    return _driver().memory_counts(_index(device)).used.current if is_available() else 0


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the bytes that are in use or cached on the GPU; 0 without a GPU."""
    return _driver().memory_counts(_index(device)).reserved.current if is_available() else 0


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the free and the total memory of the GPU, in bytes."""
    return _driver().memory_info(_index(device))


def _module(name: str) -> Any:
    return import_module(f"{__name__}.{name}")


def _driver() -> Any:
    return _module("driver").driver()


def _index(device: DeviceLike) -> int:
    return _module("devices").card_index(device)


def _record_stream(self: Tensor, stream: Any) -> None:
    """Keep the memory, once it is freed, until a stream has done what is now in it."""
    if self.is_cuda:
        _driver().record_stream(self._array, stream._handle)


setattr(Tensor, "record_stream", _record_stream)  # noqa: B010


def _describe_held(index: int) -> dict[str, str]:
    loaded = backends.is_loaded(backends.ACCELERATOR)
    return _module("held").describe_held(index) if loaded else {}


memory_counts.describe_held = _describe_held
