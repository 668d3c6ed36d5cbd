"""Training without writing the loop: a Trainer, callbacks, loggers, metrics (see README.md)."""

from __future__ import annotations

from . import callbacks, metrics
from .callbacks import (
    Callback, EarlyStopping, GradientAccumulationScheduler, LambdaCallback, LearningRateMonitor,
    ModelCheckpoint, OptunaPruning, ProgressBar, StochasticWeightAveraging, Timer,
)  # fmt: skip
from .errors import MonitorError, SettingError, StepOutputError, TrainError
from .loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger
from .module import DataModule, TrainModule
from .trainer import Trainer, fit

__all__ = [
    "CSVLogger", "Callback", "DataModule", "EarlyStopping", "GradientAccumulationScheduler",
    "LambdaCallback", "LearningRateMonitor", "LightningDataModule", "LightningModule", "Logger",
    "MLFlowLogger", "ModelCheckpoint", "MonitorError", "OptunaPruning", "ProgressBar",
    "SettingError", "StepOutputError", "StochasticWeightAveraging", "TQDMProgressBar",
    "TensorBoardLogger", "Timer", "TrainError", "TrainModule", "Trainer", "callbacks", "fit",
    "metrics",
]  # fmt: skip


# Their names in Lightning, for scripts that were written for it.
LightningModule = TrainModule
LightningDataModule = DataModule
TQDMProgressBar = ProgressBar
