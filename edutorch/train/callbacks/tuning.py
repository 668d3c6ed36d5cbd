"""Hyperparameter search by Optuna: trials without prospects end early."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import missing_extra
from .monitor import Monitor

if TYPE_CHECKING:
    from ..module import TrainModule
    from ..trainer import Trainer

__all__ = ["OptunaPruning"]


class OptunaPruning(Monitor):
    """Reports a logged value to a trial of Optuna, which may end the training. Extra `tune`.

    It reports after each validation, or after each epoch without a validation. The trial ends by
    `optuna.TrialPruned`, which `study.optimize` expects.

    Args:
        trial: what Optuna hands to the objective.
        monitor: the name of the value.

    A study in a database goes on where it was stopped, and several processes may work at it, each
    of which runs this same program::

        def objective(trial):
            model = Net(rate=trial.suggest_float("rate", 1e-4, 1e-1, log=True))
            trainer = train.Trainer(max_epochs=9, callbacks=train.OptunaPruning(trial, "val_loss"))
            trainer.fit(model, loader, val_loader)
            return float(trainer.callback_metrics["val_loss"])

        study = optuna.create_study(
            study_name="net", storage="sqlite:///trials.db", load_if_exists=True,
        )
        study.optimize(objective, callbacks=[optuna.study.MaxTrialsCallback(40)])
    """

    def __init__(self, trial: Any, monitor: str) -> None:
        super().__init__(monitor, "min")  # which way is better, the study knows
        self.trial = trial

    def on_train_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Report the value if nothing is validated."""
        if not trainer.can_validate():
            self.report(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Report the value after a validation during training."""
        if trainer.state == "fit" and not trainer.sanity_checking:
            self.report(trainer)

    def report(self, trainer: Trainer) -> None:
        """Report the newest value.

        Raises: TrialPruned: other trials were better at this point.
        """
        value, epoch = self.value(trainer), trainer.current_epoch
        self.trial.report(value, step=epoch)
        if not self.trial.should_prune():
            return
        try:
            from optuna import TrialPruned
        except ImportError as error:
            raise missing_extra("tune", "train.OptunaPruning", str(error)) from None
        raise TrialPruned(f"{self.monitor}={value:.4g} in epoch {epoch}: others were better")
