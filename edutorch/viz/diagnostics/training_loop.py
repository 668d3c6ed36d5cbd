"""Finds the mistakes of training loops: what is forgotten, or goes wrong slowly, over many steps.

Each is reported only after it has lasted for some steps. What is done on purpose (gradients
accumulated over batches, two optimizers taking turns, a frozen layer) does not last that long, or
looks different. A step that was sampled fast did the same as the last one that was sampled
in full: it counts like one.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

from ... import backends
from ...backends.numpy import Array
from ...core.tensor import LEAF, Tensor
from ...errors import CodeLocation, user_location
from ...events import GradientAccumulated, OpApplied, Stepped, WorkStarted
from ...nn import Module
from ...optim import Optimizer
from ..graph.graph_reader import line_of, line_text
from ..graph.names import Names, variables
from ..tensors.summaries import stored_elements
from .messages import Finding, finding, join_names

ZERO_STEPS = 4
SAME_LOSS, SEEN = 25, 4
"""A loss that stays the same for this many steps, this many of them sampled, is reported."""
STEPS_WITHOUT, SAMPLES_WITHOUT = 24, 3
"""A parameter that gets gradients and has not changed for this many steps, this many of them
sampled, is reported: a second optimizer may take its first step after some of the first one."""
GROWING, GROWN = 6, 100.0
"""The loss explodes if it has grown at each of this many steps, and by this factor in all."""

REPEATED = {"log_softmax": ("softmax", "cross_entropy"), "bce_with_logits_forward": (
    "sigmoid", "binary_cross_entropy_with_logits")}  # fmt: skip
MOVING_OPS = {"reshape", "view", "transpose", "permute", "squeeze", "unsqueeze", "flatten", "clone"}
MODE_DEPENDENT = ("Dropout", "BatchNorm", "InstanceNorm")
"""Names of layers that act differently in eval mode contain these."""


class Unchanged(NamedTuple):
    """A parameter that gets gradients, its version, since which step, and how often it was seen."""

    parameter: weakref.ref[Tensor]
    version: int
    step: int
    samples: int


class LoopChecks:
    """Checks a training loop, step by step."""

    event_types = (OpApplied, GradientAccumulated, Stepped, WorkStarted)
    work_kinds = ("backward",)

    def __init__(self, names: Names) -> None:
        self.names = names
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.now: dict[str, Finding] = {}  # of this step, by subject
        self._losses: list[float] = []
        self._same = self._same_seen = 0
        self._zeros: dict[int, int] = {}  # parameter -> steps with a gradient of 0
        self._got: dict[int, bool] = {}  # in this step: parameter -> gradient is 0
        self._without: dict[int, Unchanged] = {}  # parameters that no known optimizer holds
        self._eval = 0
        self._clearing = ClearingCheck()
        self._backward: CodeLocation | None = None  # where the user's code ran backward last
        self._update: CodeLocation | None = None  # and the optimizer's step
        self._zero: dict[int, weakref.ref[Tensor]] = {}  # leaves whose gradient was 0
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()  # optimizers, in this step

    def forget(self) -> None:
        """Begin a new step."""
        self.now, self._got, self._zero = {}, {}, {}
        self._stepped.clear()
        self._clearing.forget()

    @property
    def line(self) -> str:
        """The line of the user's code that ran backward last, as far as is known."""
        return line_text(self._backward)

    @property
    def update_line(self) -> str:
        """The line of the user's code that updated the parameters last."""
        return line_text(self._update) or self.line

    def take(self, event: Any) -> None:
        """Handle an event."""
        event_type = type(event)
        if event_type is OpApplied:
            self._check_softmax(event)
        elif event_type is GradientAccumulated:
            self._note_gradient(event)
        elif event_type is Stepped:
            self.optimizers.add(event.optimizer)
            self._stepped.add(event.optimizer)
            self._update = user_location()
        elif event_type is WorkStarted:
            self._backward = user_location()

    def optimized_parameters(self) -> set[int]:
        """Return the ids of all parameters that a known optimizer holds."""
        for _, value in variables(self.names.frame):
            if isinstance(value, Optimizer):
                self.optimizers.add(value)
        return parameter_ids(self.optimizers)

    def stepped_parameters(self) -> set[int]:
        """Return the ids of the parameters of the optimizers that ended this step."""
        return parameter_ids(self._stepped)

    # Ops --------------------------------------------------------------------------------

    def _check_softmax(self, event: OpApplied) -> None:
        name = event.op.name
        if name not in REPEATED and name != "nll_loss":
            return
        producer = producing_op(event.inputs[0])
        if producer is None:
            return
        line = line_of(event.node) if event.node is not None else ""
        order = 0 if event.node is None else event.node._order
        if name == "nll_loss" and producer in ("softmax", "sigmoid"):
            self._add("probabilities-to-nll", line=line, order=order, first=producer, subject="nll")
        elif name in REPEATED and producer == REPEATED[name][0]:
            first, second = REPEATED[name]
            self._add("double-softmax", line=line, order=order, first=first, second=second,
                      subject=f"double {second}")  # fmt: skip

    def _add(self, kind: str, **words: Any) -> None:
        new = finding(kind, **words)
        self.now.setdefault(new.subject, new)

    # Gradients --------------------------------------------------------------------------

    def _note_gradient(self, event: GradientAccumulated) -> None:
        leaf, array = (
            event.tensor,
            stored_elements(getattr(event.gradient, "_array", event.gradient)),
        )
        zero = not has_other_than_zero(array)
        self._got[id(leaf)] = self._got.get(id(leaf), True) and zero
        if zero:
            self._zero[id(leaf)] = weakref.ref(leaf)
        self._clearing.record_gradient(leaf, array)

    def _path_of(self, leaf: Tensor) -> str:
        return self.names.path_of_leaf(leaf)

    # Steps ------------------------------------------------------------------------------

    def step_ended(self, loss: float | None, step: int) -> list[Finding]:
        """Check a step that was sampled in full, at its end."""
        if loss is not None:
            self._check_losses([loss], True)
        self._check_step(loss, step, full=True)
        return list(self.now.values())

    def repeat_step(self, loss: float | None, step: int) -> list[Finding]:
        """Check a step that was sampled fast: it did what the last full sample saw."""
        now, self.now = self.now, {}
        if loss is not None:
            self._check_losses([loss], True)
        for key, reference in self._zero.items():
            leaf = reference()
            grad = None if leaf is None else leaf._grad
            if grad is not None and has_other_than_zero(grad._array):
                self._got[key] = False
        self._check_step(loss, step, full=False)
        findings, self.now = list(self.now.values()), now
        return findings

    def skip_step(self, step: int) -> None:
        """Handle the end of a step that was not sampled."""
        self._clearing.note(step)

    def _check_step(self, loss: float | None, step: int, full: bool) -> None:
        if not self._got:
            return
        optimized = self.optimized_parameters()
        self._check_zero_gradients(loss)
        self._check_optimized(optimized, step)
        self._check_eval_mode(optimized)
        for witness in self._clearing.step_ended(step, list(self.optimizers), full):
            leaf = witness.leaf()
            if leaf is not None:
                self._add("no-zero-grad", name=self._path_of(leaf), steps=witness.count + 1,
                          line=self.line, subject="no-zero-grad")  # fmt: skip

    def record_losses(self, losses: list[float]) -> list[Finding]:
        """Check the losses of many steps that were not sampled."""
        now, self.now = self.now, {}  # the findings of the running step stay with it
        if losses:
            self._check_losses(losses, False)
        findings, self.now = list(self.now.values()), now
        return findings

    def _check_losses(self, losses: list[float], sampled: bool) -> None:
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
            self._add("loss-constant", loss=f"{last:.6g}", steps=self._same + 1,
                      line=self.update_line, subject="constant")  # fmt: skip
        if len(known) == GROWING and last > GROWN * abs(known[0]) and is_growing(known):
            self._add("exploding", first=f"{known[0]:.3g}", last=f"{last:.3g}",
                      steps=GROWING - 1, rate=self._rate(), line=self.update_line,
                      subject="exploding")  # fmt: skip

    def _rate(self) -> str:
        rates = {group["lr"] for optimizer in self.optimizers for group in optimizer.param_groups
                 if "lr" in group}  # fmt: skip
        return f" ({float(rates.pop()):g})" if len(rates) == 1 else ""

    def _check_zero_gradients(self, loss: float | None) -> None:
        """Count for each parameter how often in a row its gradient was exactly 0.

        A bias may have none by arithmetic, as the last one of a critic of which a difference is
        taken. So it is only reported where the weights of a layer have none.
        """
        dead, steps, weights = [], 0, False
        for model in self.names.models:
            for parameter in model.parameters():
                if id(parameter) not in self._got:
                    continue
                zero = self._got[id(parameter)] and loss != 0  # a loss of 0 has nothing to learn
                count = self._zeros[id(parameter)] = (
                    self._zeros.get(id(parameter), 0) + 1 if zero else 0
                )
                if count >= ZERO_STEPS:
                    dead.append(self._path_of(parameter))
                    steps = max(steps, count)
                    weights |= parameter.ndim > 1
        if weights:
            self._add("zero-gradient", names=join_names(dead), steps=steps, line=self.line,
                      subject="zero-gradient")  # fmt: skip

    def _check_optimized(self, optimized: set[int], step: int) -> None:
        """Look for parameters with a gradient that no optimizer knows.

        A whole untrained model is only reported in training mode: one in eval mode is there to be
        differentiated through (a critic, a judge of images).
        """
        for model in self.names.models if self.optimizers else ():
            parameters = list(model.parameters())
            partly = any(id(parameter) in optimized for parameter in parameters)
            for parameter in parameters:
                key = id(parameter)
                out = key in self._got and key not in optimized and (partly or model.training)
                known = self._without.get(key)
                if out and known is not None and known.version == parameter._version:
                    self._without[key] = known._replace(samples=known.samples + 1)
                elif out:
                    self._without[key] = Unchanged(
                        weakref.ref(parameter), parameter._version, step, 1
                    )
                elif key in self._got:
                    self._without.pop(key, None)

    def unoptimized(self, step: int) -> list[Finding]:
        """Return the finding about parameters that were left out for long enough."""
        late = [parameter for unchanged in self._without.values()
                if unchanged.samples >= SAMPLES_WITHOUT and step - unchanged.step >= STEPS_WITHOUT
                and (parameter := unchanged.parameter()) is not None
                and parameter._version == unchanged.version]  # fmt: skip
        if not late:
            return []
        known = self.optimized_parameters() | self._in_objects()
        left = [self._path_of(parameter) for parameter in late if id(parameter) not in known]
        return [finding("not-optimized", names=join_names(left), line=self.update_line,
                        subject="not-optimized")] if left else []  # fmt: skip

    def _in_objects(self) -> set[int]:
        """Return the parameters of optimizers that are attributes: of a trainer, of `self`."""
        for _, value in list(variables(self.names.frame)):
            for attribute in list(getattr(value, "__dict__", {}).values()):
                if isinstance(attribute, Optimizer):
                    self.optimizers.add(attribute)
        return parameter_ids(self.optimizers)

    def _check_eval_mode(self, optimized: set[int]) -> None:
        """Look for a whole model in eval mode whose parameters an optimizer changes."""
        for model in self.names.models:
            layers = [type(module).__name__ for module in model.modules()
                      if any(word in type(module).__name__ for word in MODE_DEPENDENT)
                      and not is_frozen(module)]  # fmt: skip
            trained = any(id(parameter) in self._got and id(parameter) in optimized
                          for parameter in model.parameters())  # fmt: skip
            if model.training or not layers or not trained:
                continue
            self._eval += 1
            if self._eval >= 2:
                self._add("eval-mode", model=type(model).__name__, subject="eval-mode",
                          line=self.update_line,
                          layers=join_names(list(dict.fromkeys(layers))))  # fmt: skip


def is_frozen(module: Module) -> bool:
    """Return True for a layer whose parameters are all frozen: eval mode is right for it."""
    parameters = list(module.parameters())
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def producing_op(tensor: Tensor) -> str | None:
    """Return the name of the op that made a tensor; ops that only move elements are skipped."""
    node = getattr(tensor, "_node", None)
    for _ in range(4):
        if node is None or node is LEAF or not hasattr(node, "op"):
            return None
        if node.op.name not in MOVING_OPS:
            return node.op.public_name
        node = node.edges[0]
    return None


def is_growing(losses: list[float]) -> bool:
    """Return True if each loss is larger than the one before, all of them finite and above 0."""
    pairs = itertools.pairwise(losses)
    return all(math.isfinite(b) and 0 < a < b for a, b in pairs)


def parameter_ids(optimizers: Iterable[Any]) -> set[int]:
    """Return the ids of all parameters that these optimizers hold."""
    groups = (group for optimizer in list(optimizers) for group in optimizer.param_groups)
    return {id(parameter) for group in groups for parameter in group["params"]}


# Gradients that are not cleared -----------------------------------------------------------
#
# Accumulation is what `backward` is for: over parts of a batch, over several losses, over the
# networks of a GAN. So it is no mistake that a gradient is added to another one, but that the same
# `.grad` survives from one update of its parameter to the next. A few parameters are watched for
# that: one of each optimizer.

UNCLEARED = 3
"""After this many updates in a row with the gradient of the one before, there is a finding."""


MOST_WITNESSES = 8


FEW = 65_536
"""How many elements of a gradient are compared at most."""


class WatchedGradient:
    """One parameter, and what was known of its gradient when a step had ended.

    Attributes:
        leaf: the parameter.
        held: its gradient then; None if it had none.
        written: how often that gradient had been written to.
        updated: how often the parameter had been.
        step: the number of that step.
        writes_per_step: how often a step writes to the gradient, from the last full sample.
        count: after how many updates in a row the gradient was still there.
        uncleared: whether it was after the last full sample.
    """

    __slots__ = (
        "count",
        "held",
        "leaf",
        "step",
        "uncleared",
        "updated",
        "writes_per_step",
        "written",
    )

    def __init__(self, leaf: Tensor) -> None:
        self.leaf = weakref.ref(leaf)
        self.held: weakref.ref[Tensor] | None = None
        self.written = self.updated = self.step = self.writes_per_step = self.count = 0
        self.uncleared = False

    def note(self, leaf: Tensor, step: int) -> None:
        """Record the state at the end of a step."""
        held = leaf._grad
        self.held = None if held is None else weakref.ref(held)
        self.written = 0 if held is None else held._version
        self.updated, self.step = leaf._version, step

    def is_uncleared(self, leaf: Tensor) -> bool:
        """Return True if the parameter was updated since, and its gradient is the same object."""
        held = leaf._grad
        kept = self.held is not None and held is not None and self.held() is held
        return kept and leaf._version != self.updated


class ClearingCheck:
    """Watches the gradients of some parameters from step to step."""

    def __init__(self) -> None:
        self._witnesses: dict[int, WatchedGradient] = {}
        self.forget()

    def forget(self) -> None:
        """Begin a new step."""
        self._added: dict[int, bool] = {}  # by leaf: its first gradient was added to another one
        self._received: list[weakref.ref[Tensor]] = []

    def record_gradient(self, leaf: Tensor, gradient: Tensor) -> None:
        """Record a gradient in a step that is sampled in full."""
        if id(leaf) in self._added:
            return
        self._received.append(weakref.ref(leaf))
        watched = id(leaf) in self._witnesses
        self._added[id(leaf)] = watched and was_added_to(leaf, gradient)

    def step_ended(self, step: int, optimizers: Iterable[Any], full: bool) -> list[WatchedGradient]:
        """Return the witnesses whose gradients are not cleared.

        Args:
            step: its number.
            optimizers: those that are known.
            full: it was sampled in full; else it is one like the last of which that is true.
        """
        uncleared = []
        for key, witness in list(self._witnesses.items()):
            leaf = witness.leaf()
            if leaf is None:
                del self._witnesses[key]
                continue
            if self._count_update(witness, leaf, full, step) and self._is_nonzero(leaf):
                uncleared.append(witness)
            witness.note(leaf, step)
        if full:
            self._choose(optimizers, step)
        return uncleared

    def note(self, step: int) -> None:
        """Record the end of a step that was not sampled."""
        for witness in self._witnesses.values():
            leaf = witness.leaf()
            if leaf is not None:
                witness.note(leaf, step)

    def _count_update(self, witness: WatchedGradient, leaf: Tensor, full: bool, step: int) -> bool:
        """Count an update; return True after too many with the gradient of the one before."""
        is_uncleared = witness.is_uncleared(leaf)
        writes = 0 if leaf._grad is None else leaf._grad._version - witness.written
        if full and id(leaf) in self._added:
            added = self._added[id(leaf)]
            if leaf._version != witness.updated:
                witness.uncleared = is_uncleared and added
                witness.count = witness.count + 1 if witness.uncleared else 0
                witness.writes_per_step = writes
        elif not full and witness.uncleared:
            if not is_uncleared:
                witness.count, witness.uncleared = 0, False
            elif writes == witness.writes_per_step * (
                step - witness.step
            ):  # nothing has cleared it in place
                witness.count += 1
        return witness.uncleared and witness.count >= UNCLEARED

    def _is_nonzero(self, leaf: Tensor) -> bool:
        assert leaf._grad is not None
        return has_other_than_zero(leaf._grad._array)

    def _choose(self, optimizers: Iterable[Any], step: int) -> None:
        """Watch the first parameter of each optimizer that got a gradient."""
        watched = set(self._witnesses)
        received = {
            id(leaf): leaf
            for leaf in (reference() for reference in self._received)
            if leaf is not None
        }
        groups = [
            [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
            for optimizer in optimizers
        ]
        for keys in groups or [list(received)]:
            if watched.isdisjoint(keys) and len(self._witnesses) < MOST_WITNESSES:
                first = next((received[key] for key in keys if key in received), None)
                if first is not None:
                    witness = self._witnesses[id(first)] = WatchedGradient(first)
                    witness.note(first, step)


def was_added_to(leaf: Tensor, gradient: Tensor) -> bool:
    """Return True if there was a gradient other than 0 when this one came."""
    assert leaf._grad is not None
    held = stored_elements(leaf._grad._array)
    if held is gradient or held.size == 0:
        return False
    a, b = held.ravel()[:FEW], gradient.ravel()[:FEW]
    return a.shape != b.shape or not bool((a == b).all().item())


def has_other_than_zero(array: Array) -> bool:
    """Return True if an array has an element other than 0."""
    stored = stored_elements(array)
    return bool(backends.of(stored).xp.any(stored).item())
