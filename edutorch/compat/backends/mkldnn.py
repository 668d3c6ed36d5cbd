"""`torch.backends.mkldnn`: oneDNN, Intel's library of deep learning kernels, which is not used."""

from __future__ import annotations

enabled = True


def is_available() -> bool:
    """Return False: it is not used."""
    return False
