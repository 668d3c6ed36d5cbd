"""`torch.backends.openmp`: a library for threads, which is not used."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: it is not used."""
    return False
