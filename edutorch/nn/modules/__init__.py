"""Every layer as a module, by family (see README.md)."""

from __future__ import annotations

import sys as _sys

from . import utils
from .activation import (
    ELU, GELU, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, ReLU, ReLU6, SELU, SiLU, Sigmoid,
    Softmax, Softplus, Softsign, Tanh,
)  # fmt: skip
from .attention import MultiheadAttention
from .bends import (
    CELU, Hardshrink, Hardsigmoid, RReLU, Softmax2d, Softmin, Softshrink, Tanhshrink, Threshold,
)  # fmt: skip
from .container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .distance import CosineSimilarity, PairwiseDistance
from .dropout import (
    AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout,
)  # fmt: skip
from .sparse import Embedding, EmbeddingBag
from .fold import Fold, Unfold
from .flatten import Flatten, Unflatten
from .gates import GLU, Hardswish, Mish, PReLU
from .lazy import (
    LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d, LazyConv1d, LazyConv2d, LazyConv3d,
    LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d, LazyInstanceNorm1d,
    LazyInstanceNorm2d, LazyInstanceNorm3d, LazyLinear,
)  # fmt: skip
from .likelihoods import CTCLoss, GaussianNLLLoss, PoissonNLLLoss
from .linear import Bilinear, Identity, Linear
from .loss import (
    BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss,
    SmoothL1Loss,
)  # fmt: skip
from .adaptive import (
    AdaptiveLogSoftmaxWithLoss, LinearCrossEntropyLoss, LinearCrossEntropyOptions,
)  # fmt: skip
from .margins import (
    MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, SoftMarginLoss,
    TripletMarginWithDistanceLoss,
)  # fmt: skip
from .module import Module
from .norm import (
    BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d,
    InstanceNorm3d, LayerNorm, RMSNorm,
)  # fmt: skip
from .old_names import Container, CrossMapLRN2d, DataParallel, NLLLoss2d
from .padding import (
    CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad1d, ConstantPad2d, ConstantPad3d,
    ReflectionPad1d, ReflectionPad2d, ReflectionPad3d, ReplicationPad1d, ReplicationPad2d,
    ReplicationPad3d, ZeroPad1d, ZeroPad2d, ZeroPad3d,
)  # fmt: skip
from .pooling import (
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d,
    AdaptiveMaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, MaxPool1d, MaxPool2d, MaxPool3d,
)  # fmt: skip
from .ranking import (
    CosineEmbeddingLoss, HingeEmbeddingLoss, MarginRankingLoss, TripletMarginLoss,
)  # fmt: skip
from .rnn import GRU, LSTM, RNN, RNNBase
from .rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from .resize import (
    ChannelShuffle, PixelShuffle, PixelUnshuffle, Upsample, UpsamplingBilinear2d,
    UpsamplingNearest2d,
)  # fmt: skip
from .sync_norm import SyncBatchNorm
from .transformer import (
    Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
    TransformerEncoderLayer,
)  # fmt: skip
from .unpooling import (
    FractionalMaxPool2d, FractionalMaxPool3d, LocalResponseNorm, LPPool1d, LPPool2d, LPPool3d,
    MaxUnpool1d, MaxUnpool2d, MaxUnpool3d,
)  # fmt: skip
from .homes import furnish as _furnish

_furnish(_sys.modules[__name__])

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
    "AdaptiveLogSoftmaxWithLoss", "AlphaDropout", "Bilinear", "CELU", "CTCLoss", "Container",
    "CrossMapLRN2d", "DataParallel", "Dropout3d", "EmbeddingBag", "FeatureAlphaDropout",
    "GaussianNLLLoss", "Hardshrink", "Hardsigmoid", "LinearCrossEntropyLoss",
    "LinearCrossEntropyOptions", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss",
    "MultiMarginLoss", "NLLLoss2d", "PoissonNLLLoss", "RReLU", "SoftMarginLoss", "Softmax2d",
    "Softmin", "Softshrink", "SyncBatchNorm", "Tanhshrink", "Threshold",
    "TripletMarginWithDistanceLoss",
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
    "GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase",
    "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
    "AvgPool3d", "BatchNorm3d", "ChannelShuffle", "CircularPad1d", "CircularPad2d",
    "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ConvTranspose3d",
    "Fold", "FractionalMaxPool2d", "FractionalMaxPool3d", "InstanceNorm3d", "LPPool1d",
    "LPPool2d", "LPPool3d", "LocalResponseNorm", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d", "MultiheadAttention", "ReflectionPad1d", "ReflectionPad2d",
    "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "Unfold",
    "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AvgPool1d", "AvgPool2d", "BCELoss",
    "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "Conv1d", "Conv2d", "Conv3d",
    "ConvTranspose1d", "ConvTranspose2d", "CosineEmbeddingLoss", "CosineSimilarity",
    "CrossEntropyLoss", "Dropout", "Dropout1d", "Dropout2d", "ELU", "Embedding", "Flatten",
    "GELU", "GLU", "GroupNorm", "Hardswish", "Hardtanh", "HingeEmbeddingLoss", "HuberLoss",
    "Identity", "InstanceNorm1d", "InstanceNorm2d", "KLDivLoss", "L1Loss", "LayerNorm",
    "LeakyReLU", "Linear", "LogSigmoid", "LogSoftmax", "MSELoss", "MarginRankingLoss",
    "MaxPool1d", "MaxPool2d", "Mish", "Module", "ModuleDict", "ModuleList", "NLLLoss", "PReLU",
    "PairwiseDistance", "ParameterDict", "ParameterList", "PixelShuffle", "PixelUnshuffle",
    "RMSNorm", "ReLU", "ReLU6", "SELU", "Sequential", "SiLU", "Sigmoid", "SmoothL1Loss",
    "Softmax", "Softplus", "Softsign", "Tanh", "TripletMarginLoss", "Unflatten", "Upsample",
]  # fmt: skip
