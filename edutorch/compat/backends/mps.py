"""`torch.backends.mps`: Apple's GPUs, on which nothing runs here."""

from __future__ import annotations


def is_available() -> bool:
    """Say whether device="mps" works: it does not."""
    return False


def is_built() -> bool:
    """Say whether it could work on another machine: it could not."""
    return False
