"""Utilities around training: data loading, activation checkpointing (see README.md)."""

from __future__ import annotations

from . import checkpoint, data

__all__ = ["checkpoint", "data"]
