"""Utilities around training: data loading, activation checkpointing (see README.md)."""

from __future__ import annotations

from . import checkpoint, data
from .sizes import small

__all__ = ["checkpoint", "data", "small"]
