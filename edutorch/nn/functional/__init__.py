"""Layers as functions: what a module computes, given its parameters (see README.md)."""

from __future__ import annotations

from ...core.argument_checks import wrap_functions as _guard

from .activation import (
    elu, gelu, glu, hardswish, hardtanh, leaky_relu, logsigmoid, mish, prelu, relu, relu6, selu,
    sigmoid, silu, softplus, softsign, tanh,
)  # fmt: skip
from .dot_product_attention import scaled_dot_product_attention
from .activation import (
    celu,
    celu_,
    elu_,
    hardshrink,
    hardsigmoid,
    hardtanh_,
    leaky_relu_,
    relu_,
    rrelu,
    rrelu_,
    selu_,
    softshrink,
    tanhshrink,
    threshold,
    threshold_,
)
from .bilinear import bilinear
from .loss.classification import cross_entropy, linear_cross_entropy, nll_loss
from .adaptive import (
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices, adaptive_max_pool2d, adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d, adaptive_max_pool3d_with_indices,
)  # fmt: skip
from .conv import conv2d
from .distance import cosine_similarity, pairwise_distance, pdist
from .loss.ctc import ctc_loss
from .dropout import (
    alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout,
)  # fmt: skip
from .embedding import embedding, embedding_bag, one_hot
from .loss.likelihood import gaussian_nll_loss, poisson_nll_loss
from .fold import fold, unfold
from .multi_head_attention import multi_head_attention_forward
from .linear import linear
from .loss.regression import (
    binary_cross_entropy, binary_cross_entropy_with_logits, huber_loss, kl_div, l1_loss, mse_loss,
    smooth_l1_loss,
)  # fmt: skip
from .loss.margin import (
    multi_margin_loss, multilabel_margin_loss, multilabel_soft_margin_loss, soft_margin_loss,
)  # fmt: skip
from .normalization import batch_norm, group_norm, instance_norm, layer_norm, normalize, rms_norm
from .padding import pad
from .pooling import (
    avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool1d_with_indices, max_pool2d,
    max_pool2d_with_indices, max_pool3d, max_pool3d_with_indices,
)  # fmt: skip
from .loss.ranking import (
    cosine_embedding_loss, hinge_embedding_loss, margin_ranking_loss, triplet_margin_loss,
    triplet_margin_with_distance_loss,
)  # fmt: skip
from .interpolate import (
    channel_shuffle, interpolate, native_channel_shuffle, pixel_shuffle, pixel_unshuffle,
    upsample, upsample_bilinear, upsample_nearest,
)  # fmt: skip
from .grid_sample import affine_grid, grid_sample
from .conv_nd import (
    conv1d, conv3d, conv_tbc, conv_transpose1d, conv_transpose2d, conv_transpose3d,
)  # fmt: skip
from .activation import gumbel_softmax, log_softmax, softmax, softmin
from .unpooling import (
    fractional_max_pool2d, fractional_max_pool2d_with_indices, fractional_max_pool3d,
    fractional_max_pool3d_with_indices, local_response_norm, lp_pool1d, lp_pool2d, lp_pool3d,
    max_unpool1d, max_unpool2d, max_unpool3d,
)  # fmt: skip

__all__ = [
    "affine_grid", "grid_sample", "multi_head_attention_forward",
    "fold", "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "local_response_norm",
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d",
    "unfold",
    "alpha_dropout", "bilinear", "ctc_loss", "dropout3d", "embedding_bag",
    "feature_alpha_dropout", "gaussian_nll_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "pdist", "poisson_nll_loss", "soft_margin_loss",
    "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices", "avg_pool3d", "channel_shuffle", "conv_tbc",
    "conv_transpose3d", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices", "native_channel_shuffle", "upsample", "upsample_bilinear",
    "upsample_nearest",
    "celu", "celu_", "elu_", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardtanh_",
    "leaky_relu_", "linear_cross_entropy", "relu_", "rrelu", "rrelu_", "selu_", "softmin",
    "softshrink", "tanhshrink", "threshold", "threshold_", "triplet_margin_with_distance_loss",
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

_guard(globals())
