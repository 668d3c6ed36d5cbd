"""`python -m edutorch warmup`: compiles all kernels now."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict

from .. import kernels
from ..errors import missing_extra


def warmup(check: bool = False) -> int:
    """Compile each kernel, or load it from the cache, and print its status.

    Args:
        check: compile nothing, and print as JSON which kernels are ready.

    Returns: the exit code: 1 if a kernel could not be made.
    """
    if not kernels.is_available():
        print(missing_extra("fast", "warmup", "there is no numba to compile with"), file=sys.stderr)
        return 1
    start = time.perf_counter()
    if check:
        print(json.dumps([asdict(kernel) for kernel in kernels.warm_up(compile=False)]))
        return 0
    counts = {"loaded": 0, "compiled": 0, "failed": 0}
    for built in kernels.warm_up():
        counts[built.state] += 1
        print(
            f"  {built.name:<32}{built.state:<9}{built.seconds:6.2f} s  {built.detail}".rstrip(),
            flush=True,
        )
    ready = counts["loaded"] + counts["compiled"]
    print(
        f"{ready} kernels ready in {time.perf_counter() - start:.1f} s: "
        f"{counts['compiled']} compiled, {counts['loaded']} from the disk"
    )
    if counts["failed"]:
        print(f"{counts['failed']} kernels failed: there, the definitions run, only slower")
    return 1 if counts["failed"] else 0
