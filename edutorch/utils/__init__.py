"""What surrounds training: for now, data (see README.md)."""

from __future__ import annotations

from . import data

__all__ = ["data"]
