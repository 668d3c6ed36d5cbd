"""Layers as functions: what a module computes, given its parameters (see README.md)."""

from __future__ import annotations

from .activation import (
    elu, gelu, glu, hardswish, hardtanh, leaky_relu, log_softmax, logsigmoid, mish, prelu, relu,
    relu6, selu, sigmoid, silu, softmax, softplus, softsign, tanh,
)  # fmt: skip
from .attention import scaled_dot_product_attention
from .conv import conv2d, conv_transpose2d
from .distance import cosine_similarity, pairwise_distance
from .dropout import dropout, dropout1d, dropout2d
from .embedding import embedding, one_hot
from .linear import linear
from .loss import (
    binary_cross_entropy, binary_cross_entropy_with_logits, cross_entropy, huber_loss, kl_div,
    l1_loss, mse_loss, nll_loss, smooth_l1_loss,
)  # fmt: skip
from .norm import batch_norm, group_norm, instance_norm, layer_norm, normalize, rms_norm
from .padding import pad
from .pooling import adaptive_avg_pool2d, avg_pool2d, max_pool2d
from .ranking import (
    cosine_embedding_loss, hinge_embedding_loss, margin_ranking_loss, triplet_margin_loss,
)  # fmt: skip
from .resize import interpolate, pixel_shuffle, pixel_unshuffle
from .sequences import (
    adaptive_avg_pool1d, avg_pool1d, conv1d, conv3d, conv_transpose1d, max_pool1d,
)  # fmt: skip

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d", "batch_norm",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "cosine_embedding_loss", "cosine_similarity",
    "cross_entropy", "dropout", "dropout1d", "dropout2d", "elu", "embedding", "gelu", "glu",
    "group_norm", "hardswish", "hardtanh", "hinge_embedding_loss", "huber_loss",
    "instance_norm", "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear",
    "log_softmax", "logsigmoid", "margin_ranking_loss", "max_pool1d", "max_pool2d", "mish",
    "mse_loss", "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance",
    "pixel_shuffle", "pixel_unshuffle", "prelu", "relu", "relu6", "rms_norm",
    "scaled_dot_product_attention", "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax",
    "softplus", "softsign", "tanh", "triplet_margin_loss",
]  # fmt: skip
