"""Layers that are computed as one: what `fuse_modules` puts in the place of several."""

from __future__ import annotations

from edutorch.nn import Sequential

__all__ = ["ConvReLU2d", "LinearReLU"]


class ConvReLU2d(Sequential):
    """A convolution, then ReLU."""


class LinearReLU(Sequential):
    """A linear layer, then ReLU."""
