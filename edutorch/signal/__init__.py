"""Signal processing: window functions and the short-time Fourier transform."""

from __future__ import annotations

from . import windows

__all__ = ["windows"]
