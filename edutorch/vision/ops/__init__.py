"""Boxes, regions of interest and the building blocks of detectors (see README.md)."""

from __future__ import annotations

from .boxes import *
from .boxes import __all__ as _boxes
from .deform_conv import DeformConv2d, deform_conv2d
from .feature_pyramid import FeaturePyramidNetwork, LastLevelMaxPool
from .focal_loss import sigmoid_focal_loss
from .layers import *
from .layers import __all__ as _layers
from .roi import *
from .roi import __all__ as _roi

__all__ = [
    *_boxes, *_layers, *_roi, "DeformConv2d", "FeaturePyramidNetwork", "LastLevelMaxPool",
    "deform_conv2d", "sigmoid_focal_loss",
]  # fmt: skip
