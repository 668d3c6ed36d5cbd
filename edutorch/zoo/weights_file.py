"""Weights as they come with edutorch: 16-bit floats in a safetensors file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..core.tensor import Tensor
from ..utils.atomic_files import write_atomically


def save_half(state: Mapping[str, Tensor], path: Path) -> None:
    """Write the floating tensors of a `state_dict` as 16-bit floats; counters are left out."""
    from safetensors.numpy import save

    path.parent.mkdir(exist_ok=True)
    arrays = {
        name: np.ascontiguousarray(value.detach().cpu().numpy().astype(np.float16))
        for name, value in state.items()
        if value.is_floating_point()
    }
    write_atomically(path, save(arrays))
