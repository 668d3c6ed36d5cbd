"""The memory of NVIDIA GPUs: CuPy's pools, with a peak, private pools, and one error when full.

CuPy's pool counts what is in use now and forgets the peak. So CuPy allocates through `malloc`
here, which asks the pool and compares: some tenths of a microsecond per array.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import defaultdict
from typing import Any

import numpy as np

from .cuda import matmul
from .memory_counts import MemoryCounts, out_of_memory
from .numpy import Array

__all__ = ["CupyMemory", "shared", "use_tensor_cores"]


class CupyMemory:
    """The memory of all GPUs of this process.

    Args:
        cupy: the library.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._full = cupy.cuda.memory.OutOfMemoryError
        self._default = cupy.get_default_memory_pool()
        self._private: dict[Any, Any] = {}  # of CUDA graphs, by their handles
        self._capturing = threading.local()
        self._counts: defaultdict[int, MemoryCounts] = defaultdict(MemoryCounts)
        self._held: list[tuple[Any, Any]] = []  # (event, memory): in use by another stream
        cupy.cuda.set_allocator(self.malloc)

    # Allocation ---------------------------------------------------------------------------------

    def malloc(self, size: int) -> Any:
        """Return a pointer to memory of the current GPU.

        Raises: OutOfMemory: the GPU has no more, even without its caches.
        """
        if self._held:
            self.release_done()
        pool = getattr(self._capturing, "pool", None) or self._default
        try:
            pointer = pool.malloc(size)
        except self._full as error:
            raise self._out_of_memory(size) from error
        self._count(pointer.mem.size)
        return pointer

    def _count(self, size: int) -> None:
        """Count an allocation: first what was freed before it, then itself."""
        index = self._cupy.cuda.runtime.getDevice()
        used, reserved = self._pool_bytes()
        counts = self._counts[index]
        counts.used.move_to(used - size)
        counts.move_to(used, reserved)

    def _out_of_memory(self, size: int) -> Exception:
        runtime = self._cupy.cuda.runtime
        index = runtime.getDevice()
        free, total = runtime.memGetInfo()
        return out_of_memory(index, size, self.counts(index), free, total)

    def counts(self, index: int) -> MemoryCounts:
        """Return the numbers of a GPU, which has to be the current one."""
        counts = self._counts[index]
        counts.move_to(*self._pool_bytes())
        return counts

    def _pool_bytes(self) -> tuple[int, int]:
        """Return the bytes in use and reserved, in all pools of the current GPU."""
        used, reserved = self._default.used_bytes(), self._default.total_bytes()
        for pool in self._private.values():
            used += pool.used_bytes()
            reserved += pool.total_bytes()
        return used, reserved

    def release_cached(self) -> None:
        """Give memory that is cached, on the device and pinned, back to the system."""
        self.release_done()
        self._default.free_all_blocks()
        self._cupy.get_default_pinned_memory_pool().free_all_blocks()

    # Private pools, which live as long as the graphs that use them ------------------------------

    def use_private_pool(self, handle: Any) -> None:
        """Let this thread allocate from a pool of its own, made at first use; None: the common one.

        A captured graph goes on using its memory at each replay: nobody else may be given it.
        """
        if handle is None:
            self._capturing.pool = None
            return
        if handle not in self._private:
            self._private[handle] = self._cupy.cuda.MemoryPool()
        self._capturing.pool = self._private[handle]

    def drop_private_pool(self, handle: Any) -> None:
        """Forget a pool. Its memory is freed once no array uses it any more."""
        pool = self._private.pop(handle, None)
        if pool is not None:
            pool.free_all_blocks()

    # Other streams -------------------------------------------------------------------------------

    def record_stream(self, array: Array, stream: Any) -> None:
        """Keep the memory of an array, once it is freed, until a stream has done its work with it.

        The pool gives freed memory to the stream that it was allocated on, which knows nothing of
        what another one still reads there.
        """
        owner = array if array.base is None else array.base
        weakref.finalize(owner, self.hold_until_done, owner.data.mem, stream)

    def hold_until_done(self, memory: Any, stream: Any) -> None:
        """Keep memory from being reused until the work that is now in a stream is done."""
        self._held.append((stream.record(), memory))

    def release_done(self) -> None:
        """Let go of memory whose stream has come to its end."""
        self._held = [(event, memory) for event, memory in self._held if not event.done]

    # Pinned memory -------------------------------------------------------------------------------

    def pin(self, array: np.ndarray) -> np.ndarray:
        """Return a copy in page-locked memory of the host, from CuPy's pool of it."""
        pointer = self._cupy.cuda.alloc_pinned_memory(array.nbytes)
        memory = np.frombuffer(pointer, np.uint8, array.nbytes)
        pinned = memory.view(array.dtype).reshape(array.shape)
        pinned[...] = array
        return pinned

    def is_pinned(self, array: np.ndarray) -> bool:
        """Return True if the memory of an array of the host is page-locked."""
        return self._cupy.cuda.pinned_memory.is_memory_pinned(array.ctypes.data)


_shared: list[CupyMemory] = []


def shared(cupy: Any) -> CupyMemory:
    """Return the memory of this process's GPUs; at the first call, CuPy is told to use it."""
    if not _shared:
        _shared.append(CupyMemory(cupy))
        matmul.on_change(functools.partial(use_tensor_cores, cupy))
    return _shared[0]


def use_tensor_cores(cupy: Any, precision: str) -> None:
    """Set how float32 products are computed: TensorFloat-32 unless the precision is "highest"."""
    products = cupy._core._routines_linalg
    is_full = precision == "highest"
    compute_type = products.COMPUTE_TYPE_DEFAULT if is_full else products.COMPUTE_TYPE_TF32
    products.set_compute_type(np.dtype(np.float32), compute_type)
