"""The driver of real cards: CuPy's streams, events, graphs and pools."""

from __future__ import annotations

from typing import Any

from ..backends.cupy_memory import CupyMemory
from ..backends.memory_counts import MemoryCounts
from .driver import CardProperties, Driver

__all__ = ["CupyDriver"]

FIELDS = {
    "name": "name", "major": "major", "minor": "minor", "total_memory": "totalGlobalMem",
    "multi_processor_count": "multiProcessorCount", "warp_size": "warpSize",
    "max_threads_per_block": "maxThreadsPerBlock",
    "max_threads_per_multi_processor": "maxThreadsPerMultiProcessor",
    "regs_per_multiprocessor": "regsPerMultiprocessor",
    "shared_memory_per_block": "sharedMemPerBlock",
    "shared_memory_per_block_optin": "sharedMemPerBlockOptin",
    "shared_memory_per_multiprocessor": "sharedMemPerMultiprocessor",
    "L2_cache_size": "l2CacheSize", "clock_rate": "clockRate",
    "memory_clock_rate": "memoryClockRate", "memory_bus_width": "memoryBusWidth",
    "is_integrated": "integrated", "is_multi_gpu_board": "isMultiGpuBoard",
    "pci_bus_id": "pciBusID", "pci_device_id": "pciDeviceID", "pci_domain_id": "pciDomainID",
}  # fmt: skip
"""PyTorch's names of what a card says of itself, and CUDA's."""


def uuid_text(octets: bytes) -> str:
    """Return the 16 bytes of a card's name in the world as text."""
    digits = octets[:16].hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return "-".join(parts)


class CupyDriver(Driver):
    """NVIDIA GPUs.

    Args:
        cupy: the library.
        memory: its allocator, as the backend has installed it.
    """

    is_simulated = False

    def __init__(self, cupy: Any, memory: CupyMemory) -> None:
        self._cupy, self._cuda, self._memory = cupy, cupy.cuda, memory

    # Cards ----------------------------------------------------------------------------------------

    def properties(self, index: int) -> CardProperties:
        values = self._cuda.runtime.getDeviceProperties(index)
        # A field that this version of CUDA has dropped (clockRate, since 13) keeps its default.
        fields = {name: values[key] for name, key in FIELDS.items() if key in values}
        fields["name"] = fields["name"].decode()
        return CardProperties(**fields, uuid=uuid_text(values.get("uuid", b"")))

    def can_access_peer(self, index: int, peer: int) -> bool:
        return bool(self._cuda.runtime.deviceCanAccessPeer(index, peer))

    def synchronize(self, index: int) -> None:
        with self._cuda.Device(index):
            self._cuda.runtime.deviceSynchronize()
        self._memory.release_done()

    # Streams and events ---------------------------------------------------------------------------

    def make_stream(self, index: int, priority: int) -> Any:
        with self._cuda.Device(index):
            return self._cuda.Stream(non_blocking=True, priority=priority)

    def external_stream(self, address: int, index: int) -> Any:
        return self._cuda.ExternalStream(address, index)

    def default_stream(self, index: int) -> Any:
        return self._cuda.Stream.null

    def current_stream(self, index: int) -> Any:
        return self._cuda.get_current_stream(index)

    def use_stream(self, stream: Any) -> None:
        stream.use()

    def make_event(self, has_timing: bool, blocking: bool, interprocess: bool) -> Any:
        return self._cuda.Event(blocking, not has_timing, interprocess)

    def elapsed_ms(self, start: Any, end: Any) -> float:
        return self._cuda.get_elapsed_time(start, end)

    # Graphs ---------------------------------------------------------------------------------------

    def begin_capture(self, stream: Any, pool: Any) -> None:
        # Relaxed: in the stricter modes of CUDA the pool could not grow during a capture.
        stream.begin_capture(self._cuda.runtime.streamCaptureModeRelaxed)
        self._memory.use_private_pool(pool)

    def end_capture(self, stream: Any) -> Any:
        self._memory.use_private_pool(None)
        return stream.end_capture()

    def drop_pool(self, pool: Any) -> None:
        self._memory.drop_private_pool(pool)

    # Memory ---------------------------------------------------------------------------------------

    def memory_info(self, index: int) -> tuple[int, int]:
        with self._cuda.Device(index):
            return self._cuda.runtime.memGetInfo()

    def memory_counts(self, index: int) -> MemoryCounts:
        with self._cuda.Device(index):
            return self._memory.counts(index)

    def release_cached(self, index: int) -> None:
        with self._cuda.Device(index):
            self._memory.release_cached()

    def set_memory_fraction(self, index: int, fraction: float) -> None:
        with self._cuda.Device(index):
            self._cupy.get_default_memory_pool().set_limit(fraction=fraction)

    def memory_limit(self, index: int) -> int:
        with self._cuda.Device(index):
            limit = self._cupy.get_default_memory_pool().get_limit()
            return limit or self._cuda.runtime.memGetInfo()[1]

    def record_stream(self, array: Any, stream: Any) -> None:
        self._memory.record_stream(array, stream)

    # Marks for profilers --------------------------------------------------------------------------

    def range_push(self, message: str) -> None:
        self._cuda.nvtx.RangePush(message)

    def range_pop(self) -> None:
        self._cuda.nvtx.RangePop()

    def mark(self, message: str) -> None:
        self._cuda.nvtx.Mark(message)
