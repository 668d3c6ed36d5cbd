"""Event files for TensorBoard (see README.md)."""

from __future__ import annotations

from .writer import SummaryWriter

__all__ = ["SummaryWriter"]
