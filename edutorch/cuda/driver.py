"""The driver: the one interface between `torch.cuda` and the cards, real or simulated.

Streams, events and graphs of a driver have the members of CuPy's that are used here: a stream
`ptr`, `device_id`, `done`, `synchronize`, `wait_event`, `is_capturing`; an event `done`, `record`,
`synchronize`; a graph `launch`. The classes with PyTorch's names hold one each.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from .. import backends
from ..backends.memory_counts import MemoryCounts

__all__ = ["CardProperties", "Driver", "driver"]


class CardProperties(NamedTuple):
    """What a card says of itself: the fields of `torch.cuda.get_device_properties`."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int = 32
    max_threads_per_block: int = 1024
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 49152
    shared_memory_per_block_optin: int = 49152
    shared_memory_per_multiprocessor: int = 49152
    L2_cache_size: int = 0
    clock_rate: int = 0
    memory_clock_rate: int = 0
    memory_bus_width: int = 0
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    pci_bus_id: int = 0
    pci_device_id: int = 0
    pci_domain_id: int = 0
    uuid: str = ""


class Driver(Protocol):
    """The cards of this machine. An `index` is that of a card."""

    is_simulated: bool

    def properties(self, index: int) -> CardProperties:
        """Return what a card says of itself."""
        ...

    def can_access_peer(self, index: int, peer: int) -> bool:
        """Return True if a card can read the memory of another one directly."""
        ...

    def synchronize(self, index: int) -> None:
        """Wait until a card has done all its work."""
        ...

    # Streams and events

    def make_stream(self, index: int, priority: int) -> Any:
        """Make a stream that does not wait for the default stream."""
        ...

    def external_stream(self, address: int, index: int) -> Any:
        """Return the stream at an address, which another library has made."""
        ...

    def default_stream(self, index: int) -> Any:
        """Return the stream that a card uses unless another one is chosen."""
        ...

    def current_stream(self, index: int) -> Any:
        """Return the stream of a card that this thread uses."""
        ...

    def use_stream(self, stream: Any) -> None:
        """Let this thread use a stream of the current card."""
        ...

    def make_event(self, has_timing: bool, blocking: bool, interprocess: bool) -> Any:
        """Make an event of the current card."""
        ...

    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Return the milliseconds between two events."""
        ...

    # Graphs

    def begin_capture(self, stream: Any, pool: Any) -> None:
        """Begin to capture what is done on a stream, with memory from a private pool."""
        ...

    def end_capture(self, stream: Any) -> Any:
        """End the capture, and return the graph."""
        ...

    def drop_pool(self, pool: Any) -> None:
        """Forget a private pool that no graph uses any more."""
        ...

    # Memory

    def memory_info(self, index: int) -> tuple[int, int]:
        """Return the free and the total memory of a card, in bytes."""
        ...

    def memory_counts(self, index: int) -> MemoryCounts:
        """Return how much memory arrays use on a card, and its peak."""
        ...

    def release_cached(self, index: int) -> None:
        """Give cached memory that is not in use back to the card."""
        ...

    def set_memory_fraction(self, index: int, fraction: float) -> None:
        """Limit this process to a fraction of the memory of a card."""
        ...

    def memory_limit(self, index: int) -> int:
        """Return the bytes of a card that this process may use."""
        ...

    def record_stream(self, array: Any, stream: Any) -> None:
        """Keep the memory of an array, once it is freed, until a stream is done with it."""
        ...

    # Marks for profilers

    def range_push(self, message: str) -> None:
        """Begin a named range."""
        ...

    def range_pop(self) -> None:
        """End the innermost range."""
        ...

    def mark(self, message: str) -> None:
        """Mark a point in time."""
        ...


class _Known:
    """The driver that was made last, and the cards that it is for."""

    cards: Any = None
    driver: Any = None


def driver() -> Driver:
    """Return the driver of the cards of this machine.

    Raises: DeviceError: there are none.
    """
    cards = backends.cards_of()
    if _Known.cards is not cards:
        if cards.is_simulated:
            from .simulated_driver import SimulatedDriver

            _Known.driver = SimulatedDriver(cards)
        else:
            from .cupy_driver import CupyDriver

            backend = cards.get(0)
            _Known.driver = CupyDriver(backend.xp.library, backend.card_memory)
        _Known.cards = cards
    return _Known.driver
