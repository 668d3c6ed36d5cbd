"""Settings of glibc's malloc for memory that each training step frees and allocates again."""

from __future__ import annotations

import ctypes
import functools
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # as glibc's malloc.h numbers them


@functools.cache
def keep_freed_memory() -> bool:
    """Make glibc keep freed blocks instead of returning them to the kernel at once.

    A training step frees its gradients and needs the same memory again a moment later. Returned
    to the kernel, each page has to be mapped and zeroed again: that took longer than the
    arithmetic of a small network, and two thirds of the time of a chain of ops on arrays of
    64 MB. No M_MMAP_THRESHOLD is large enough to keep such blocks, hence M_MMAP_MAX is 0. (A
    cache of our own could not do better, as measured: with these settings there are no page
    faults.) The price is that the process does not shrink. Returns False if glibc is not used.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    wishes = ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 256 << 20), (_MMAP_MAX, 0))
    return all(mallopt(*wish) for wish in wishes)
