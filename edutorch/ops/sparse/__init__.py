"""Sparse tensors: a pattern of indices and the values at them (see README.md)."""

from . import conversion as conversion  # it gives the class its methods
