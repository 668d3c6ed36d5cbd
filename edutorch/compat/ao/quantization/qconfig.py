"""`QConfig`: which observers watch the activations and the weights of a layer."""

from __future__ import annotations

from typing import Any, NamedTuple

from edutorch.dtypes import float16
from edutorch.errors import InvalidValueError

from .fake_quantize import default_fake_quant, default_weight_fake_quant
from .observer import (
    MinMaxObserver,
    PlaceholderObserver,
    default_dynamic_quant_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_weight_observer,
)  # fmt: skip

__all__ = [
    "QConfig", "default_dynamic_qconfig", "default_per_channel_qconfig", "default_qat_qconfig",
    "default_qconfig", "float16_dynamic_qconfig", "get_default_qat_qconfig", "get_default_qconfig",
    "per_channel_dynamic_qconfig",
]  # fmt: skip

BACKENDS = ("x86", "fbgemm", "qnnpack", "onednn")


class QConfig(NamedTuple):
    """The makers of a layer's observers: `QConfig(activation=MinMaxObserver, weight=…)`."""

    activation: Any
    weight: Any


default_qconfig = QConfig(default_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
per_channel_dynamic_qconfig = QConfig(
    default_dynamic_quant_observer, default_per_channel_weight_observer
)
float16_dynamic_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=float16, is_dynamic=True),
    PlaceholderObserver.with_args(dtype=float16),
)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)


def check_backend(op: str, backend: str) -> None:
    """Raise InvalidValueError for a backend that PyTorch does not have."""
    if backend not in BACKENDS:
        raise InvalidValueError(
            op, f"backend: {backend} is not supported", hint=f"one of {', '.join(BACKENDS)}"
        )


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """Return the usual observers: of activations half the range, of weights each channel.

    PyTorch watches activations by a histogram, which leaves out rare large values; here it is their
    whole range.

    Raises: ValueError: an unknown backend. (All compute the same here.)
    """
    check_backend("get_default_qconfig", backend)
    activation = MinMaxObserver.with_args(reduce_range=backend != "qnnpack")
    per_tensor = backend == "qnnpack"
    weight = default_weight_observer if per_tensor else default_per_channel_weight_observer
    return QConfig(activation, weight)


def get_default_qat_qconfig(backend: str = "x86", version: int = 1) -> QConfig:
    """Return the usual fake quantization for training.

    Raises: ValueError: an unknown backend.
    """
    check_backend("get_default_qat_qconfig", backend)
    return default_qat_qconfig
