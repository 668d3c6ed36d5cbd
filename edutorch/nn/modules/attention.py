"""Attention with several heads, as a layer."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...ops import empty
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .linear import Linear
from .module import Module

__all__ = ["MultiheadAttention"]


class OutputLinear(Linear):
    """The last projection; PyTorch prints it under another name."""

    def _get_name(self) -> str:
        return "NonDynamicallyQuantizableLinear"


class MultiheadAttention(Module):
    """Attention by several heads at once: head i = softmax(q Wq (k Wk)ᵀ / √d) v Wv.

    The features are cut into heads; each attends by itself, and a last linear map joins them.

    Args:
        embed_dim: how many features query and output have; a multiple of `num_heads`.
        dropout: drops attention weights while training.
        bias: with shifts in the projections.
        add_bias_kv: one more key and value, which are learned.
        add_zero_attn: one more key and value, which are zero: a way to attend to nothing.
        kdim, vdim: how many features key and value have, if not as many.
        batch_first: (n, l, e) instead of (l, n, e).

    Starts with Xavier's uniform weights and shifts of 0.

    Paper: Vaswani et al., Attention is all you need, 2017.

    >>> x = zeros(5, 2, 8)
    >>> y, weights = nn.MultiheadAttention(8, num_heads=2)(x, x, x)
    >>> y.shape, weights.shape
    (torch.Size([5, 2, 8]), torch.Size([2, 5, 5]))
    """

    in_proj_weight: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise InvalidValueError(
                type(self).__name__,
                "embed_dim and num_heads must be greater than 0, "
                f"got embed_dim={embed_dim} and num_heads={num_heads} instead",
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        packed, extra = self._qkv_same_embed_dim, add_bias_kv
        shapes = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if packed else None,
            "q_proj_weight": None if packed else (embed_dim, embed_dim),
            "k_proj_weight": None if packed else (embed_dim, self.kdim),
            "v_proj_weight": None if packed else (embed_dim, self.vdim),
            "in_proj_bias": (3 * embed_dim,) if bias else None,
            "bias_k": (1, 1, embed_dim) if extra else None,
            "bias_v": (1, 1, embed_dim) if extra else None,
        }
        for name, shape in shapes.items():
            made = None if shape is None else Parameter(empty(shape, device=device, dtype=dtype))
            self.register_parameter(name, made)
        self.out_proj = OutputLinear(embed_dim, embed_dim, bias, device, dtype)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            weight = getattr(self, name)
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for each in (self.bias_k, self.bias_v):
            if each is not None:
                init.xavier_normal_(each)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Attend. Returns the output and, with `need_weights`, the weights.

        Args:
            query, key, value: (l, n, e), (s, n, kdim), (s, n, vdim), or without n.
            key_padding_mask: (n, s): True hides a key; numbers are added to the scores.
            attn_mask: (l, s) or (n · heads, l, s): the same for each query.
            average_attn_weights: the weights' mean over the heads, not those of each.
            is_causal: says that `attn_mask` is the causal one.
        """
        swap = self.batch_first and query.ndim == 3
        if swap:
            query, key, value = (each.transpose(0, 1) for each in (query, key, value))
        y, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, self.training, key_padding_mask,
            need_weights, attn_mask, not self._qkv_same_embed_dim, self.q_proj_weight,
            self.k_proj_weight, self.v_proj_weight, None, None, average_attn_weights, is_causal,
        )  # fmt: skip
        return (y.transpose(0, 1) if swap else y), weights
