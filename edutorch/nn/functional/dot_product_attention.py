"""Scaled dot-product attention: each query takes a weighted average of the values."""

from __future__ import annotations

import math
from typing import Any

from ... import backends
from ...backends.numpy import Array, Namespace
from ...core.precision import is_half, widen
from ...core.tensor import Tensor
from ...dtypes import bool as boolean
from ...dtypes import float16, float32
from ...errors import DTypeError, ShapeError
from ...modes import current
from ...ops import (
    arange,
    masked_fill,
    matmul,
    repeat_interleave,
    softmax,
    sum,
    transpose,
    where,
)  # fmt: skip
from .dropout import dropout
from .op_decorators import can_read, layer

__all__ = ["scaled_dot_product_attention"]

LOWEST_SCORE = -1e30
"""The score of a masked key: finite, since a row of -∞ alone would give NaN."""


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Scaled dot-product attention: softmax(q kᵀ / √d) v.

    Args:
        query, key, value: (…, l, d), (…, s, d) and (…, s, v).
        attn_mask: (…, l, s): False hides a key; a floating mask, of the dtype of the query or
            float32, is added to the scores.
        dropout_p: the dropout probability of the weights (always applied: pass 0 in evaluation).
        is_causal: hide keys after the query.
        scale: the factor of the scores, instead of 1 / √d.
        enable_gqa: grouped-query attention: several query heads share a key and value head.

    Raises: ShapeError: the shapes do not fit, or both a mask and `is_causal`. DTypeError: an
        integer mask, or different dtypes of query, key and value.

    A query whose keys are all hidden gets zeros and a gradient of 0: also with `is_causal`, dropout
    and a mask of -∞, where PyTorch's kernels differ and some give NaN.

    Paper: Vaswani et al., Attention is all you need, 2017.

    >>> q = zeros(1, 2, 1)
    >>> nn.functional.scaled_dot_product_attention(q, q, tensor([[[1.0], [3.0]]]), is_causal=True)
    tensor([[[1.],
             [2.]]])
    """
    check_arguments(query, key, value, attn_mask, is_causal, enable_gqa)
    if is_half(query.dtype):  # rounded once, at the end
        mask = attn_mask if attn_mask is None or attn_mask.dtype is boolean else widen(attn_mask)
        wide = widen(query), widen(key), widen(value), mask
        y = scaled_dot_product_attention(*wide, dropout_p, is_causal, scale, enable_gqa)
        return y.to(query.dtype)
    if enable_gqa:
        key = repeat_interleave(key, query.shape[-3] // key.shape[-3], -3)
        value = repeat_interleave(value, query.shape[-3] // value.shape[-3], -3)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    if attn_mask is None and not dropout_p and can_use_sdpa_op(query, key, value):
        return attention_forward(query, key, value, scale, is_causal)
    scores = matmul(query * scale, transpose(key, -2, -1))
    if is_causal:
        attn_mask = causal_mask(query.shape[-2], key.shape[-2], query)
    return matmul(dropout(attention_weights(scores, attn_mask), dropout_p), value)


@layer(
    "... l d, ... s d, ... s v -> ... l v",
    dtypes="f",
    public="scaled_dot_product_attention",
    node="ScaledDotProductFlashAttentionForCpuBackward0",
)
def attention_forward(
    xp: Namespace, query: Array, key: Array, value: Array, scale: float, is_causal: bool = False
) -> Array:
    """Attention without mask and dropout as one op: softmax(scale · q kᵀ) v."""
    y = matmul(attention_probs(query, key, scale, is_causal), value)
    order = memory_order(query)
    if order == sorted(order):
        return y
    back = [order.index(axis) for axis in range(y.ndim)]
    return xp.ascontiguousarray(y.transpose(order)).transpose(back)


def memory_order(x: Any) -> list[int]:
    """Return the axes in the order of their strides, for instance 0, 2, 1, 3 for split heads.

    The result of attention has the memory order of the query, so that concatenating the heads is a
    view.
    """
    strides = getattr(x, "strides", (0,) * x.ndim)
    return [*sorted(range(x.ndim - 1), key=lambda axis: -strides[axis]), x.ndim - 1]


def attention_probs(query: Any, key: Any, scale: float, is_causal: bool) -> Any:
    """The attention weights: (…, l, s), softmax(scale · q kᵀ)."""
    scores = matmul(query * scale, transpose(key, -2, -1))
    if is_causal:
        xp = backends.of(key._array if isinstance(key, Tensor) else key).xp
        future = xp.arange(key.shape[-2]) > xp.arange(query.shape[-2])[:, None]
        scores = where(future, -math.inf, scores)  # the first key is always visible
    return softmax(scores, -1)


def sdpa_backward(
    g: Any, query: Any, key: Any, value: Any, scale: float, is_causal: bool
) -> tuple[Any, Any, Any]:
    """The gradients of query, key and value; the weights are recomputed, not saved."""
    weights = attention_probs(query, key, scale, is_causal)
    grad_weights = matmul(g, transpose(value, -2, -1))
    weighted_sum = sum(weights * grad_weights, -1, True)
    grad_scores = weights * (grad_weights - weighted_sum) * scale
    return (
        matmul(grad_scores, key),
        matmul(transpose(grad_scores, -2, -1), query),
        matmul(transpose(weights, -2, -1), g),
    )


attention_forward.vjp(
    joint_vjp=sdpa_backward,
    latex={
        "query": r"\text{through the weights, to each key}",
        "key": r"\text{through the weights, to each query}",
        "value": r"\text{as much as was taken of it}",
    },
)


def can_use_sdpa_op(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the fused op applies: equal batch axes, and no autocast."""
    batch = query.shape[:-2]
    return key.shape[:-2] == batch == value.shape[:-2] and current().autocast is None


def check_arguments(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, gqa: bool
) -> None:
    op = "scaled_dot_product_attention"
    tensors = {"query": query, "key": key, "value": value}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len({name.dtype for name in tensors.values()}) > 1:
        dtypes = {name: tensor.dtype for name, tensor in tensors.items()}
        raise DTypeError(op, "expected query, key and value to have the same dtype", dtypes)
    if min(name.ndim for name in tensors.values()) < 2:
        raise ShapeError(op, "query, key and value need at least 2 axes", shapes)
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            op, "expected (… l d), (… s d) and (… s v)", shapes,
            "query and key share their features, key and value their length",
        )  # fmt: skip
    if gqa and (query.ndim < 3 or any(query.shape[-3] % name.shape[-3] for name in (key, value))):
        raise ShapeError(op, "the heads of the query cannot be shared out evenly", shapes)
    if mask is None:
        return
    if is_causal:
        raise ShapeError(
            op, "Explicit attn_mask should not be set when is_causal=True",
            {"attn_mask": tuple(mask.shape)},
        )  # fmt: skip
    if mask.dtype not in (boolean, float32, query.dtype):
        raise DTypeError(
            op, "expected attn_mask to be bool, float32 or of the type of the query",
            {"attn_mask": mask.dtype, "query": query.dtype}, "mask.bool(): True may be seen",
        )  # fmt: skip


def causal_mask(queries: int, keys: int, like: Tensor) -> Tensor:
    """The causal mask: position i sees the keys 0 … i."""
    rows = arange(queries, device=like.device).unsqueeze(1)
    return arange(keys, device=like.device) <= rows


def attention_weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax of the scores over the visible keys.

    Hidden keys get a very low finite score rather than -∞, with which a row without visible keys
    would be 0 / 0, and its gradient too.
    """
    if mask is None:
        return softmax(scores, -1)
    is_bool = mask.dtype is boolean
    if has_visible_keys(mask):  # then -∞ gives a weight of 0, not NaN
        scores = masked_fill(scores, ~mask, -math.inf) if is_bool else scores + mask
        return softmax(scores, -1)
    if is_bool:
        hidden = ~mask
    else:
        hidden = mask == -math.inf
        scores = scores + masked_fill(mask, hidden, 0.0)
    lowest = -65504.0 if scores.dtype is float16 else LOWEST_SCORE
    return masked_fill(softmax(masked_fill(scores, hidden, lowest), -1), hidden, 0.0)


def has_visible_keys(mask: Tensor) -> bool:
    """Whether each query is known to have a visible key."""
    if not can_read(mask):
        return False
    array = mask._array
    visible = array if mask.dtype is boolean else array != -math.inf
    return bool(visible.any(-1).all()) if array.ndim else bool(visible)
