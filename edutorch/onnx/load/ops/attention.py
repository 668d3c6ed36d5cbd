"""Attention, and the rotary embedding of positions."""

from __future__ import annotations

from typing import Any

from ...dtypes import from_onnx
from ..table import onnx_op
from ..values import F, NotKnownError, Proxy, Value, rank_of, torch

INFINITE = float("-inf")


@onnx_op("Attention")
def attention(
    Q: Value, K: Value, V: Value, attn_mask: Value = None, past_key: Value = None,
    past_value: Value = None, nonpad_kv_seqlen: Value = None, *, is_causal: int = 0,
    kv_num_heads: int = 0, left_window_size: int = -1, q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0, right_window_size: int = -1, scale: float | None = None,
    softcap: float = 0.0, softmax_precision: int | None = None, outputs: int = 1,
) -> Any:  # fmt: skip
    """Scaled dot-product attention, with a cache of earlier keys and values."""
    flat = rank_of(Q) == 3
    if flat:
        Q, K, V = heads(Q, q_num_heads), heads(K, kv_num_heads), heads(V, kv_num_heads)
    windowed = left_window_size >= 0 or right_window_size >= 0
    extra = (attn_mask, past_key, nonpad_kv_seqlen, softmax_precision)
    if outputs == 1 and not softcap and not windowed and all(value is None for value in extra):
        keywords: dict[str, Any] = {"is_causal": True} if is_causal else {}
        keywords |= {} if scale is None else {"scale": scale}
        keywords |= {"enable_gqa": True} if q_num_heads != kv_num_heads or not flat else {}
        result = F.scaled_dot_product_attention(Q, K, V, **keywords)
        return joined(result) if flat else result
    if isinstance(Q, Proxy):
        raise NotKnownError
    if past_key is not None:
        K, V = torch.cat([past_key, K], 2), torch.cat([past_value, V], 2)
    present = (K, V)
    bounds = (0 if is_causal else right_window_size, left_window_size)
    bias = bias_of(Q, K, attn_mask, (bounds, right_window_size), past_key, nonpad_kv_seqlen)
    repeats = Q.shape[1] // K.shape[1]
    if repeats > 1:
        K, V = K.repeat_interleave(repeats, 1), V.repeat_interleave(repeats, 1)
    factor = (Q.shape[-1] ** -0.5 if scale is None else scale) ** 0.5
    scores = (Q * factor) @ (K.transpose(-1, -2) * factor)
    wanted = {0: scores}
    if softcap:
        scores = torch.tanh(scores / softcap) * softcap
    wanted[0] = wanted[1] = scores
    scores = scores + bias
    wanted[2] = scores
    precision = from_onnx(softmax_precision) if softmax_precision else None
    weights = masked_softmax(scores if precision is None else scores.to(precision), bias)
    weights = wanted[3] = weights.to(Q.dtype)
    result = weights @ V
    result = joined(result) if flat else result
    if outputs == 1:
        return result
    return (result, *present, wanted[qk_matmul_output_mode])


def heads(X: Value, count: int) -> Value:
    """Split the last axis into heads: (batch, head, time, size)."""
    return X.unflatten(-1, [count, -1]).transpose(1, 2)


def joined(X: Value) -> Value:
    """Join the heads again: (batch, time, size)."""
    return X.transpose(1, 2).flatten(2)


def masked_softmax(scores: Value, bias: Value) -> Value:
    """Return softmax, but 0 in rows where everything is masked."""
    nothing = torch.amax(bias, -1, True) == INFINITE
    weights = torch.softmax(torch.where(nothing, torch.zeros_like(scores), scores), -1)
    return torch.where(nothing, torch.zeros_like(weights), weights)


def bias_of(
    Q: Value, K: Value, mask: Value, bounds: tuple[tuple[int, int], int], past_key: Value,
    lengths: Value,
) -> Value:  # fmt: skip
    """Return what is added to the scores: 0 where a query may look, else -inf.

    Args:
        bounds: how far a query may look to the right and left (-1: any), and the right window.
        lengths: how many keys of each sample are no padding, or None.
    """
    (right, left), window = bounds
    steps, total = Q.shape[2], K.shape[2]
    zero = torch.zeros([], dtype=Q.dtype)
    blocked = torch.full([], INFINITE, dtype=Q.dtype)
    bias = torch.zeros([steps, total], dtype=Q.dtype)
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.where(mask, zero, blocked)
        mask = F.pad(mask, [0, total - mask.shape[-1]], value=INFINITE)
        bias = bias + mask
    start: Any = 0 if past_key is None else past_key.shape[2]
    if past_key is None and lengths is not None:
        start = lengths.reshape([-1, 1, 1, 1]) - steps
    queries = torch.arange(steps).unsqueeze(-1) + start
    keys = torch.arange(total)
    if right >= 0:
        reach = min(right, window) if window >= 0 else right
        bias = bias + torch.where(keys <= queries + reach, zero, blocked)
    if left >= 0:
        bias = bias + torch.where(keys >= queries - left, zero, blocked)
    if lengths is not None:
        bias = bias + torch.where(keys < lengths.reshape([-1, 1, 1, 1]), zero, blocked)
    return bias


@onnx_op("RotaryEmbedding")
def rotary_embedding(
    X: Value, cos_cache: Value, sin_cache: Value, position_ids: Value = None, *,
    interleaved: int = 0, num_heads: int = 0, rotary_embedding_dim: int = 0,
) -> Value:  # fmt: skip
    """Turn pairs of numbers by an angle that depends on the position."""
    flat = rank_of(X) == 3
    data = heads(X, num_heads) if flat else X
    if position_ids is not None:
        cos_cache, sin_cache = cos_cache[position_ids], sin_cache[position_ids]
    cos, sin = cos_cache.unsqueeze(1), sin_cache.unsqueeze(1)
    turned = data[..., :rotary_embedding_dim] if rotary_embedding_dim else data
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        halves = torch.chunk(turned, 2, -1)
        first, second = halves[0], halves[1]
    parts = [cos * first - sin * second, sin * first + cos * second]
    result = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
    if rotary_embedding_dim:
        result = torch.cat([result, data[..., rotary_embedding_dim:]], -1)
    return joined(result) if flat else result
