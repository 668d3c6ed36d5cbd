"""Scaled dot-product attention in tiles of queries: the attention weights never leave the cache.

With NumPy the scores of all heads, (batch, heads, l, s), go through memory seven times: product,
mask, maximum, difference, exp, sum, quotient. Here a head is processed in tiles of up to
`MAX_TILE` queries. Their scores are computed, turned into weights and multiplied with the values
while they are in the cache; with a causal mask, keys after a tile's last query are left out. kᵀ is
packed once for all tiles of a head. The gradients recompute the weights of a tile: that is cheaper
than storing them.

q, k and v are read in their own layouts, also as heads of one wide matrix, and each result has the
memory layout of its operand: concatenating the heads again then costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ...backends.addresses import address_of
from ...backends.numpy import Array
from ...nn.functional import attention
from ...nn.functional.attention import memory_order
from .gemm_microkernel import (
    MAX_TILE_VECTORS,
    TILES_ARE_FASTER,
    gemm_address,
    matmul_into,
    pack_panel,
    panel_width,
    workspace_for,
)
from .implicit_gemm import BYTES
from .jit import ARRAY_1D, INT64, INT64_1D, INT64_2D, TUPLE, compile_kernel, use_wide_vectors
from .matmul import PRODUCTS_PER_ELEMENT, has_contiguous_rows
from .parallel import parallel_for
from .row_reduce import dot, max_or_any, total
from .vector_math import CONTRACTED, exp_nonpositive
from .work_queue import claim_range

__all__ = ["attention_forward", "attention_forward_joint_vjp"]

# A larger tile would read k and v less often, but its scores would leave the cache. With a causal
# mask a smaller one computes fewer scores that are masked.
MAX_TILE, CAUSAL_TILE, MIN_TILE = 64, 32, 16
OPENBLAS_SMALL = 1_000_000
"""With fewer multiplications than this, OpenBLAS multiplies without packing the matrices, which
for a few rows would take longer than it saves."""


@njit
def padded(keys, size):
    """Return the length of a row of scores: that of the keys, rounded up to whole panels."""
    width = panel_width(size)
    return (keys + width - 1) // width * width


@njit
def panel_vectors(columns, lane):
    """Return how many vectors a panel for so many columns has: 1, 2 or `MAX_TILE_VECTORS`."""
    vectors = min(MAX_TILE_VECTORS, (columns + lane - 1) // lane)
    return 4 if vectors == 3 else vectors


@njit
def pack_transposed(workspace, keys, d, rows, panels):
    """Pack xᵀ for `multiply_transposed`, once for all tiles of a head; BLAS reads x itself.

    Args:
        rows: x, of `keys` rows and d columns, as ROWS; panels: the address of the copy.
    """
    if not TILES_ARE_FASTER:
        return
    (x, x_row), size = rows, workspace.itemsize
    width, lane = panel_width(size), BYTES // size
    for first in range(0, keys, width):
        pack_panel(
            workspace, (x + first * x_row * size, 1, x_row), d, min(width, keys - first),
            lane, panel_vectors(keys - first, lane), panels + first * d * size,
        )  # fmt: skip


@njit
def multiply_transposed(blas_address, workspace, shape, left, keys, rows, panels, result_rows):
    """y = a xᵀ for the first rows of x, which `pack_transposed` has packed.

    Columns of y up to the next 1, 2 or 4 whole vectors are written, too.
    """
    (m, n, d), (x, x_row), (y, y_row) = shape, rows, result_rows
    if not TILES_ARE_FASTER:
        matmul_into(blas_address, workspace, shape, left, (x, 1, x_row), result_rows, False)
        return
    size = workspace.itemsize
    width, lane = panel_width(size), BYTES // size
    for first in range(0, n, width):
        # Whole vectors: then `multiply` reads the panel as it is.
        columns, panel_row = (
            panel_vectors(n - first, lane) * lane,
            panel_vectors(keys - first, lane) * lane,
        )
        panel = (panels + first * d * size, panel_row, 1)
        target = (y + first * size, y_row)
        matmul_into(blas_address, workspace, (m, columns, d), left, panel, target, False)


@njit(**CONTRACTED)
def scores_to_weights(scores, rows, columns, stride, first, is_causal, scale):
    """Turn scores into attention weights in place: softmax by row, 0 for masked keys."""
    dtype = scores.dtype.type
    for r in range(rows):
        # At least one key is visible, so the sum below is never 0.
        visible = min(columns, first + r + 1) if is_causal else columns
        row = scores[r * stride : r * stride + visible]
        for j in range(visible):
            # The definition scales q; here that would need a copy of q.
            row[j] *= scale
        # Without subtracting the maximum, exp overflows in float32 from a score of 89 on.
        peak = max_or_any(row)
        for j in range(visible):
            row[j] = exp_nonpositive(row[j] - peak)
        # One division per row. `total` is a float64: the cast keeps the loop below in float32.
        inverse_sum = dtype(1 / total(row))
        for j in range(visible):
            row[j] *= inverse_sum
        # The next product reads whole rows; and 0 is what a masked key contributes.
        scores[r * stride + visible : r * stride + columns] = dtype(0)


def forward(start, stop, blas_address, scale, addresses, offsets, sizes):
    """Compute the attention of some heads.

    Args:
        addresses: of q, k, v and y.
        offsets: for each of them a row, how far each head's matrix is from the first one.
        sizes: l, s, d, e, is_causal, the queries of a tile, and the row strides of q, k, v and y.
    """
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    q, k, v, y = addresses
    length, keys, d, e, is_causal = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] != 0
    tile_rows = sizes[5]
    size = scale.itemsize
    scores = np.empty(min(tile_rows, length) * padded(keys, size), scale.dtype)
    scores_address, workspace = scores.ctypes.data, workspace_for(scores)
    k_panels = np.empty(d * padded(keys, size), scale.dtype)
    for head in range(np.int64(start), np.int64(stop)):
        q_at, k_at, v_at = q + offsets[0, head], k + offsets[1, head], v + offsets[2, head]
        y_at = y + offsets[3, head]
        pack_transposed(workspace, keys, d, (k_at, sizes[7]), k_panels.ctypes.data)
        for first in range(0, length, tile_rows):
            rows = min(tile_rows, length - first)
            # Keys after the last query of the tile are not computed at all.
            columns = min(keys, first + rows) if is_causal else keys
            stride = padded(columns, size)
            queries = q_at + first * sizes[6] * size
            multiply_transposed(
                blas_address, workspace, (rows, columns, d), (queries, sizes[6], 1), keys,
                (k_at, sizes[7]), k_panels.ctypes.data, (scores_address, stride),
            )  # fmt: skip
            scores_to_weights(scores, rows, columns, stride, first, is_causal, scale[0])
            matmul_into(
                blas_address, workspace, (rows, e, columns), (scores_address, stride, 1),
                (v_at, sizes[8], 1), (y_at + first * sizes[9] * size, sizes[9]), False,
            )  # fmt: skip


@njit(**CONTRACTED)
def weight_gradients_to_score_gradients(weights, grad_scores, rows, columns, stride, scale):
    """Turn gradients of attention weights into those of scores, in place: softmax's derivative."""
    for r in range(rows):
        weight_row, gradient_row = (
            weights[r * stride : r * stride + columns],
            grad_scores[r * stride : r * stride + columns],
        )
        weighted_sum = weights.dtype.type(dot(weight_row, gradient_row))
        for j in range(columns):
            # For a masked key the weight, and so the gradient of the score, is 0 without a test.
            gradient_row[j] = weight_row[j] * (gradient_row[j] - weighted_sum) * scale


def backward(start, stop, blas_address, scale, addresses, offsets, sizes):
    """Compute the gradients of some heads. Arguments as above, with all seven arrays."""
    start, stop = claim_range(start, stop)
    use_wide_vectors()
    g, q, k, v, grad_q, grad_k, grad_v = addresses
    length, keys, d, e, is_causal = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] != 0
    tile_rows = sizes[5]
    size = scale.itemsize
    weights = np.empty(min(tile_rows, length) * padded(keys, size), scale.dtype)
    grad_scores = np.empty_like(weights)
    weights_address, grad_scores_address, workspace = (
        weights.ctypes.data,
        grad_scores.ctypes.data,
        workspace_for(weights),
    )
    k_panels, v_panels = (
        np.empty(d * padded(keys, size), scale.dtype),
        np.empty(e * padded(keys, size), scale.dtype),
    )
    # A thread runs all tiles of a head, because all of them add to the same grad_k and grad_v.
    last = (length - 1) // tile_rows * tile_rows
    for head in range(np.int64(start), np.int64(stop)):
        q_at, k_at, v_at = q + offsets[1, head], k + offsets[2, head], v + offsets[3, head]
        grad_q_at, grad_k_at = grad_q + offsets[4, head], grad_k + offsets[5, head]
        g_at, grad_v_at = g + offsets[0, head], grad_v + offsets[6, head]
        pack_transposed(workspace, keys, d, (k_at, sizes[8]), k_panels.ctypes.data)
        pack_transposed(workspace, keys, e, (v_at, sizes[9]), v_panels.ctypes.data)
        for first in range(
            last, -1, -tile_rows
        ):  # from the last tile: only it covers all keys with a mask
            rows = min(tile_rows, length - first)
            columns = min(keys, first + rows) if is_causal else keys
            stride = padded(columns, size)
            queries = q_at + first * sizes[7] * size
            grad_output = g_at + first * sizes[6] * size
            # The first tile that is run overwrites grad_k and grad_v, which are not initialized.
            accumulate = first != last
            multiply_transposed(
                blas_address, workspace, (rows, columns, d), (queries, sizes[7], 1), keys,
                (k_at, sizes[8]), k_panels.ctypes.data, (weights_address, stride),
            )  # fmt: skip
            scores_to_weights(weights, rows, columns, stride, first, is_causal, scale[0])
            matmul_into(
                blas_address, workspace, (columns, e, rows), (weights_address, 1, stride),
                (grad_output, sizes[6], 1), (grad_v_at, sizes[12]), accumulate,
            )  # fmt: skip
            multiply_transposed(
                blas_address, workspace, (rows, columns, e), (grad_output, sizes[6], 1), keys,
                (v_at, sizes[9]), v_panels.ctypes.data, (grad_scores_address, stride),
            )  # fmt: skip
            weight_gradients_to_score_gradients(
                weights, grad_scores, rows, columns, stride, scale[0]
            )
            matmul_into(
                blas_address, workspace, (rows, d, columns), (grad_scores_address, stride, 1),
                (k_at, sizes[8], 1), (grad_q_at + first * sizes[10] * size, sizes[10]), False,
            )  # fmt: skip
            matmul_into(
                blas_address, workspace, (columns, d, rows), (grad_scores_address, 1, stride),
                (queries, sizes[7], 1), (grad_k_at, sizes[11]), accumulate,
            )  # fmt: skip


def matrix_offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Return the distance in bytes of each matrix of a batch from the first one."""
    # A table, since several batch axes, as heads within samples, may have no common step.
    offsets = np.array(0)
    for size, step in zip(shape, strides, strict=True):
        offsets = offsets[..., None] + np.arange(size) * step
    return offsets.reshape(-1)


def empty_in_order_of(x: Array, shape: tuple[int, ...]) -> Any:
    """Return an uninitialized array whose axes have the same order in memory as those of `x`."""
    if x.flags.c_contiguous:
        return np.empty(shape, x.dtype)
    order = memory_order(x)
    y = np.empty([shape[axis] for axis in order], x.dtype)
    return y.transpose([order.index(axis) for axis in range(x.ndim)])


def prepare_operands(*arrays: Array) -> list[Any] | None:
    """Return operands whose rows BLAS can read, or None for what is left to the definition."""
    dtype = arrays[0].dtype
    if dtype.char not in "fd":
        return None
    for array in arrays:
        if array.dtype != dtype or not array.size:
            return None
    return [
        array if has_contiguous_rows(array) else np.ascontiguousarray(array) for array in arrays
    ]


class HeadPlan(NamedTuple):
    """What a kernel is told about the shapes and strides of its operands.

    Attributes:
        scale: in an array of the operands' dtype.
        offsets, sizes: see `forward`.
        heads: how many there are.
        products: how many multiplications the forward takes.
        shape: of the last operand, in a forward the result.
        blas_address: of the product in BLAS.
    """

    scale: np.ndarray
    offsets: np.ndarray
    sizes: np.ndarray
    heads: int
    products: int
    shape: tuple[int, ...]
    blas_address: int | None


Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""The shape and the strides of an array."""


@lru_cache(256)  # the same in each training step
def plan_heads(
    dtype: np.dtype, scale: float, is_causal: bool, layouts: tuple[Layout, ...]
) -> HeadPlan:
    """Return the plan for g (for gradients), q, k, v and the results, of these layouts."""
    (shape, _), _, (value_shape, _) = layouts[-6:-3] if len(layouts) == 7 else layouts[:3]
    (length, d), (keys, e) = shape[-2:], value_shape[-2:]
    tile = CAUSAL_TILE if is_causal else MAX_TILE
    if not TILES_ARE_FASTER:
        tile = max(
            MIN_TILE, min(MAX_TILE, OPENBLAS_SMALL // (keys * max(d, e)) // MIN_TILE * MIN_TILE)
        )
    steps = (strides[-2] // dtype.itemsize for _, strides in layouts)
    heads = math.prod(shape[:-2])
    return HeadPlan(
        np.array([scale], dtype),
        np.array([matrix_offsets(shape[:-2], strides[:-2]) for shape, strides in layouts]),
        np.array([length, keys, d, e, is_causal, tile, *steps]),
        heads,
        heads * length * keys * (d + e),
        layouts[-1][0],
        gemm_address(dtype),
    )


@lru_cache(256)
def plan_contiguous(
    dtype: np.dtype, scale: float, is_causal: bool, *shapes: tuple[int, ...]
) -> HeadPlan | None:
    """Return the plan of the forward for contiguous q, k and v; None: the definition runs."""
    query, key, value = (np.empty(shape, dtype) for shape in shapes)
    batches = {shape[:-2] for shape in shapes}
    if prepare_operands(query, key, value) is None or len(batches) > 1:
        return None
    if gemm_address(dtype) is None:
        return None
    y = np.empty((*query.shape[:-1], value.shape[-1]), dtype)
    arrays = query, key, value, y
    return plan_heads(dtype, scale, is_causal, tuple((x.shape, x.strides) for x in arrays))


def run_kernel(
    kernel: Callable[..., None], passes: int, scale: float, is_causal: bool, arrays: Sequence[Array]
) -> None:
    """Run a kernel over all heads; `arrays` are g (for gradients), q, k, v and the results."""
    dtype, layouts = arrays[0].dtype, tuple([(array.shape, array.strides) for array in arrays])
    plan = plan_heads(dtype, scale, is_causal, layouts)
    parallel_for(
        kernel, plan.heads, plan.blas_address, plan.scale, tuple(map(address_of, arrays)),
        plan.offsets, plan.sizes, work=passes * plan.products // PRODUCTS_PER_ELEMENT,
    )  # fmt: skip


@attention.attention_forward.kernel("cpu", min_size=1024)
def attention_forward() -> Callable[..., Any]:
    """Make `attend`: softmax(scale · q kᵀ) v."""
    kernel = compile_kernel(forward, INT64, ARRAY_1D, TUPLE(*[INT64] * 4), INT64_2D, INT64_1D)

    def run(query: Array, key: Array, value: Array, scale: float, is_causal: bool = False) -> Any:
        if query.flags.c_contiguous and key.flags.c_contiguous and value.flags.c_contiguous:
            dtype = query.dtype
            if not dtype is key.dtype is value.dtype:
                return None
            plan = plan_contiguous(dtype, scale, is_causal, query.shape, key.shape, value.shape)
            if plan is None:
                return None
            y = np.empty(plan.shape, dtype)
            addresses = address_of(query), address_of(key), address_of(value), address_of(y)
            parallel_for(
                kernel, plan.heads, plan.blas_address, plan.scale, addresses, plan.offsets,
                plan.sizes, work=plan.products // PRODUCTS_PER_ELEMENT,
            )  # fmt: skip
            return y
        arrays = prepare_operands(query, key, value)
        # Batch axes that have to be broadcast are left to the definition.
        batch = query.shape[:-2]
        if arrays is None or gemm_address(query.dtype) is None:
            return None
        if batch != key.shape[:-2] or batch != value.shape[:-2]:
            return None
        shape = (*query.shape[:-1], value.shape[-1])
        y = empty_in_order_of(arrays[0], shape)
        run_kernel(kernel, 1, scale, is_causal, [*arrays, y])
        return y

    return run


@attention.attention_forward.kernel("cpu", "joint_vjp", min_size=1024)
def attention_forward_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `attend`: the gradients of query, key and value."""
    kernel = compile_kernel(backward, INT64, ARRAY_1D, TUPLE(*[INT64] * 7), INT64_2D, INT64_1D)

    def run(g: Array, query: Array, key: Array, value: Array, scale: float, is_causal: bool) -> Any:
        arrays = prepare_operands(g, query, key, value)
        batches = {gradient.shape[:-2] for gradient in (g, query, key, value)}
        if arrays is None or len(batches) > 1 or gemm_address(query.dtype) is None:
            return None
        gradients = [empty_in_order_of(array, array.shape) for array in arrays[1:]]
        if is_causal and key.shape[-2] > query.shape[-2]:  # keys that no query attends to
            for gradient in gradients[1:]:
                gradient[..., query.shape[-2] :, :] = 0
        run_kernel(kernel, 3, scale, is_causal, [*arrays, *gradients])
        return tuple(gradients)

    return run
