"""Activations and dropout as `torch.<name>`."""

from __future__ import annotations

from typing import Any

from edutorch.core.tensor import Tensor
from edutorch.errors import ShapeError
from edutorch.modes import no_grad
from edutorch.nn import functional as F
from edutorch.nn.functional import (
    celu,
    celu_,
    hardshrink,
    prelu,
    relu_,
    selu,
    selu_,
    threshold,
    threshold_,
)  # fmt: skip
from edutorch.nn.functional.activation import apply_in_place
from edutorch.nn.functional.dropout import apply_dropout, channel_shape, check_probability
from edutorch.ops import ones_like, rand, where

__all__ = [
    "alpha_dropout", "alpha_dropout_", "celu", "celu_", "dropout", "dropout_",
    "feature_alpha_dropout", "feature_alpha_dropout_", "feature_dropout", "feature_dropout_",
    "hardshrink", "native_dropout", "prelu", "relu_", "rrelu", "rrelu_", "selu", "selu_",
    "threshold", "threshold_",
]  # fmt: skip


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """Randomized leaky ReLU.

    Args: as for `nn.functional.rrelu`; `generator` draws the slopes.

    >>> rrelu(tensor([-24.0, 2.0]))
    tensor([-5.5000,  2.0000])
    """
    if generator is None or not training:
        return F.rrelu(input, lower, upper, training)
    with no_grad():
        uniform = rand(*input.shape, dtype=input.dtype, device=input.device, generator=generator)
    return where(input > 0, input, (lower + (upper - lower) * uniform) * input)


def rrelu_(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    generator: Any = None,
) -> Tensor:  # fmt: skip
    """The in-place form of `rrelu`.

    >>> rrelu_(tensor([-24.0, 2.0]))
    tensor([-5.5000,  2.0000])
    """
    return apply_in_place(input, "rrelu_", rrelu, lower, upper, training, generator)


# Dropout, in four forms, out of place and in place ------------------------------------------


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout: see `nn.functional.dropout`.

    >>> dropout(ones(3), 0.5, False)
    tensor([1., 1., 1.])
    """
    return F.dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """The in-place form of `dropout`.

    >>> dropout_(ones(3), 0.5, False)
    tensor([1., 1., 1.])
    """
    return F.dropout(input, p, train, True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout of whole channels of (n, c, …).

    Raises: ShapeError: there is no axis of channels.

    >>> feature_dropout(ones(1, 3), 0.5, False)
    tensor([[1., 1., 1.]])
    """
    return apply_dropout(check_channels(input), channel_shape(input), p, train, False)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """The in-place form of `feature_dropout`.

    >>> feature_dropout_(ones(1, 3), 0.5, False)
    tensor([[1., 1., 1.]])
    """
    return apply_dropout(check_channels(input), channel_shape(input), p, train, True)


def check_channels(input: Tensor) -> Tensor:
    if input.ndim < 2:
        raise ShapeError(
            "feature_dropout", "Feature dropout requires at least 2 dimensions in the input",
            {"input": tuple(input.shape)},
        )  # fmt: skip
    return input


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Alpha dropout: see `nn.functional.alpha_dropout`.

    >>> alpha_dropout(ones(3), 0.5, False)
    tensor([1., 1., 1.])
    """
    return F.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """The in-place form of `alpha_dropout`.

    >>> alpha_dropout_(ones(3), 0.5, False)
    tensor([1., 1., 1.])
    """
    return F.alpha_dropout(input, p, train, True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Alpha dropout of whole channels.

    >>> feature_alpha_dropout(ones(1, 3), 0.5, False)
    tensor([[1., 1., 1.]])
    """
    return F.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """The in-place form of `feature_alpha_dropout`.

    >>> feature_alpha_dropout_(ones(1, 3), 0.5, False)
    tensor([[1., 1., 1.]])
    """
    return F.feature_alpha_dropout(input, p, train, True)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Dropout, and the mask of the kept elements.

    >>> native_dropout(ones(2), 0.5, False)
    (tensor([1., 1.]), tensor([True, True]))
    """
    check_probability(p)
    with no_grad():
        keep_mask = ones_like(input) != 0
        if train is not False:
            keep_mask = rand(*input.shape, device=input.device) >= p
    if train is False:
        return input.clone(), keep_mask
    return input * keep_mask.to(input.dtype) * (1 / (1 - p) if p < 1 else 0), keep_mask
