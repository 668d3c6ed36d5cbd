"""What a training loop's health is read from: gradients and updates by layer, units that are off.

For each parameter the norm of its gradient, and how large its update was beside its weights (about
1e-3 is healthy); for each relu how many units never fired; for tanh and sigmoid how many numbers
lie where the curve is flat; the learning rate. What it means is said in words.
"""

from __future__ import annotations

import math
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import backends
from ...core.tensor import Tensor
from ...events import GradientAccumulated, ModuleEntered, ModuleLeft, OpApplied, Stepped
from ..graph.names import Names
from .layer_health_messages import FINE, HUGE, health_messages
from .overhead import upper_median
from .panel import Panel

if TYPE_CHECKING:
    from .recorder import Recorder
    from .step_trace import Call

SAMPLE = 1024
"""So many numbers of a parameter are compared before and after an update."""

REMEMBERED = 31
"""Looks over which a median runs."""

QUIET_LOOKS, QUIET_EXAMPLES = 5, 16
"""A unit that was 0 for every example in so many looks is dead, if these were enough examples."""

MOST_NUMBERS = 1 << 18
"""Of a larger activation only the first examples are looked at."""

MOST_ROWS = 24
"""So many bars at most: with more parameters, those of one module share a bar."""

FIRST_LOOKS = 6
"""So many steps are measured as soon as they are looked at or glanced at."""

EVERY = 1.0
"""Seconds after which the page is told again, while a loop runs."""

SHARE = 0.001
"""…or later, so that it takes no larger part of the time."""

DEFECT_WORDS = {"relu": "dead", "tanh": "saturated", "sigmoid": "saturated"}


@dataclass(slots=True)
class Layer:
    """What is known of one parameter."""

    name: str
    tensor: weakref.ref[Tensor]
    norms: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    before: Any = None  # the sample of its numbers, between backward and update
    weights: bool = True  # it has more than one axis


@dataclass(slots=True)
class Activation:
    """What is known of the results of one relu, tanh or sigmoid."""

    name: str
    kind: str
    quiet: np.ndarray | None = None  # for each unit, in how many looks in a row it was 0
    looks: int = 0
    examples: int = 1  # in each look
    shares: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    @property
    def off(self) -> float:
        """The share of units that are dead, or of numbers where the curve is flat."""
        if self.quiet is None:
            return upper_median(self.shares) if self.shares else 0.0
        enough = max(min(QUIET_LOOKS, self.looks), math.ceil(QUIET_EXAMPLES / self.examples))
        return float(np.mean(self.quiet >= enough))


class Gauges(Panel):
    """The part of the live view that shows these."""

    name = "gauges"
    hears = frozenset({OpApplied, GradientAccumulated, Stepped, ModuleEntered, ModuleLeft})

    def __init__(self, names: Names, standing: Callable[[], bool] = lambda: True) -> None:
        self._names = names
        self._standing = standing  # whether the loop stands: then nothing is left out
        self._due = 0.0
        self.layers: dict[int, Layer] = {}
        self.activations: dict[tuple[str, str, int], Activation] = {}
        self.rates: dict[str, float] = {}
        self._rates_changed: set[str] = set()
        self._searches = False  # the optimizer looks for its steps' length: large ones are no alarm
        self._path: list[str] = []
        self._counts: dict[tuple[str, str], int] = {}
        self._looks = 0
        self._reached = False  # the loss is 0: there is nothing left to learn
        self._told = False  # by a glance
        self._spent = 0.0  # seconds, on the last glance

    # While a step runs --------------------------------------------------------------------

    def take(self, event: Any) -> None:
        """Measure what an event tells of."""
        kind = event.__class__
        if kind is OpApplied:
            if event.op.name in DEFECT_WORDS and event.node is not None:
                self._activated(event.op.name, event.output)
        elif kind is GradientAccumulated:
            self._received(event.tensor)
        elif kind is Stepped:
            self._note_rates(event.optimizer)
        elif kind is ModuleEntered:
            self._path.append(self._names.modules.get(id(event.module), ""))
        elif kind is ModuleLeft and self._path:
            self._path.pop()

    def is_due(self) -> bool:
        """Say whether a glance at the next step shall tell this part as well."""
        return self._looks < FIRST_LOOKS or time.monotonic() >= self._due

    def told(self, call: Call, output: Tensor) -> None:
        """Hear of an op in a step that is only glanced at."""
        name = output._node.op.name
        if name in DEFECT_WORDS:
            start = time.perf_counter()
            self._path = [call.module] if call.module else []
            self._activated(name, output)
            self._spent += time.perf_counter() - start

    def received(self, tensor: Tensor) -> None:
        """Hear of a leaf's gradient, in such a step."""
        self._told = True
        start = time.perf_counter()
        self._received(tensor)
        self._spent += 2 * (time.perf_counter() - start)  # and once more when the step has ended

    def stepped(self, optimizer: Any) -> None:
        """Hear of an optimizer's step, in such a step."""
        self._note_rates(optimizer)

    def _received(self, tensor: Tensor) -> None:
        layer = self.layers.get(id(tensor))
        if layer is None or layer.tensor() is not tensor:
            name = self._names.path_of_leaf(tensor)
            layer = Layer(name, weakref.ref(tensor), weights=tensor.ndim > 1)
            self.layers[id(tensor)] = layer
        if layer.before is None:
            layer.before = sample_of(tensor._array).copy()

    def _activated(self, kind: str, output: Tensor) -> None:
        array = output._array
        if array.size == 0 or hasattr(array, "all_examples"):
            return
        path = self._path[-1] if self._path else ""
        count = self._counts[path, kind] = self._counts.get((path, kind), 0) + 1
        found = self.activations.get((path, kind, count))
        if found is None:
            number = f" {count}" if count > 1 else ""
            name = (f"{path} " if path else "") + kind + number
            found = self.activations[path, kind, count] = Activation(name, kind)
        found.looks += 1
        if kind == "relu":
            alive = alive_units(array)
            quiet = found.quiet
            if quiet is None or quiet.shape != alive.shape:  # other units than before
                quiet, found.looks = np.zeros(alive.shape, int), 1
            found.quiet = np.where(alive, 0, quiet + 1)
            found.examples = max(1, array.size // max(1, alive.size))
        else:
            found.shares.append(flat_share(array, kind))

    def _note_rates(self, optimizer: Any) -> None:
        groups = optimizer.param_groups
        self._searches |= any("line_search_fn" in group for group in groups)
        for number, group in enumerate(groups):
            rate = group.get("lr")
            if rate is None:
                continue
            name = type(optimizer).__name__ + (f" group {number}" if len(groups) > 1 else "")
            if self.rates.get(name, float(rate)) != float(rate):
                self._rates_changed.add(name)
            self.rates[name] = float(rate)

    def step_ended(self, recorder: Recorder) -> None:
        """Compare the weights with what they were before the update, and take the norms."""
        self._path.clear()
        self._counts.clear()
        if not (recorder.sampled or self._told):
            return
        seen = recorder.sampled or recorder.glimpse is not None
        self._reached = recorder.loss == 0
        self._told = False
        for key, layer in list(self.layers.items()):
            before, layer.before = layer.before, None
            tensor = layer.tensor()
            if tensor is None:
                del self.layers[key]
            elif before is not None and seen:
                layer.norms.append(gradient_norm(tensor, recorder))
                ratio = ratio_of(before, sample_of(tensor._array))
                layer.ratios.append(math.nan if self._searches else ratio)
        self._looks += seen

    # What the page is told ----------------------------------------------------------------

    def scalars(self) -> dict[str, float]:
        """Return the learning rates that have ever changed: each gets a curve."""
        several = len(self.rates) > 1
        return {
            f"learning rate, {name}" if several else "learning rate": self.rates[name]
            for name in sorted(self._rates_changed)
        }

    def patch(self) -> dict[str, Any] | None:
        """Return what the panel shows, see `GaugesData` in the protocol."""
        now = time.monotonic()
        if not self._looks or not (self.layers or self.activations):
            return None
        if now < self._due and not self._standing():
            return None
        self._due = now + max(EVERY, self._spent / SHARE)
        self._spent = 0.0
        rows = rows_of([layer for layer in self._in_order() if layer.norms])
        activations = [activation for activation in self.activations.values() if activation.looks]
        activations = sorted(activations, key=lambda activation: -activation.off)[:MOST_ROWS]
        return {
            "layers": [[row.name, *map(short, row.numbers)] for row in rows],
            "activations": [
                [activation.name, DEFECT_WORDS[activation.kind], short(activation.off)]
                for activation in activations
            ],
            "rates": [[name, short(rate)] for name, rate in self.rates.items()],
            "words": [FINE] if self._reached else health_messages(rows, activations),
        }

    def _in_order(self) -> list[Layer]:
        """The parameters of the models in their order, then all others."""
        order: dict[int, int] = {}
        for model in self._names.models:
            for parameter in model.parameters():
                order.setdefault(id(parameter), len(order))
        keys = sorted(self.layers, key=lambda key: order.get(key, len(order)))
        return [self.layers[key] for key in keys]


@dataclass(frozen=True, slots=True)
class Row:
    """One bar: last and median norm of the gradient, last and median size of the update.

    `looks` is how often it was measured; `weights`: there is more than biases in it.
    """

    name: str
    norm: float
    norm_median: float
    ratio: float
    ratio_median: float
    looks: int
    weights: bool

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        """All of them, as they are sent."""
        return self.norm, self.norm_median, self.ratio, self.ratio_median


def rows_of(layers: Sequence[Layer]) -> list[Row]:
    """Make a bar of each parameter, or of each module where there are too many for that."""
    depth = max((layer.name.count(".") for layer in layers), default=0) + 1
    while True:
        groups: dict[str, list[Layer]] = {}
        for layer in layers:
            groups.setdefault(".".join(layer.name.split(".")[:depth]), []).append(layer)
        if len(groups) <= MOST_ROWS or depth == 1:
            break
        depth -= 1
    shown = list(groups.items())
    if len(shown) > MOST_ROWS:  # of very many side by side, some from first to last
        picked = np.linspace(0, len(shown) - 1, MOST_ROWS).round().astype(int).tolist()
        shown = [shown[each] for each in picked]
    return [
        Row(
            name,
            math.hypot(*(layer.norms[-1] for layer in group)),
            math.hypot(*(upper_median(layer.norms) for layer in group)),
            max(layer.ratios[-1] for layer in group),
            max(upper_median(layer.ratios) for layer in group),
            min(len(layer.norms) for layer in group),
            any(layer.weights for layer in group),
        )
        for name, group in shown
    ]


def gradient_norm(tensor: Tensor, recorder: Recorder) -> float:
    """Return the norm of a parameter's gradient: as the recorder found it, or on our own.

    One that is very large is measured again: a GradScaler has made it smaller since.
    """
    known = recorder.gradient_norm(tensor)
    if tensor._grad is None or (known is not None and not known > HUGE):
        return math.nan if known is None else known
    flat = tensor._grad._array.ravel()
    return math.sqrt(abs(float((flat.conj() * flat).sum().real)))


def sample_of(array: Any) -> Any:
    """Return at most SAMPLE numbers of an array, evenly spread, without copying the array."""
    if array.size <= SAMPLE:
        return array.ravel()
    if array.flags.c_contiguous:
        return array.reshape(-1)[:: -(-array.size // SAMPLE)]
    each = int(SAMPLE ** (1 / array.ndim))
    steps = tuple(slice(None, None, max(1, -(-size // each))) for size in array.shape)
    return array[steps].ravel()


def ratio_of(before: Any, after: Any) -> float:
    """Return how large an update was, beside the numbers it changed."""
    if before.shape != after.shape:
        return math.nan
    xp = backends.of(after).xp
    change = after.astype("float64") - before.astype("float64")
    size, moved = (float(xp.sqrt((each * each).sum())) for each in
                   (before.astype("float64"), change))  # fmt: skip
    return moved / size if size else (math.inf if moved else 0.0)


def alive_units(array: Any) -> np.ndarray:
    """Say for each unit whether it was more than 0 for any example.

    A unit is a feature of (n, features) and (n, time, features), a channel of (n, c, h, w).
    """
    if array.ndim > 1 and array.size > MOST_NUMBERS:
        array = array[: max(1, MOST_NUMBERS * array.shape[0] // array.size)]
    unit = {0: None, 1: 0, 2: 1, 3: 2}.get(array.ndim, 1)
    others = tuple(axis for axis in range(array.ndim) if axis != unit)
    peak = array.max(axis=others) if others else array
    return np.atleast_1d(backends.of(array).to_numpy(peak > 0))


def flat_share(array: Any, kind: str) -> float:
    """Return the share of numbers where tanh or sigmoid is so flat that little gradient passes."""
    some = sample_of(array).astype("float32")
    lying = abs(some) > 0.97 if kind == "tanh" else abs(some - 0.5) > 0.47
    return int(backends.of(some).xp.count_nonzero(lying)) / some.size  # quicker than their mean


def short(value: float) -> float | None:
    """Round to three digits; None for what JSON lacks."""
    return float(f"{value:.3g}") if math.isfinite(value) else None
