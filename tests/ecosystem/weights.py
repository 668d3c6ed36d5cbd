"""Weights that two programs can draw alike: from NumPy, by the name and shape of each tensor.

A model on PyTorch and its twin on edutorch get the same weights without a file between them, so
that a golden file need only hold what came out.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import numpy as np


def weights_by_name(
    state_dict: Mapping[str, Any], seed: int = 0, gain: float = 2**0.5
) -> dict[str, Any]:
    """Return a new tensor for each floating tensor of a `state_dict`; the others as they are.

    Activations keep their size through a deep network: matrices and kernels have the standard
    deviation gain / √(fan in), running variances are positive, and scales are near 1.

    Args:
        state_dict: of a module of PyTorch or edutorch (also on the device "meta").
        seed: one more number behind every draw.
        gain: √2 keeps the size with relu. With 1, no hard sigmoid of a deep network saturates.
    """
    drawn: Any = OrderedDict(
        (name, draw(name, value, seed, gain) if is_floating(value) else value)
        for name, value in state_dict.items()
    )
    drawn._metadata = getattr(state_dict, "_metadata", {})  # versions, which some modules ask for
    return drawn


def is_floating(value: Any) -> bool:
    """Whether a value of a `state_dict` is a tensor of real floating numbers."""
    return hasattr(value, "is_floating_point") and value.is_floating_point()


def draw(name: str, tensor: Any, seed: int, gain: float) -> Any:
    """Return a tensor of the same shape, dtype and library on the CPU, its values drawn."""
    values = draw_values(name, tuple(tensor.shape), seed, gain)
    if tensor.device.type == "meta":
        from torch import from_numpy

        return from_numpy(values).to(tensor.dtype)
    return tensor.detach().cpu().new_tensor(values)


def draw_values(
    name: str, shape: tuple[int, ...], seed: int = 0, gain: float = 2**0.5
) -> np.ndarray:
    """Return the values of the tensor `name`, as an array of float32."""
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    last = name.rpartition(".")[2]
    # Variances, and the lengths of `weight_norm` in both of its forms.
    if last in ("running_var", "weight_g", "original0"):
        return generator.uniform(0.5, 1.5, shape).astype(np.float32)
    values = generator.standard_normal(shape, np.float32)
    if last.endswith("weight") and len(shape) > 1:
        fan_in = max(values[0].size, 1)
        return np.asarray(values * np.float32(np.sqrt(gain**2 / fan_in)))
    if last.endswith("weight"):  # the scale of a normalization
        return np.asarray(1 + np.float32(0.1) * values)
    return np.asarray(np.float32(0.1) * values)
