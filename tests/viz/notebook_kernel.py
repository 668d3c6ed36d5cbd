"""A Jupyter kernel of this tree, as a notebook has it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@contextmanager
def running_kernel() -> Iterator[Any]:
    """Start a kernel that imports from this tree, and end it behind the block."""
    from jupyter_client.manager import start_new_kernel

    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    manager, client = start_new_kernel(env={**os.environ, "PYTHONPATH": path})
    try:
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
