"""Memory that is freed and wanted again in each training step."""

from __future__ import annotations

import ctypes
import functools
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as glibc's malloc.h numbers them


@functools.cache
def keep_freed_memory() -> bool:
    """Ask glibc to keep freed blocks instead of giving them back to the kernel at once.

    A training step frees its gradients and needs the same memory again a moment later.
    Given back, each of its pages is handed out anew, and cleared: that took longer than
    the arithmetic of a small network. Returns whether there was somebody to ask.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_MMAP_THRESHOLD, 32 << 20)) and bool(mallopt(_TRIM_THRESHOLD, 256 << 20))
