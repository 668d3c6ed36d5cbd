"""`torch.__config__`: the libraries in use."""

from __future__ import annotations

import numpy as np

from edutorch.version import __version__


def show() -> str:
    """Return a description of the libraries in use."""
    return f"edutorch (as PyTorch {__version__}), not compiled\n  - NumPy {np.__version__}\n"


def parallel_info() -> str:
    """Return a description of the threads."""
    from edutorch.settings import get_num_threads

    return f"at most {get_num_threads()} threads in an op\n"
