"""Dropout: zeroing random elements or channels during training."""

from __future__ import annotations

import math

from ... import backends
from ...backends import Backend
from ...backends.cards import CardRandom
from ...backends.philox_device import DeviceRandom
from ...core.tensor import Tensor, wrap
from ...errors import InvalidValueError, ShapeError, refuse_complex, running_function, warn
from ...modes import no_grad
from ...ops import rand, where
from ...ops.random import random_source
from .activation import SELU_ALPHA, SELU_SCALE, apply_in_place

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
]  # fmt: skip


def check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise InvalidValueError(
            running_function(tuple(__all__)),
            f"dropout probability has to be between 0 and 1, but got {p}",
        )


def apply_dropout(
    input: Tensor, shape: tuple[int, ...], p: float, training: bool, inplace: bool
) -> Tensor:
    """Multiply by 0 (with probability p) or 1 / (1 - p), drawn for `shape` and broadcast."""
    check_probability(p)
    if not training or p == 0 or not input.numel():
        return input
    backend = backends.of(input._array)  # raises for a sparse tensor, whose mask would be dense
    mask = draw_mask_by_kernel(backend, shape, p, input) if backend.is_accelerator else None
    if mask is None:
        with no_grad():
            keep_mask = rand(*shape, device=input.device) >= p
            mask = keep_mask.to(input.dtype) * (1 / (1 - p) if p < 1 else 0)
    if hasattr(input, "replicated_like"):  # a DTensor: all ranks have drawn the same mask
        mask = input.replicated_like(mask)
    return input.mul_(mask) if inplace else input * mask


def draw_mask_by_kernel(
    backend: Backend, shape: tuple[int, ...], p: float, input: Tensor
) -> Tensor | None:
    """Return a mask, drawn and scaled by one kernel of the GPU; None if there is none for it."""
    source = random_source(None, backend)
    if not isinstance(source, DeviceRandom | CardRandom):  # of `vmap`, or of a capture
        return None
    draw_mask = getattr(source, "dropout_mask", None)
    mask = None if draw_mask is None else draw_mask(shape, p, input._array.dtype)
    return None if mask is None else wrap(mask)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability p, and scale the others by 1 / (1 - p).

    The expected value stays the same, so nothing has to change for evaluation.

    >>> nn.functional.dropout(ones(3), training=False)
    tensor([1., 1., 1.])
    """
    if training:
        refuse_complex("dropout", input=input)
    return apply_dropout(input, tuple(input.shape), p, training, inplace)


# Whole channels ----------------------------------------------------------------------------


def channel_shape(input: Tensor) -> tuple[int, ...]:
    """Return the shape of one value per channel and sample: (n, c, 1, …)."""
    return (*input.shape[:2], *(1,) * (input.ndim - 2))


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of sequences, (n, c, l) or (c, l).

    Raises: ShapeError: not a sequence.

    >>> nn.functional.dropout1d(ones(1, 1, 2), 0.0).shape
    torch.Size([1, 1, 2])
    """
    if input.ndim not in (2, 3):
        raise ShapeError(
            "dropout1d", f"Expected 2D or 3D input, but received a {input.ndim}D input",
            {"input": tuple(input.shape)},
            "it leaves out channels of (n, c, l) or (c, l); for single numbers use dropout",
        )  # fmt: skip
    return apply_dropout(input, (*input.shape[:-1], 1), p, training, inplace)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of images (n, c, h, w), since neighbouring pixels are correlated.

    As in PyTorch, three axes are taken as (n, c, l), with a warning.

    >>> nn.functional.dropout2d(ones(1, 1, 2, 2), 0.0).shape
    torch.Size([1, 1, 2, 2])
    """
    if input.ndim == 3:
        warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D "
            "dropout behavior is desired - input is interpreted as shape (N, C, L), where C is "
            "the channel dim. Please switch to using dropout1d instead."
        )
    elif input.ndim != 4:
        warn_of_ndim("dropout2d", input)
    return apply_dropout(input, channel_shape(input), p, training, inplace)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of volumes, (n, c, d, h, w) or (c, d, h, w).

    >>> nn.functional.dropout3d(ones(1, 1, 2, 2, 2), 0.0).shape
    torch.Size([1, 1, 2, 2, 2])
    """
    if input.ndim not in (4, 5):
        warn_of_ndim("dropout3d", input)
    shape = channel_shape(input) if input.ndim == 5 else (*input.shape[:1], 1, 1, 1)
    return apply_dropout(input, shape[: input.ndim], p, training, inplace)


def warn_of_ndim(name: str, input: Tensor) -> None:
    warn(
        f"{name}: Received a {input.ndim}-D input to {name}, which is deprecated and will result "
        "in an error in a future release. To retain the behavior and silence this warning, "
        "please use dropout instead."
    )
    if input.ndim < 2:
        raise ShapeError(
            name, "Feature dropout requires at least 2 dimensions in the input",
            {"input": tuple(input.shape)},
        )  # fmt: skip


# Alpha dropout, for SELU -------------------------------------------------------------------

ALPHA = -SELU_ALPHA * SELU_SCALE
"""The limit of SELU at -∞."""


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Set elements to SELU's lowest value, then rescale so that mean and variance are kept.

    y = a · (x or α′) + b, with α′ ≈ -1.758, a = ((1 - p) · (1 + p · α′²))^(-½), b = -a · p · α′

    Raises: ValueError: p is not a probability.

    Paper: Klambauer et al., Self-normalizing neural networks, 2017.

    >>> nn.functional.alpha_dropout(ones(3))
    tensor([1., 1., 1.])
    """
    return apply_alpha_dropout("alpha_dropout_", input, tuple(input.shape), p, training, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Alpha dropout of whole channels of (n, c, …).

    Raises: ShapeError: there is no axis of channels.

    >>> nn.functional.feature_alpha_dropout(ones(1, 3))
    tensor([[1., 1., 1.]])
    """
    if training and input.ndim < 2:
        raise ShapeError(
            "feature_alpha_dropout", "Feature dropout requires at least 2 dimensions in the input",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    return apply_alpha_dropout(
        "feature_alpha_dropout_", input, channel_shape(input), p, training, inplace
    )


def apply_alpha_dropout(
    name: str, input: Tensor, shape: tuple[int, ...], p: float, training: bool, inplace: bool
) -> Tensor:
    check_probability(p)
    if not training or p == 0:
        return input
    with no_grad():
        keep_mask = rand(*shape, device=input.device) >= p
    scale = 1 / math.sqrt((1 - p) * (1 + p * ALPHA**2)) if p < 1 else 0.0

    def drop(x: Tensor) -> Tensor:
        return where(keep_mask, x, ALPHA) * scale - scale * p * ALPHA

    return apply_in_place(input, name, drop) if inplace else drop(input)
