"""Layers as functions: what a module computes, given its parameters (see README.md)."""

from __future__ import annotations

from .activation import (
    elu, gelu, hardtanh, leaky_relu, log_softmax, logsigmoid, relu, relu6, selu, sigmoid, silu,
    softmax, softplus, softsign, tanh,
)  # fmt: skip
from .erf import erf
from .linear import linear
from .loss import (
    binary_cross_entropy, binary_cross_entropy_with_logits, cross_entropy, huber_loss, kl_div,
    l1_loss, mse_loss, nll_loss, smooth_l1_loss,
)  # fmt: skip

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "elu", "erf",
    "gelu", "hardtanh", "huber_loss", "kl_div", "l1_loss", "leaky_relu", "linear", "log_softmax",
    "logsigmoid", "mse_loss", "nll_loss", "relu", "relu6", "selu", "sigmoid", "silu",
    "smooth_l1_loss", "softmax", "softplus", "softsign", "tanh",
]  # fmt: skip
