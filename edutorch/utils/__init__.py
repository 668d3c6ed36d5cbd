"""What surrounds training: data, checkpoints of the computation (see README.md)."""

from __future__ import annotations

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
