"""`torch.xpu`: Intel GPUs, which are not supported. Scripts can query them and choose the CPU."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: device="xpu" is not supported."""
    return False


def device_count() -> int:
    """Return 0: no such device is supported."""
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing: there is no generator on such a device."""


def empty_cache() -> None:
    """Do nothing: there is no memory on such a device."""


def manual_seed_all(seed: int) -> None:
    """Do nothing: there is no generator on such a device."""
