"""Layers with integer weights whose inputs are floats, and are quantized at each call."""

from __future__ import annotations

from .linear import Linear
from .rnn import GRU, LSTM

__all__ = ["GRU", "LSTM", "Linear"]
