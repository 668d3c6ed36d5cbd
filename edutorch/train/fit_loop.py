"""The loops over batches: training with its optimizer steps, validation, test and prediction."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor
from ..errors import warn
from ..modes import no_grad
from ..nn import Module
from ..optim import Optimizer
from ..utils.process import defer_interrupts
from .errors import StepOutputError
from .log_buffer import LogBook
from .optimizer_step import update_schedulers
from .resumable_loader import RandomState, Replay, check_loader, limited_length

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["FitLoop", "evaluate", "evaluation_mode"]

COUNTS = ("epoch", "batches", "batches_seen", "batches_stepped", "global_step", "pending", "stage")


class FitLoop:
    """The training loop and its progress.

    `stage` is what was done last: "start" of an epoch, "batch", "validated" after a batch, or
    "epoch_end". A checkpoint keeps it, so that nothing is repeated or skipped.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.epoch = 0
        self.batches = 0  # batches of this epoch that are done
        self.batches_seen = 0  # batches of all epochs
        self.batches_stepped = 0  # batches after which an optimizer stepped
        self.global_step = 0  # optimizer steps
        self.pending = 0  # batches whose gradients wait for a step
        self.stage = "start"
        self.length: int | None = None  # batches in an epoch, if that is known
        self.replay: Replay | None = None
        self.resumed: tuple[RandomState, RandomState] | None = None
        self.warned_of_nan = False
        self.whole = contextlib.ExitStack()

    # Epochs -------------------------------------------------------------------------------

    def run(self, loader: Any) -> None:
        """Train until the last step or epoch."""
        trainer = self.trainer
        self.length = limited_length(loader, trainer.limit_train_batches, "limit_train_batches")
        if self.replay is not None and self.replay.start is not None and self.stage != "start":
            # `fit` is called again after one that stopped in the middle of an epoch.
            now = RandomState.now(loader, trainer.device_type)
            self.resumed = self.resumed or (self.replay.start, now)
        self.replay = Replay(loader, self.length, trainer.device_type)
        if self.length == 0:
            warn("fit: there is no batch to train on: the loader is empty, or its limit is 0")
            return
        trainer.call("on_train_start")
        while not self.is_over():
            if not self.run_epoch():
                break
        trainer.call("on_train_end")

    def is_over(self) -> bool:
        """Whether training ends here."""
        trainer = self.trainer
        if 0 <= trainer.max_steps <= self.global_step:
            return True
        if trainer.max_epochs is not None and 0 <= trainer.max_epochs <= self.epoch:
            return True
        enough = self.epoch >= (trainer.min_epochs or 0)
        return trainer.should_stop and enough and self.global_step >= (trainer.min_steps or 0)

    def run_epoch(self) -> bool:
        """Train on the rest of an epoch. Return whether its end was reached.

        If training stops in the middle, the epoch is not ended, and can be continued.
        """
        trainer = self.trainer
        if self.stage == "epoch_end":
            self.remaining_batches()  # no batches, but it restores the random generators
        else:
            trainer.call("on_train_epoch_start")
            batches = self.remaining_batches()
            if self.stage == "batch":  # the checkpoint was made between a batch and its validation
                self.validate_if_due()
            for batch in trainer.fetch_batches(batches, "train_dataloaders", self.batches):
                if self.run_batch(batch) == -1:
                    break
                self.validate_if_due()
                if self.is_over() and self.batches != self.length:
                    return False
            if self.pending:  # which batch would be the last one was not known
                with defer_interrupts():
                    self.take_step(self.trainer.optimizers[0])
                    self.count_stepped_batch()
            if self.length is None or self.batches < self.length:
                self.validate_if_due(last=True)
        self.end_epoch()
        return True

    def remaining_batches(self) -> Iterator[Any]:
        """Return the remaining batches of this epoch."""
        resumed, self.resumed = self.resumed, None
        assert self.replay is not None
        if resumed is None:
            return self.replay.batches(self.epoch)
        if self.batches == self.length or self.stage == "epoch_end":
            self.replay.start = resumed[0]  # needed by checkpoints at the end of this epoch
            resumed[1].restore(self.replay.loader, self.trainer.device_type)
            return iter(())
        return self.replay.batches_after(self.batches, self.epoch, *resumed)

    def end_epoch(self) -> None:
        """Call the hooks, step the schedulers, and count the epoch."""
        trainer = self.trainer
        if self.stage != "epoch_end":
            self.stage = "epoch_end"
            trainer.call(
                "on_train_epoch_end", then=lambda: trainer.publish(trainer.book.epoch_values())
            )
        trainer.book.clear()
        if trainer.module.automatic_optimization:
            update_schedulers(trainer, "epoch", self.epoch + 1)
        self.epoch, self.batches, self.stage = self.epoch + 1, 0, "start"

    # Batches ------------------------------------------------------------------------------

    def run_batch(self, batch: Any) -> int | None:
        """Train on one batch. Return -1 if a hook skips the rest of the epoch."""
        trainer, batch_idx = self.trainer, self.batches
        if -1 in trainer.call("on_train_batch_start", batch, batch_idx):
            return -1
        steps_before = self.global_step
        with contextlib.ExitStack() as self.whole:
            if trainer.module.automatic_optimization and trainer.optimizers:
                output = self.optimize(batch, batch_idx)
            else:
                output = trainer.step("training_step", batch, batch_idx)
            self.batches, self.stage = batch_idx + 1, "batch"
            self.batches_seen += 1
            stepped = self.global_step > steps_before
            if stepped:
                self.count_stepped_batch()
        due = stepped and self.batches_stepped % trainer.log_every_n_steps == 0
        trainer.call(
            "on_train_batch_end", output, batch, batch_idx,
            then=lambda: trainer.publish(trainer.book.step_values(), to_logger=due),
        )  # fmt: skip
        return None

    def count_stepped_batch(self) -> None:
        """Count a batch after which an optimizer stepped, and step the schedulers."""
        self.batches_stepped += 1
        if self.trainer.module.automatic_optimization:
            update_schedulers(self.trainer, "step", self.batches_stepped)

    def optimize(self, batch: Any, batch_idx: int) -> Any:
        """Compute the loss and its gradients, and step after enough batches."""
        trainer = self.trainer
        optimizer, every = trainer.optimizers[0], trainer.accumulate_grad_batches
        outputs: list[Any] = []

        def closure() -> Any:
            outputs.append(trainer.step("training_step", batch, batch_idx))
            loss = self.loss_of(outputs[-1], batch_idx)
            if loss is None:
                return None
            if not self.pending:
                trainer.call("on_before_zero_grad", optimizer)
                optimizer.zero_grad()
            loss = loss if every == 1 else loss / every
            trainer.call("on_before_backward", loss)
            with trainer.error_notes("backward", batch_idx):
                trainer.precision.backward(loss)
            trainer.call("on_after_backward")
            return loss.detach()

        if self.pending + 1 < every and batch_idx + 1 != self.length:
            if closure() is not None:
                self.pending += 1
        elif id(optimizer) in trainer.closure_optimizers:
            self.take_step(optimizer, closure)
        elif closure() is not None:
            # An interrupt is deferred until the step has been counted.
            self.whole.enter_context(defer_interrupts())
            self.take_step(optimizer)
        return outputs[-1]

    def take_step(self, optimizer: Optimizer, closure: Callable[[], Any] | None = None) -> None:
        """Run an optimizer step."""
        self.trainer.optimizer_step(optimizer, closure)
        self.pending = 0

    def loss_of(self, output: Any, batch_idx: int) -> Tensor | None:
        """Return the loss in the output of `training_step`.

        Raises: StepOutputError: there is none.
        """
        name = f"{type(self.trainer.module).__name__}.training_step"
        loss = output.get("loss") if isinstance(output, dict) else output
        if loss is None and not isinstance(output, dict):
            return None
        if not isinstance(loss, Tensor):
            keys = f" with the keys {list(output)}" if isinstance(output, dict) else ""
            raise StepOutputError(
                name, "has to return the loss: a tensor, a dict with the key 'loss', or None to "
                f"leave the batch out; got {type(output).__name__}{keys}", {"batch_idx": batch_idx},
            )  # fmt: skip
        if loss.numel() != 1 or not loss.requires_grad:
            details = {"loss": f"shape {tuple(loss.shape)}, requires_grad={loss.requires_grad}"}
            hint = "loss.mean()" if loss.numel() != 1 else "was it detached, or under no_grad?"
            message = "the loss has to be one number with a gradient"
            raise StepOutputError(name, message, details, hint)
        if not self.warned_of_nan and not math.isfinite(loss.item()):
            self.warned_of_nan = True
            warn(
                f"{name}: the loss is {loss.item()} at epoch {self.epoch}, batch {batch_idx} (step "
                f"{self.global_step}): look at the inputs, lower the learning rate, or set "
                "gradient_clip_val; Trainer(detect_anomaly=True) names the op that made a NaN"
            )
        return loss

    # Validation ---------------------------------------------------------------------------

    def validate_if_due(self, last: bool = False) -> None:
        """Validate if it is due: after a share of the batches, in every n-th epoch."""
        trainer = self.trainer
        if self.stage == "validated" or not trainer.can_validate():
            return
        every, epochs = trainer.val_check_interval, trainer.check_val_every_n_epoch
        if epochs is None:
            due = self.batches_seen % every == 0
        elif (self.epoch + 1) % epochs:
            due = False
        elif isinstance(every, int):
            due = self.batches % every == 0
        elif self.length is None:
            due = last
        else:
            due = self.batches % max(1, int(self.length * every)) == 0
        if due:
            trainer.validate_inside_fit()

    def mark_validated(self) -> None:
        """Record that the validation after a batch is done."""
        if not self.trainer.sanity_checking:
            self.stage = "validated"

    # State --------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the progress, with the random state at the beginning of this epoch."""
        state: dict[str, Any] = {name: getattr(self, name) for name in COUNTS}
        start = None if self.replay is None else self.replay.start
        return {**state, "epoch_start": None if start is None else start.parts}

    def load_state_dict(self, state: dict[str, Any], now: RandomState) -> None:
        """Restore what `state_dict` returned; the random generators go on from `now`."""
        for name in COUNTS:
            setattr(self, name, state[name])
        start: dict[str, Any] | None = state["epoch_start"]
        inside = self.stage != "start"
        self.resumed = (RandomState(start), now) if inside and start is not None else None


@contextmanager
def evaluation_mode(module: Module) -> Iterator[None]:
    """Switch all submodules to evaluation mode inside the block, and restore their modes."""
    modes = [(child, child.training) for child in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for child, mode in modes:
            child.training = mode


def evaluate(
    trainer: Trainer, stage_name: str, loaders: list[Any], limit: int | float | None
) -> tuple[list[dict[str, float]], list[Any]]:
    """Run every batch of every loader through the module's step.

    Args:
        stage_name: "validation", "test" or "predict", the prefix of the step and the hooks.
        limit: the number of batches of each loader, or the share of them.

    Returns: for each loader the logged values, and the list of what the steps returned.
    """
    results: list[dict[str, float]] = []
    outputs: list[Any] = []
    lengths = [limited_length(loader, limit, "the limit") for loader in loaders]
    known = [length for length in lengths if length is not None]
    trainer.num_evaluation_batches = sum(known) if len(known) == len(lengths) else None
    outer, trainer.evaluating = trainer.evaluating, stage_name
    try:
        with evaluation_mode(trainer.module), no_grad():
            trainer.call(f"on_{stage_name}_start")
            trainer.call(f"on_{stage_name}_epoch_start")
            books = [LogBook() for _ in loaders] or [LogBook()]
            for index, loader in enumerate(loaders):
                with trainer.logging_into(books[index]):
                    outputs.append(
                        run_loader(trainer, stage_name, loader, index, limit, len(loaders))
                    )
            with trainer.logging_into(books[-1]):
                publish = lambda: results.extend(publish_all(trainer, books))  # noqa: E731
                trainer.call(f"on_{stage_name}_epoch_end", then=publish)
            if stage_name == "validation":
                trainer.loop.mark_validated()
            trainer.call(f"on_{stage_name}_end")
    finally:
        trainer.evaluating = outer
    return results, outputs


def run_loader(
    trainer: Trainer, stage_name: str, loader: Any, index: int, limit: Any, loaders: int
) -> list[Any]:
    """Run the batches of one loader; return the outputs of predictions."""
    name = f"{'val' if stage_name == 'validation' else stage_name}_dataloaders"
    check_loader(loader, name)
    batches = itertools.islice(iter(loader), limited_length(loader, limit, f"limit_{name}"))
    outputs = []
    loader_idx = (index,) if loaders > 1 else ()
    for batch_idx, batch in enumerate(trainer.fetch_batches(batches, name)):
        trainer.call(f"on_{stage_name}_batch_start", batch, batch_idx, *loader_idx)
        output = trainer.step(f"{stage_name}_step", batch, batch_idx, *loader_idx)
        trainer.call(f"on_{stage_name}_batch_end", output, batch, batch_idx, *loader_idx)
        trainer.publish(trainer.book.step_values(), to_logger=False)
        if stage_name == "predict":
            outputs.append(output)
    return outputs


def publish_all(trainer: Trainer, books: list[LogBook]) -> list[dict[str, float]]:
    """Publish the epoch values of the loaders; with several loaders, names get an index."""
    results = []
    for index, book in enumerate(books):
        suffix = f"/dataloader_idx_{index}" if len(books) > 1 else ""
        values = {f"{name}{suffix}": pair for name, pair in book.epoch_values().items()}
        trainer.publish(values)
        results.append({name: value for name, (_, value) in values.items()})
        book.clear()
    return results
