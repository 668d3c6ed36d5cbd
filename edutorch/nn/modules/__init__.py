"""Every layer as a module, by family (see README.md)."""

from __future__ import annotations

from .activation import (
    ELU, GELU, Hardtanh, LeakyReLU, LogSigmoid, LogSoftmax, ReLU, ReLU6, SELU, SiLU, Sigmoid,
    Softmax, Softplus, Softsign, Tanh,
)  # fmt: skip
from .container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .linear import Identity, Linear
from .loss import (
    BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, HuberLoss, KLDivLoss, L1Loss, MSELoss, NLLLoss,
    SmoothL1Loss,
)  # fmt: skip
from .module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "ELU", "GELU", "Hardtanh", "HuberLoss",
    "Identity", "KLDivLoss", "L1Loss", "LeakyReLU", "Linear", "LogSigmoid", "LogSoftmax",
    "MSELoss", "Module", "ModuleDict", "ModuleList", "NLLLoss", "ParameterDict", "ParameterList",
    "ReLU", "ReLU6", "SELU", "Sequential", "SiLU", "Sigmoid", "SmoothL1Loss", "Softmax",
    "Softplus", "Softsign", "Tanh",
]  # fmt: skip
