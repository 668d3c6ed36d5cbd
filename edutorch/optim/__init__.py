"""Optimizers: how parameters follow their gradients (see README.md)."""

from __future__ import annotations

from .adam import Adam
from .adamw import AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["Adam", "AdamW", "Optimizer", "SGD"]
