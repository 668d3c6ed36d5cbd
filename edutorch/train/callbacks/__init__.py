"""Callbacks of the trainer (see README.md)."""

from __future__ import annotations

from .averaging import StochasticWeightAveraging
from .base import Callback
from .early_stopping import EarlyStopping
from .model_checkpoint import ModelCheckpoint
from .progress import ProgressBar
from .small import GradientAccumulationScheduler, LambdaCallback, LearningRateMonitor, Timer

__all__ = [
    "Callback", "EarlyStopping", "GradientAccumulationScheduler", "LambdaCallback",
    "LearningRateMonitor", "ModelCheckpoint", "ProgressBar", "StochasticWeightAveraging", "Timer",
]  # fmt: skip
