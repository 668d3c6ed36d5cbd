"""How far it is: a bar where tqdm is installed, plain lines where it is not."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from ..errors import check_at_least
from .base import Callback

__all__ = ["ProgressBar"]


class ProgressBar(Callback):
    """Shows how far an epoch is, and the values that were logged with `prog_bar=True`.

    Args:
        refresh_rate: how many batches go by until it is drawn again; 0 draws nothing.
        leave: keep the bar of each epoch instead of only the last one's.
        file: where it is written; by default where errors go, or the notebook.
    """

    monitors = True

    def __init__(self, refresh_rate: int = 1, leave: bool = False, file: Any = None) -> None:
        check_at_least("ProgressBar", "refresh_rate", refresh_rate, 0)
        self.refresh_rate, self.leave, self.file = refresh_rate, leave, file
        self.bars: dict[str, Any] = {}

    # Bars ---------------------------------------------------------------------------------

    def open(self, word: str, description: str, total: int | None, leave: bool) -> None:
        """Begin a bar."""
        if self.refresh_rate:
            made = bar_class(self.file is None) or PlainLines
            self.bars[word] = made(
                total=total, desc=description, leave=leave, file=self.file or sys.stderr,
                dynamic_ncols=True, mininterval=0.05,
            )  # fmt: skip

    def move(self, word: str, done: int, trainer: Any) -> None:
        """Bring a bar up to date, if it is time."""
        bar = self.bars.get(word)
        if bar is None or not (done % self.refresh_rate == 0 or done == bar.total):
            return
        bar.set_postfix(self.shown(trainer), refresh=False)
        bar.update(done - bar.n)

    def close(self, word: str) -> None:
        """End a bar."""
        bar = self.bars.pop(word, None)
        if bar is not None:
            bar.close()

    def shown(self, trainer: Any) -> dict[str, str]:
        """Return what stands behind the bar."""
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

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin the bar of an epoch."""
        self.close("train")
        self.open("train", f"Epoch {trainer.current_epoch}", trainer.num_training_batches, True)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Move the bar."""
        self.move("train", batch_idx + 1, trainer)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Show the values of the epoch."""
        bar = self.bars.get("train")
        if bar is not None:
            bar.set_postfix(self.shown(trainer))
            if self.leave:
                self.close("train")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End the bar."""
        self.close("train")

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin a bar for the validation, gone when it ends."""
        self.open("validation", "Validating", trainer.num_evaluation_batches, False)
        self.done = 0

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, *batch: Any) -> None:
        """Move the bar."""
        self.done += 1
        self.move("validation", self.done, trainer)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """End the bar, and show what came out in that of the training."""
        self.close("validation")
        bar = self.bars.get("train")
        if bar is not None:
            bar.set_postfix(self.shown(trainer))

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Leave no bar half drawn."""
        for word in list(self.bars):
            self.close(word)


class PlainLines:
    """What stands in for tqdm's bar: a line when it begins a tenth more, and at the end."""

    def __init__(
        self, total: int | None, desc: str, file: Any, leave: bool = True, **ignored: Any
    ) -> None:
        self.total, self.desc, self.file, self.leave = total, desc, file, leave
        self.n = 0
        self.postfix = ""
        self._written = -1

    def set_postfix(self, values: dict[str, str], refresh: bool = True) -> None:
        """Take the values that are shown behind."""
        self.postfix = "".join(f", {name}={value}" for name, value in values.items())

    def update(self, steps: int) -> None:
        """Go on by some steps."""
        self.n += steps
        tenth = self.n * 10 // self.total if self.total else self.n // 100
        if self.leave and tenth != self._written:
            self._written = tenth
            of = f"/{self.total}" if self.total else ""
            print(f"{self.desc}: {self.n}{of}{self.postfix}", file=self.file, flush=True)

    def close(self) -> None:
        """End."""


def bar_class(anywhere: bool) -> Any:
    """Return tqdm's bar for where we are, a notebook or a terminal; None if it is not installed."""
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
