"""Layers as functions: what a module computes, given its parameters (see README.md)."""

from __future__ import annotations

from .activation import (
    elu, gelu, hardtanh, leaky_relu, log_softmax, logsigmoid, relu, relu6, selu, sigmoid, silu,
    softmax, softplus, softsign, tanh,
)  # fmt: skip
from .conv import conv2d, conv_transpose2d
from .dropout import dropout, dropout1d, dropout2d
from .embedding import embedding, one_hot
from .linear import linear
from .loss import (
    binary_cross_entropy, binary_cross_entropy_with_logits, cross_entropy, huber_loss, kl_div,
    l1_loss, mse_loss, nll_loss, smooth_l1_loss,
)  # fmt: skip
from .norm import batch_norm, group_norm, layer_norm, normalize, rms_norm
from .padding import pad
from .pooling import adaptive_avg_pool2d, avg_pool2d, max_pool2d

__all__ = [
    "adaptive_avg_pool2d", "avg_pool2d", "batch_norm", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "conv2d", "conv_transpose2d", "cross_entropy", "dropout",
    "dropout1d", "dropout2d", "elu", "embedding", "gelu", "group_norm", "hardtanh",
    "huber_loss", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax",
    "logsigmoid", "max_pool2d", "mse_loss", "nll_loss", "normalize", "one_hot", "pad", "relu",
    "relu6", "rms_norm", "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax", "softplus",
    "softsign", "tanh",
]  # fmt: skip
