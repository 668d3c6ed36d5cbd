"""`torch.ao.quantization`, eager: models whose weights and activations are 8-bit integers."""

from __future__ import annotations

from . import fake_quantize, observer, qconfig, stubs
from .fake_quantize import *
from .fake_quantize import default_fake_quant, default_weight_fake_quant
from .fuse import fuse_modules, fuse_modules_qat
from .observer import *
from .observer import (
    default_dynamic_quant_observer, default_observer, default_per_channel_weight_observer,
    default_weight_observer,
)  # fmt: skip
from .qconfig import *
from .stubs import *
from .quantize import (  # isort: skip  (its layers need what stands above)
    convert, prepare, prepare_qat, propagate_qconfig_, quantize, quantize_dynamic, quantize_qat,
    swap_module,
)  # fmt: skip

__all__ = [
    *fake_quantize.__all__, *observer.__all__, *qconfig.__all__, *stubs.__all__, "convert",
    "default_dynamic_quant_observer", "default_fake_quant", "default_observer",
    "default_per_channel_weight_observer", "default_weight_fake_quant", "default_weight_observer",
    "fuse_modules", "fuse_modules_qat", "prepare", "prepare_qat", "propagate_qconfig_", "quantize",
    "quantize_dynamic", "quantize_qat", "swap_module",
]  # fmt: skip
