"""Averages over neighbouring pixels: blurred and sharpened images."""

from __future__ import annotations

from typing import Any

from .... import ops
from ....core.tensor import Tensor
from ....errors import InvalidValueError
from ....nn.functional import conv2d, pad
from .color import blend, check_factor
from .conversion import pil_to_tensor, to_pil_image
from .image import Image, check_channels, check_image
from .rounding import as_float_batch, from_float_batch


def gaussian_blur(img: Image, kernel_size: Any, sigma: Any = None) -> Image:
    """Blur an image: each pixel becomes an average, weighted by e^(-distance² / 2σ²).

    Args:
        kernel_size: (width, height) of the neighbourhood, both odd; or an integer for a square.
        sigma: (σ across, σ down) in pixels, or one number; by default it fits the kernel:
            0.3 · ((kernel_size - 1) / 2 - 1) + 0.8.

    Raises: InvalidValueError: a size is even or not positive, or σ is not positive.

    >>> gaussian_blur(full((1, 4, 4), 200, dtype=uint8), 3).unique()
    tensor([200], dtype=torch.uint8)
    """
    sizes = pair_of_values("gaussian_blur", "kernel_size", kernel_size)
    if any(size < 1 or size % 2 == 0 for size in sizes):
        raise InvalidValueError(
            "gaussian_blur", "kernel_size is odd and positive", {"kernel_size": kernel_size},
            "an odd size has a pixel in its middle",
        )  # fmt: skip
    if sigma is None:
        sigmas = [size * 0.15 + 0.35 for size in sizes]
    else:
        sigmas = [float(value) for value in pair_of_values("gaussian_blur", "sigma", sigma)]
    if min(sigmas) <= 0:
        raise InvalidValueError("gaussian_blur", "sigma is positive", {"sigma": sigma})
    if check_image("gaussian_blur", img):
        return to_pil_image(_blur(pil_to_tensor(img), sizes, sigmas), mode=img.mode)
    return _blur(img, sizes, sigmas)


def pair_of_values(op: str, name: str, value: Any) -> list[Any]:
    """Return two values of a number, or of a sequence of one or two.

    >>> pair_of_values("gaussian_blur", "sigma", 1.5)
    [1.5, 1.5]
    """
    values = [value] if isinstance(value, int | float) else list(value)
    if len(values) not in (1, 2):
        raise InvalidValueError(op, f"`{name}` has {len(values)} values, expected 1 or 2", {})
    return [values[0], values[-1]]


def _blur(img: Tensor, sizes: list[int], sigmas: list[float]) -> Tensor:
    batch = as_float_batch(img)
    across, down = (
        gaussian_weights(size, sigma).to(batch.dtype).to(batch.device)
        for size, sigma in zip(sizes, sigmas, strict=True)
    )
    kernel = down[:, None] * across
    border = [sizes[0] // 2] * 2 + [sizes[1] // 2] * 2
    blurred = filter_channels(pad(batch, border, mode="reflect"), kernel)
    return from_float_batch(blurred, img)


def gaussian_weights(size: int, sigma: float) -> Tensor:
    """Return the weights of a bell curve at `size` points; their sum is 1.

    >>> gaussian_weights(3, 1.0)
    tensor([0.2741, 0.4519, 0.2741])
    """
    half = (size - 1) * 0.5
    x = ops.linspace(-half, half, steps=size)
    density = (-0.5 * (x / sigma) ** 2).exp()
    return density / density.sum()


def filter_channels(batch: Tensor, kernel: Tensor) -> Tensor:
    """Correlate each channel of a batch with the same kernel, inside of the image.

    >>> filter_channels(ones(1, 2, 3, 3), ones(3, 3)).shape
    torch.Size([1, 2, 1, 1])
    """
    channels = batch.shape[1]
    return conv2d(batch, kernel.expand(channels, 1, *kernel.shape), groups=channels)


def adjust_sharpness(img: Image, sharpness_factor: float) -> Image:
    """Make an image smoother (0) or sharper (1: as it is, 2: twice).

    Raises: InvalidValueError: the factor is negative.

    >>> adjust_sharpness(ones(1, 4, 4), 2).mean()
    tensor(1.)
    """
    check_factor("adjust_sharpness", sharpness_factor=sharpness_factor)
    if check_image("adjust_sharpness", img):
        from PIL import ImageEnhance

        return ImageEnhance.Sharpness(img).enhance(sharpness_factor)
    check_channels("adjust_sharpness", img, (1, 3))
    if min(img.shape[-2:]) <= 2:
        return img
    batch = as_float_batch(img)
    kernel = ops.ones(3, 3, dtype=batch.dtype, device=batch.device)
    kernel[1, 1] = 5
    smooth = img.clone()  # pixels at the border keep their value
    smooth[..., 1:-1, 1:-1] = from_float_batch(filter_channels(batch, kernel / kernel.sum()), img)
    return blend(img, smooth, sharpness_factor)
