"""Networks for pictures, with torchvision's names and keys: a file each, written to be read.

model = models.resnet18(num_classes=10)
model = models.get_model("vit_b_16", image_size=64)
"""

from __future__ import annotations

from .registry import (
    get_model, get_model_builder, get_model_weights, get_weight, list_models, register_model,
)  # fmt: skip
from . import segmentation
from .alexnet import *
from .convnext import *
from .densenet import *
from .efficientnet import *
from .efficientnetv2 import *
from .mobilenetv2 import *
from .mobilenetv3 import *
from .resnet import *
from .resnext import *
from .unet import *
from .vgg import *
from .vision_transformer import *
from .weights import WEIGHTS as _WEIGHTS
from .weights import WeightsEnum

# `ResNet18_Weights` and the others; `FCN_ResNet50_Weights` and its kin belong to `segmentation`.
for _name, _enum in _WEIGHTS.items():
    _face = vars(segmentation) if hasattr(segmentation, _name) else globals()
    _face[_enum.__name__] = _enum
