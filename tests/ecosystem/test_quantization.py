"""The real torchvision's quantizable models, by `torch.ao.quantization` on edutorch."""

from __future__ import annotations

import pytest

torchvision = pytest.importorskip("torchvision")

import torch  # noqa: E402
from torch.ao import quantization  # noqa: E402


def test_a_resnet_is_observed_and_converted():
    torch.manual_seed(0)
    model = torchvision.models.quantization.resnet18(weights=None, quantize=False).eval()
    model.fuse_model(is_qat=False)
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    x = torch.randn(2, 3, 32, 32)
    prepared = quantization.prepare(model)
    prepared(x)
    converted = quantization.convert(prepared)
    assert type(converted.layer1[0].add_relu).__name__ == "QFunctional"
    assert converted.conv1.weight().dtype is torch.qint8
    expected = model(x)
    assert (converted(x) - expected).norm() < 0.1 * expected.norm()


def test_the_classifier_of_a_model_is_quantized():
    torch.manual_seed(0)
    model = torchvision.models.mobilenet_v3_small(weights=None).eval()
    small = quantization.quantize_dynamic(model, {torch.nn.Linear})
    x = torch.randn(1, 3, 64, 64)
    assert (small(x) - model(x)).norm() < 0.05 * model(x).norm()
