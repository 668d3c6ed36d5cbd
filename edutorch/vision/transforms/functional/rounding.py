"""Integer images are computed as floats, and rounded afterwards."""

from __future__ import annotations

from ....core.tensor import Tensor
from ....dtypes import float32


def as_float_batch(img: Tensor) -> Tensor:
    """Return an image as a batch of floats: N × channels × height × width.

    >>> as_float_batch(ones(2, 3, dtype=uint8)).shape
    torch.Size([1, 1, 2, 3])
    """
    values = img if img.is_floating_point() else img.to(float32)
    if img.ndim == 4:
        return values
    return values.reshape(1, -1, *img.shape[-2:])


def from_float_batch(batch: Tensor, img: Tensor) -> Tensor:
    """Return such a batch with the leading axes and the dtype of `img`.

    >>> from_float_batch(tensor([[[[1.6]]]]), zeros(2, 2, dtype=uint8))
    tensor([[2]], dtype=torch.uint8)
    """
    if not img.is_floating_point():
        batch = batch.round()
    return batch.to(img.dtype).reshape(*img.shape[:-2], *batch.shape[-2:])
