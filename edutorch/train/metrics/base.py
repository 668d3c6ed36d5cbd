"""The base class of metrics, which accumulate a state over batches."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ... import backends
from ...core.tensor import Tensor
from ...errors import EdutorchError, ShapeError
from ...nn import Module
from ...ops import tensor

__all__ = ["Metric", "MetricError"]


class MetricError(EdutorchError, ValueError):
    """Raised if a metric cannot be computed from its inputs."""


class Metric(Module):
    """The base class of metrics: a state accumulated over batches, and its value.

    A subclass calls `add_state` in `__init__`, updates the state in `update`, and returns the
    value in `compute`. Calling the metric updates it and returns the value of this batch alone.
    The state is not part of `state_dict()`; checkpoints of the trainer keep it.

    >>> from edutorch.train.metrics import Accuracy
    >>> accuracy = Accuracy(task="binary")
    >>> accuracy(tensor([0.9, 0.2]), tensor([1, 1]))
    tensor(0.5000)
    >>> accuracy.update(tensor([0.7, 0.6]), tensor([1, 1]))
    >>> accuracy.compute()
    tensor(0.7500)
    """

    last: Any = None
    """The value of the batch with which the metric was last called."""

    def __init__(self) -> None:
        super().__init__()
        self._defaults: dict[str, Any] = {}
        self._updates = 0

    def add_state(self, name: str, default: Any) -> None:
        """Declare an attribute that `reset` restores: a number, a NumPy array or a list."""
        self._defaults[name] = default
        setattr(self, name, copy.deepcopy(default))

    def update(self, *args: Any) -> None:
        """Add a batch."""
        raise NotImplementedError(f"{type(self).__name__} needs an update(self, preds, target)")

    def compute(self) -> Any:
        """Return the value for everything since the last `reset`."""
        raise NotImplementedError(f"{type(self).__name__} needs a compute(self)")

    def forward(self, *args: Any) -> Any:
        """Add a batch and return its own value: NaN if it is too small to have one."""
        whole = self.state()
        self.reset()
        self.update(*args)
        try:
            self.last = self.compute()
        except MetricError:  # for example only one class, which other batches may complete
            self.last = result(float("nan"))
        batch = self.state()
        self.load_state(whole)
        self.merge(batch)
        return self.last

    def merge(self, other: dict[str, Any]) -> None:
        """Add the state of another metric of the same class: states are sums and lists."""
        for name in self._defaults:
            setattr(self, name, getattr(self, name) + other[name])
        self._updates += other["_updates"]

    def reset(self) -> None:
        """Forget all batches."""
        for name, default in self._defaults.items():
            setattr(self, name, copy.deepcopy(default))
        self._updates = 0

    def state(self) -> dict[str, Any]:
        """Return the state as plain data."""
        sums = {name: copy.deepcopy(getattr(self, name)) for name in self._defaults}
        return {**sums, "_updates": self._updates}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        for name, value in state.items():
            setattr(self, name, copy.deepcopy(value))

    def count_update(self) -> None:
        """Count a batch."""
        self._updates += 1

    def check_updated(self) -> None:
        """Raise MetricError if there was no batch yet."""
        if not self._updates:
            raise MetricError(
                type(self).__name__, "compute() before any update(): there is nothing to measure",
                hint="call update(preds, target) with a batch first",
            )  # fmt: skip

    def error(self, message: str, hint: str | None = None, **arguments: Any) -> MetricError:
        """Return an error that names this metric and the shapes of its arguments."""
        shapes = {name: describe(argument) for name, argument in arguments.items()}
        return MetricError(type(self).__name__, message, shapes, hint)


def to_numpy(value: Any) -> np.ndarray:
    """Return a tensor, an array or a list as a NumPy array, without gradients."""
    if isinstance(value, Tensor):
        array = value.detach()._array
        array = backends.of(array).to_numpy(array)
        return array if array.dtype.kind in "biuf" else array.astype(np.float32)  # bfloat16
    return np.asarray(value)


def result(value: Any) -> Tensor:
    """Return a result, a number or an array, as a tensor."""
    array = np.asarray(value)
    return tensor(array.astype(np.float32) if array.dtype.kind == "f" else array)


def describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return repr(value) if shape is None else f"shape {tuple(shape)}"


def check_same_shape(metric: Metric, preds: np.ndarray, target: np.ndarray) -> None:
    """Raise ShapeError if predictions and targets differ in shape."""
    if preds.shape != target.shape:
        raise ShapeError(
            type(metric).__name__, "there must be one prediction for each target",
            {"preds": preds.shape, "target": target.shape}, "preds.squeeze(-1), or preds.argmax(1)?"
        )  # fmt: skip
