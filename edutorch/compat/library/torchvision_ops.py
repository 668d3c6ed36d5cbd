"""`torch.ops.torchvision`: what the real torchvision has in C++, by `edutorch.vision.ops`.

The functions there are made of ops, so their gradients need nothing further.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from edutorch.dtypes import iinfo
from edutorch.errors import NotHereError

from .operators import OpNamespace

ROI = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
STEPS = ", ".join(
    f"SymInt {name}"
    for name in "stride_h stride_w pad_h pad_w dilation_h dilation_w groups offset_groups".split()
)

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align({ROI}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool({ROI}) -> (Tensor, Tensor)",
    f"ps_roi_align({ROI}, int sampling_ratio) -> (Tensor, Tensor)",
    f"ps_roi_pool({ROI}) -> (Tensor, Tensor)",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    f"{STEPS}, bool use_mask) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, "
    "float rois_scale, int rois_zero_point, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
)


ABSENT = (
    "_roi_align_backward", "_roi_pool_backward", "_ps_roi_align_backward",
    "_ps_roi_pool_backward", "_deform_conv2d_backward", "box_iou_rotated",
)  # fmt: skip
"""Ops for which torchvision registers something when it is imported, and that are not here: the
functions above have the gradients of the ops that they are made of, and boxes are not rotated."""


def vision(name: str) -> Callable[..., Any]:
    """Return a function of `edutorch.vision.ops`."""
    return getattr(import_module("edutorch.vision.ops"), name)


def nms(dets: Any, scores: Any, iou_threshold: float) -> Any:
    """Return the indices of the boxes that non-maximum suppression keeps."""
    return vision("nms")(dets, scores, iou_threshold)


def qnms(dets: Any, scores: Any, iou_threshold: float) -> Any:
    """Return what `nms` does, for the integers of quantized boxes and scores.

    Neither a scale nor a zero point changes how boxes overlap.
    """
    return nms(dets.float(), scores.float(), iou_threshold)


def qroi_align(
    input: Any, rois: Any, input_scale: float, input_zero_point: int, rois_scale: float,
    rois_zero_point: int, *settings: Any,
) -> Any:  # fmt: skip
    """Return the integers of `roi_align` of quantized tensors; input and rois are integers."""
    from edutorch.ao.affine import QParams, dequantize, quantize

    scales = QParams(input_scale, input_zero_point)
    regions = dequantize(rois, QParams(rois_scale, rois_zero_point))
    output = roi_align(dequantize(input, scales), regions, *settings)
    limits = iinfo(input.dtype)
    return quantize(output, scales, (int(limits.min), int(limits.max))).to(input.dtype)


def roi_align(
    input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int, aligned: bool,
) -> Any:  # fmt: skip
    """Return the average of bilinear samples in each bin of each region."""
    size = (pooled_height, pooled_width)
    return vision("roi_align")(input, rois, size, spatial_scale, sampling_ratio, aligned)


def roi_pool(
    input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Any, None]:
    """Return the maximum in each bin of each region."""
    return vision("roi_pool")(input, rois, (pooled_height, pooled_width), spatial_scale), None


def ps_roi_align(
    input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int,
) -> tuple[Any, None]:  # fmt: skip
    """Return position-sensitive averages of bilinear samples."""
    size = (pooled_height, pooled_width)
    return vision("ps_roi_align")(input, rois, size, spatial_scale, sampling_ratio), None


def ps_roi_pool(
    input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Any, None]:
    """Return position-sensitive averages."""
    return vision("ps_roi_pool")(input, rois, (pooled_height, pooled_width), spatial_scale), None


def deform_conv2d(
    input: Any, weight: Any, offset: Any, mask: Any, bias: Any, *settings: Any
) -> Any:
    """Convolve at positions that are moved by `offset`."""
    *steps, _groups, _offset_groups, use_mask = settings  # the shapes say the groups
    stride, padding, dilation = steps[:2], steps[2:4], steps[4:6]
    return vision("deform_conv2d")(
        input, offset, weight, bias, tuple(stride), tuple(padding), tuple(dilation),
        mask if use_mask else None,
    )  # fmt: skip


def fill(namespace: OpNamespace) -> None:
    """Define the operators."""
    for schema in SCHEMAS:
        namespace.define_composite(schema, globals()[schema.partition("(")[0]])
    for name in ABSENT:
        namespace.define_composite(f"{name}(Tensor input) -> Tensor", not_here)
    namespace.define_composite("_cuda_version() -> int", lambda: -1)


def not_here(*args: Any) -> None:
    """Say that there is no such op.

    Raises: NotHereError: always.
    """
    raise NotHereError("torch.ops.torchvision", f"there are no {', '.join(ABSENT)} here")
