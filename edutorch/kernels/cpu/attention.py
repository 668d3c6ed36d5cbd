"""Attention, tile by tile: the weights of a few queries at a time never leave the cache.

With NumPy the scores of all heads, (batch, heads, l, s), go through memory seven times: product,
mask, peak, difference, exp, sum, quotient. Here a head is taken in tiles of `TILE` queries. Their
scores are computed, turned into weights and used up while they are in the cache; with a causal
mask the part that is hidden anyway is not computed at all. The gradients compute the weights of
a tile again: cheaper than to have kept them.

q, k and v are read where they lie, also as heads of one wide matrix, and each result lies in
memory as its operand does: putting the heads side by side again then costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit

from ...nn.functional.scaled_dot_product_attention import order_in_memory
from .batched_matmul import INTEGERS, WHOLE, unbroken
from .blas import address
from .gemm_microkernel import TILED, combine, room_for
from .jit import ROW, compiled, wide
from .matmul import PRODUCTS_A_NUMBER
from .parallel import in_parts
from .row_reduce import dot, largest, total
from .vector_math import CONTRACTED, exp_below
from .work_queue import share_out

__all__ = ["attend", "attend_joint_vjp"]

TILE, LEAST_TILE = 64, 16
SMALL = 1_000_000
"""OpenBLAS multiplies matrices as they lie if that takes fewer products than this. Else it first
copies them to where it can read them faster, which for a few rows takes longer than it saves."""


@njit(**CONTRACTED)
def to_weights(scores, rows, columns, first, is_causal, scale):
    """Turn products into weights, row by row: softmax, and 0 for what comes after the query."""
    number = scores.dtype.type
    for r in range(rows):
        seen = min(columns, first + r + 1) if is_causal else columns
        row = scores[r * columns : r * columns + seen]
        for j in range(seen):
            row[j] *= scale
        peak = largest(row)
        for j in range(seen):
            row[j] = exp_below(row[j] - peak)
        share = number(1 / total(row))
        for j in range(seen):
            row[j] *= share
        scores[r * columns + seen : (r + 1) * columns] = number(0)


def forward(start, stop, at, scale, q, k, v, y, sizes):
    """Attend: some of the heads.

    Args:
        q, k, v, y: the addresses of each head's matrix.
        sizes: l, s, d, e, is_causal, how many queries at a time, and how far it is from row to
            row of q, k, v and y.
    """
    start, stop = share_out(start, stop)
    wide()
    length, keys, d, e, is_causal = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] != 0
    tile = sizes[5]
    size = scale.itemsize
    scores = np.empty(min(tile, length) * keys, scale.dtype)
    place, room = scores.ctypes.data, room_for(scores)
    for head in range(np.int64(start), np.int64(stop)):
        for first in range(0, length, tile):
            rows = min(tile, length - first)
            columns = min(keys, first + rows) if is_causal else keys
            queries = q[head] + first * sizes[6] * size
            combine(
                at, room, rows, columns, d, queries, sizes[6], 1, k[head], 1, sizes[7],
                place, columns, False,
            )  # fmt: skip
            to_weights(scores, rows, columns, first, is_causal, scale[0])
            combine(
                at, room, rows, e, columns, place, columns, 1, v[head], sizes[8], 1,
                y[head] + first * sizes[9] * size, sizes[9], False,
            )  # fmt: skip


@njit(**CONTRACTED)
def to_scores(weights, flow, rows, columns, scale):
    """Turn gradients of weights into those of scores: each loses what all of them share."""
    for r in range(rows):
        share, g = weights[r * columns : (r + 1) * columns], flow[r * columns : (r + 1) * columns]
        taken = weights.dtype.type(dot(share, g))
        for j in range(columns):
            g[j] = share[j] * (g[j] - taken) * scale


def backward(start, stop, at, scale, g, q, k, v, at_q, at_k, at_v, sizes):
    """The gradients of some of the heads. Arguments as above; the rows' steps are of all seven."""
    start, stop = share_out(start, stop)
    wide()
    length, keys, d, e, is_causal = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] != 0
    tile = sizes[5]
    size = scale.itemsize
    weights = np.empty(min(tile, length) * keys, scale.dtype)
    flow = np.empty_like(weights)
    share, back, room = weights.ctypes.data, flow.ctypes.data, room_for(weights)
    last = (length - 1) // tile * tile
    for head in range(np.int64(start), np.int64(stop)):
        for first in range(last, -1, -tile):  # from the last: with a mask it alone sees all keys
            rows = min(tile, length - first)
            columns = min(keys, first + rows) if is_causal else keys
            queries = q[head] + first * sizes[7] * size
            given = g[head] + first * sizes[6] * size
            more = first != last
            combine(
                at, room, rows, columns, d, queries, sizes[7], 1, k[head], 1, sizes[8],
                share, columns, False,
            )  # fmt: skip
            to_weights(weights, rows, columns, first, is_causal, scale[0])
            combine(
                at, room, columns, e, rows, share, 1, columns, given, sizes[6], 1,
                at_v[head], sizes[12], more,
            )  # fmt: skip
            combine(
                at, room, rows, columns, e, given, sizes[6], 1, v[head], 1, sizes[9],
                back, columns, False,
            )  # fmt: skip
            to_scores(weights, flow, rows, columns, scale[0])
            combine(
                at, room, rows, d, columns, back, columns, 1, k[head], sizes[8], 1,
                at_q[head] + first * sizes[10] * size, sizes[10], False,
            )  # fmt: skip
            combine(
                at, room, columns, d, rows, back, 1, columns, queries, sizes[7], 1,
                at_k[head], sizes[11], more,
            )  # fmt: skip


def places(x: Any) -> Any:
    """Return the address of each matrix of a batch."""
    return distances(x.shape[:-2], x.strides[:-2]) + x.__array_interface__["data"][0]


@lru_cache(1024)
def distances(shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """Return how many bytes each matrix of a batch is away from the first one."""
    found = np.array(0)
    for size, step in zip(shape, strides, strict=True):
        found = found[..., None] + np.arange(size) * step
    return found.reshape(-1)


def shaped_like(x: Any, shape: tuple[int, ...]) -> Any:
    """Return a new array whose axes lie in memory in the order in which those of `x` do."""
    order = order_in_memory(x)
    y = np.empty([shape[axis] for axis in order], x.dtype)
    return y.transpose([order.index(axis) for axis in range(x.ndim)])


def ready(*arrays: Any) -> list[Any] | None:
    """Return operands whose rows BLAS can read, or None for what the definition does."""
    kind = arrays[0].dtype
    if kind not in (np.float32, np.float64) or any(array.dtype != kind for array in arrays):
        return None
    if not all(array.size for array in arrays):
        return None
    return [array if unbroken(array) else np.ascontiguousarray(array) for array in arrays]


def run_by(kernel: Any, passes: int, scale: float, is_causal: bool, arrays: Any) -> None:
    """Let a kernel go through all heads; `arrays` are g (if there is one), q, k, v and results."""
    q, _, v = arrays[-6:-3] if len(arrays) == 7 else arrays[:3]
    kind, keys = q.dtype, v.shape[-2]
    steps = (array.strides[-2] // array.itemsize for array in arrays)
    d, e = q.shape[-1], v.shape[-1]
    tile = TILE
    if not TILED:
        tile = max(LEAST_TILE, min(TILE, SMALL // (keys * max(d, e)) // LEAST_TILE * LEAST_TILE))
    sizes = np.array([q.shape[-2], keys, d, e, is_causal, tile, *steps])
    heads = q.size // (q.shape[-2] * d)
    work = passes * heads * q.shape[-2] * keys * (d + e) // PRODUCTS_A_NUMBER
    found = (places(array) for array in arrays)
    in_parts(
        kernel, heads, address(kind), np.array([scale], kind), *found, sizes, work=work
    )  # fmt: skip


def attend() -> Callable[..., Any]:
    """Make `attend`: softmax(scale · q kᵀ) v."""
    kernel = compiled(forward, WHOLE, ROW, *[INTEGERS] * 5)

    def run(query: Any, key: Any, value: Any, scale: float, is_causal: bool = False) -> Any:
        arrays = ready(query, key, value)
        batches = {each.shape[:-2] for each in (query, key, value)}
        if arrays is None or len(batches) > 1 or address(query.dtype) is None:
            return None
        shape = (*query.shape[:-1], value.shape[-1])
        y = shaped_like(arrays[0], shape)
        run_by(kernel, 1, scale, is_causal, [*arrays, y])
        return y

    return run


def attend_joint_vjp() -> Callable[..., Any]:
    """Make the rule of `attend`: the gradients of query, key and value."""
    kernel = compiled(backward, WHOLE, ROW, *[INTEGERS] * 8)

    def run(g: Any, query: Any, key: Any, value: Any, scale: float, is_causal: bool) -> Any:
        arrays = ready(g, query, key, value)
        batches = {each.shape[:-2] for each in (g, query, key, value)}
        if arrays is None or len(batches) > 1 or address(query.dtype) is None:
            return None
        found = [shaped_like(array, array.shape) for array in arrays[1:]]
        if is_causal and key.shape[-2] > query.shape[-2]:  # keys that nobody sees
            for each in found[1:]:
                each[..., query.shape[-2] :, :] = 0
        run_by(kernel, 3, scale, is_causal, [*arrays, *found])
        return tuple(found)

    return run
