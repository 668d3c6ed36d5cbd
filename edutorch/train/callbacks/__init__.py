"""Callbacks of the trainer (see README.md)."""

from __future__ import annotations

from .base import Callback
from .monitor import EarlyStopping, ModelCheckpoint
from .progress import ProgressBar
from .training import (
    GradientAccumulationScheduler, LambdaCallback, LearningRateMonitor, StochasticWeightAveraging,
    Timer,
)  # fmt: skip
from .tuning import OptunaPruning

__all__ = [
    "Callback", "EarlyStopping", "GradientAccumulationScheduler", "LambdaCallback",
    "LearningRateMonitor", "ModelCheckpoint", "OptunaPruning", "ProgressBar",
    "StochasticWeightAveraging", "Timer",
]  # fmt: skip
