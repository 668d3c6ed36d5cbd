"""Vision Transformer: a picture is a sentence whose words are patches of 16 by 16 pixels.

Each patch becomes a vector, a learned vector for its position is added, and a transformer as for
text does the rest. One more word in front, the class token, collects what the classifier reads.
Read `VisionTransformer.forward` first, then `EncoderBlock`.
"""

from __future__ import annotations

import functools
import math
from collections import OrderedDict
from typing import Any

from ... import nn
from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeError
from ...ops import cat, empty, zeros
from .initialization import NormLayer
from .registry import register_model

__all__ = ["VisionTransformer", "vit_b_16", "vit_b_32", "vit_h_14", "vit_l_16", "vit_l_32"]

LayerNorm = functools.partial(nn.LayerNorm, eps=1e-6)


class MLPBlock(nn.Sequential):
    """linear(gelu(linear(x))) for each word. Shape: input and output (N, L, in_dim)."""

    _version = 2

    def __init__(self, in_dim: int, mlp_dim: int, dropout: float) -> None:
        super().__init__(
            nn.Linear(in_dim, mlp_dim),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(mlp_dim, in_dim),
            nn.Dropout(dropout),
        )
        for layer in (self[0], self[3]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Rename the keys of the published weights, which are older: "linear_1" is "0" now."""
        for old, new in (("linear_1", "0"), ("linear_2", "3")):
            for name in ("weight", "bias"):
                if f"{prefix}{old}.{name}" in state_dict:
                    state_dict[f"{prefix}{new}.{name}"] = state_dict.pop(f"{prefix}{old}.{name}")
        super()._load_from_state_dict(state_dict, prefix, *args)


class EncoderBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)).

    Args:
        num_heads: of the attention.
        hidden_dim, mlp_dim: length of a word's vector, and of the hidden layer of the MLP.
        dropout, attention_dropout: probabilities of dropout after layers and in the attention.
        norm_layer: makes a normalization of the last axis.

    Shape: input and output (N, L, hidden_dim).
    """

    def __init__(
        self, num_heads: int, hidden_dim: int, mlp_dim: int, dropout: float,
        attention_dropout: float, norm_layer: NormLayer = LayerNorm,
    ) -> None:  # fmt: skip
        super().__init__()
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(
            hidden_dim, num_heads, dropout=attention_dropout, batch_first=True
        )
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, dropout)

    def forward(self, input: Tensor) -> Tensor:
        x = self.ln_1(input)
        attended, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(attended) + input
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Positions are added, then come the blocks. Shape: input and output (N, L, hidden_dim)."""

    def __init__(
        self, seq_length: int, num_layers: int, num_heads: int, hidden_dim: int, mlp_dim: int,
        dropout: float, attention_dropout: float, norm_layer: NormLayer = LayerNorm,
    ) -> None:  # fmt: skip
        super().__init__()
        self.pos_embedding = nn.Parameter(empty(1, seq_length, hidden_dim).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        sizes = (num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer)
        blocks = [(f"encoder_layer_{index}", EncoderBlock(*sizes)) for index in range(num_layers)]
        self.layers = nn.Sequential(OrderedDict(blocks))
        self.ln = norm_layer(hidden_dim)

    def forward(self, input: Tensor) -> Tensor:
        return self.ln(self.layers(self.dropout(input + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """Patches as words, a transformer, and a linear layer that reads the class token.

    Args:
        image_size: height and width of the pictures.
        patch_size: height and width of a patch; divides `image_size`.
        num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout, norm_layer: of the
            transformer; see `EncoderBlock`.
        num_classes: length of the output.
        representation_size: length of a hidden layer before the output; None for none.

    Shape: input (N, 3, image_size, image_size), output (N, num_classes).

    Paper: Dosovitskiy et al., An Image is Worth 16x16 Words, 2020,
        https://arxiv.org/abs/2010.11929

    >>> from edutorch.vision.models import VisionTransformer
    >>> model = VisionTransformer(32, 8, 2, 2, hidden_dim=16, mlp_dim=32, num_classes=10)
    >>> model(zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """

    def __init__(
        self, image_size: int, patch_size: int, num_layers: int, num_heads: int, hidden_dim: int,
        mlp_dim: int, dropout: float = 0.0, attention_dropout: float = 0.0,
        num_classes: int = 1000, representation_size: int | None = None,
        norm_layer: NormLayer = LayerNorm,
    ) -> None:  # fmt: skip
        super().__init__()
        if image_size % patch_size:
            raise InvalidValueError(
                "VisionTransformer", "the patches do not fill the picture",
                {"image_size": image_size, "patch_size": patch_size},
            )  # fmt: skip
        self.image_size, self.patch_size, self.hidden_dim = image_size, patch_size, hidden_dim
        # A convolution whose windows do not overlap: a linear map of each patch.
        self.conv_proj = nn.Conv2d(3, hidden_dim, kernel_size=patch_size, stride=patch_size)
        self.class_token = nn.Parameter(zeros(1, 1, hidden_dim))
        seq_length = (image_size // patch_size) ** 2 + 1
        self.encoder = Encoder(
            seq_length, num_layers, num_heads, hidden_dim, mlp_dim, dropout, attention_dropout,
            norm_layer,
        )  # fmt: skip
        head = nn.Linear(representation_size or hidden_dim, num_classes)
        heads: list[tuple[str, nn.Module]] = [("head", head)]
        if representation_size is not None:
            pre_logits = nn.Linear(hidden_dim, representation_size)
            heads = [("pre_logits", pre_logits), ("act", nn.Tanh()), *heads]
            nn.init.trunc_normal_(pre_logits.weight, std=math.sqrt(1 / hidden_dim))
            nn.init.zeros_(pre_logits.bias)  # type: ignore[arg-type]
        self.heads = nn.Sequential(OrderedDict(heads))
        nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / (3 * patch_size**2)))
        for zero in (self.conv_proj.bias, head.weight, head.bias):
            nn.init.zeros_(zero)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        size = self.image_size
        if x.ndim != 4 or x.shape[2] != size or x.shape[3] != size:
            raise ShapeError(
                "VisionTransformer", "the pictures have another size than the model",
                {"x": tuple(x.shape), "expected": f"(N, 3, {self.image_size}, {self.image_size})"},
                "there is one position vector for each patch: build it with image_size=…",
            )  # fmt: skip
        words = self.conv_proj(x).flatten(2).permute(0, 2, 1)
        class_token = self.class_token.expand(x.shape[0], -1, -1)
        words = self.encoder(cat([class_token, words], 1))
        return self.heads(words[:, 0])


def build(
    patch_size: int, layers: int, heads: int, hidden_dim: int, **kwargs: Any
) -> VisionTransformer:
    """Return a Vision Transformer; pictures have 224 by 224 pixels by default."""
    size = kwargs.pop("image_size", 224)
    return VisionTransformer(size, patch_size, layers, heads, hidden_dim, 4 * hidden_dim, **kwargs)


@register_model
def vit_b_16(**kwargs: Any) -> VisionTransformer:
    """Vision Transformer, base, patches of 16 by 16 pixels: 86.6 million parameters."""
    return build(16, 12, 12, 768, **kwargs)


@register_model
def vit_b_32(**kwargs: Any) -> VisionTransformer:
    """Vision Transformer, base, patches of 32 by 32 pixels: 88.2 million parameters."""
    return build(32, 12, 12, 768, **kwargs)


@register_model
def vit_l_16(**kwargs: Any) -> VisionTransformer:
    """Vision Transformer, large, patches of 16 by 16 pixels: 304.3 million parameters."""
    return build(16, 24, 16, 1024, **kwargs)


@register_model
def vit_l_32(**kwargs: Any) -> VisionTransformer:
    """Vision Transformer, large, patches of 32 by 32 pixels: 306.5 million parameters."""
    return build(32, 24, 16, 1024, **kwargs)


@register_model
def vit_h_14(**kwargs: Any) -> VisionTransformer:
    """Vision Transformer, huge, patches of 14 by 14 pixels: 632.0 million parameters."""
    return build(14, 32, 16, 1280, **kwargs)
