"""The files in which PyTorch keeps its modules: `torch.nn.modules.batchnorm._BatchNorm`.

Here the layers lie in other files, by what they have in common. So that code written for
PyTorch finds them, each of its files exists here as well and knows the names of that file.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from . import attention, conv, dropout, lazy, loss, norm, padding, pooling, state_dict, unpooling

PUBLIC = {
    "activation": "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU "
    "LogSigmoid LogSoftmax Mish MultiheadAttention PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid "
    "Softmax Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold",
    "adaptive": "AdaptiveLogSoftmaxWithLoss",
    "batchnorm": "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d "
    "LazyBatchNorm3d SyncBatchNorm",
    "channelshuffle": "ChannelShuffle",
    "container": "Container",
    "conv": "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d "
    "LazyConvTranspose3d",
    "instancenorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d "
    "LazyInstanceNorm2d LazyInstanceNorm3d",
    "linear": "LazyLinear",
    "linear_cross_entropy_options": "LinearCrossEntropyOptions",
    "loss": "CTCLoss CosineEmbeddingLoss GaussianNLLLoss HingeEmbeddingLoss "
    "LinearCrossEntropyLoss MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss "
    "MultiMarginLoss NLLLoss2d PoissonNLLLoss SoftMarginLoss TripletMarginLoss "
    "TripletMarginWithDistanceLoss",
    "normalization": "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm",
    "pixelshuffle": "PixelShuffle PixelUnshuffle",
    "pooling": "FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d MaxUnpool1d "
    "MaxUnpool2d MaxUnpool3d",
    "rnn": "GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell RNNCellBase",
    "sparse": "Embedding EmbeddingBag",
    "upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
}
"""Public names by PyTorch's file: those that do not lie in our file of the same name."""

BASES: dict[str, dict[str, Any]] = {
    "batchnorm": {"_BatchNorm": norm.BatchNorm, "_NormBase": norm.RunningNorm,
                  "_LazyNormBase": lazy.LazyNorm},
    "conv": {"_ConvNd": conv.ConvNd, "_ConvTransposeNd": conv.ConvTranspose,
             "_LazyConvXdMixin": lazy.LazyConvNd},
    "dropout": {"_DropoutNd": dropout.DropoutNd},
    "linear": {"NonDynamicallyQuantizableLinear": attention.OutputLinear},
    "instancenorm": {"_InstanceNorm": norm.InstanceNorm},
    "loss": {"_Loss": loss.Loss, "_WeightedLoss": loss.WeightedLoss},
    "module": {"_IncompatibleKeys": state_dict.IncompatibleKeys},
    "padding": {"_ConstantPadNd": padding.ConstantPad},
    "pooling": {"_MaxPoolNd": pooling.MaxPool, "_AdaptiveAvgPoolNd": pooling.AdaptiveAvgPool,
                "_AdaptiveMaxPoolNd": pooling.AdaptiveMaxPool, "_LPPoolNd": unpooling.LPPool,
                "_MaxUnpoolNd": unpooling.MaxUnpool},
}  # fmt: skip
"""Classes behind the public ones, by PyTorch's file and name: for `isinstance` and subclasses."""


def furnish(package: ModuleType) -> None:
    """Give the package `modules` all of PyTorch's files, with the names that lie in them."""
    for file in {**PUBLIC, **BASES}:
        path = f"{package.__name__}.{file}"
        home = sys.modules.get(path)
        if home is None:
            home = ModuleType(path, f"What lies in PyTorch's file {file}.py: see homes.py.")
            home.__spec__ = ModuleSpec(path, None, origin=package.__file__)
            home.__package__ = package.__name__
            sys.modules[path] = home
            setattr(package, file, home)
        for name in PUBLIC.get(file, "").split():
            setattr(home, name, getattr(package, name))
        for name, base in BASES.get(file, {}).items():
            setattr(home, name, base)
