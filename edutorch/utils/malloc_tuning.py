"""Memory that is freed and wanted again in each training step."""

from __future__ import annotations

import ctypes
import functools
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4  # as glibc's malloc.h numbers them


@functools.cache
def keep_freed_memory() -> bool:
    """Ask glibc to keep freed blocks instead of giving them back to the kernel at once.

    A training step frees its gradients and needs the same memory again a moment later.
    Given back, each of its pages is handed out anew, and cleared: that took longer than
    the arithmetic of a small network, and two thirds of the time of a chain of ops on
    arrays of 64 MB. Such large ones have no threshold that would keep them: hence no block
    at all is mapped by itself. (A cache of our own could not do better, as measured:
    with this, no page is handed out anew.) The price is that a process stays as large as
    it once was. Returns whether there was somebody to ask.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    wishes = ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 256 << 20), (_MMAP_MAX, 0))
    return all(mallopt(*wish) for wish in wishes)
