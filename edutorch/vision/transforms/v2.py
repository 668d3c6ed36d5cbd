"""torchvision's newer transforms, as far as their names and meanings are those of the older ones.

`ToImage` and `ToDtype` are new here: together they do what `ToTensor` does.
"""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...dtypes import dtype as DType
from ...ops.from_data import as_tensor
from . import *  # noqa: F403
from . import __all__ as _older
from . import functional
from .base import Transform
from .functional.image import is_pil_image


class ToImage:
    """Convert a PIL image, or an array height × width × channels, to a tensor of the same dtype.

    >>> import numpy
    >>> ToImage()(numpy.zeros((2, 4, 3), "uint8")).shape
    torch.Size([3, 2, 4])
    """

    def __call__(self, inpt: Any) -> Tensor:
        """Return the tensor of a picture; a tensor is returned as it is."""
        if isinstance(inpt, Tensor):
            return inpt
        if is_pil_image(inpt):
            return functional.pil_to_tensor(inpt)
        pixels = as_tensor(inpt)
        return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1).contiguous()

    def __repr__(self) -> str:
        return "ToImage()"


class ToDtype(Transform):
    """Convert a tensor to a dtype.

    Args:
        scale: whether the values are converted to the dtype's range from black to white.

    >>> import edutorch
    >>> ToDtype(edutorch.float32, scale=True)(edutorch.tensor([255], dtype=edutorch.uint8))
    tensor([1.])
    """

    shown = ("dtype", "scale")

    def __init__(self, dtype: DType, scale: bool = False) -> None:
        super().__init__()
        self.dtype, self.scale = dtype, scale

    def forward(self, inpt: Any) -> Any:
        """Return the tensor in the other dtype; what is no tensor is returned as it is."""
        if not isinstance(inpt, Tensor):
            return inpt
        if self.scale:
            return functional.convert_image_dtype(inpt, self.dtype)
        return inpt.to(self.dtype)


class ToPureTensor(Transform):
    """Return the image: there are no other tensors here.

    >>> import edutorch
    >>> ToPureTensor()(edutorch.ones(1))
    tensor([1.])
    """

    def forward(self, inpt: Any) -> Any:
        """Return the input."""
        return inpt


class Identity(ToPureTensor):
    """Return the image as it is.

    >>> Identity()(1)
    1
    """


__all__ = [*_older, "Identity", "ToDtype", "ToImage", "ToPureTensor"]
