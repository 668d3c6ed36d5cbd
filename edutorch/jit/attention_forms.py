"""Attention and the layers of a Transformer in TorchScript, as in `layer_forms.py`.

They compute in the order of `nn.functional.attention`, so that a program's results are equal bit by
bit.
"""

from __future__ import annotations

from .. import nn
from ..core.tensor import Tensor
from ..nn import functional as F
from .functional_forms import aten
from .layer_forms import LAYER_FORMS, forward_of

__all__ = ["LAYER_FORMS"]
"""All forms of layers, those of this file too."""

# Masks ------------------------------------------------------------------------------------------


def additive_mask(mask: Tensor, query: Tensor) -> Tensor:
    if mask.is_floating_point():
        return mask.to(query.dtype)
    return aten.masked_fill(aten.zeros_like(mask, dtype=query.dtype), mask, float("-inf"))


def merged_mask(
    attn_mask: Tensor | None, padding: Tensor | None, query: Tensor, heads: int, keys: int
) -> Tensor | None:
    length, batch = query.size(0), query.size(1)
    mask: Tensor | None = None
    if attn_mask is not None:
        first = [batch, heads] if attn_mask.dim() == 3 else [1, 1]
        mask = aten.reshape(additive_mask(attn_mask, query), [first[0], first[1], length, keys])
    if padding is not None:
        hidden = aten.reshape(additive_mask(padding, query), [batch, 1, 1, keys])
        mask = hidden if mask is None else mask + hidden
    return mask


def visible_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return aten.softmax(scores, -1, None)
    hidden = aten.all(mask == float("-inf"), -1, True)  # a query that sees no key gets zeros
    return aten.masked_fill(aten.softmax(scores + mask, -1, None), hidden, 0.0)


def project(x: Tensor, weight: Tensor, bias: Tensor | None, part: int, heads: int) -> Tensor:
    size = weight.size(0)
    shift = None if bias is None else bias[part * size : (part + 1) * size]
    y = aten.linear(x, weight, shift)
    return aten.permute(aten.reshape(y, [y.size(0), y.size(1), heads, size // heads]), [1, 2, 0, 3])


# Layers -----------------------------------------------------------------------------------------


@forward_of(nn.MultiheadAttention)
def multihead_attention(
    self: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor,
    key_padding_mask: Tensor | None = None, need_weights: bool = True,
    attn_mask: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    assert self.bias_k is None, "add_bias_kv is not supported in TorchScript"
    assert not self.add_zero_attn, "add_zero_attn is not supported in TorchScript"
    assert not is_causal or attn_mask is not None, "is_causal needs an attn_mask"
    single = query.dim() == 2
    turned = self.batch_first and not single
    padding = key_padding_mask
    if single:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        padding = None if padding is None else padding.unsqueeze(0)
    if turned:
        query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
    length, batch, heads = query.size(0), query.size(1), self.num_heads
    causal_only = is_causal and padding is None and not need_weights
    mask = None if causal_only else merged_mask(attn_mask, padding, query, heads, key.size(0))

    size = self.embed_dim
    if self.in_proj_weight is not None:
        weight = self.in_proj_weight
        weights = [weight[:size], weight[size : 2 * size], weight[2 * size :]]
    else:
        weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
    q = project(query, weights[0], self.in_proj_bias, 0, heads)
    k = project(key, weights[1], self.in_proj_bias, 1, heads)
    v = project(value, weights[2], self.in_proj_bias, 2, heads)

    p = self.dropout if self.training else 0.0
    attention: Tensor | None = None
    if need_weights:
        scores = aten.matmul(q * float(q.size(3)) ** -0.5, aten.transpose(k, -2, -1))
        shares = F.dropout(visible_softmax(scores, mask), p)
        y = aten.matmul(shares, v)
        attention = shares.mean(1) if average_attn_weights else shares
    else:
        y = F.scaled_dot_product_attention(q, k, v, mask, p, causal_only)
    y = aten.reshape(aten.permute(y, [2, 0, 1, 3]), [length, batch, size])
    y = F.linear(y, self.out_proj.weight, self.out_proj.bias)
    if single:
        return y.squeeze(1), None if attention is None else attention.squeeze(0)
    return y.transpose(0, 1) if turned else y, attention


@forward_of(nn.TransformerEncoderLayer)
def encoder_layer(
    self: nn.TransformerEncoderLayer, src: Tensor, src_mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None, is_causal: bool = False,
) -> Tensor:  # fmt: skip
    x = self.norm1(src) if self.norm_first else src
    y = self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, True, is_causal)[0]
    x = src + self.dropout1(y)
    if self.norm_first:
        y = self.linear2(self.dropout(self.activation(self.linear1(self.norm2(x)))))
        return x + self.dropout2(y)
    x = self.norm1(x)
    y = self.linear2(self.dropout(self.activation(self.linear1(x))))
    return self.norm2(x + self.dropout2(y))


@forward_of(nn.TransformerDecoderLayer)
def decoder_layer(
    self: nn.TransformerDecoderLayer, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
    memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
    memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
    memory_is_causal: bool = False,
) -> Tensor:  # fmt: skip
    x = self.norm1(tgt) if self.norm_first else tgt
    y = self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, True, tgt_is_causal)[0]
    x = tgt + self.dropout1(y)
    if not self.norm_first:
        x = self.norm1(x)
    y = self.norm2(x) if self.norm_first else x
    y = self.multihead_attn(
        y, memory, memory, memory_key_padding_mask, False, memory_mask, True, memory_is_causal
    )[0]
    x = x + self.dropout2(y)
    if not self.norm_first:
        x = self.norm2(x)
    y = self.norm3(x) if self.norm_first else x
    y = self.linear2(self.dropout(self.activation(self.linear1(y))))
    x = x + self.dropout3(y)
    return x if self.norm_first else self.norm3(x)


@forward_of(nn.TransformerEncoder)
def encoder(
    self: nn.TransformerEncoder, src: Tensor, mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None, is_causal: bool | None = None,
) -> Tensor:  # fmt: skip
    causal = False if is_causal is None else is_causal
    for layer in self.layers:
        src = layer(src, mask, src_key_padding_mask, causal)
    return src if self.norm is None else self.norm(src)


@forward_of(nn.TransformerDecoder)
def decoder(
    self: nn.TransformerDecoder, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
    memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
    memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
    memory_is_causal: bool = False,
) -> Tensor:  # fmt: skip
    causal = False if tgt_is_causal is None else tgt_is_causal
    for layer in self.layers:
        tgt = layer(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
            causal, memory_is_causal,
        )  # fmt: skip
    return tgt if self.norm is None else self.norm(tgt)


@forward_of(nn.Transformer)
def transformer(
    self: nn.Transformer, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None,
    tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
    memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None,
    tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
) -> Tensor:  # fmt: skip
    batch = 0 if self.batch_first else 1
    if src.dim() == 3 and src.size(batch) != tgt.size(batch):
        raise RuntimeError("the batch number of src and tgt must be equal")
    if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
        raise RuntimeError("the feature number of src and tgt must be equal to d_model")
    memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
    return self.decoder(
        tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
        tgt_is_causal, memory_is_causal,
    )  # fmt: skip
