"""Runs the hooks and steps of a trainer, and logs their values."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..autograd.anomaly_mode import detect_anomaly
from ..core.tensor import Tensor
from ..optim import Optimizer
from .callbacks.base import Callback
from .errors import TrainError
from .fit_loop import FitLoop
from .log_buffer import Entry, LogBook
from .loggers import Logger
from .module import TrainModule
from .optimizer_step import LRSchedulerConfig, Precision, SteppingOptimizer
from .resumable_loader import batch_size_of, map_tensors

__all__ = ["HooksRunner"]


class HooksRunner:
    """The part of a `Trainer` that runs hooks and steps and logs values."""

    callbacks: list[Callback]
    loggers: list[Logger]
    precision: Precision
    device_type: str
    gradient_clip_val: float | None
    gradient_clip_algorithm: str | None
    detect_anomaly: bool

    def __init__(self) -> None:
        self.optimizers: list[Optimizer] = []
        self.stepping_optimizers: list[SteppingOptimizer] = []
        self.lr_scheduler_configs: list[LRSchedulerConfig] = []
        self.train_book = LogBook()
        self.book = self.train_book  # the current one
        self.values: dict[str, float] = {}  # the newest value of every logged name
        self.bar_values: dict[str, float] = {}
        self.logged_values: dict[str, float] = {}
        self.loop = FitLoop(self)  # type: ignore[arg-type]
        self.train_loader: Any = None
        self.evaluating = ""
        self.num_evaluation_batches: int | None = None
        self.sanity_checking = False
        self.arguments: dict[str, int] = {}  # number of arguments of each step, by name
        self.closure_optimizers: set[int] = set()  # ids of those whose step needs a closure
        self.where = ""  # the name of the running hook or step
        self._module: TrainModule | None = None
        self._batch: Any = None

    @property
    def module(self) -> TrainModule:
        """The module that is being trained, or was trained last."""
        if self._module is None:
            raise TrainError("Trainer", "it has no module yet", hint="trainer.fit(module, loader)")
        return self._module

    # Hooks and steps ----------------------------------------------------------------------

    def call(self, hook: str, *args: Any, then: Callable[[], None] | None = None) -> list[Any]:
        """Call a hook of all callbacks and of the module; return what they returned.

        Args:
            then: called before the callbacks that read logged values.
        """
        watching = [callback for callback in self.callbacks if callback.monitors]
        others = [callback for callback in self.callbacks if not callback.monitors]
        outer, self.where = self.where, hook
        try:
            returned = [getattr(callback, hook)(self, self.module, *args) for callback in others]
            own = getattr(self.module, hook, None)
            if own is not None:
                returned.append(own(*args))
            if then is not None:
                then()
            returned += [getattr(callback, hook)(self, self.module, *args) for callback in watching]
        finally:
            self.where = outer
        return returned

    def step(self, name: str, batch: Any, batch_idx: int, *loader_idx: int) -> Any:
        """Run a step of the module on a batch; errors get a note with the step and the batch."""
        function = getattr(self.module, name)
        arguments = (batch, batch_idx, *loader_idx)
        outer, self.where, self._batch = self.where, name, batch
        try:
            with self.error_notes(name, batch_idx), self.precision.compute_context():
                if name not in self.arguments:
                    self.arguments[name] = count_positional(function, len(arguments))
                return function(*arguments[: self.arguments[name]])
        finally:
            self.where, self._batch = outer, None

    @contextlib.contextmanager
    def error_notes(self, name: str, batch_idx: int) -> Iterator[None]:
        """Add a note with step, epoch and batch to an error inside the block."""
        try:
            yield
        except Exception as error:
            who, loop = type(self.module).__name__, self.loop
            add_note(error, f"{who}.{name}: epoch {loop.epoch}, batch {batch_idx}")
            raise

    def fetch_batches(self, batches: Iterable[Any], name: str, first: int = 0) -> Iterator[Any]:
        """Yield batches on the module's device; errors of the loader get a note with the index."""
        source, index = iter(batches), first
        while True:
            try:
                batch = next(source)
            except StopIteration:
                return
            except Exception as error:
                add_note(error, f"while batch {index} of {name} was loaded")
                raise
            index += 1
            yield map_tensors(batch, self.place_tensor)

    def place_tensor(self, tensor: Tensor) -> Tensor:
        """Return a tensor of a batch with the module's device and dtype."""
        return self.precision.tensor(tensor.to(self.device_type))

    def optimizer_step(
        self, optimizer: Optimizer, closure: Callable[[], Any] | None = None
    ) -> None:
        """Run an optimizer step with its hooks, unscaling and gradient clipping.

        Args:
            closure: computes loss and gradients, for an optimizer that needs them several times.
        """
        automatic = self.module.automatic_optimization

        def ready() -> None:
            self.precision.unscale(optimizer)
            self.call("on_before_optimizer_step", optimizer)
            if automatic and self.gradient_clip_val is not None:
                self.module.configure_gradient_clipping(
                    optimizer, self.gradient_clip_val, self.gradient_clip_algorithm
                )

        def closure_and_ready() -> Any:
            loss = None if closure is None else closure()
            ready()
            return 0.0 if loss is None else loss

        if id(optimizer) in self.closure_optimizers:
            optimizer.step(closure_and_ready)
        else:
            closure_and_ready()
            self.precision.step(optimizer)
        self.loop.global_step += 1

    @contextlib.contextmanager
    def anomaly_detection(self) -> Iterator[None]:
        """Raise at the op whose gradient is NaN inside the block, if `detect_anomaly` is set."""
        with detect_anomaly() if self.detect_anomaly else contextlib.nullcontext():
            yield

    # Logging ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def logging_into(self, book: LogBook) -> Iterator[None]:
        """Collect what is logged inside the block in another book."""
        outer, self.book = self.book, book
        try:
            yield
        finally:
            self.book = outer

    def log(self, name: str, value: Any, batch_size: int | None, **options: Any) -> None:
        """Record a value that a module logs (see `TrainModule.log`)."""
        size = batch_size if batch_size is not None else batch_size_of(self._batch)
        self.book.log(self.where, name, value, size, **options)

    def publish(self, entries: dict[str, tuple[Entry, float]], to_logger: bool = True) -> None:
        """Pass values to the callbacks, the progress bar and the loggers."""
        if self.sanity_checking or not entries:
            return
        self.values |= {name: value for name, (_, value) in entries.items()}
        self.bar_values |= {name: v for name, (entry, v) in entries.items() if entry.prog_bar}
        logged = {name: value for name, (entry, value) in entries.items() if entry.logger}
        if to_logger and logged:
            self.log_metrics(logged)

    def log_metrics(self, values: dict[str, float]) -> None:
        """Pass values to every logger, with the step and the epoch."""
        self.logged_values |= values
        step = max(self.loop.batches_stepped - 1, 0)
        for logger in self.loggers:
            logger.log_metrics({**values, "epoch": self.loop.epoch}, step)

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print without breaking the progress bar."""
        for callback in self.callbacks:
            if hasattr(callback, "print"):
                callback.print(*args, **kwargs)  # type: ignore[attr-defined]
                return
        print(*args, **kwargs)


def count_positional(function: Callable[..., Any], most: int) -> int:
    """Return the number of positional arguments of a function, at most `most`."""
    positional_kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return most
    return min(most, sum(parameter.kind in positional_kinds for parameter in parameters))


def add_note(error: BaseException, note: str) -> None:
    """Add a line to an error's text, once."""
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
