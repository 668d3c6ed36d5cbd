"""DLPack: exchange of tensors with other libraries without copies (`torch.utils.dlpack`)."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..ops import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """Return a DLPack capsule of a tensor's memory, which another library can consume once.

    (`from_dlpack(tensor)` of that library does the same in one step.)

    >>> from edutorch.utils.dlpack import from_dlpack, to_dlpack
    >>> from_dlpack(to_dlpack(ones(2)))
    tensor([1., 1.])
    """
    return tensor.__dlpack__()
