"""Transforms of images: PIL's or tensors, alone or as a chain (see README.md).

transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])
"""

from __future__ import annotations

from . import functional
from .auto_augment import AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide
from .color import (
    ColorJitter, GaussianBlur, RandomAdjustSharpness, RandomAutocontrast, RandomEqualize,
    RandomGrayscale, RandomInvert, RandomPosterize, RandomSolarize,
)  # fmt: skip
from .containers import Compose, RandomApply, RandomChoice, RandomOrder
from .conversion import (
    ConvertImageDtype, Grayscale, Lambda, LinearTransformation, Normalize, PILToTensor, Resize,
    ToPILImage, ToTensor,
)  # fmt: skip
from .crops import (
    CenterCrop, FiveCrop, Pad, RandomCrop, RandomErasing, RandomResizedCrop, TenCrop,
)  # fmt: skip
from .geometry import (
    ElasticTransform, RandomAffine, RandomHorizontalFlip, RandomPerspective, RandomRotation,
    RandomVerticalFlip,
)  # fmt: skip
from .interpolation import InterpolationMode

__all__ = [
    "AutoAugment", "AutoAugmentPolicy", "CenterCrop", "ColorJitter", "Compose",
    "ConvertImageDtype", "ElasticTransform", "FiveCrop", "GaussianBlur", "Grayscale",
    "InterpolationMode", "Lambda", "LinearTransformation", "Normalize", "PILToTensor", "Pad",
    "RandAugment", "RandomAdjustSharpness", "RandomAffine", "RandomApply", "RandomAutocontrast",
    "RandomChoice", "RandomCrop", "RandomEqualize", "RandomErasing", "RandomGrayscale",
    "RandomHorizontalFlip", "RandomInvert", "RandomOrder", "RandomPerspective", "RandomPosterize",
    "RandomResizedCrop", "RandomRotation", "RandomSolarize", "RandomVerticalFlip", "Resize",
    "TenCrop", "ToPILImage", "ToTensor", "TrivialAugmentWide", "functional",
]  # fmt: skip
