"""Images become tensors, and tensors images; values are normalized."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...dtypes import dtype as DType
from ...errors import ArgumentError, ShapeValueError
from . import functional as F
from .base import Transform
from .functional.image import Image


class ToTensor:
    """Convert a PIL image or an array to a float tensor: channels × height × width, from 0 to 1.

    >>> import numpy
    >>> ToTensor()(numpy.full((1, 1, 3), 51, "uint8")).flatten()
    tensor([0.2000, 0.2000, 0.2000])
    """

    def __call__(self, pic: Any) -> Tensor:
        """Return the tensor of a picture."""
        return F.to_tensor(pic)

    def __repr__(self) -> str:
        return "ToTensor()"


class PILToTensor:
    """Convert a PIL image to a tensor of its own dtype: channels × height × width.

    >>> from PIL import Image
    >>> PILToTensor()(Image.new("RGB", (4, 2))).shape
    torch.Size([3, 2, 4])
    """

    def __call__(self, pic: Image) -> Tensor:
        """Return the tensor of a picture."""
        return F.pil_to_tensor(pic)

    def __repr__(self) -> str:
        return "PILToTensor()"


class ConvertImageDtype(Transform):
    """Convert an image to a dtype, and its values to the range of that dtype.

    >>> ConvertImageDtype(uint8)(ones(1))
    tensor([255], dtype=torch.uint8)
    """

    def __init__(self, dtype: DType) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Tensor) -> Tensor:
        """Return the converted image."""
        return F.convert_image_dtype(image, self.dtype)


class ToPILImage:
    """Convert a tensor (channels × height × width) or an array to a PIL image.

    Args:
        mode: PIL's mode, by default the usual one for the channels and the dtype.

    >>> ToPILImage()(zeros(1, 2, 3)).size
    (3, 2)
    """

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Image:
        """Return the PIL image of a tensor or an array."""
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return "ToPILImage()" if self.mode is None else f"ToPILImage(mode={self.mode})"


class Normalize(Transform):
    """Subtract a mean from each channel and divide by a standard deviation: y = (x - mean) / std.

    Args:
        mean, std: a value for each channel.
        inplace: whether the tensor itself is changed.

    >>> Normalize((0.5,), (0.5,))
    Normalize(mean=(0.5,), std=(0.5,))
    >>> Normalize((0.5,), (0.5,))(ones(1, 1, 1))
    tensor([[[1.]]])
    """

    shown = ("mean", "std")

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor: Tensor) -> Tensor:
        """Return the normalized image."""
        return F.normalize(tensor, self.mean, self.std, self.inplace)


class LinearTransformation(Transform):
    """Multiply a flattened image by a matrix, after a mean was subtracted: whitening.

    Args:
        transformation_matrix: D × D, with D = channels · height · width.
        mean_vector: D values.

    Raises: ShapeValueError: matrix and vector do not fit each other, or the image.

    >>> LinearTransformation(eye(4), ones(4))(ones(1, 2, 2)).sum()
    tensor(0.)
    """

    shown = ("transformation_matrix", "mean_vector")

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        super().__init__()
        rows, columns = transformation_matrix.shape
        if rows != columns or mean_vector.shape[0] != rows:
            raise ShapeValueError(
                "LinearTransformation", "expected a square matrix, and a vector of its size",
                {"transformation_matrix": (rows, columns), "mean_vector": mean_vector.shape},
            )  # fmt: skip
        self.transformation_matrix, self.mean_vector = transformation_matrix, mean_vector

    def forward(self, tensor: Tensor) -> Tensor:
        """Return the image of the same shape."""
        size = tensor[(0,) * (tensor.ndim - 3)].numel()
        if size != len(self.mean_vector):
            raise ShapeValueError(
                "LinearTransformation", f"the image has {size} values, not {len(self.mean_vector)}",
                {"tensor": tuple(tensor.shape)},
            )  # fmt: skip
        flat = tensor.reshape(-1, size) - self.mean_vector
        return ops.mm(flat, self.transformation_matrix).reshape(tensor.shape)


class Lambda:
    """A function of the user as a transform.

    Raises: ArgumentError: it cannot be called.

    >>> Lambda(lambda x: x.flatten())(ones(1, 2, 2)).shape
    torch.Size([4])
    """

    def __init__(self, lambd: Callable[..., Any]) -> None:
        if not callable(lambd):
            arguments = {"lambd": type(lambd).__name__}
            raise ArgumentError("Lambda", "expected a function", arguments, "Lambda(lambda x: …)")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        """Return what the function returns."""
        return self.lambd(img)

    def __repr__(self) -> str:
        return "Lambda()"


class Resize(Transform):
    """Resize an image.

    Args:
        size: (height, width); or an integer for the shorter side, while the ratio is kept.
        interpolation: how values between pixels are found.
        max_size: the longer side has at most so many pixels.
        antialias: whether a smaller tensor takes averages, as PIL does.

    >>> Resize(5)(ones(3, 10, 20)).shape
    torch.Size([3, 5, 10])
    """

    shown = ("size", "interpolation", "max_size", "antialias")

    def __init__(
        self, size: int | Sequence[int] | None,
        interpolation: F.InterpolationMode = F.InterpolationMode.BILINEAR,
        max_size: int | None = None, antialias: bool | None = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if not isinstance(size, int | list | tuple | None):
            raise ArgumentError(
                "Resize", "`size` is not a size", {"size": repr(size)},
                "(height, width), or an integer for the shorter side",
            )  # fmt: skip
        if isinstance(size, list | tuple) and len(size) not in (1, 2):
            arguments = {"size": size}
            raise ShapeValueError("Resize", "`size` has one or two values", arguments)
        self.size: Any = size
        self.interpolation, self.max_size = interpolation, max_size
        self.antialias = antialias

    def forward(self, img: Image) -> Image:
        """Return the resized image."""
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)


class Grayscale(Transform):
    """Convert an image to grey.

    Args:
        num_output_channels: 1, or 3 for three equal channels.

    >>> Grayscale()(ones(3, 2, 2)).shape
    torch.Size([1, 2, 2])
    """

    shown = ("num_output_channels",)

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Image) -> Image:
        """Return the grey image."""
        return F.rgb_to_grayscale(img, self.num_output_channels)
