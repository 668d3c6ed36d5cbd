"""`python -m edutorch warmup`: compile all kernels now."""

from __future__ import annotations

import sys
import time

from .. import kernels
from ..errors import missing_extra


def warmup() -> int:
    """Compile, or load what is on the disk already, and say how long it took."""
    if not kernels.available():
        print(missing_extra("fast", "warmup", "there is no numba to compile with"), file=sys.stderr)
        return 1
    start = time.perf_counter()
    names = kernels.warm_up()
    print(f"{len(names)} kernels ready in {time.perf_counter() - start:.1f} s: {', '.join(names)}")
    return 0
