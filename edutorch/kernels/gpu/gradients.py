"""All gradients in one launch: multiplied, looked at for inf and NaN, and their norm.

`GradScaler.unscale_` and `clip_grad_norm_` each go over all gradients; a launch for each of them,
and a wait of the host for its answer, cost more than the work. Here the answers stay on the GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import backends
from ...backends import Backend
from ...backends.numpy import Array
from ...nn.utils import clip_grad
from .c_expressions import memory_type, value_type
from .module import CudaModule, launch
from .optimizers import BLOCK, FLOATS, chunk_table

__all__ = ["unscale", "unscale_kernel"]

TEXT = """\
#include "reduce.cuh"

// A block does a chunk: one row of the table. Its sum of squares goes into an array of its own
// place, not to a common one: the sum over all blocks has the same order in each run.
extern "C" __global__ void unscale(
    const int64 *table, const float *factor, float *found_inf, double *squares
) {{
    __shared__ double scratch[WARP];
    const int64 *row = table + (int64)blockIdx.x * 2;
    {memory} *grads = ({memory} *)row[0];
    const int count = (int)row[1];
    const {real} scale = *factor;
    double sum = 0;
    bool is_finite = true;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {{
        {real} grad = widen(grads[i]) * scale;
        is_finite = is_finite && absolute(grad) < INF;
        if (scale != 1) grads[i] = narrow<{memory}>(grad);  // 1: for the norm alone
        sum += (double)grad * grad;
    }}
    if (!is_finite) *found_inf = 1;  // whoever writes it writes the same
    sum = block_reduce<Sum>(sum, scratch, 0.0);
    if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}}
"""


@functools.cache
def module_of(dtype: np.dtype[Any]) -> CudaModule:
    """Return the text for gradients of a dtype."""
    text = TEXT.format(memory=memory_type(dtype), real=value_type(dtype))
    return CudaModule.from_text(f"unscale_{dtype.name}", text)


@functools.lru_cache(32)
def table_on_device(
    backend: Backend, addresses: tuple[int, ...], sizes: tuple[int, ...], itemsize: int
) -> Array:
    """Return the table in the GPU's memory: copied once, while gradients stay where they are."""
    return backend.upload(chunk_table([list(addresses)], sizes, itemsize))


@clip_grad.UNSCALE.kernel("cuda")
def unscale_kernel() -> Callable[..., Array | None]:
    """Make the function that multiplies gradients, and sums their squares."""
    return unscale


def unscale(grads: Sequence[Array], factor: Array, found_inf: Array) -> Array | None:
    """Multiply gradients in place, and return the sum of the squares of all their elements.

    Args:
        grads: contiguous floats of one dtype, on one device.
        factor: the number to multiply with: float32, shape (1,), in the GPU's memory.
        found_inf: becomes 1 if a product is inf or NaN: float32, shape (1,).

    Returns: float64, shape (), in the GPU's memory; None: other arrays than these.
    """
    first = grads[0]
    backend = backends.of(first)
    if not backend.kernels or first.dtype.name not in FLOATS:
        return None
    for grad in grads:
        if grad.__class__ is not first.__class__ or grad.dtype != first.dtype:
            return None
        if not grad.flags.c_contiguous or not grad.size:
            return None
    addresses = tuple([backend.address(grad) for grad in grads])
    sizes = tuple([grad.size for grad in grads])
    table = table_on_device(backend, addresses, sizes, first.dtype.itemsize)
    squares = backend.xp.empty((table.shape[0],), np.float64)
    arguments = (table, factor, found_inf, squares)
    launch(module_of(first.dtype), "unscale", table.shape[0], BLOCK, arguments)
    return squares.sum()
