"""Attention: each query takes a weighted average of the values, in one head or in several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy import ndarray

from ... import backends
from ...backends.numpy import Array, Namespace
from ...core.precision import is_half, round_to, to_float32, widen
from ...core.tensor import Tensor
from ...dtypes import bool as boolean
from ...dtypes import float16, float32
from ...errors import DTypeError, ShapeError
from ...modes import current
from ...ops import (
    arange,
    cat,
    chunk,
    masked_fill,
    matmul,
    mean,
    repeat_interleave,
    reshape,
    softmax,
    squeeze,
    sum,
    transpose,
    unsqueeze,
    where,
    zeros,
    zeros_like,
)
from .dropout import dropout
from .linear import linear
from .op_decorators import ArrayOrTensor, SettingError, can_read, layer
from .padding import pad

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]

LOWEST_SCORE = -1e30
"""The score of a masked key: finite, since a row of -∞ alone would give NaN."""


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
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
    as_one_op = attn_mask is None and not dropout_p
    is_narrow = query._array.dtype.itemsize == 2 and is_half(query.dtype)
    if is_narrow and not (as_one_op and has_half_attention(query)):  # rounded at the end
        mask = attn_mask if attn_mask is None or attn_mask.dtype is boolean else widen(attn_mask)
        wide = widen(query), widen(key), widen(value), mask
        y = scaled_dot_product_attention(*wide, dropout_p, is_causal, scale, enable_gqa)
        return y.to(query.dtype)
    if enable_gqa:
        key = repeat_interleave(key, query.shape[-3] // key.shape[-3], -3)
        value = repeat_interleave(value, query.shape[-3] // value.shape[-3], -3)
    if scale is None:
        scale = 1 / math.sqrt((query._array if query.__class__ is Tensor else query).shape[-1])
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
    dtype, is_narrow = query.dtype, is_half(query.dtype)
    if is_narrow:  # rounded once, at the end
        query, key, value = map(to_float32, (query, key, value))
    y = matmul(attention_probs(query, key, scale, is_causal), value)
    y = round_to(y, dtype) if is_narrow else y
    if query.__class__ is ndarray and query.flags.c_contiguous:
        return y
    order = memory_order(query)
    if order == sorted(order):
        return y
    back = [order.index(axis) for axis in range(y.ndim)]
    return xp.ascontiguousarray(y.transpose(order)).transpose(back)


def memory_order(x: ArrayOrTensor) -> list[int]:
    """Return the axes in the order of their strides, for instance 0, 2, 1, 3 for split heads.

    The result of attention has the memory order of the query, so that concatenating the heads is a
    view.
    """
    strides = getattr(x, "strides", (0,) * x.ndim)
    return [*sorted(range(x.ndim - 1), key=lambda axis: -strides[axis]), x.ndim - 1]


def attention_probs(query: ArrayOrTensor, key: ArrayOrTensor, scale: float, is_causal: bool) -> Any:
    """The attention weights: (…, l, s), softmax(scale · q kᵀ)."""
    scores = matmul(query * scale, transpose(key, -2, -1))
    if is_causal:
        xp = backends.of(key._array if isinstance(key, Tensor) else key).xp
        future = xp.arange(key.shape[-2]) > xp.arange(query.shape[-2])[:, None]
        scores = where(future, -math.inf, scores)  # the first key is always visible
    return softmax(scores, -1)


def sdpa_backward(
    g: ArrayOrTensor, query: ArrayOrTensor, key: ArrayOrTensor, value: ArrayOrTensor, scale: float,
    is_causal: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """The gradients of query, key and value; the weights are recomputed, not saved."""
    g, query, key, value = map(widen, (g, query, key, value))
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


def has_half_attention(query: Tensor) -> bool:
    """Whether the device has attention for 16-bit floats, which adds up in float32."""
    return "attention_forward" in backends.of(query._array).half_products


def can_use_sdpa_op(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the fused op applies: equal batch axes, and no autocast."""
    batch = query._array.shape[:-2]
    same = key._array.shape[:-2] == batch == value._array.shape[:-2]
    if not same:  # (of a DTensor, the arrays are only parts)
        same = key.shape[:-2] == query.shape[:-2] == value.shape[:-2]
    return same and current().autocast is None


def check_arguments(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, gqa: bool
) -> None:
    q, k, v = query._array, key._array, value._array
    is_usual = mask is None and not gqa and q.dtype == k.dtype == v.dtype
    if (
        is_usual and q.ndim == k.ndim == v.ndim > 1
        and q.shape[-1] == k.shape[-1] and k.shape[:-1] == v.shape[:-1]
    ):  # fmt: skip
        return
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


# Several heads --------------------------------------------------------------------------------


NAME = "multi_head_attention_forward"
CAUSAL_HINT = "nn.Transformer.generate_square_subsequent_mask(length) makes one"


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None,
    bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
    out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None,
    need_weights: bool = True, attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None, static_v: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Multi-head attention, given the parameters. Returns output and attention weights.

    Project query, key and value; split the features into heads; attend in each; concatenate
    and project again. A query whose keys are all masked gets zeros, and weights of 0 (NaN in
    PyTorch).

    Args: as for `nn.MultiheadAttention`, with time before the batch: (l, n, e) or (l, e).

    Raises: ShapeError: shapes do not fit. DTypeError: an integer mask.

    >>> x, w = ones(3, 1, 2), eye(2)
    >>> y, weights = nn.functional.multi_head_attention_forward(
    ...     x, x, x, 2, 1, cat([w, w, w]), None, None, None, False, 0.0, w, None)
    >>> y.shape, weights.shape
    (torch.Size([3, 1, 2]), torch.Size([1, 3, 3]))
    """
    batched = check_shapes(query, key, value, embed_dim_to_check, num_heads)
    if not batched:
        query, key, value = (unsqueeze(x, 1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else unsqueeze(key_padding_mask, 0)
    shape = (query.shape[1], num_heads, query.shape[0], key.shape[0])
    if is_causal and attn_mask is None:
        raise ShapeError(NAME, "Need attn_mask if specifying the is_causal hint", {}, CAUSAL_HINT)
    is_causal_only = is_causal and key_padding_mask is None and not need_weights
    mask = None if is_causal_only else merge_masks(attn_mask, key_padding_mask, shape, query)
    weights = (q_proj_weight, k_proj_weight, v_proj_weight)
    packed = None if use_separate_proj_weight else in_proj_weight
    q, k, v = project_inputs((query, key, value), packed, weights, in_proj_bias)
    k, v, extra_keys = append_bias(k, v, bias_k, bias_v)
    q, k, v = (split_heads(x, num_heads) for x in (q, k, v))
    k = k if static_k is None else reshape_static(static_k, k.shape)
    v = v if static_v is None else reshape_static(static_v, v.shape)
    if add_zero_attn:
        zero_key = zeros(*k.shape[:2], 1, k.shape[3], dtype=k.dtype, device=k.device)
        k, v, extra_keys = cat([k, zero_key], 2), cat([v, zero_key], 2), extra_keys + 1
    if mask is not None and extra_keys:
        mask = pad(mask, (0, extra_keys))
    p = dropout_p if training else 0.0
    y, weights_out = compute_attention(q, k, v, mask, p, need_weights, is_causal_only)
    length, n, e = query.shape
    y = linear(reshape(y.permute(2, 0, 1, 3), (length, n, e)), out_proj_weight, out_proj_bias)
    if weights_out is not None and average_attn_weights:
        weights_out = mean(weights_out, 1)
    if batched:
        return y, weights_out
    return squeeze(y, 1), None if weights_out is None else squeeze(weights_out, 0)


def compute_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, need_weights: bool,
    is_causal: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attend in each head; return the weights only if they are needed."""
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal), None
    scores = matmul(q * q.shape[-1] ** -0.5, transpose(k, -2, -1))
    weights = dropout(attention_weights(scores, mask), dropout_p)
    return matmul(weights, v), weights


def project_inputs(
    inputs: Sequence[Tensor], packed: Tensor | None, weights: Sequence[Tensor | None],
    bias: Tensor | None,
) -> list[Tensor]:  # fmt: skip
    """Project query, key and value by a packed weight, or by three separate ones."""
    weight_per_input: Any = weights if packed is None else chunk(packed, 3)
    if any(weight is None for weight in weight_per_input):
        raise SettingError(NAME, "in_proj_weight, or the weights of q, k and v, are missing")
    bias_per_input: Any = (None,) * 3 if bias is None else chunk(bias, 3)
    return [
        linear(x, w, b) for x, w, b in zip(inputs, weight_per_input, bias_per_input, strict=True)
    ]


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Split the features into heads: (l, n, e) to (n, heads, l, e / heads)."""
    length, n, e = x.shape
    return reshape(x, (length, n, heads, e // heads)).permute(1, 2, 0, 3)


def append_bias(
    k: Tensor, v: Tensor, bias_k: Tensor | None, bias_v: Tensor | None
) -> tuple[Tensor, Tensor, int]:
    """Append the learned key and value, if any; also return how many were appended."""
    if bias_k is None or bias_v is None:
        return k, v, 0
    batch = k.shape[1]
    k, v = cat([k, bias_k.expand(1, batch, -1)]), cat([v, bias_v.expand(1, batch, -1)])
    return k, v, 1


def reshape_static(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Reshape static keys or values from (n · heads, s, d) to (n, heads, s, d)."""
    n, heads, _, features = shape
    if x.ndim != 3 or x.shape[0] != n * heads or x.shape[2] != features:
        raise ShapeError(
            NAME, f"expected static keys and values ({n * heads}, s, {features})",
            {"static": tuple(x.shape)},
        )  # fmt: skip
    return reshape(x, (n, heads, x.shape[1], features))


# Masks ----------------------------------------------------------------------------------------


def to_additive_mask(name: str, mask: Tensor, query: Tensor) -> Tensor:
    """Convert a mask, in which True hides, into one that is added to the scores: -∞ hides."""
    if mask.dtype is boolean:
        return masked_fill(zeros_like(mask, dtype=query.dtype), mask, float("-inf"))
    if not mask.is_floating_point():
        raise DTypeError(
            NAME, f"{name} must be bool or floating", {name: mask.dtype}, "mask.bool(): True hides"
        )
    return mask.to(query.dtype)


def merge_masks(
    mask: Tensor | None, padding: Tensor | None, shape: Sequence[int], query: Tensor
) -> Tensor | None:
    """Merge both masks into one that is added to scores of (n, heads, l, s).

    Raises: ShapeError: one of them does not fit.
    """
    n, heads, length, keys = shape
    if mask is not None:
        if tuple(mask.shape) not in ((length, keys), (n * heads, length, keys)):
            raise ShapeError(
                NAME, f"attn_mask should be ({length}, {keys}) or ({n * heads}, {length}, {keys})",
                {"attn_mask": tuple(mask.shape)},
            )  # fmt: skip
        first = (n, heads) if mask.ndim == 3 else (1, 1)
        mask = reshape(to_additive_mask("attn_mask", mask, query), (*first, length, keys))
    if padding is None:
        return mask
    if tuple(padding.shape) != (n, keys):
        raise ShapeError(
            NAME, f"key_padding_mask should be ({n}, {keys})",
            {"key_padding_mask": tuple(padding.shape)},
        )  # fmt: skip
    hidden = reshape(to_additive_mask("key_padding_mask", padding, query), (n, 1, 1, keys))
    return hidden if mask is None else mask + hidden


def check_shapes(query: Tensor, key: Tensor, value: Tensor, embed_dim: int, heads: int) -> bool:
    """Check the shapes; return True if there is a batch axis.

    Raises: ShapeError: query, key, value and the number of heads do not fit.
    """
    shapes = {"query": tuple(query.shape), "key": tuple(key.shape), "value": tuple(value.shape)}
    if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
        raise ShapeError(NAME, "expected (l n e) or, without a batch, (l e), three times", shapes)
    if query.shape[-1] != embed_dim:
        raise ShapeError(
            NAME, f"was expecting embedding dimension of {embed_dim}, got {query.shape[-1]}", shapes
        )
    if embed_dim % heads:
        raise ShapeError(NAME, f"embed_dim {embed_dim} is not divisible by num_heads {heads}")
    if key.shape[:-1] != value.shape[:-1] or query.shape[1:-1] != key.shape[1:-1]:
        raise ShapeError(
            NAME, "key and value should be equally long, and all of the same batch", shapes,
            "with batch_first=True the batch comes first: (n l e)",
        )  # fmt: skip
    return query.ndim == 3
