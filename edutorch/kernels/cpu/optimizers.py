"""A whole step of an optimizer in one pass over the elements of all parameters.

The rules in `optim/` go through the memory once for each operation, and through Python once for
each parameter. Here all operations are applied to an element while it is in a register, in the same
order and with the same rounding: nothing is contracted or reordered, so the result is the same bit
for bit. A vector square root or division of 16 elements costs as much as a scalar one.

What is done with an element comes from the optimizer's own rule (`optim/fused.py`); this file puts
the loops around it. A kernel gets a range of the elements of all parameters, the index at which
each tensor ends in this numbering, the addresses of (parameter, gradient, state …) for each tensor,
and the scalars of this step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, njit, types

from ... import optim
from ...optim import fused
from ..disk_cache import import_source, source_stamp
from .jit import pointer
from .parallel import parallel_for

__all__ = ["compile_step", "fused_step", "step_count", "tensor_of", "tensor_slices"]

TEXT = '''\
"""The step of an optimizer, which edutorch has written: see `edutorch/optim/fused.py`."""

import numpy as np

from edutorch.kernels.cpu.optimizers import compile_step, tensor_of, tensor_slices
from edutorch.kernels.cpu.work_queue import claim_range


@compile_step
def kernel(start, stop, ends, table, settings):
    start, stop = claim_range(start, stop)
    {scalars}
    tensor = tensor_of(start, ends)
    while start < stop:
        count, params, grads, {columns} = tensor_slices(tensor, start, stop, ends, table, settings)
        for i in range(count):
            {lines}
        start += count
        tensor += 1
'''

STATE_ARRAYS = 3
"""The arrays that a state may have."""


@optim.Adadelta.fused_kernel.kernel("cpu")
@optim.Adagrad.fused_kernel.kernel("cpu")
@optim.Adam.fused_kernel.kernel("cpu")
@optim.AdamW.fused_kernel.kernel("cpu")
@optim.Adamax.fused_kernel.kernel("cpu")
@optim.ASGD.fused_kernel.kernel("cpu")
@optim.NAdam.fused_kernel.kernel("cpu")
@optim.RAdam.fused_kernel.kernel("cpu")
@optim.RMSprop.fused_kernel.kernel("cpu")
@optim.Rprop.fused_kernel.kernel("cpu")
@optim.SGD.fused_kernel.kernel("cpu")
def fused_step(source: fused.KernelSource) -> Callable[..., None]:
    """Make the kernel of an optimizer's rule from what it does with one element."""
    columns, scalars, lines = source
    unused = [f"unused{index}" for index in range(STATE_ARRAYS - len(columns))]
    text = TEXT.format(
        scalars="".join(f"s{index}, " for index in range(scalars)) + "= settings"
        if scalars
        else "",
        columns=", ".join([*(f"{name}s" for name in columns), *unused]),
        lines="\n            ".join(lines),
    )
    kernel = import_source(text, source_stamp(__file__).encode()).kernel

    def run(count: int, ends: Any, table: Any, settings: Any) -> None:
        parallel_for(kernel, count, ends, table, settings)

    return run


def compile_step(kernel: Callable[..., None]) -> Any:
    """Compile a kernel for float32 and float64."""
    index_type = types.uint64
    # No fastmath: an FMA rounds once where the rule rounds twice, and the results would differ.
    return njit(
        [
            types.void(index_type, index_type, index_type[::1], types.int64[:, ::1], dtype[::1])
            for dtype in (types.float32, types.float64)
        ],
        cache=True, nogil=True, error_model="numpy",
    )(kernel)  # fmt: skip


# The table of pointers -------------------------------------------------------------------------


@njit
def tensor_of(element, ends):
    """Return the index of the tensor that holds an element, numbered through all tensors."""
    # A search for the first element of a part; from there on the kernel counts tensors itself.
    tensor = 0
    while element >= ends[tensor]:
        tensor += 1
    return tensor


@njit
def elements_of(address, first, count, like):
    """Return some elements of a tensor as an array; an address of 0 stands for no tensor."""
    if address != 0:
        address += first * like.itemsize
    return carray(pointer(address, like), (count,))


@njit
def tensor_slices(tensor, start, stop, ends, table, settings):
    """Return the number of a tensor's elements in the range, and these elements of its arrays."""
    # np.uint64: from a uint64 and an int64 in two branches, numba makes a float64.
    begin = ends[tensor - 1] if tensor > 0 else np.uint64(0)
    first = start - begin
    count = min(stop, ends[tensor]) - start
    return (
        # All five columns, for any rule: those that it does not use are never indexed.
        count, elements_of(table[tensor, 0], first, count, settings),
        elements_of(table[tensor, 1], first, count, settings),
        elements_of(table[tensor, 2], first, count, settings),
        elements_of(table[tensor, 3], first, count, settings),
        elements_of(table[tensor, 4], first, count, settings),
    )  # fmt: skip


def add_to_counts(addresses, step, like):
    """Add a step to each of these counts; return the count if it is the same for all, or -1."""
    is_uniform = True
    total = carray(pointer(addresses[0], like), (1,))[0] + step
    for address in addresses:
        value = carray(pointer(address, like), (1,))
        value[0] += step
        is_uniform = is_uniform and value[0] == total
    return float(total) if is_uniform else -1.0


@fused.STEP_COUNT.kernel("cpu")
def step_count() -> Any:
    """Make the kernel that increments the step counts of all parameters."""
    signatures = [
        types.float64(types.int64[::1], types.float64, dtype[::1])
        for dtype in (types.float32, types.float64)
    ]
    return njit(signatures, cache=True, error_model="numpy")(add_to_counts)
