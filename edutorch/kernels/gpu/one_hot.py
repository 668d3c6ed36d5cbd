"""One-hot vectors on a GPU (`one_hot.cu`): without an identity matrix, or a mask, in memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import backends
from ...backends.numpy import Array
from ...nn.functional.embedding import ONE_HOT
from .module import CudaModule, blocks_for, launch
from .row_launch import MAX_ROWS

Run = Callable[..., Any]
THREADS = 256


@functools.cache
def text() -> CudaModule:
    """Return the text of the kernel."""
    return CudaModule.from_file("one_hot.cu")


@ONE_HOT.kernel("cuda", min_size=0)
def one_hot() -> Run:
    """Make y[…, c] = 1 where c is the class of an index, else 0, in int64."""

    def run(classes: Array, num_classes: int) -> Array | None:
        shape = (*classes.shape, num_classes)
        size = classes.size * num_classes
        blocks = blocks_for(size, THREADS)
        if not size or classes.dtype != np.int64 or blocks > MAX_ROWS:
            return None
        xp = backends.of(classes).xp
        y = xp.empty(shape, np.int64)
        arguments = xp.ascontiguousarray(classes), y, np.int64(size), np.int64(num_classes)
        launch(text(), "one_hot_elements", blocks, THREADS, arguments)
        return y

    return run
