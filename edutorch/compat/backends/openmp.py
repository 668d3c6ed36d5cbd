"""`torch.backends.openmp`: a library that PyTorch's compiled code may use; none of it is here."""

from __future__ import annotations


def is_available() -> bool:
    """Say whether it is used: it is not."""
    return False
