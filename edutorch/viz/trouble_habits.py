"""Finds the mistakes of training loops: what is forgotten, or goes wrong slowly, over many steps.

Each is called trouble only after it has lasted for some steps. What is done on purpose (gradients
added up over batches, two optimizers taking turns, a frozen layer) does not last that long, or
looks different.
"""

from __future__ import annotations

import itertools
import math
import weakref
from typing import Any

from .. import backends
from ..core.tensor import LEAF, Tensor
from ..events import GradientAccumulated, OpApplied, Stepped
from .names import Names, variables
from .trace import line_of
from .trouble_causes import plain
from .trouble_words import Finding, finding, listed

ZERO_STEPS = 4
SAME_LOSS, SEEN = 25, 4
"""A loss that stays the same for so many steps, so many of them looked at, is trouble."""
UNCLEARED = 4
UNKNOWN_TO_OPTIMIZER = 5
GROWING, GROWN = 6, 100.0
"""The loss explodes if it has grown at each of so many steps, and so many times in all."""

SECOND = {"log_softmax": ("softmax", "cross_entropy"), "logits_loss": (
    "sigmoid", "binary_cross_entropy_with_logits")}  # fmt: skip
MOVING = {"reshape", "view", "transpose", "permute", "squeeze", "unsqueeze", "flatten", "clone"}
BEHAVES = ("Dropout", "BatchNorm", "InstanceNorm")
"""Names of layers that act differently in a test begin (or go on) with these."""

FEW = 65_536
"""A gradient is compared by so many of its numbers at most."""


class Habits:
    """Hears a training loop, step by step."""

    hears = (OpApplied, GradientAccumulated, Stepped)
    works = ()

    def __init__(self, names: Names) -> None:
        self.names = names
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.now: dict[str, Finding] = {}  # found in this step, by subject
        self._losses: list[float] = []
        self._same = self._same_seen = 0
        self._zeros: dict[int, int] = {}  # parameter -> steps with a gradient of 0
        self._got: dict[int, bool] = {}  # in this step: parameter -> gradient is 0
        self._steps_without: dict[int, int] = {}
        self._eval = 0
        self._witness: tuple[weakref.ref[Tensor], int] | None = None  # a leaf, its version
        self._uncleared = 0
        self._first_pass = True

    def forget(self) -> None:
        """Begin a new step."""
        self.now, self._got, self._first_pass = {}, {}, True

    def take(self, event: Any) -> None:
        """Hear an event."""
        kind = type(event)
        if kind is OpApplied:
            self._softmax_twice(event)
        elif kind is GradientAccumulated:
            self._received(event)
        elif kind is Stepped:
            self.optimizers.add(event.optimizer)

    def optimized(self) -> set[int]:
        """Return the ids of all parameters that a known optimizer holds."""
        for _, value in variables(self.names.frame):
            if hasattr(value, "param_groups") and hasattr(value, "zero_grad"):
                self.optimizers.add(value)
        groups = (group for each in list(self.optimizers) for group in each.param_groups)
        return {id(parameter) for group in groups for parameter in group["params"]}

    # Ops --------------------------------------------------------------------------------

    def _softmax_twice(self, event: OpApplied) -> None:
        name = event.op.name
        if name not in SECOND and name != "nll_loss":
            return
        made = maker(event.inputs[0])
        if made is None:
            return
        line = line_of(event.node) if event.node is not None else ""
        order = 0 if event.node is None else event.node._order
        if name == "nll_loss" and made in ("softmax", "sigmoid"):
            self._add("probabilities-to-nll", line=line, order=order, first=made, subject="nll")
        elif name in SECOND and made == SECOND[name][0]:
            first, second = SECOND[name]
            self._add("double-softmax", line=line, order=order, first=first, second=second,
                      subject=f"double {second}")  # fmt: skip

    def _add(self, kind: str, **words: Any) -> None:
        found = finding(kind, **words)
        self.now.setdefault(found.subject, found)

    # Gradients --------------------------------------------------------------------------

    def _received(self, event: GradientAccumulated) -> None:
        leaf, array = event.tensor, plain(getattr(event.gradient, "_array", event.gradient))
        zero = not backends.of(array).xp.any(array).item()
        self._got[id(leaf)] = self._got.get(id(leaf), True) and zero
        if self._witness is None or self._witness[0]() is None:
            self._witness, self._uncleared = (weakref.ref(leaf), leaf._version), 0
        elif self._witness[0]() is leaf and self._first_pass:
            self._first_pass = False
            written = leaf._version != self._witness[1]
            self._witness = self._witness[0], leaf._version
            if written:  # a step was taken since the last gradient came
                self._uncleared = self._uncleared + 1 if was_added_to(leaf, array) else 0
                if self._uncleared >= UNCLEARED:
                    self._add("no-zero-grad", name=self._called(leaf), steps=self._uncleared,
                              subject="no-zero-grad")  # fmt: skip

    def _called(self, leaf: Tensor) -> str:
        _, module, label = self.names.of(leaf)
        return f"{module}.{label}" if module else label

    # Steps ------------------------------------------------------------------------------

    def step_ended(self, loss: float | None) -> list[Finding]:
        """Look back at the end of a step that was looked at."""
        if loss is not None:
            self._losses_came([loss], True)
        if self._got:
            optimized = self.optimized()
            self._gradients_of_zero(loss)
            self._left_out(optimized)
            self._eval_mode(optimized)
        return list(self.now.values())

    def rested(self, losses: list[float]) -> list[Finding]:
        """Look back at many steps that were not looked at."""
        now, self.now = self.now, {}  # what belongs to the step that runs stays with that
        if losses:
            self._losses_came(losses, False)
        found, self.now = list(self.now.values()), now
        return found

    def _losses_came(self, losses: list[float], sampled: bool) -> None:
        known, last = self._losses, losses[-1]
        alike = sum(1 for _ in itertools.takewhile(last.__eq__, reversed(losses)))
        if last == 0:  # there is nothing left to learn
            self._same = self._same_seen = 0
        elif alike < len(losses) or known[-1:] != [last]:
            self._same, self._same_seen = max(0, alike - 1), 0  # 0 alike: NaN
        else:
            self._same, self._same_seen = self._same + alike, self._same_seen + sampled
        known += losses[-GROWING:]
        del known[:-GROWING]
        if self._same >= SAME_LOSS and self._same_seen >= SEEN and self.optimizers:
            self._add("loss-constant", loss=f"{last:.6g}", steps=self._same + 1, subject="constant")
        if len(known) == GROWING and last > GROWN * abs(known[0]) and grows(known):
            self._add("exploding", first=f"{known[0]:.3g}", last=f"{last:.3g}",
                      steps=GROWING - 1, rate=self._rate(), subject="exploding")  # fmt: skip

    def _rate(self) -> str:
        rates = {group["lr"] for each in self.optimizers for group in each.param_groups
                 if "lr" in group}  # fmt: skip
        return f" ({float(rates.pop()):g})" if len(rates) == 1 else ""

    def _gradients_of_zero(self, loss: float | None) -> None:
        """Count for each parameter how often in a row its gradient was exactly 0."""
        dead, steps = [], 0
        for model in self.names.models:
            for path, parameter in model.named_parameters():
                if id(parameter) not in self._got:
                    continue
                zero = self._got[id(parameter)] and loss != 0  # a loss of 0 has nothing to learn
                count = self._zeros[id(parameter)] = (
                    self._zeros.get(id(parameter), 0) + 1 if zero else 0
                )
                if count >= ZERO_STEPS:
                    dead.append(path)
                    steps = max(steps, count)
        if dead:
            self._add("zero-gradient", names=listed(dead), steps=steps, subject="zero-gradient")

    def _left_out(self, optimized: set[int]) -> None:
        """Look for parameters with a gradient that no optimizer knows."""
        if not self.optimizers:
            return
        forgotten = []
        for model in self.names.models:
            parameters = dict(model.named_parameters())
            partly = any(id(each) in optimized for each in parameters.values())
            for path, parameter in parameters.items():
                key = id(parameter)
                out = partly and key in self._got and key not in optimized
                self._steps_without[key] = self._steps_without.get(key, 0) + 1 if out else 0
                if self._steps_without[key] >= UNKNOWN_TO_OPTIMIZER:
                    forgotten.append(path)
        if forgotten:
            self._add("not-optimized", names=listed(forgotten), subject="not-optimized")

    def _eval_mode(self, optimized: set[int]) -> None:
        """Look for a whole model in eval mode whose parameters an optimizer changes."""
        for model in self.names.models:
            layers = [type(each).__name__ for each in model.modules()
                      if any(word in type(each).__name__ for word in BEHAVES)]  # fmt: skip
            trained = any(id(each) in self._got and id(each) in optimized
                          for each in model.parameters())  # fmt: skip
            if model.training or not layers or not trained:
                continue
            self._eval += 1
            if self._eval >= 2:
                self._add("eval-mode", model=type(model).__name__, subject="eval-mode",
                          layers=listed(list(dict.fromkeys(layers))))  # fmt: skip


def maker(tensor: Any) -> str | None:
    """Return the name of the op that made a tensor; ops that only move numbers do not count."""
    node = getattr(tensor, "_node", None)
    for _ in range(4):
        if node is None or node is LEAF or not hasattr(node, "op"):
            return None
        if node.op.name not in MOVING:
            return node.op.name
        node = node.edges[0]
    return None


def grows(losses: list[float]) -> bool:
    """Say whether each loss is larger than the one before, all of them finite and above 0."""
    pairs = itertools.pairwise(losses)
    return all(math.isfinite(b) and 0 < a < b for a, b in pairs)


def was_added_to(leaf: Tensor, gradient: Any) -> bool:
    """Say whether there was a gradient other than 0 when this one came."""
    assert leaf._grad is not None
    held = plain(leaf._grad._array)
    if held is gradient or held.size == 0:
        return False
    a, b = held.ravel()[:FEW], gradient.ravel()[:FEW]
    return not bool((a == b).all().item())
