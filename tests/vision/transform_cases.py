"""Calls of transforms that run with the real torchvision and with ours, on the same images.

`deterministic` and `random_ones` return calls by name, each of (transforms, functional, image).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[Any, Any, Any], Any]


def pixels(height: int = 9, width: int = 12, channels: int = 3) -> np.ndarray[Any, Any]:
    """Return a picture of slopes, edges and a little noise: height × width × channels, uint8."""
    noise = np.random.RandomState(0).randint(0, 4, (height, width, channels))
    y, x, c = np.ogrid[:height, :width, :channels]
    slopes = 14 * x + 9 * y * (c + 1) % 256
    return ((slopes + noise + 90 * (x > y)) % 256).astype(np.uint8)


POINTS = [[0, 0], [11, 0], [11, 8], [0, 8]]
MOVED = [[2, 1], [10, 0], [9, 7], [1, 6]]


def deterministic() -> dict[str, Call]:
    """Return the calls without random numbers."""
    calls: dict[str, Call] = {
        "center_crop": lambda T, F, x: F.center_crop(x, [5, 8]),
        "center_crop_larger": lambda T, F, x: F.center_crop(x, [12, 15]),
        "crop_outside": lambda T, F, x: F.crop(x, -2, 8, 6, 7),
        "hflip": lambda T, F, x: F.hflip(x),
        "vflip": lambda T, F, x: F.vflip(x),
        "grey": lambda T, F, x: F.rgb_to_grayscale(x),
        "grey_3": lambda T, F, x: F.rgb_to_grayscale(x, 3),
        "brightness": lambda T, F, x: F.adjust_brightness(x, 1.4),
        "contrast": lambda T, F, x: F.adjust_contrast(x, 0.6),
        "saturation": lambda T, F, x: F.adjust_saturation(x, 1.7),
        "hue": lambda T, F, x: F.adjust_hue(x, -0.2),
        "gamma": lambda T, F, x: F.adjust_gamma(x, 1.8, 1.1),
        "sharpness": lambda T, F, x: F.adjust_sharpness(x, 1.8),
        "smoothness": lambda T, F, x: F.adjust_sharpness(x, 0.2),
        "invert": lambda T, F, x: F.invert(x),
        "posterize": lambda T, F, x: F.posterize(x, 3),
        "solarize": lambda T, F, x: F.solarize(x, 120),
        "autocontrast": lambda T, F, x: F.autocontrast(F.adjust_contrast(x, 0.5)),
        "equalize": lambda T, F, x: F.equalize(x),
        "blur": lambda T, F, x: F.gaussian_blur(x, [3, 5]),
        "blur_sigma": lambda T, F, x: F.gaussian_blur(x, 5, [1.5, 0.7]),
        "five_crop": lambda T, F, x: F.five_crop(x, 5)[3],
        "ten_crop": lambda T, F, x: F.ten_crop(x, [4, 6], True)[7],
        "resized_crop": lambda T, F, x: F.resized_crop(x, 1, 2, 8, 11, [6, 6]),
    }
    return calls | borders() | sizes() | warps()


def borders() -> dict[str, Call]:
    calls: dict[str, Call] = {
        f"pad_{mode}": lambda T, F, x, mode=mode: F.pad(x, [2, 1, 3, 2], 0, mode)
        for mode in ("constant", "edge", "reflect", "symmetric")
    }
    calls["pad_fill"] = lambda T, F, x: F.pad(x, [3, 1], 77)
    return calls


def sizes() -> dict[str, Call]:
    modes = ("nearest", "bilinear", "bicubic")
    calls: dict[str, Call] = {
        f"resize_{mode}_{'x'.join(map(str, size))}": lambda T, F, x, mode=mode, size=size: F.resize(
            x, size, T.InterpolationMode(mode), antialias=True
        )
        for mode in modes
        for size in ([5], [13, 16], [4, 20])
    }
    calls["resize_max"] = lambda T, F, x: F.resize(x, [8], max_size=10)
    return calls


def warps() -> dict[str, Call]:
    calls: dict[str, Call] = {}
    for name in ("nearest", "bilinear"):
        calls |= {
            f"rotate_{name}": lambda T, F, x, mode=name: F.rotate(
                x, 33.0, T.InterpolationMode(mode)
            ),
            f"rotate_expand_{name}": lambda T, F, x, mode=name: F.rotate(
                x, -20.0, T.InterpolationMode(mode), expand=True, fill=[9.0, 90.0, 200.0]
            ),
            f"rotate_center_{name}": lambda T, F, x, mode=name: F.rotate(
                x, 70.0, T.InterpolationMode(mode), center=[3, 4]
            ),
            f"affine_{name}": lambda T, F, x, mode=name: F.affine(
                x, 15.0, [2, -1], 1.3, [8.0, -5.0], T.InterpolationMode(mode), [50.0]
            ),
            f"affine_center_{name}": lambda T, F, x, mode=name: F.affine(
                x, -40.0, [0, 3], 0.7, [20.0], T.InterpolationMode(mode), center=[5, 2]
            ),
            f"perspective_{name}": lambda T, F, x, mode=name: F.perspective(
                x, POINTS, MOVED, T.InterpolationMode(mode), [0.0, 100.0, 50.0]
            ),
        }
    return calls


def random_ones() -> dict[str, Call]:
    """Return the calls that draw random numbers."""
    return {
        "RandomCrop": lambda T, F, x: T.RandomCrop(6, padding=2)(x),
        "RandomCrop_needed": lambda T, F, x: T.RandomCrop((11, 14), None, True)(x),
        "RandomResizedCrop": lambda T, F, x: T.RandomResizedCrop((7, 9))(x),
        "RandomResizedCrop_never": lambda T, F, x: T.RandomResizedCrop(5, (4.0, 5.0))(x),
        "RandomHorizontalFlip": lambda T, F, x: T.RandomHorizontalFlip()(x),
        "RandomVerticalFlip": lambda T, F, x: T.RandomVerticalFlip(0.7)(x),
        "RandomRotation": lambda T, F, x: T.RandomRotation(40, fill=7)(x),
        "RandomAffine": lambda T, F, x: T.RandomAffine(20, (0.2, 0.3), (0.7, 1.4), 15, fill=3)(x),
        "RandomAffine_4": lambda T, F, x: T.RandomAffine(0, shear=(-9, 9, 3, 20))(x),
        "RandomPerspective": lambda T, F, x: T.RandomPerspective(0.6, 0.9)(x),
        "ColorJitter": lambda T, F, x: T.ColorJitter(0.4, 0.3, (0.5, 1.9), 0.2)(x),
        "RandomGrayscale": lambda T, F, x: T.RandomGrayscale(0.6)(x),
        "GaussianBlur": lambda T, F, x: T.GaussianBlur((3, 5))(x),
        "RandomInvert": lambda T, F, x: T.RandomInvert()(x),
        "RandomPosterize": lambda T, F, x: T.RandomPosterize(2)(x),
        "RandomSolarize": lambda T, F, x: T.RandomSolarize(100)(x),
        "RandomAdjustSharpness": lambda T, F, x: T.RandomAdjustSharpness(3)(x),
        "RandomAutocontrast": lambda T, F, x: T.RandomAutocontrast()(x),
        "RandomEqualize": lambda T, F, x: T.RandomEqualize()(x),
        "RandomApply": lambda T, F, x: T.RandomApply([T.RandomCrop(5), T.RandomRotation(9)], 0.6)(
            x
        ),
        "RandomOrder": lambda T, F, x: T.RandomOrder([T.RandomCrop(6), T.Pad(2)])(x),
        "RandomChoice": lambda T, F, x: T.RandomChoice(
            [T.Pad(1), T.CenterCrop(4), T.RandomCrop(3)], [0.2, 0.2, 0.6]
        )(x),
        "RandAugment": lambda T, F, x: T.RandAugment(3, 15)(x),
        "TrivialAugmentWide": lambda T, F, x: T.TrivialAugmentWide()(x),
        "AutoAugment": lambda T, F, x: T.AutoAugment()(x),
        "AutoAugment_svhn": lambda T, F, x: T.AutoAugment(T.AutoAugmentPolicy.SVHN)(x),
    }


def of_tensors() -> dict[str, Call]:
    """Return the calls that draw random numbers, and are for tensors only."""
    return {
        "RandomErasing": lambda T, F, x: T.RandomErasing(0.8)(x),
        "RandomErasing_random": lambda T, F, x: T.RandomErasing(1, value="random")(x / 255),
        "RandomErasing_colour": lambda T, F, x: T.RandomErasing(1, value=(3, 40, 90))(x),
        "ElasticTransform": lambda T, F, x: T.ElasticTransform(30.0, 0.6)(x),
    }


class Draws:
    """Random numbers for a library: in place of its own functions they come from NumPy."""

    def __init__(self, tensor: Callable[[Any], Any], seed: int) -> None:
        self.tensor, self.stream = tensor, np.random.RandomState(seed)
        random.seed(seed)

    def rand(self, *size: Any) -> Any:
        shape = size[0] if size and not isinstance(size[0], int) else size
        return self.tensor(self.stream.rand(*shape).astype(np.float32))

    def randint(self, *bounds: Any, size: Any = None, dtype: Any = None) -> Any:
        if size is None:
            *bounds, size = bounds
        low, high = bounds if len(bounds) == 2 else (0, *bounds)
        return self.tensor(self.stream.randint(low, high, tuple(size)))

    def randperm(self, n: int) -> Any:
        return self.tensor(self.stream.permutation(n))

    def uniform_(self, values: Any, low: float = 0.0, high: float = 1.0) -> Any:
        share = self.stream.rand(*values.shape).astype(np.float32)
        low, high = float(low), float(high)
        return values.copy_(self.tensor(share * np.float32(high - low) + np.float32(low)))

    def normal_(self, values: Any) -> Any:
        return values.copy_(self.tensor(self.stream.normal(size=tuple(values.shape))))


def replace_draws(functions: Any, tensor_class: type, draws: Draws, put: Any = setattr) -> None:
    """Let a library take its random numbers from `draws`.

    Args:
        functions: its module with rand, randint and randperm.
        put: as `setattr`.
    """
    for name in ("rand", "randint", "randperm"):
        put(functions, name, getattr(draws, name))
    for name in ("uniform_", "normal_"):
        method = getattr(draws, name)
        put(tensor_class, name, lambda values, *args, method=method: method(values, *args))
