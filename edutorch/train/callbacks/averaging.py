"""Stochastic weight averaging: train at a constant learning rate and average the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.tensor import Tensor
from ...optim.swa_utils import SWALR, AveragedModel, update_bn
from ..errors import SettingError
from ..optimizer_step import LRSchedulerConfig
from ..resumable_loader import map_tensors
from .base import Callback

__all__ = ["StochasticWeightAveraging"]


class StochasticWeightAveraging(Callback):
    """Averages the weights of the last epochs, and loads the average into the module at the end.

    From `swa_epoch_start` on, the scheduler is replaced by one that anneals to the learning rate
    `swa_lrs` and stays there. At the end, the batch norm statistics are recomputed.

    Args:
        swa_lrs: the constant learning rate, or one for each group.
        swa_epoch_start: the epoch at which averaging starts, or its share of all epochs (0.8).
        annealing_epochs: the number of epochs of the annealing.
        annealing_strategy: "cos" or "linear".
        avg_fn: the averaging function; the arithmetic mean by default.
        device: the device of the average; by default that of the module.

    Paper: Izmailov et al., Averaging weights leads to wider optima and better
    generalization, 2018.
    """

    def __init__(
        self, swa_lrs: float | list[float], swa_epoch_start: int | float = 0.8,
        annealing_epochs: int = 10, annealing_strategy: Any = "cos",
        avg_fn: Callable[[Tensor, Tensor, Any], Tensor] | None = None, device: Any = None,
    ) -> None:  # fmt: skip
        whole = isinstance(swa_epoch_start, int) and swa_epoch_start >= 1
        if not whole and not (isinstance(swa_epoch_start, float) and 0 <= swa_epoch_start <= 1):
            raise SettingError(
                "StochasticWeightAveraging", "swa_epoch_start must be an epoch of at least 1, or a "
                f"part between 0.0 and 1.0, got {swa_epoch_start!r}",
            )  # fmt: skip
        rates = swa_lrs if isinstance(swa_lrs, list) else [swa_lrs]
        if not all(isinstance(rate, float | int) and rate > 0 for rate in rates):
            raise SettingError("StochasticWeightAveraging", f"swa_lrs={swa_lrs!r} is not positive")
        self.swa_lrs, self.swa_epoch_start = swa_lrs, swa_epoch_start
        self.annealing_epochs, self.annealing_strategy = annealing_epochs, annealing_strategy
        self.avg_fn, self.device = avg_fn, device
        self.average: AveragedModel | None = None
        self._saved: dict[str, Any] | None = None

    def start_epoch(self, trainer: Any) -> int:
        """Return the epoch at which averaging starts."""
        if isinstance(self.swa_epoch_start, int):
            return self.swa_epoch_start
        if trainer.max_epochs is None or trainer.max_epochs < 0:
            raise SettingError(
                "StochasticWeightAveraging", "a part of the epochs, but there is no max_epochs",
                hint="swa_epoch_start=10",
            )  # fmt: skip
        return int(trainer.max_epochs * self.swa_epoch_start)

    def begin(self, trainer: Any, pl_module: Any) -> None:
        """Create the average, and replace the schedulers."""
        pl_module._trainer = None  # so that it is not copied with the module
        try:
            self.average = AveragedModel(pl_module, self.device, self.avg_fn)
        finally:
            pl_module._trainer = trainer
        schedulers = [
            SWALR(optimizer, self.swa_lrs, self.annealing_epochs, self.annealing_strategy)
            for optimizer in trainer.optimizers
        ]
        trainer.lr_scheduler_configs = [LRSchedulerConfig(scheduler) for scheduler in schedulers]

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Start averaging if it is due."""
        if self.average is None and trainer.current_epoch >= self.start_epoch(trainer):
            self.begin(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Add the weights of this epoch to the average."""
        if self.average is not None:
            self.average.update_parameters(pl_module)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Load the average into the module."""
        if self.average is None or not int(self.average.n_averaged):
            return
        pl_module.load_state_dict(self.average.module.state_dict())
        if trainer.train_loader is not None:
            batches = (map_tensors(batch, trainer.place_tensor) for batch in trainer.train_loader)
            update_bn(batches, pl_module)

    def state_dict(self) -> dict[str, Any]:
        """Return the average so far."""
        return {"average": None if self.average is None else self.average.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state until the module is known."""
        self._saved = state_dict["average"]

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Restore the average if averaging had started."""
        if self._saved is not None:
            self.begin(trainer, pl_module)
            assert self.average is not None
            self.average.load_state_dict(self._saved)
            self._saved = None
