"""`torch.ops.torchvision.qnms` and `qroi_align`, beside the same ops of floats."""

from __future__ import annotations

import pytest

import edutorch
from edutorch import ops


def test_quantized_boxes_and_regions():
    edutorch.manual_seed(0)
    corner = edutorch.rand(40, 2) * 50
    boxes = edutorch.cat([corner, corner + 5 + edutorch.rand(40, 2) * 60], 1)
    boxes = edutorch.quantize_per_tensor(boxes, 2, 10, edutorch.quint8)
    scores = edutorch.quantize_per_tensor(edutorch.randperm(40).float(), 1, 0, edutorch.quint8)
    kept = ops.torchvision.qnms(boxes.int_repr(), scores.int_repr(), 0.3)
    assert kept.equal(ops.torchvision.nms(boxes.dequantize(), scores.dequantize(), 0.3))

    image = edutorch.quantize_per_tensor(edutorch.rand(1, 2, 9, 9) * 90, 1, 3, edutorch.quint8)
    rois = edutorch.tensor([[0, 1, 1, 7, 8], [0, 0, 2, 5, 5]]).float()
    rois = edutorch.quantize_per_tensor(rois, 1, 0, edutorch.quint8)
    integers = ops.torchvision.qroi_align(
        image.int_repr(), rois.int_repr(), 1.0, 3, 1.0, 0, 1.0, 3, 3, 2, True
    )
    result = edutorch._make_per_tensor_quantized_tensor(integers, 1.0, 3)
    floats = ops.torchvision.roi_align(
        image.dequantize(), rois.dequantize(), 1.0, 3, 3, 2, True
    )  # fmt: skip
    assert (result.dequantize() - floats).abs().max() <= 0.5001
    assert (result == edutorch.quantize_per_tensor(floats, 1, 3, edutorch.quint8)).all()


def test_integers_become_a_quantized_tensor():
    x = edutorch._make_per_tensor_quantized_tensor(
        edutorch.tensor([3, 5], dtype=edutorch.int8), 2, 1
    )
    assert x.dtype is edutorch.qint8
    assert x.dequantize().tolist() == [4, 8]
    assert (x > edutorch.tensor([5.0, 5.0])).tolist() == [False, True]
    with pytest.raises(RuntimeError, match="expected int8, uint8 or int32"):
        edutorch._make_per_tensor_quantized_tensor(edutorch.ones(2), 2, 1)
