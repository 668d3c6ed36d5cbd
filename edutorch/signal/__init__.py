"""Signals in time: windows, and spectra that change."""

from __future__ import annotations

from . import windows

__all__ = ["windows"]
