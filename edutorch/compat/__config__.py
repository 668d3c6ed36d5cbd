"""`torch.__config__`: what computes."""

from __future__ import annotations

import numpy as np

from edutorch.version import __version__


def show() -> str:
    """Return a text about the libraries that compute."""
    return f"edutorch (as PyTorch {__version__}), not compiled\n  - NumPy {np.__version__}\n"


def parallel_info() -> str:
    """Return a text about the threads."""
    from edutorch.settings import get_num_threads

    return f"at most {get_num_threads()} threads in an op\n"
