"""`torch.types`: names for type annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from edutorch import dtypes
from edutorch.backends.device import device
from edutorch.core.shapes import Size
from edutorch.core.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Size", "Storage", "Tensor"]

Number: TypeAlias = builtins.int | builtins.float | builtins.bool
"""A real Python number."""

Device: TypeAlias = device | str | builtins.int | None
"""Anything that specifies a device."""

FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
"""A path or an open file."""

Storage: TypeAlias = Any
"""The storage of a tensor (`x.untyped_storage()`)."""

_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_dtype = dtypes.dtype
_device = device
_size: TypeAlias = Size | list[builtins.int] | tuple[builtins.int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
