"""`torch.quantization`: the older name of `torch.ao.quantization`."""

from __future__ import annotations

from .ao.quantization import (
    DeQuantStub,
    FakeQuantize,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    PerChannelMinMaxObserver,
    QConfig,
    QuantStub,
    QuantWrapper,
    convert,
    default_dynamic_qconfig,
    default_observer,
    default_per_channel_qconfig,
    default_qat_qconfig,
    default_qconfig,
    default_weight_observer,
    fuse_modules,
    get_default_qat_qconfig,
    get_default_qconfig,
    per_channel_dynamic_qconfig,
    prepare,
    prepare_qat,
    propagate_qconfig_,
    quantize,
    quantize_dynamic,
    quantize_qat,
)  # fmt: skip

__all__ = [
    "DeQuantStub", "FakeQuantize", "MinMaxObserver", "MovingAverageMinMaxObserver",
    "PerChannelMinMaxObserver", "QConfig", "QuantStub", "QuantWrapper", "convert",
    "default_dynamic_qconfig", "default_observer", "default_per_channel_qconfig",
    "default_qat_qconfig", "default_qconfig", "default_weight_observer", "fuse_modules",
    "get_default_qat_qconfig", "get_default_qconfig", "per_channel_dynamic_qconfig", "prepare",
    "prepare_qat", "propagate_qconfig_", "quantize", "quantize_dynamic", "quantize_qat",
]  # fmt: skip
