"""Measures of a training loop's health: gradients and updates by layer, inactive units.

For each parameter the norm of its gradient, and the size of its update relative to its weights
(about 1e-3 is healthy); for each relu how many units never fired; for tanh and sigmoid how many
elements are where the curve is flat; the learning rate. `layer_health_messages.py` says what it
means.
"""

from __future__ import annotations

import math
import statistics
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import backends
from ...backends.numpy import Array
from ...core.tensor import Tensor
from ...events import GradientAccumulated, ModuleEntered, ModuleLeft, OpApplied, Stepped
from ...optim import Optimizer
from ..graph.names import Names
from ..tensors.summaries import stored_elements
from .panel import Panel
from .throttle import upper_median

if TYPE_CHECKING:
    from .recorder import Recorder
    from .step_trace import Call
    from .view import View


FAR = 1e3
"""The factor between first and last gradients that counts as vanishing or exploding."""


HUGE = 1e3
"""A gradient norm of this size."""


HEALTHY = (1e-5, 0.15)
"""Between these, the relative size of an update is healthy."""


FEW_SAMPLES = 3
"""What fewer samples show of a parameter may be chance, or its first steps."""


MANY = 0.5
"""A share of dead or saturated units that is worth a message."""


GAUGE_MESSAGES: dict[str, str] = {
    "lost": "The gradient of {names} is NaN or infinite: a smaller learning rate, or a look at "
    "where it first appears, helps.",
    "nowhere": "No gradient arrives anywhere: all are 0.",
    "vanishing": "Gradients vanish on their way to the first layers: {first:.1e} at {front}, "
    "{last:.1e} at {back}. ReLU, a better initialisation, normalisation or residual connections "
    "help.",
    "exploding": "Gradients explode: up to {largest:.1e} at {names}. A smaller learning rate, "
    "clip_grad_norm_ or normalisation helps.",
    "missing": "No gradient arrives at {names}.",
    "fast": "Each step changes the weights by {share:.0%} (about 0.1% is usual), most of all "
    "{names}: the learning rate is high.",
    "slow": "Each step changes the weights by only {share:.0e} of their size (about 1e-03 is "
    "usual), least of all {names}: either it has arrived, or the learning rate is low.",
    "relu": "{share:.0%} of the units of {names} are 0 for every example: no gradient passes them. "
    "A smaller learning rate or a leaky ReLU helps.",
    "tanh": "{share:.0%} of the results of {names} are close to -1 or 1, where little gradient "
    "passes. Smaller weights or normalisation help.",
    "sigmoid": "{share:.0%} of the results of {names} are close to 0 or 1, where little gradient "
    "passes. Smaller weights or normalisation help.",
    "fine": "Gradients reach every layer, and the updates have a healthy size.",
}
"""All messages of the gauges."""


FINE = GAUGE_MESSAGES["fine"]


def health_messages(rows: Sequence[Row], activations: Sequence[Activation]) -> list[str]:
    """Return messages, the most urgent first; one that says that all is well if it is."""
    return [
        *gradient_messages(rows),
        *update_messages(rows),
        *activation_messages(activations),
    ] or [FINE]


def gradient_messages(rows: Sequence[Row]) -> list[str]:
    # Where the weights stay finite, the update was left out, as a GradScaler does.
    lost = [row.name for row in rows if not (math.isfinite(row.norm) or math.isfinite(row.ratio))]
    if lost:
        return [GAUGE_MESSAGES["lost"].format(names=join_names(lost))]
    reached = [row for row in rows if row.norm_median > 0]
    none = [
        row.name for row in rows if row.norm_median == row.norm == 0 and row.samples >= FEW_SAMPLES
    ]
    if not reached:
        return [GAUGE_MESSAGES["nowhere"]] if none and len(none) == len(rows) else []
    sizes = [row.norm_median for row in reached]
    # Thirds, not ends: the first layer's gradient alone says little.
    third = max(1, len(sizes) // 3)
    first, last = statistics.median(sizes[:third]), statistics.median(sizes[-third:])
    if len(sizes) >= 4 and first * FAR < last:
        ends = {"front": reached[0].name, "back": reached[-1].name}
        return [GAUGE_MESSAGES["vanishing"].format(first=first, last=last, **ends)]
    if max(sizes) > HUGE or (len(sizes) >= 4 and first > last * FAR):
        largest = max(reached, key=lambda row: row.norm_median)
        size, name = largest.norm_median, largest.name
        return [GAUGE_MESSAGES["exploding"].format(largest=size, names=name)]
    weights = [row.name for row in rows if row.name in none and row.weights]
    return [GAUGE_MESSAGES["missing"].format(names=join_names(none))] if weights else []


def update_messages(rows: Sequence[Row]) -> list[str]:
    known = [row for row in rows if math.isfinite(row.ratio_median) and row.norm_median > 0
             and row.samples >= FEW_SAMPLES]  # fmt: skip
    if not known:
        return []
    known.sort(key=lambda row: row.ratio_median)
    middle = statistics.median(row.ratio_median for row in known)
    still = statistics.median(min(row.ratio, row.ratio_median) for row in known)
    if still > HEALTHY[1]:  # and not only at first, when weights that began at 0 were small
        return [GAUGE_MESSAGES["fast"].format(share=middle, names=known[-1].name)]
    if 0 < middle < HEALTHY[0]:
        return [GAUGE_MESSAGES["slow"].format(share=middle, names=known[0].name)]
    return []


def activation_messages(activations: Sequence[Activation]) -> list[str]:
    messages = []
    for op in ("relu", "tanh", "sigmoid"):
        bad = [
            activation
            for activation in activations
            if activation.op == op and activation.off > MANY
        ]
        if bad:
            worst, names = (
                max(bad, key=lambda activation: activation.off),
                [activation.name for activation in bad],
            )
            messages.append(GAUGE_MESSAGES[op].format(share=worst.off, names=join_names(names)))
    return messages


def join_names(names: Sequence[str]) -> str:
    """Return some of many names: `a, b and 3 more`.

    >>> join_names(["a"]), join_names(["a", "b", "c", "d"])
    ('a', 'a, b and 2 more')
    """
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]}, {names[1]} and {len(names) - 2} more"


SAMPLE = 1024
"""How many elements of a parameter are compared before and after an update."""

REMEMBERED = 31
"""The number of samples that a median is over."""

QUIET_SAMPLES, QUIET_EXAMPLES = 5, 16
"""A unit that was 0 for every example of this many samples is dead, given enough examples."""

MAX_MEASURED = 1 << 18
"""Of a larger activation only the first examples are measured."""

MOST_ROWS = 24
"""How many bars at most: with more parameters, those of one module share a bar."""

FIRST_SAMPLES = 6
"""How many steps are measured whenever they are sampled."""

EVERY = 1.0
"""Seconds after which the page gets new data, while a loop runs."""

SHARE = 0.001
"""…or later, so that it takes no larger share of the time."""

DEFECT_WORDS = {"relu": "dead", "tanh": "saturated", "sigmoid": "saturated"}


@dataclass(slots=True)
class Layer:
    """The measurements of one parameter."""

    name: str
    tensor: weakref.ref[Tensor]
    norms: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    before: Any = None  # the sample of its elements, between backward and update
    weights: bool = True  # it has more than one axis


@dataclass(slots=True)
class Activation:
    """The measurements of the results of one relu, tanh or sigmoid."""

    name: str
    op: str
    quiet: np.ndarray | None = None  # for each unit, in how many samples in a row it was 0
    samples: int = 0
    examples: int = 1  # in each sample
    shares: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    @property
    def off(self) -> float:
        """The share of units that are dead, or of elements where the curve is flat."""
        if self.quiet is None:
            return upper_median(self.shares) if self.shares else 0.0
        enough = max(min(QUIET_SAMPLES, self.samples), math.ceil(QUIET_EXAMPLES / self.examples))
        return float(np.mean(self.quiet >= enough))


class Gauges(Panel):
    """The panel that shows these measurements."""

    name = "gauges"
    event_types = frozenset({OpApplied, GradientAccumulated, Stepped, ModuleEntered, ModuleLeft})

    def __init__(self, names: Names, standing: Callable[[], bool] = lambda: True) -> None:
        self._names = names
        self._standing = standing  # whether the loop is paused: then nothing is left out
        self._due = 0.0
        self.layers: dict[int, Layer] = {}
        self.activations: dict[tuple[str, str, int], Activation] = {}
        self.rates: dict[str, float] = {}
        self._rates_changed: set[str] = set()
        self._searches = False  # the optimizer searches its step length: large updates are normal
        self._path: list[str] = []
        self._counts: dict[tuple[str, str], int] = {}
        self._samples = 0
        self._is_finished = False  # the loss is 0: there is nothing left to learn
        self._was_sampled_light = False  # by a light sampler
        self._spent = 0.0  # seconds, on the last light sample

    @classmethod
    def of(cls, view: View) -> Gauges:
        return cls(view._names, lambda: view._state != "running")

    # While a step runs --------------------------------------------------------------------

    def take(self, event: Any) -> None:
        """Measure what an event reports."""
        event_type = event.__class__
        if event_type is OpApplied:
            if event.op.name in DEFECT_WORDS and event.node is not None:
                self._note_activation(event.op.name, event.output)
        elif event_type is GradientAccumulated:
            self._note_gradient(event.tensor)
        elif event_type is Stepped:
            self._note_rates(event.optimizer)
        elif event_type is ModuleEntered:
            self._path.append(self._names.modules.get(id(event.module), ""))
        elif event_type is ModuleLeft and self._path:
            self._path.pop()

    def is_due(self) -> bool:
        """Return True if a light sampler shall pass the next step on to this panel as well."""
        return self._samples < FIRST_SAMPLES or time.monotonic() >= self._due

    def record_activation(self, call: Call, output: Tensor) -> None:
        """Measure the result of an op in a step that is only sampled fast."""
        name = output._node.op.name
        if name in DEFECT_WORDS:
            start = time.perf_counter()
            self._path = [call.module] if call.module else []
            self._note_activation(name, output)
            self._spent += time.perf_counter() - start

    def record_gradient(self, tensor: Tensor) -> None:
        """Measure a leaf's gradient in such a step."""
        self._was_sampled_light = True
        start = time.perf_counter()
        self._note_gradient(tensor)
        self._spent += 2 * (time.perf_counter() - start)  # and once more when the step has ended

    def record_update(self, optimizer: Optimizer) -> None:
        """Record an optimizer's step in such a step."""
        self._note_rates(optimizer)

    def _note_gradient(self, tensor: Tensor) -> None:
        layer = self.layers.get(id(tensor))
        if layer is None or layer.tensor() is not tensor:
            name = self._names.path_of_leaf(tensor)
            layer = Layer(name, weakref.ref(tensor), weights=tensor.ndim > 1)
            self.layers[id(tensor)] = layer
        if layer.before is None:
            # The first gradient of a step: the optimizer has not yet changed the parameter.
            layer.before = sample_of(tensor._array).copy()

    def _note_activation(self, op: str, output: Tensor) -> None:
        array = output._array
        if array.size == 0 or hasattr(array, "all_examples"):
            return
        path = self._path[-1] if self._path else ""
        count = self._counts[path, op] = self._counts.get((path, op), 0) + 1
        activation = self.activations.get((path, op, count))
        if activation is None:
            suffix = f" {count}" if count > 1 else ""
            name = (f"{path} " if path else "") + op + suffix
            activation = self.activations[path, op, count] = Activation(name, op)
        activation.samples += 1
        if op == "relu":
            alive = alive_units(array)
            quiet = activation.quiet
            if quiet is None or quiet.shape != alive.shape:  # other units than before
                quiet, activation.samples = np.zeros(alive.shape, int), 1
            activation.quiet = np.where(alive, 0, quiet + 1)
            activation.examples = max(1, array.size // max(1, alive.size))
        else:
            activation.shares.append(flat_share(array, op))

    def _note_rates(self, optimizer: Optimizer) -> None:
        groups = optimizer.param_groups
        self._searches |= any("line_search_fn" in group for group in groups)
        for index, group in enumerate(groups):
            rate = group.get("lr")
            if rate is None:
                continue
            name = type(optimizer).__name__ + (f" group {index}" if len(groups) > 1 else "")
            if self.rates.get(name, float(rate)) != float(rate):
                self._rates_changed.add(name)
            self.rates[name] = float(rate)

    def step_ended(self, recorder: Recorder) -> None:
        """Compare the weights with those before the update, and compute the norms."""
        self._path.clear()
        self._counts.clear()
        if not (recorder.sampled or self._was_sampled_light):
            return
        seen = recorder.sampled or recorder.step_values is not None
        self._is_finished = recorder.loss == 0
        self._was_sampled_light = False
        for key, layer in list(self.layers.items()):
            before, layer.before = layer.before, None
            tensor = layer.tensor()
            if tensor is None:
                del self.layers[key]
            elif before is not None and seen:
                layer.norms.append(gradient_norm(tensor, recorder))
                ratio = ratio_of(before, sample_of(tensor._array))
                layer.ratios.append(math.nan if self._searches else ratio)
        self._samples += seen

    # What the page gets -------------------------------------------------------------------

    def scalars(self) -> dict[str, float]:
        """Return the learning rates that have ever changed: each gets a curve."""
        several = len(self.rates) > 1
        return {
            f"learning rate, {name}" if several else "learning rate": self.rates[name]
            for name in sorted(self._rates_changed)
        }

    def patch(self) -> dict[str, Any] | None:
        """Return the data of the panel, see `GaugesData` in the protocol."""
        now = time.monotonic()
        if not self._samples or not (self.layers or self.activations):
            return None
        if now < self._due and not self._standing():
            return None
        self._due = now + max(EVERY, self._spent / SHARE)
        self._spent = 0.0
        rows = rows_of([layer for layer in self._in_order() if layer.norms])
        activations = [activation for activation in self.activations.values() if activation.samples]
        activations = sorted(activations, key=lambda activation: -activation.off)[:MOST_ROWS]
        return {
            "layers": [[row.name, *map(round_or_none, row.measures)] for row in rows],
            "activations": [
                [activation.name, DEFECT_WORDS[activation.op], round_or_none(activation.off)]
                for activation in activations
            ],
            "rates": [[name, round_or_none(rate)] for name, rate in self.rates.items()],
            "words": [FINE] if self._is_finished else health_messages(rows, activations),
        }

    def _in_order(self) -> list[Layer]:
        """Return the parameters of the models in their order, then all others."""
        order: dict[int, int] = {}
        for model in self._names.models:
            for parameter in model.parameters():
                order.setdefault(id(parameter), len(order))
        keys = sorted(self.layers, key=lambda key: order.get(key, len(order)))
        return [self.layers[key] for key in keys]


@dataclass(frozen=True, slots=True)
class Row:
    """One bar: last and median norm of the gradient, last and median relative size of the update.

    `samples` is how often it was measured; `weights`: it contains more than biases.
    """

    name: str
    norm: float
    norm_median: float
    ratio: float
    ratio_median: float
    samples: int
    weights: bool

    @property
    def measures(self) -> tuple[float, float, float, float]:
        """All measures, as they are sent."""
        return self.norm, self.norm_median, self.ratio, self.ratio_median


def rows_of(layers: Sequence[Layer]) -> list[Row]:
    """Return a bar for each parameter, or for each module where there are too many parameters."""
    depth = max((layer.name.count(".") for layer in layers), default=0) + 1
    while True:
        groups: dict[str, list[Layer]] = {}
        for layer in layers:
            groups.setdefault(".".join(layer.name.split(".")[:depth]), []).append(layer)
        if len(groups) <= MOST_ROWS or depth == 1:
            break
        depth -= 1
    shown = list(groups.items())
    if len(shown) > MOST_ROWS:  # of very many, an evenly spaced selection
        picked = np.linspace(0, len(shown) - 1, MOST_ROWS).round().astype(int).tolist()
        shown = [shown[index] for index in picked]
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
    """Return the norm of a parameter's gradient: the recorder's, or computed here.

    A very large one is measured again: a GradScaler has made it smaller since.
    """
    known = recorder.gradient_norm(tensor)
    if tensor._grad is None or (known is not None and not known > HUGE):
        return math.nan if known is None else known
    flat = stored_elements(tensor._grad._array).ravel()
    return math.sqrt(abs(float((flat.conj() * flat).sum().real)))


def sample_of(array: Array) -> Any:
    """Return at most SAMPLE elements of an array, evenly spread, without copying the array."""
    array = stored_elements(array)
    if array.size <= SAMPLE:
        return array.ravel()
    if array.flags.c_contiguous:
        return array.reshape(-1)[:: -(-array.size // SAMPLE)]
    per_axis = int(SAMPLE ** (1 / array.ndim))
    steps = tuple(slice(None, None, max(1, -(-size // per_axis))) for size in array.shape)
    return array[steps].ravel()


def ratio_of(before: Array, after: Array) -> float:
    """Return the size of an update relative to the elements it changed."""
    if before.shape != after.shape:
        return math.nan
    xp = backends.of(after).xp
    change = after.astype("float64") - before.astype("float64")
    size, moved = (float(xp.sqrt((array * array).sum())) for array in
                   (before.astype("float64"), change))  # fmt: skip
    return moved / size if size else (math.inf if moved else 0.0)


def alive_units(array: Array) -> np.ndarray:
    """Return for each unit whether it was more than 0 for any example.

    A unit is a feature of (n, features) and (n, time, features), a channel of (n, c, h, w).
    """
    if array.ndim > 1 and array.size > MAX_MEASURED:
        array = array[: max(1, MAX_MEASURED * array.shape[0] // array.size)]
    unit = {0: None, 1: 0, 2: 1, 3: 2}.get(array.ndim, 1)
    others = tuple(axis for axis in range(array.ndim) if axis != unit)
    peak = array.max(axis=others) if others else array
    return np.atleast_1d(backends.of(array).to_numpy(peak > 0))


def flat_share(array: Array, op: str) -> float:
    """Return the share of elements where tanh or sigmoid is so flat that little gradient passes."""
    some = sample_of(array).astype("float32")
    lying = abs(some) > 0.97 if op == "tanh" else abs(some - 0.5) > 0.47
    return int(backends.of(some).xp.count_nonzero(lying)) / some.size  # quicker than their mean


def round_or_none(value: float) -> float | None:
    """Round to three digits; None for what JSON lacks."""
    return float(f"{value:.3g}") if math.isfinite(value) else None
