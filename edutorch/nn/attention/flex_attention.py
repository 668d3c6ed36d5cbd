"""`flex_attention`: attention whose scores a function changes, by definition.

    score = scale · query keyᵀ
    score = score_mod(score, b, h, q_idx, kv_idx)    # such as a bias that depends on q_idx - kv_idx
    score = -∞ where the mask is closed
    y = softmax(score) value

PyTorch makes a kernel of this that skips closed blocks; here all scores are computed.

Paper: Dong et al., 2024, "Flex Attention: A Programming Model for Generating Optimized Attention
Kernels".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...core.tensor import Tensor
from ...errors import InvalidValueError, NotHereError
from ...ops import amax, logsumexp, matmul, where
from .block_mask import (
    DEFAULT_BLOCK_SIZE,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
    positions,
)  # fmt: skip

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip


_DEFAULT_SPARSE_BLOCK_SIZE = DEFAULT_BLOCK_SIZE  # PyTorch's name, which libraries import


class AuxRequest(NamedTuple):
    """What `flex_attention` returns besides its result: log-sum-exps, or the largest scores."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by `AuxRequest`: (B, H, queries) each, or None."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
    return_lse: bool = False, kernel_options: Any = None, *, return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """Return softmax(score_mod(scale · query keyᵀ)) value, with closed positions left out.

    Args:
        score_mod: (score, b, h, q_idx, kv_idx) → score. It is called once with tensors that
            broadcast, so it has to work element by element.
        block_mask: what is open: see `create_block_mask`. A query without an open key gives 0.
        scale: 1/√E by default.
        enable_gqa: whether keys and values may have fewer heads, each shared by several queries'.
        return_lse: whether to return (result, log Σ exp(score)) instead.
        return_aux: what to return besides the result.

    Shape: query (B, H, L, E), key (B, H, S, E), value (B, H, S, V) → (B, H, L, V).

    Raises: NotHereError: not 4 dimensions. InvalidValueError: numbers of heads, or the mask's size.

    >>> x = ones(1, 1, 3, 2) * tensor([[0.0], [1.0], [2.0]])
    >>> causal = nn.attention.flex_attention.create_block_mask(
    ...     lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, None, None, 3, 3)
    >>> nn.attention.flex_attention.flex_attention(zeros(1, 1, 3, 2), x, x, block_mask=causal)
    tensor([[[[0.0000, 0.0000],
              [0.5000, 0.5000],
              [1.0000, 1.0000]]]])
    """
    check_shapes(query, key, value, block_mask, enable_gqa)
    if enable_gqa and key.shape[1] != query.shape[1]:
        shared = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(shared, 1) for x in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = matmul(query, key.transpose(-2, -1)) * scale
    where_to = positions(*scores.shape, query.device)
    if score_mod is not None:
        scores = score_mod(scores, *where_to)
    if block_mask is not None:
        scores = where(block_mask.mask_mod(*where_to), scores, -math.inf)
    lse = logsumexp(scores, -1, keepdim=True)
    # Without an open key the sum is 0, and its logarithm -∞: 0 in its place makes the weights 0.
    weights = (scores - where(lse == -math.inf, 0.0, lse)).exp()
    result = matmul(weights.to(value.dtype), value)
    if return_aux is not None:
        largest = amax(scores, -1) if return_aux.max_scores else None
        return result, AuxOutput(lse.squeeze(-1) if return_aux.lse else None, largest)
    return (result, lse.squeeze(-1)) if return_lse else result


def check_shapes(
    query: Tensor, key: Tensor, value: Tensor, block_mask: BlockMask | None, enable_gqa: bool
) -> None:
    """Raise an error unless the shapes fit each other and the mask."""
    shapes = {"query": tuple(query.shape), "key": tuple(key.shape), "value": tuple(value.shape)}
    if not query.ndim == key.ndim == value.ndim == 4:
        raise NotHereError(
            "flex_attention", "query, key, and value must be 4D tensors", shapes,
            "(batch, heads, positions, features)",
        )  # fmt: skip
    if not query.dtype == key.dtype == value.dtype:
        raise InvalidValueError(
            "flex_attention", "Expected query, key, and value to have the same dtype",
            {"query": query.dtype, "key": key.dtype, "value": value.dtype},
        )  # fmt: skip
    heads, key_heads = query.shape[1], key.shape[1]
    if heads != key_heads and not enable_gqa:
        raise InvalidValueError(
            "flex_attention", "Expect query and key/value to have the same number of heads but got "
            f"Hq={heads} and Hkv={key_heads}", shapes, "set enable_gqa=True to share keys",
        )  # fmt: skip
    if heads % key_heads:
        raise InvalidValueError(
            "flex_attention", "Expect number of query heads to be a multiple of kv heads for GQA "
            f"but got Hq={heads} and Hkv={key_heads}", shapes,
        )  # fmt: skip
    lengths = (query.shape[-2], key.shape[-2])
    if block_mask is not None and block_mask.seq_lengths != lengths:
        raise InvalidValueError(
            "flex_attention", f"block_mask was created for {block_mask.shape} but got "
            f"q_len={lengths[0]} and kv_len={lengths[1]}", shapes,
            "create a block mask of these lengths",
        )  # fmt: skip
