"""`torch.mps`: Apple's GPUs, on which nothing runs here. Scripts may ask, and choose the CPU."""

from __future__ import annotations


def is_available() -> bool:
    """Say whether device="mps" works: it does not."""
    return False


def device_count() -> int:
    """Return how many there are that can be used: none."""
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing: there is no generator on such a device."""


def empty_cache() -> None:
    """Do nothing: there is no memory on such a device."""
