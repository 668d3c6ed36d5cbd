"""Mirrored, turned, sheared, tilted and crumpled images."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...errors import InvalidValueError
from . import functional as F
from .base import (
    Transform,
    WithProbability,
    check_probability,
    fill_of,
    integer_below,
    to_range,
    uniform,
)  # fmt: skip
from .functional.filters import pair_of_values
from .functional.image import Image, get_dimensions
from .functional.warps import smooth_displacement
from .interpolation import InterpolationMode


class RandomHorizontalFlip(WithProbability):
    """Mirror an image (left becomes right) with probability `p`.

    >>> RandomHorizontalFlip(p=1)(tensor([[[1, 2]]]))
    tensor([[[2, 1]]])
    """

    def change(self, img: Image) -> Image:
        """Return the mirrored image."""
        return F.hflip(img)


class RandomVerticalFlip(WithProbability):
    """Turn an image upside down with probability `p`.

    >>> RandomVerticalFlip(p=1)(tensor([[[1], [2]]])).flatten()
    tensor([2, 1])
    """

    def change(self, img: Image) -> Image:
        """Return the image upside down."""
        return F.vflip(img)


class RandomRotation(Transform):
    """Turn an image by a random angle.

    Args:
        degrees: (from, to), or one number for both directions.
        expand, center, fill, interpolation: as in `functional.rotate`.

    >>> RandomRotation(30).degrees
    [-30.0, 30.0]
    """

    def __init__(
        self, degrees: Any, interpolation: InterpolationMode = InterpolationMode.NEAREST,
        expand: bool = False, center: Any = None, fill: Any = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.degrees = to_range("RandomRotation", "degrees", degrees)
        self.interpolation, self.expand = interpolation, expand
        self.center, self.fill = center, 0 if fill is None else fill

    @staticmethod
    def get_params(degrees: list[float]) -> float:
        """Draw an angle."""
        return uniform(degrees[0], degrees[1])

    def forward(self, img: Image) -> Image:
        """Return the turned image."""
        fill, angle = fill_of(img, self.fill), self.get_params(self.degrees)
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, fill)

    def __repr__(self) -> str:
        settings = f"degrees={self.degrees}, interpolation={self.interpolation.value}"
        settings += f", expand={self.expand}"
        if self.center is not None:
            settings += f", center={self.center}"
        return f"RandomRotation({settings}, fill={self.fill})"


class RandomAffine(Transform):
    """Turn, move, scale and shear an image at random.

    Args:
        degrees: (from, to), or one number for both directions.
        translate: how far an image moves at most: (share of its width, share of its height).
        scale: (from, to).
        shear: degrees along x: one number for both directions, or (from, to); or four numbers, for
            x and y.
        fill, interpolation, center: as in `functional.affine`.

    >>> RandomAffine(0, translate=(0.5, 0.5))(ones(1, 4, 4)).shape
    torch.Size([1, 4, 4])
    """

    def __init__(
        self, degrees: Any, translate: Any = None, scale: Any = None, shear: Any = None,
        interpolation: InterpolationMode = InterpolationMode.NEAREST, fill: Any = 0,
        center: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.degrees = to_range("RandomAffine", "degrees", degrees)
        if translate is not None and not all(0 <= share <= 1 for share in translate):
            raise InvalidValueError(
                "RandomAffine", "`translate` is two shares, between 0 and 1",
                {"translate": translate},
            )  # fmt: skip
        if scale is not None and min(scale) <= 0:
            raise InvalidValueError("RandomAffine", "`scale` is positive", {"scale": scale})
        if shear is not None and not (isinstance(shear, list | tuple) and len(shear) == 4):
            shear = to_range("RandomAffine", "shear", shear)
        self.translate, self.scale, self.shear = translate, scale, shear
        self.interpolation, self.fill = interpolation, 0 if fill is None else fill
        self.center = center

    @staticmethod
    def get_params(
        degrees: Any, translate: Any, scale_ranges: Any, shears: Any, img_size: list[int]
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Draw (angle, translation, scale, shear).

        Args:
            img_size: (width, height).
        """
        angle = uniform(degrees[0], degrees[1])
        moves = (0, 0)
        if translate is not None:
            most = [share * size for share, size in zip(translate, img_size, strict=True)]
            moves = (round(uniform(-most[0], most[0])), round(uniform(-most[1], most[1])))
        scale = 1.0 if scale_ranges is None else uniform(scale_ranges[0], scale_ranges[1])
        shear_x = shear_y = 0.0
        if shears is not None:
            shear_x = uniform(shears[0], shears[1])
            shear_y = uniform(shears[2], shears[3]) if len(shears) == 4 else 0.0
        return angle, moves, scale, (shear_x, shear_y)

    def forward(self, img: Image) -> Image:
        """Return the changed image."""
        fill = fill_of(img, self.fill)
        _, height, width = get_dimensions(img)
        drawn = self.get_params(
            self.degrees, self.translate, self.scale, self.shear, [width, height]
        )
        angle, moves, scale, shear = drawn
        return F.affine(
            img, angle, list(moves), scale, shear, self.interpolation, fill, self.center
        )

    def __repr__(self) -> str:
        parts = [f"degrees={self.degrees}"]
        parts += [
            f"{name}={getattr(self, name)}"
            for name in ("translate", "scale", "shear")
            if getattr(self, name) is not None
        ]
        if self.interpolation is not InterpolationMode.NEAREST:
            parts.append(f"interpolation={self.interpolation.value}")
        parts += [f"fill={self.fill}"] if self.fill != 0 else []
        parts += [f"center={self.center}"] if self.center is not None else []
        return f"RandomAffine({', '.join(parts)})"


class RandomPerspective(Transform):
    """Tilt an image at random with probability `p`.

    Args:
        distortion_scale: from 0 to 1: how far the corners move.
        fill, interpolation: as in `functional.perspective`.

    >>> RandomPerspective(p=1)(ones(1, 8, 8)).shape
    torch.Size([1, 8, 8])
    """

    shown = ("p",)

    def __init__(
        self, distortion_scale: float = 0.5, p: float = 0.5,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR, fill: Any = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.distortion_scale = check_probability("RandomPerspective", distortion_scale)
        self.p = check_probability("RandomPerspective", p)
        self.interpolation, self.fill = interpolation, 0 if fill is None else fill

    @staticmethod
    def get_params(
        width: int, height: int, distortion_scale: float
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Draw where the corners move: (corners of the image, their new places)."""
        most_x = int(distortion_scale * (width // 2))
        most_y = int(distortion_scale * (height // 2))

        def near(is_right: bool, is_bottom: bool) -> list[int]:
            x = integer_below(width, width - most_x - 1) if is_right else integer_below(most_x + 1)
            bottom = height - most_y - 1
            return [x, integer_below(height, bottom) if is_bottom else integer_below(most_y + 1)]

        corners = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        return corners, [near(False, False), near(True, False), near(True, True), near(False, True)]

    def forward(self, img: Image) -> Image:
        """Return the image, tilted or as it is."""
        fill = fill_of(img, self.fill)
        if ops.rand(1).item() >= self.p:
            return img
        _, height, width = get_dimensions(img)
        start, end = self.get_params(width, height, self.distortion_scale)
        return F.perspective(img, start, end, self.interpolation, fill)


class ElasticTransform(Transform):
    """Crumple an image by a smooth random displacement.

    Args:
        alpha: how far pixels move, in pixels: one number, or (along x, along y).
        sigma: how smooth the displacement is, in pixels: one number, or (along x, along y).
        fill, interpolation: as in `functional.elastic_transform`.

    Paper: Simard et al., "Best Practices for Convolutional Neural Networks" (2003).

    >>> ElasticTransform(sigma=1.0)(ones(1, 8, 8)).shape
    torch.Size([1, 8, 8])
    """

    def __init__(
        self, alpha: Any = 50.0, sigma: Any = 5.0,
        interpolation: InterpolationMode = InterpolationMode.BILINEAR, fill: Any = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.alpha = [float(x) for x in pair_of_values("ElasticTransform", "alpha", alpha)]
        self.sigma = [float(x) for x in pair_of_values("ElasticTransform", "sigma", sigma)]
        self.interpolation = interpolation
        self.fill = [float(fill)] if isinstance(fill, int | float) else [float(x) for x in fill]

    @staticmethod
    def get_params(alpha: list[float], sigma: list[float], size: list[int]) -> Tensor:
        """Draw a displacement for an image of `size` (height, width)."""
        return smooth_displacement(size, alpha, sigma)

    def forward(self, tensor: Image) -> Image:
        """Return the crumpled image."""
        _, height, width = get_dimensions(tensor)
        displacement = self.get_params(self.alpha, self.sigma, [height, width])
        return F.elastic_transform(tensor, displacement, self.interpolation, self.fill)

    def __repr__(self) -> str:
        mode = self.interpolation.value
        settings = f"alpha={self.alpha}, sigma={self.sigma}, interpolation={mode}"
        return f"ElasticTransform({settings}, fill={self.fill})"
