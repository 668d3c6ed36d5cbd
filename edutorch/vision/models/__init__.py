"""Networks for pictures, with torchvision's names and keys: a file each, written to be read.

model = models.resnet18(num_classes=10)
model = models.get_model("vit_b_16", image_size=64)
"""

from __future__ import annotations

from .registry import (
    get_model, get_model_builder, get_model_weights, get_weight, list_models, register_model,
)  # fmt: skip
from .alexnet import *
from .resnet import *
from .resnext import *
from .vgg import *
from .weights import WEIGHTS as _WEIGHTS
from .weights import WeightsEnum

# `ResNet18_Weights` and the others.
globals().update({_enum.__name__: _enum for _enum in _WEIGHTS.values()})
