"""Training in one call, for a first lesson."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..nn import Module
from ..optim import Adam, Optimizer
from .callbacks import Callback
from .errors import TrainError
from .metrics import Metric
from .module import TrainModule
from .trainer import Trainer

__all__ = ["fit"]


def fit(
    model: Module, loss_fn: Callable[[Any, Any], Tensor], loader: Any, *, epochs: int = 1,
    optimizer: Optimizer | None = None, lr: float = 1e-3, val_loader: Any = None,
    metrics: dict[str, Metric] | None = None, **settings: Any,
) -> dict[str, list[float]]:  # fmt: skip
    """Train a plain module on batches (inputs, targets); return the curves.

    This is a shorthand for a `TrainModule` whose step is loss_fn(model(inputs), targets), and a
    Trainer that writes no files.

    Args:
        model: the module to train.
        loss_fn: returns the loss of (predictions, targets).
        loader: yields batches (inputs, targets).
        epochs: the number of passes over the loader.
        optimizer: by default Adam with the learning rate `lr`.
        val_loader: yields batches for validation after each epoch.
        metrics: further metrics by name.
        settings: settings of `Trainer`.

    Raises: TrainError: a batch is not made of inputs and targets.

    >>> x = linspace(-1, 1, 8).reshape(8, 1)
    >>> model = nn.Linear(1, 1)
    >>> curves = fit(model, nn.functional.mse_loss, [(x, 2 * x + 1)], epochs=100, lr=0.1,
    ...     enable_progress_bar=False)
    >>> curves["loss"][-1] < curves["loss"][0] / 100
    True
    """
    curves = Curves()
    quiet = {"logger": False, "enable_checkpointing": False, "max_epochs": epochs}
    callbacks = [curves, *settings.pop("callbacks", ())]
    trainer = Trainer(**{**quiet, **settings}, callbacks=callbacks)
    trainer.fit(Supervised(model, loss_fn, optimizer, lr, metrics or {}), loader, val_loader)
    return curves.curves


class Supervised(TrainModule):
    """Wraps a model, a loss and an optimizer as a `TrainModule`."""

    def __init__(
        self, model: Module, loss_fn: Any, optimizer: Any, lr: float, metrics: dict[str, Metric]
    ) -> None:
        super().__init__()
        self.model, self.loss_fn, self.optimizer, self.lr = model, loss_fn, optimizer, lr
        self.measured = {"": metrics, "val_": copy.deepcopy(metrics)}

    def forward(self, inputs: Any) -> Any:
        """Return the output of the model."""
        return self.model(inputs)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Return the loss."""
        return self.look(batch, "")

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Log loss and metrics."""
        self.look(batch, "val_")

    def look(self, batch: Any, start: str) -> Tensor:
        """Log the loss and the metrics of a batch, and return the loss."""
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise TrainError(
                "fit", f"a batch has to be (inputs, targets), got {type(batch).__name__}",
                hint="write a TrainModule for other batches",
            )  # fmt: skip
        inputs, targets = batch
        output = self.model(inputs)
        loss = self.loss_fn(output, targets)
        self.log(f"{start}loss", loss, prog_bar=True, on_step=False, on_epoch=True)
        for name, metric in self.measured[start].items():
            metric.update(output, targets)
            self.log(f"{start}{name}", metric, prog_bar=True, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self) -> Any:
        """Return the given optimizer, or Adam."""
        return self.optimizer or Adam(self.model.parameters(), lr=self.lr)


class Curves(Callback):
    """Collects the values of every epoch."""

    monitors = True

    def __init__(self) -> None:
        self.curves: dict[str, list[float]] = {}

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Add a point to each curve."""
        for name, value in trainer.values.items():
            self.curves.setdefault(name, []).append(value)
