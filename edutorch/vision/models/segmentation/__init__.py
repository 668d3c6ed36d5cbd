"""Segmentation: a class for each pixel, from the features of a network that classifies pictures."""

from __future__ import annotations

from .deeplabv3 import *
from .fcn import *
