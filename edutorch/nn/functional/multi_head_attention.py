"""Multi-head attention as a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.tensor import Tensor
from ...dtypes import bool as boolean
from ...errors import DTypeError, ShapeError
from ...ops import (
    cat,
    chunk,
    masked_fill,
    matmul,
    mean,
    reshape,
    squeeze,
    transpose,
    unsqueeze,
    zeros,
    zeros_like,
)  # fmt: skip
from .dot_product_attention import attention_weights, scaled_dot_product_attention
from .dropout import dropout
from .linear import linear
from .op_decorators import SettingError
from .padding import pad

__all__ = ["multi_head_attention_forward"]

NAME = "multi_head_attention_forward"
CAUSAL_HINT = "nn.Transformer.generate_square_subsequent_mask(length) makes one"


def multi_head_attention_forward(
    query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int,
    in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None,
    bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor,
    out_proj_bias: Tensor | None, training: bool = True,
    key_padding_mask: Tensor | None = None, need_weights: bool = True,
    attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None, static_k: Tensor | None = None,
    static_v: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
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


# Masks ---------------------------------------------------------------------------------------


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
