"""Random changes whose kinds and strengths were found by search: AutoAugment and its successors."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ... import ops
from . import functional as F
from .auto_augment_policies import POLICIES
from .base import Transform, fill_of, integer_below
from .functional.image import Image, get_dimensions
from .interpolation import InterpolationMode


class AutoAugmentPolicy(Enum):
    """The data set that a policy was searched for.

    >>> AutoAugmentPolicy("cifar10")
    <AutoAugmentPolicy.CIFAR10: 'cifar10'>
    """

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


class Look(NamedTuple):
    """How pixels between and outside of others are found."""

    interpolation: InterpolationMode
    fill: Any


def shear(img: Image, look: Look, x: float, y: float) -> Image:
    """Shear an image; its upper left corner stays in place."""
    degrees = [math.degrees(math.atan(x)), math.degrees(math.atan(y))]
    return F.affine(img, 0.0, [0, 0], 1.0, degrees, *look, center=[0, 0])


def move(img: Image, look: Look, x: float, y: float) -> Image:
    """Move an image by whole pixels."""
    return F.affine(img, 0.0, [int(x), int(y)], 1.0, [0.0, 0.0], *look)


CHANGES: dict[str, Callable[[Image, float, Look], Image]] = {
    "Identity": lambda img, strength, look: img,
    "ShearX": lambda img, strength, look: shear(img, look, strength, 0.0),
    "ShearY": lambda img, strength, look: shear(img, look, 0.0, strength),
    "TranslateX": lambda img, strength, look: move(img, look, strength, 0.0),
    "TranslateY": lambda img, strength, look: move(img, look, 0.0, strength),
    "Rotate": lambda img, strength, look: F.rotate(
        img, strength, look.interpolation, fill=look.fill
    ),
    "Brightness": lambda img, strength, look: F.adjust_brightness(img, 1.0 + strength),
    "Color": lambda img, strength, look: F.adjust_saturation(img, 1.0 + strength),
    "Contrast": lambda img, strength, look: F.adjust_contrast(img, 1.0 + strength),
    "Sharpness": lambda img, strength, look: F.adjust_sharpness(img, 1.0 + strength),
    "Posterize": lambda img, strength, look: F.posterize(img, int(strength)),
    "Solarize": lambda img, strength, look: F.solarize(img, strength),
    "AutoContrast": lambda img, strength, look: F.autocontrast(img),
    "Equalize": lambda img, strength, look: F.equalize(img),
    "Invert": lambda img, strength, look: F.invert(img),
}
"""What each name does, with a strength."""

SIGNED = {
    "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
    "Sharpness",
}  # fmt: skip
"""What can be done in two directions."""


class Limits(NamedTuple):
    """The greatest strengths of a space of changes."""

    shear: float
    translate: tuple[float, float]
    rotate: float
    color: float
    posterize: int


def strengths(limits: Limits, bins: int) -> dict[str, np.ndarray[Any, Any] | None]:
    """Return the strengths of each change, from the weakest on; None for those without.

    >>> strengths(Limits(0.3, (10, 20), 30, 0.9, 4), 4)["Rotate"]
    array([ 0., 10., 20., 30.], dtype=float32)
    """

    def up_to(greatest: float) -> np.ndarray[Any, Any]:
        return ops.linspace(0.0, greatest, bins).numpy()

    bits = 8 - np.round(np.arange(bins, dtype=np.float32) / ((bins - 1) / limits.posterize))
    return {
        "Identity": None, "ShearX": up_to(limits.shear), "ShearY": up_to(limits.shear),
        "TranslateX": up_to(limits.translate[0]), "TranslateY": up_to(limits.translate[1]),
        "Rotate": up_to(limits.rotate), "Brightness": up_to(limits.color),
        "Color": up_to(limits.color), "Contrast": up_to(limits.color),
        "Sharpness": up_to(limits.color), "Posterize": bits,
        "Solarize": ops.linspace(255.0, 0.0, bins).numpy(), "AutoContrast": None, "Equalize": None,
    }  # fmt: skip


def limits_for(img: Image) -> Limits:
    """Return the limits of AutoAugment and RandAugment for an image."""
    _, height, width = get_dimensions(img)
    return Limits(0.3, (150.0 / 331.0 * width, 150.0 / 331.0 * height), 30.0, 0.9, 4)


class RandAugment(Transform):
    """Apply random changes, all of the same strength.

    Args:
        num_ops: how many changes.
        magnitude: the strength, from 0 to `num_magnitude_bins` - 1.
        num_magnitude_bins: how many strengths there are.
        interpolation, fill: as in `functional.affine`.

    Paper: Cubuk et al., "RandAugment" (2019).

    >>> RandAugment()(zeros(3, 8, 8, dtype=uint8)).shape
    torch.Size([3, 8, 8])
    """

    shown = ("num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self, num_ops: int = 2, magnitude: int = 9, num_magnitude_bins: int = 31,
        interpolation: InterpolationMode = InterpolationMode.NEAREST, fill: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_ops, self.magnitude = num_ops, magnitude
        self.num_magnitude_bins = num_magnitude_bins
        self.interpolation, self.fill = interpolation, fill

    def forward(self, img: Image) -> Image:
        """Return the changed image."""
        look = Look(self.interpolation, fill_of(img, self.fill))
        space = strengths(limits_for(img), self.num_magnitude_bins)
        names = list(space)
        for _ in range(self.num_ops):
            name = names[integer_below(len(names))]
            levels = space[name]
            strength = 0.0 if levels is None else float(levels[self.magnitude])
            if name in SIGNED and integer_below(2):
                strength = -strength
            img = CHANGES[name](img, strength, look)
        return img


class TrivialAugmentWide(Transform):
    """Apply one random change of random strength.

    Args:
        num_magnitude_bins: how many strengths there are.
        interpolation, fill: as in `functional.affine`.

    Paper: Müller and Hutter, "TrivialAugment" (2021).

    >>> TrivialAugmentWide()(zeros(3, 8, 8, dtype=uint8)).shape
    torch.Size([3, 8, 8])
    """

    shown = ("num_magnitude_bins", "interpolation", "fill")

    def __init__(
        self, num_magnitude_bins: int = 31,
        interpolation: InterpolationMode = InterpolationMode.NEAREST, fill: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_magnitude_bins = num_magnitude_bins
        self.interpolation, self.fill = interpolation, fill

    def forward(self, img: Image) -> Image:
        """Return the changed image."""
        look = Look(self.interpolation, fill_of(img, self.fill))
        space = strengths(Limits(0.99, (32.0, 32.0), 135.0, 0.99, 6), self.num_magnitude_bins)
        names = list(space)
        name = names[integer_below(len(names))]
        levels = space[name]
        strength = 0.0 if levels is None else float(levels[integer_below(len(levels))])
        if name in SIGNED and integer_below(2):
            strength = -strength
        return CHANGES[name](img, strength, look)


class AutoAugment(Transform):
    """Apply one of 25 pairs of changes that were found by search for a data set.

    Args:
        policy: the data set.
        interpolation, fill: as in `functional.affine`.

    Paper: Cubuk et al., "AutoAugment" (2018).

    >>> AutoAugment()(zeros(3, 8, 8, dtype=uint8)).shape
    torch.Size([3, 8, 8])
    """

    shown = ("policy", "fill")

    def __init__(
        self, policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: InterpolationMode = InterpolationMode.NEAREST, fill: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.policy = AutoAugmentPolicy(policy)
        self.interpolation, self.fill = interpolation, fill
        self.policies = POLICIES[self.policy.value]

    @staticmethod
    def get_params(transform_num: int) -> tuple[int, Any, Any]:
        """Draw which pair is applied, a number for each of both probabilities, and two signs."""
        pair = integer_below(transform_num)
        return pair, ops.rand((2,)), ops.randint(2, (2,))

    def forward(self, img: Image) -> Image:
        """Return the changed image."""
        look = Look(self.interpolation, fill_of(img, self.fill))
        space = {**strengths(limits_for(img), 10), "Invert": None}
        pair, draws, signs = self.get_params(len(self.policies))
        for index, (name, probability, level) in enumerate(self.policies[pair]):
            if draws[index].item() > probability:
                continue
            levels = space[name]
            strength = 0.0 if levels is None or level is None else float(levels[level])
            if name in SIGNED and signs[index].item() == 0:
                strength = -strength
            img = CHANGES[name](img, strength, look)
        return img
