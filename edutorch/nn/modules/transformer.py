"""Transformer encoder and decoder layers.

Attention blocks and feed-forward blocks alternate, each with a residual connection. Layer norm is
applied after each sum or, with `norm_first`, before each block.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import ClassVar

from ...core.tensor import Tensor
from ...errors import ShapeError, ValueRangeError
from ...ops import full, triu
from .. import functional as F
from .. import init
from ..common_types import DeviceLike, DTypeLike
from .activation import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip

Activation = str | Callable[[Tensor], Tensor]


class TransformerLayer(Module):
    """Base of encoder and decoder layers: attention, feed-forward network, norms."""

    activation: Callable[[Tensor], Tensor]
    attentions: ClassVar[tuple[str, ...]]

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        factory_kwargs = {"device": device, "dtype": dtype}
        blocks = len(self.attentions) + 1  # the last is the feed-forward network
        for name in self.attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, **factory_kwargs
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **factory_kwargs)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **factory_kwargs)
        self.norm_first = norm_first
        for index in range(1, blocks + 1):
            self.add_module(
                f"norm{index}", LayerNorm(d_model, layer_norm_eps, bias=bias, **factory_kwargs)
            )
        for index in range(1, blocks + 1):
            self.add_module(f"dropout{index}", Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    def attend(
        self, attention: Module, query: Tensor, key: Tensor, mask: Tensor | None,
        padding: Tensor | None, is_causal: bool,
    ) -> Tensor:  # fmt: skip
        """Return the attention of `query` over `key`, which are also the values."""
        return attention(
            query, key, key, attn_mask=mask, key_padding_mask=padding, need_weights=False,
            is_causal=is_causal,
        )[0]  # fmt: skip

    def _sa_block(
        self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        return self.dropout1(self.attend(self.self_attn, x, x, mask, padding, is_causal))

    def feed_forward(self, x: Tensor) -> Tensor:
        """Compute W₂ f(W₁ x) at each position."""
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _get_activation_fn(activation: Activation) -> Callable[[Tensor], Tensor]:
    """Return the activation function of a name; a function is returned as it is."""
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise ValueRangeError(
            "Transformer", f"activation should be relu/gelu, not {activation}",
            hint="any function from tensor to tensor will do: activation=nn.functional.silu",
        )  # fmt: skip
    return F.relu if activation == "relu" else F.gelu


class TransformerEncoderLayer(TransformerLayer):
    """Encoder layer: x ← norm(x + attention(x)); x ← norm(x + W₂ f(W₁ x)).

    Args:
        d_model: the number of features at each position.
        nhead: the number of attention heads.
        dim_feedforward: the number of hidden features of the feed-forward network.
        dropout: the dropout probability of the attention weights and of each block's output.
        activation: f: "relu", "gelu" or a function.
        layer_norm_eps: the ε of the layer norms.
        batch_first: (n, l, d_model) instead of (l, n, d_model).
        norm_first: norm before each block, x ← x + attention(norm(x)): deep ones train better.
        bias: whether the linear layers and norms add biases.

    Paper: Vaswani et al., Attention is all you need, 2017.

    >>> nn.TransformerEncoderLayer(8, 2)(zeros(5, 2, 8)).shape
    torch.Size([5, 2, 8])
    """

    attentions = ("self_attn",)

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Apply self-attention, then the feed-forward network.

        Args:
            src: (l, n, d_model).
            src_mask: (l, l): True masks a position; floats are added to the scores.
            src_key_padding_mask: (n, l): True masks a position for all queries.
            is_causal: whether `src_mask` is the causal mask.
        """
        x = src
        # The residual path then has no norm in it, so gradients pass unchanged to the first layer.
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self.feed_forward(x))


class TransformerDecoderLayer(TransformerLayer):
    """Decoder layer: self-attention, then attention over the encoder's output, the memory.

        x ← norm(x + attention(x, x))
        x ← norm(x + attention(x, memory))
        x ← norm(x + W₂ f(W₁ x))

    Args: as for `TransformerEncoderLayer`.

    Paper: Vaswani et al., Attention is all you need, 2017.

    >>> nn.TransformerDecoderLayer(8, 2)(zeros(5, 2, 8), zeros(3, 2, 8)).shape
    torch.Size([5, 2, 8])
    """

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Apply self-attention, cross-attention and the feed-forward network."""
        self_attention_args = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        cross_attention_args = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *self_attention_args)
            x = x + self._mha_block(self.norm2(x), *cross_attention_args)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *self_attention_args))
        x = self.norm2(x + self._mha_block(x, *cross_attention_args))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(
        self, x: Tensor, memory: Tensor, mask: Tensor | None, padding: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        attention = self.multihead_attn
        return self.dropout2(self.attend(attention, x, memory, mask, padding, is_causal))

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self.feed_forward(x))


class TransformerEncoder(Module):
    """A stack of encoder layers: copies of a given one, each with its own parameters.

    Args:
        encoder_layer: the layer to copy.
        num_layers: the number of layers.
        norm: a module applied to the last output.
        enable_nested_tensor, mask_check: settings of a fast path of PyTorch's; no effect here.

    >>> layer = nn.TransformerEncoderLayer(8, 2, 16)
    >>> nn.TransformerEncoder(layer, num_layers=2)(zeros(5, 2, 8)).shape
    torch.Size([5, 2, 8])
    """

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = clone_layers(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        """Apply all layers, with the same masks."""
        for layer in self.layers:
            src = layer(
                src, src_mask=mask, src_key_padding_mask=src_key_padding_mask,
                is_causal=bool(is_causal),
            )  # fmt: skip
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """A stack of decoder layers: copies of a given one, each with its own parameters.

    Args: `decoder_layer`, the layer to copy; else as for `TransformerEncoder`.

    >>> layer = nn.TransformerDecoderLayer(8, 2, 16)
    >>> nn.TransformerDecoder(layer, num_layers=2)(zeros(5, 2, 8), zeros(3, 2, 8)).shape
    torch.Size([5, 2, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = clone_layers(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Apply all layers, with the same memory and masks."""
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal), memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


def clone_layers(layer: Module, count: int) -> ModuleList:
    """Return deep copies of a layer, which do not share parameters."""
    # As in PyTorch the copies begin with equal weights; training makes them differ.
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


_get_clones = clone_layers  # PyTorch's name for it, which other code imports


class Transformer(Module):
    """The encoder-decoder transformer for sequences.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias: as for `TransformerEncoderLayer`.
        num_encoder_layers, num_decoder_layers: the numbers of layers.
        custom_encoder, custom_decoder: modules to use instead.

    Matrices are initialized with Xavier's uniform distribution.

    Paper: Vaswani et al., Attention is all you need, 2017.

    >>> net = nn.Transformer(8, 2, 1, 1, 16)
    >>> net(zeros(5, 2, 8), zeros(3, 2, 8)).shape
    torch.Size([3, 2, 8])
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, custom_encoder: Module | None = None,
        custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True,
        device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__()
        factory_kwargs = {"device": device, "dtype": dtype}
        settings = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **factory_kwargs)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*settings, **factory_kwargs), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*settings, **factory_kwargs), num_decoder_layers, norm()
        )
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        # Biases and norms keep their own initial values.
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Encode `src`, and decode `tgt` with it.

        Raises: RuntimeError: the batch sizes differ, or the number of features is not d_model.
        """
        shapes = {"src": tuple(src.shape), "tgt": tuple(tgt.shape)}
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise ShapeError("Transformer", "the batch number of src and tgt must be equal", shapes)
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ShapeError(
                "Transformer", "the feature number of src and tgt must be equal to d_model, "
                f"{self.d_model}", shapes,
            )  # fmt: skip
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> Tensor:
        """Return the causal mask: 0 on and below the diagonal, -∞ above it.

        >>> nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        # Floats, not bools: PyTorch adds it to the scores.
        return triu(full((sz, sz), -math.inf, device=device, dtype=dtype), 1)
