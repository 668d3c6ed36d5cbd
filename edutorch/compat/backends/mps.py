"""`torch.backends.mps`: Apple GPUs, which are not supported."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: device="mps" is not supported."""
    return False


def is_built() -> bool:
    """Return False: it is not supported on any machine."""
    return False
