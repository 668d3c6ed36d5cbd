"""The progress bar: tqdm where installed, else lines of text."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from ..errors import check_at_least
from .base import Callback

if TYPE_CHECKING:
    from ..module import TrainModule
    from ..trainer import Trainer

__all__ = ["ProgressBar"]


class ProgressBar(Callback):
    """Shows the progress of each epoch, and the values logged with `prog_bar=True`.

    Args:
        refresh_rate: the number of batches between two updates; 0 shows nothing.
        leave: keep the bar of each epoch instead of only the last one.
        file: the output; by default standard error, or the notebook.
    """

    monitors = True

    def __init__(self, refresh_rate: int = 1, leave: bool = False, file: Any = None) -> None:
        check_at_least("ProgressBar", "refresh_rate", refresh_rate, 0)
        self.refresh_rate, self.leave, self.file = refresh_rate, leave, file
        self.bars: dict[str, Any] = {}

    # Bars ---------------------------------------------------------------------------------

    def open(self, name: str, description: str, total: int | None, leave: bool) -> None:
        """Open a bar."""
        if self.refresh_rate:
            bar_type = bar_class(self.file is None) or PlainLines
            self.bars[name] = bar_type(
                total=total, desc=description, leave=leave, file=self.file or sys.stderr,
                dynamic_ncols=True, mininterval=0.05,
            )  # fmt: skip

    def move(self, name: str, done: int, trainer: Trainer) -> None:
        """Update a bar if it is due."""
        bar = self.bars.get(name)
        if bar is None or not (done % self.refresh_rate == 0 or done == bar.total):
            return
        bar.set_postfix(self.bar_values(trainer), refresh=False)
        bar.update(done - bar.n)

    def close(self, name: str) -> None:
        """Close a bar."""
        bar = self.bars.pop(name, None)
        if bar is not None:
            bar.close()

    def bar_values(self, trainer: Trainer) -> dict[str, str]:
        """Return the values shown after the bar, as text."""
        return {name: f"{value:.4g}" for name, value in trainer.progress_bar_metrics.items()}

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print above the bars."""
        bar = next(iter(self.bars.values()), None)
        text = kwargs.get("sep", " ").join(map(str, args))
        if bar is None or not hasattr(bar, "write"):
            print(*args, **kwargs)
        else:
            bar.write(text, file=kwargs.get("file", sys.stdout), end=kwargs.get("end", "\n"))

    # Hooks --------------------------------------------------------------------------------

    def on_train_epoch_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Open the bar of an epoch."""
        self.close("train")
        self.open("train", f"Epoch {trainer.current_epoch}", trainer.num_training_batches, True)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: TrainModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Move the bar."""
        self.move("train", batch_idx + 1, trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Show the values of the epoch."""
        bar = self.bars.get("train")
        if bar is not None:
            bar.set_postfix(self.bar_values(trainer))
            if self.leave:
                self.close("train")

    def on_train_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """End the bar."""
        self.close("train")

    def on_validation_start(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Open a bar for the validation, which disappears at its end."""
        self.open("validation", "Validating", trainer.num_evaluation_batches, False)
        self.done = 0

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: TrainModule, *batch: Any
    ) -> None:
        """Move the bar."""
        self.done += 1
        self.move("validation", self.done, trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: TrainModule) -> None:
        """Close the bar, and show the results in the bar of the training."""
        self.close("validation")
        bar = self.bars.get("train")
        if bar is not None:
            bar.set_postfix(self.bar_values(trainer))

    def on_exception(
        self, trainer: Trainer, pl_module: TrainModule, exception: BaseException
    ) -> None:
        """Close all bars."""
        for name in list(self.bars):
            self.close(name)


class PlainLines:
    """Replaces tqdm's bar by lines of text, one for each tenth of the epoch."""

    def __init__(
        self, total: int | None, desc: str, file: Any, leave: bool = True, **ignored: Any
    ) -> None:
        self.total, self.desc, self.file, self.leave = total, desc, file, leave
        self.n = 0
        self.postfix = ""
        self._written = -1

    def set_postfix(self, values: dict[str, str], refresh: bool = True) -> None:
        """Set the values shown after the count."""
        self.postfix = "".join(f", {name}={value}" for name, value in values.items())

    def update(self, steps: int) -> None:
        """Advance by some steps."""
        self.n += steps
        tenth = self.n * 10 // self.total if self.total else self.n // 100
        if self.leave and tenth != self._written:
            self._written = tenth
            of = f"/{self.total}" if self.total else ""
            print(f"{self.desc}: {self.n}{of}{self.postfix}", file=self.file, flush=True)

    def close(self) -> None:
        """Do nothing: all lines are complete."""


def bar_class(anywhere: bool) -> Any:
    """Return tqdm's class for this environment, notebook or terminal; None if not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without ipywidgets gets the plain bar
            if anywhere:
                from tqdm.auto import tqdm
            else:
                from tqdm.std import tqdm
    except ModuleNotFoundError:
        return None
    return tqdm
