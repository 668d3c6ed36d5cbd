"""Transforms as functions of an image, which is a PIL image or a tensor (see README.md)."""

from __future__ import annotations

from ..interpolation import InterpolationMode
from .color import (
    adjust_brightness, adjust_contrast, adjust_gamma, adjust_hue, adjust_saturation, autocontrast,
    equalize, invert, normalize, posterize, rgb_to_grayscale, solarize, to_grayscale,
)  # fmt: skip
from .conversion import convert_image_dtype, pil_to_tensor, to_pil_image, to_tensor
from .crops import (
    center_crop, crop, erase, five_crop, hflip, pad, resized_crop, ten_crop, vflip,
)  # fmt: skip
from .filters import adjust_sharpness, gaussian_blur
from .image import get_dimensions, get_image_num_channels, get_image_size
from .resizing import resize
from .warps import affine, elastic_transform, perspective, rotate

__all__ = [
    "InterpolationMode", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue",
    "adjust_saturation", "adjust_sharpness", "affine", "autocontrast", "center_crop",
    "convert_image_dtype", "crop", "elastic_transform", "equalize", "erase", "five_crop",
    "gaussian_blur", "get_dimensions", "get_image_num_channels", "get_image_size", "hflip",
    "invert", "normalize", "pad", "perspective", "pil_to_tensor", "posterize", "resize",
    "resized_crop", "rgb_to_grayscale", "rotate", "solarize", "ten_crop", "to_grayscale",
    "to_pil_image", "to_tensor", "vflip",
]  # fmt: skip
