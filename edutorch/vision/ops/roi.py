"""Pooling regions of interest: a piece of the feature map, of a fixed size, for each box.

`roi_align` averages points that are interpolated, `roi_pool` takes the largest pixel of each bin.
Their position-sensitive forms (`ps_`) read other channels for each bin. What they have in common,
which pixels a bin reads, is in `roi_pixels.py`.

The boxes themselves get no gradient, as in torchvision.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ...core.composed import composed_in_float32
from ...core.tensor import Tensor
from ...errors import ArgumentError, DimError, DTypeError, ShapeError
from ...nn import Module
from ...nn.functional.sliding_window import expand_setting
from ...ops import cat, full_like, permute, reshape, where, zeros
from .roi_pixels import PixelAxis, SampledAxis, average_pixels, largest_pixels, pool_bins

__all__ = [
    "PSRoIAlign", "PSRoIPool", "RoIAlign", "RoIPool", "ps_roi_align", "ps_roi_pool", "roi_align",
    "roi_pool",
]  # fmt: skip

Boxes = Tensor | Sequence[Tensor]
Size = int | Sequence[int]


# The arguments that all have --------------------------------------------------------------------


def as_rois(op: str, input: Tensor, boxes: Boxes) -> Tensor:
    """Return the boxes as rows (image, x1, y1, x2, y2), from one tensor or a list by image.

    Raises: ShapeError, DTypeError: the boxes do not fit the images.
    """
    if isinstance(boxes, list | tuple):
        for tensor in boxes:
            if tensor.ndim != 2 or tensor.shape[1] != 4:
                raise ShapeError(
                    op, "the boxes of an image are expected as (k 4)",
                    {"boxes": tuple(tensor.shape)},
                )  # fmt: skip
        rows = [cat((full_like(b[:, :1], i), b), 1) for i, b in enumerate(boxes)]
        boxes = cat(rows) if rows else zeros(0, 5, dtype=input.dtype, device=input.device)
    if not isinstance(boxes, Tensor):
        raise ArgumentError(
            op, f"boxes is expected to be a tensor or a list of them, got {type(boxes).__name__}"
        )
    shapes = {"input (n c h w)": tuple(input.shape), "boxes (k 5)": tuple(boxes.shape)}
    if input.ndim != 4:
        raise ShapeError(op, "expected a batch of feature maps", shapes)
    if boxes.ndim != 2 or boxes.shape[1] != 5:
        raise ShapeError(
            op, "expected boxes (k 5), with rows image, x1, y1, x2, y2", shapes,
            "boxes (k 4) of one image are given in a list",
        )  # fmt: skip
    if input.dtype is not boxes.dtype:
        raise DTypeError(
            op, "input and boxes must have the same dtype",
            {"input": input.dtype, "boxes": boxes.dtype}, "use boxes.to(input.dtype)",
        )  # fmt: skip
    return boxes


def on_host(op: str, boxes: Tensor, images: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the image (k) of each box, and its corners (4 k) in pixels of the feature map.

    Raises: DimError: there is no such image.
    """
    array = boxes.detach().cpu().numpy()
    image = array[:, 0].astype(np.int64)
    wrong = image[(image < 0) | (image >= images)]
    if wrong.size:
        raise DimError(
            op, f"a box belongs to image {wrong[0]}, but the batch has {images}",
            hint="the first column of the boxes is the index of the image",
        )  # fmt: skip
    return image, array[:, 1:].T * array.dtype.type(scale)


def round_half_away(x: np.ndarray) -> np.ndarray:
    """Round as C does: 0.5 to 1 and -0.5 to -1."""
    return np.trunc(x + np.copysign(0.5, x))


def first_pixels(image: np.ndarray, input: Tensor) -> np.ndarray:
    """Return, (k 1 1), where the image of each box begins."""
    return (image * (input.shape[2] * input.shape[3]))[:, None, None]


def split_bins(op: str, input: Tensor, size: tuple[int, int]) -> Tensor:
    """Return a feature map (n · i · j, c, h, w) for each bin, from channels (c · i · j).

    Raises: ShapeError: the channels cannot be divided.
    """
    bins = size[0] * size[1]
    if input.shape[1] % bins:
        raise ShapeError(
            op, f"the channels must be a multiple of the {bins} bins",
            {"input (n c h w)": tuple(input.shape), "output_size": size},
        )  # fmt: skip
    n, channels, height, width = input.shape
    split = reshape(input, (n, channels // bins, bins, height, width))
    return reshape(permute(split, (0, 2, 1, 3, 4)), (n * bins, channels // bins, height, width))


def first_pixels_of_bins(image: np.ndarray, size: tuple[int, int], input: Tensor) -> np.ndarray:
    """Return, (k i j), where the feature map of each bin begins in what `split_bins` returned."""
    bins = np.arange(size[0] * size[1]).reshape(1, *size)
    return (image[:, None, None] * bins.size + bins) * (input.shape[2] * input.shape[3])


# The four ways ----------------------------------------------------------------------------------


@composed_in_float32
def roi_align(
    input: Tensor, boxes: Boxes, output_size: Size, spatial_scale: float = 1.0,
    sampling_ratio: int = -1, aligned: bool = False,
) -> Tensor:  # fmt: skip
    """Cut each box into bins, and average points of each bin, interpolated bilinearly.

    Args:
        input: feature maps (n c h w).
        boxes: (k 5), with rows image, x1, y1, x2, y2, or a list with (k 4) for each image.
        output_size: bins along y and x.
        spatial_scale: pixels of the feature map for one pixel of the boxes: 1/16 at stride 16.
        sampling_ratio: points of a bin along each axis; 0 or less: as many as it has pixels.
        aligned: whether the centre of a pixel is at its half, so that boxes are shifted by ½. If
            not, boxes are at least a pixel wide and high.

    Shape: (k, c, i, j).

    Raises: ShapeError, DTypeError, DimError: the boxes do not fit the feature maps.

    Paper: He et al., Mask R-CNN, 2017.

    >>> image = arange(16.0).reshape(1, 1, 4, 4)
    >>> edutorch.vision.ops.roi_align(image, [tensor([[0.0, 0.0, 2.0, 2.0]])], 1, aligned=True)
    tensor([[[[2.5000]]]])
    """
    rois = as_rois("roi_align", input, boxes)
    size = expand_setting(output_size, 2, "roi_align")
    image, corners = on_host("roi_align", rois, input.shape[0], spatial_scale)
    x1, y1, x2, y2 = corners - corners.dtype.type(0.5 * aligned)
    width, height = x2 - x1, y2 - y1
    if not aligned:
        width, height = np.maximum(width, 1), np.maximum(height, 1)
    axes = (
        SampledAxis(y1, height, size[0], sampling_ratio, input.shape[2]),
        SampledAxis(x1, width, size[1], sampling_ratio, input.shape[3]),
    )
    return pool_bins(input, axes, first_pixels(image, input), average_pixels)


@composed_in_float32
def ps_roi_align(
    input: Tensor, boxes: Boxes, output_size: Size, spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
) -> Tensor:  # fmt: skip
    """Position-sensitive `roi_align`: each bin (i, j) of each output channel c has its own channel.

    It reads channel (c · rows + i) · columns + j. Coordinates mean what `aligned=True` means there.

    Args:
        input: feature maps (n, c · i · j, h, w).
        boxes, output_size, spatial_scale, sampling_ratio: as for `roi_align`.

    Shape: (k, c, i, j).

    Raises: ShapeError: the channels are no multiple of the bins.

    Paper: Li et al., Light-head R-CNN, 2017.

    >>> image = arange(4.0).reshape(1, 4, 1, 1).expand(1, 4, 3, 3)
    >>> edutorch.vision.ops.ps_roi_align(image, [tensor([[0.0, 0.0, 3.0, 3.0]])], 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    rois = as_rois("ps_roi_align", input, boxes)
    size = expand_setting(output_size, 2, "ps_roi_align")
    image, corners = on_host("ps_roi_align", rois, input.shape[0], spatial_scale)
    x1, y1, x2, y2 = corners - corners.dtype.type(0.5)
    axes = (
        SampledAxis(y1, y2 - y1, size[0], sampling_ratio, input.shape[2]),
        SampledAxis(x1, x2 - x1, size[1], sampling_ratio, input.shape[3]),
    )
    first = first_pixels_of_bins(image, size, input)
    return pool_bins(split_bins("ps_roi_align", input, size), axes, first, average_pixels)


@composed_in_float32
def roi_pool(input: Tensor, boxes: Boxes, output_size: Size, spatial_scale: float = 1.0) -> Tensor:
    """Cut each box into bins of whole pixels, and take the largest pixel of each.

    Args:
        input: feature maps (n c h w).
        boxes, output_size, spatial_scale: as for `roi_align`. Corners are rounded to pixels, which
            belong to the box.

    Shape: (k, c, i, j). A bin without pixels is 0.

    Raises: ShapeError, DTypeError, DimError: the boxes do not fit the feature maps.

    Paper: Girshick, Fast R-CNN, 2015.

    >>> image = arange(16.0).reshape(1, 1, 4, 4)
    >>> edutorch.vision.ops.roi_pool(image, [tensor([[0.0, 0.0, 3.0, 3.0]])], 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    rois = as_rois("roi_pool", input, boxes)
    size = expand_setting(output_size, 2, "roi_pool")
    image, corners = on_host("roi_pool", rois, input.shape[0], spatial_scale)
    x1, y1, x2, y2 = round_half_away(corners)
    axis = partial(PixelAxis, dtype=corners.dtype)
    axes = (
        axis(y1, np.maximum(y2 - y1 + 1, 1), size[0], input.shape[2]),
        axis(x1, np.maximum(x2 - x1 + 1, 1), size[1], input.shape[3]),
    )
    pooled = pool_bins(input, axes, first_pixels(image, input), largest_pixels)
    return where(pooled == -np.inf, 0.0, pooled)


@composed_in_float32
def ps_roi_pool(
    input: Tensor, boxes: Boxes, output_size: Size, spatial_scale: float = 1.0
) -> Tensor:
    """Position-sensitive pooling: the average of each bin's pixels, in a channel of its own.

    Args:
        input: feature maps (n, c · i · j, h, w).
        boxes, output_size, spatial_scale: as for `roi_align`. Corners are rounded to pixels; the
            last ones, and the last row and column of the image, do not belong to the box.

    Shape: (k, c, i, j). A bin without pixels is 0.

    Raises: ShapeError: the channels are no multiple of the bins.

    Paper: Dai et al., R-FCN, 2016.

    >>> image = arange(4.0).reshape(1, 4, 1, 1).expand(1, 4, 3, 3)
    >>> edutorch.vision.ops.ps_roi_pool(image, [tensor([[0.0, 0.0, 2.0, 2.0]])], 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    rois = as_rois("ps_roi_pool", input, boxes)
    size = expand_setting(output_size, 2, "ps_roi_pool")
    image, corners = on_host("ps_roi_pool", rois, input.shape[0], spatial_scale)
    x1, y1, x2, y2 = round_half_away(corners)
    axis = partial(PixelAxis, dtype=corners.dtype)
    axes = (
        axis(y1, np.maximum(y2 - y1, 1), size[0], input.shape[2] - 1),
        axis(x1, np.maximum(x2 - x1, 1), size[1], input.shape[3] - 1),
    )
    first = first_pixels_of_bins(image, size, input)
    return pool_bins(split_bins("ps_roi_pool", input, size), axes, first, average_pixels)


# Their modules ----------------------------------------------------------------------------------


class RoIPool(Module):
    """`roi_pool` as a module.

    >>> edutorch.vision.ops.RoIPool(2, 0.5)
    RoIPool(output_size=2, spatial_scale=0.5)
    """

    settings: tuple[str, ...] = ("output_size", "spatial_scale")
    pool = staticmethod(roi_pool)

    def __init__(self, output_size: Size, spatial_scale: float) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input: Tensor, rois: Boxes) -> Tensor:
        """Pool the boxes `rois` of the feature maps."""
        return self.pool(input, rois, *(getattr(self, name) for name in self.settings))

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.settings)


class PSRoIPool(RoIPool):
    """`ps_roi_pool` as a module.

    >>> edutorch.vision.ops.PSRoIPool(2, 1.0)
    PSRoIPool(output_size=2, spatial_scale=1.0)
    """

    pool = staticmethod(ps_roi_pool)


class PSRoIAlign(RoIPool):
    """`ps_roi_align` as a module.

    >>> edutorch.vision.ops.PSRoIAlign(2, 1.0, 2)
    PSRoIAlign(output_size=2, spatial_scale=1.0, sampling_ratio=2)
    """

    settings = (*RoIPool.settings, "sampling_ratio")
    pool = staticmethod(ps_roi_align)

    def __init__(self, output_size: Size, spatial_scale: float, sampling_ratio: int) -> None:
        super().__init__(output_size, spatial_scale)
        self.sampling_ratio = sampling_ratio


class RoIAlign(PSRoIAlign):
    """`roi_align` as a module.

    >>> edutorch.vision.ops.RoIAlign(7, 1.0, 2)
    RoIAlign(output_size=7, spatial_scale=1.0, sampling_ratio=2, aligned=False)
    """

    settings = (*PSRoIAlign.settings, "aligned")
    pool = staticmethod(roi_align)

    def __init__(
        self, output_size: Size, spatial_scale: float, sampling_ratio: int, aligned: bool = False
    ) -> None:
        super().__init__(output_size, spatial_scale, sampling_ratio)
        self.aligned = aligned
