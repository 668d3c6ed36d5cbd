"""What is wrong, in plain sentences: in a live view, or asked for with `check` and `trouble`.

Read `messages.py` first: all that can be said. Then the four who look: `non_finite.py`
(the first NaN), `gradient_flow.py` (parameters without a gradient), `training_loop.py` (mistakes
of loops) and `graph_leaks.py` (graphs that are kept); `post_mortem.py` draws what is left
after an exception.

In a notebook few steps are looked at in full. A glance proves that a step did the same as the last
of these: so what was seen there counts once more. And before each backward the loss is asked
whether it is a number, while its graph still knows why not.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ...autograd import enable_grad, grad
from ...core.autograd.graph import reachable
from ...core.tensor import LEAF, Tensor
from ...errors import EdutorchError, warn
from ...events import OpApplied, WorkEnded, WorkStarted, listening
from ...nn import Module
from ...ops import ones_like
from ...random import fork_rng
from ...utils._pytree import tree_leaves
from ..draw import CallerNames, make_differentiable, wants_gradient
from ..graph.fold import Choice
from ..graph.graph_reader import read_graph
from ..graph.model import Snapshot
from ..graph.names import Names, find_models, variables
from ..live.panel import Panel
from ..live.recorder import Recorder
from .gradient_flow import GradientFlow
from .graph_leaks import GraphGrowth, find_kept_graphs
from .loss_guard import LossGuard
from .messages import Finding, finding
from .non_finite import NonFiniteTracker
from .post_mortem import FailureTracker, Failure, LastFailure, failure_of, from_traceback, last_error
from .report import Report
from .saved_values import find_bad_gradients, find_bad_values, find_stale
from .training_loop import LoopChecks

if TYPE_CHECKING:
    from ..live.page import PageState

MOST_SHOWN = 6
"""Findings in the page at one time: the newest."""

AT_FIRST, SHARE = 40, 0.001
"""So many glances are thought about at once, later ones for this part of the time at most."""


class NotCheckableError(EdutorchError, TypeError):
    """Something was to be looked at for trouble that has no graph."""


class Trouble(Panel):
    """The part of the live view that says what is wrong."""

    name = "trouble"

    def __init__(self, names: Names, recorder: Recorder, stage: PageState | None = None) -> None:
        self.names, self.recorder, self.stage = names, recorder, stage
        self.births, self.chain = NonFiniteTracker(names), GradientFlow(names)
        self.habits, self.growth, self.failing = LoopChecks(names), GraphGrowth(names), FailureTracker(names)
        self._found: dict[str, Finding] = {}
        self._unheard: list[float] = []  # losses of steps that were not looked at
        self._over = False  # the step that was heard last: the next event begins another one
        self._seen_whole = False  # the last step of which anything was heard
        self._thoughts, self._due = 0, 0.0  # about glances, and when the next one may come
        self._numbers: dict[str, tuple[str, int]] = {}  # subject -> structure, node's number
        self._shown: dict[tuple[str, Choice], dict[int, str]] = {}
        self._late: Any = None
        self._guard = LossGuard(names, recorder, self.growth)
        self._looking = (self.failing, self.births, self.chain, self.habits)
        # By the kind of event, and of work that begins or ends.
        self._takers: dict[tuple[type, str], list[Callable[[Any], None]]] = {}
        for each in (*self._looking, self.growth):
            for kind in each.hears:
                for work in each.works if kind in (WorkStarted, WorkEnded) else ("",):
                    self._takers.setdefault((kind, work), []).append(each.take)
        self.hears = frozenset(kind for kind, _ in self._takers)

    def __enter__(self) -> Trouble:
        """Begin to look at each loss before backward runs on it."""
        self._guard.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._guard.__exit__(*exception)

    # Listening --------------------------------------------------------------------------

    def take(self, event: Any) -> None:
        """Hear an event. An op that begins the next step is kept for that."""
        if type(event) is OpApplied and event.node is not None and self._step_is_over():
            self._late = event
            return
        self._hear(event)

    def _hear(self, event: Any) -> None:
        """Hand an event to all who look. None of them may break the loop that it looks at."""
        if self._over:
            self._over = self._seen_whole = False
            for each in self._looking:
                each.forget()
        try:
            for take in self._takers.get((event.__class__, getattr(event, "kind", "")), ()):
                take(event)
        except Exception as error:  # noqa: BLE001
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._takers.clear()
        warn(f"viz: nothing more is said about trouble, after {type(error).__name__}: {error}")

    def _step_is_over(self) -> bool:
        return self.recorder._accumulated and not self.recorder._optimizer_seen

    def step_ended(self, recorder: Recorder) -> None:
        """Gather what is wrong with a step."""
        try:
            for found in self._guard.verdict():
                self.add(found, recorder)
            for found in self._gather(recorder):
                self.add(found, recorder)
        except Exception as error:  # noqa: BLE001
            self._give_up(error)
        self.failing.forget()
        late, self._late = self._late, None
        if late is not None:
            self._hear(late)

    def _gather(self, recorder: Recorder) -> list[Finding]:
        """Return what is wrong with a step that has ended: looked at, glanced at, or neither."""
        if not self._takers:
            return []
        found = []
        if recorder.sampled:
            self._hear_losses()
            found = self.habits.step_ended(recorder.loss, recorder.step)
            found += self.growth.step_ended(full=True)
            found += self._numbers_of_step(recorder)
            found += self._chain_of_step()
            self._over = self._seen_whole = True
        elif recorder.glimpse is not None and self._seen_whole and self._may_think():
            start = time.perf_counter()
            self._hear_losses()
            found = self.habits.again(recorder.loss, recorder.step)
            found += self.growth.step_ended(full=False)
            found += self._chain_of_step()
            now = time.perf_counter()
            self._thoughts, self._due = self._thoughts + 1, now + (now - start) / SHARE
        else:
            self.growth.unseen()
            self.habits.unseen(recorder.step)
            self.rested([] if recorder.loss is None else [recorder.loss])
        return found

    def _chain_of_step(self) -> list[Finding]:
        habits = self.habits
        return self.chain.findings(habits.stepped(), habits.optimized(), habits.line)

    def _may_think(self) -> bool:
        return self._thoughts < AT_FIRST or time.perf_counter() > self._due

    def _numbers_of_step(self, recorder: Recorder) -> list[Finding]:
        """Return the first bad numbers of a step that was heard, unless they did no harm."""
        if (loss := recorder.scalar) is not None:
            self.births.reached(loss)
        if recorder.has_optimizer and not self.births.does_harm():
            self.births.found.pop("backward", None)
        return self.births.found_in_order()

    # Losses -----------------------------------------------------------------------------

    def rested(self, losses: list[float]) -> None:
        """Hear of the losses of steps that were not looked at: at leisure, unless one is NaN."""
        self._unheard += losses
        if not math.isfinite(sum(losses)):  # which is the quicker question
            bad = next((loss for loss in losses if not math.isfinite(loss)), None)
            self._hear_losses(before=bad)
            if bad is not None and not (self._knows_numbers() or self._guard.excused):
                self.add(finding("nan-loss", loss=bad, line=self.habits.line, subject="nan-loss"),
                         self.recorder)  # fmt: skip

    def _hear_losses(self, before: float | None = None) -> None:
        losses, self._unheard = self._unheard, []
        at = len(losses) if before is None else losses.index(before)
        found = self.habits.rested(losses[:at]) + self.habits.rested(losses[at:])
        for each in found:
            self.add(each, self.recorder)

    @property
    def found(self) -> dict[str, Finding]:
        """All findings, by subject."""
        if self._unheard:
            self._hear_losses()
        for each in self.habits.waiting(self.recorder.step):
            self.add(each, self.recorder)
        return self._found

    def _knows_numbers(self) -> bool:
        return any(each.kind.startswith("nan") for each in self._found.values())

    def add(self, found: Finding, recorder: Recorder | None = None) -> None:
        """Add a finding; one that is known already keeps the step at which it was found first."""
        if found.subject in self._found:
            return
        if found.kind.startswith("nan") and self._knows_numbers():
            return  # all that comes after the first NaN comes from it
        self._found[found.subject] = found.at(recorder.step if recorder else 0)
        if recorder is not None and recorder.sampled and recorder.snapshot is not None:
            self._place(found, recorder)

    def _place(self, found: Finding, recorder: Recorder) -> None:
        """Note which node of the picture a finding is about."""
        snapshot = recorder.snapshot
        assert snapshot is not None
        number = recorder.graph.orders.get(found.order)
        if number is not None and number in snapshot.order:
            at = snapshot.order.index(number)
            self._numbers[found.subject] = snapshot.graph.structure, at

    # Telling ----------------------------------------------------------------------------

    def patch(self) -> Any:
        """Return the findings for the page, the newest first."""
        if not self.found:
            return None
        newest = list(self.found.values())[::-1]
        return {
            "findings": [
                {
                    "kind": each.kind, "says": each.says, "do": each.do, "line": each.line,
                    "details": list(each.details), "step": each.step, "node": self.node_of(each),
                }
                for each in newest[:MOST_SHOWN]
            ],
            "more": max(0, len(newest) - MOST_SHOWN),
        }  # fmt: skip

    def node_of(self, found: Finding) -> str:
        """Return the id of the box that shows a finding's node now, "" if none does."""
        snapshot = self.recorder.snapshot
        structure, number = self._numbers.get(found.subject, ("", -1))
        if self.stage is None or snapshot is None or snapshot.graph.structure != structure:
            return ""
        key = structure, self.stage.choice
        if key not in self._shown:
            self._shown = {key: self.stage.plan(snapshot.graph).ids}
        return self._shown[key].get(number, "")

    def text(self) -> str:
        """Return all findings as text, for the picture that stays."""
        return "".join(f"{each}\n\n" for each in self.found.values())

    def failed(self, error: BaseException | None) -> Snapshot | None:
        """Take note of an exception that ends the block; return the picture of it."""
        if not isinstance(error, Exception):
            return None
        failure = failure_of(self.recorder, self.failing, error, tuple(self.found.values()))
        self.found["error"] = failure.finding.at(self.recorder.step)
        snapshot = failure.snapshot
        if snapshot is not None:
            red = (at for at, node in enumerate(snapshot.graph.nodes) if node.kind == "failed")
            at = next(red, -1)
            if at >= 0:
                self._numbers["error"] = snapshot.graph.structure, at
        return snapshot


# Asked for ------------------------------------------------------------------------------------


def check(what: Any, *inputs: Any) -> Report:
    """Run a module or function once, forward and backward, and say what is wrong with it.

    Found are: the first NaN or infinity and the operand that it came from, parameters without a
    gradient and the place where the chain to them is cut, softmax in front of cross_entropy.
    Gradients, buffers and random numbers are as before afterwards. An exception is raised as
    ever; `viz.post_mortem()` then draws the graph as far as it got.

    Args:
        what: a module, or a function that returns a tensor (a loss).
        inputs: what it is called with.

    Returns: a `Report`: `.findings`, `.ok`, and `.drawing`, which a notebook shows.

    Raises: NotCheckableError: `what` cannot be called.

    >>> x = tensor([0.0, 1.0], requires_grad=True)
    >>> print(edutorch.viz.check(lambda: x.log().sum()).findings[0].says)
    The first Inf is made by log: log of 0 at 1 place.
    """
    if not callable(what):
        raise NotCheckableError(
            "viz.check", f"expected a module or a function, got {type(what).__name__}",
            hint="viz.check(model, x), or viz.trouble(loss) for a tensor",
        )  # fmt: skip
    names = CallerNames(None, {}, sys._getframe(1))
    if hasattr(what, "named_modules"):
        names.forget_models()
        model: Any = what
        names.learn(model, "")
    recorder = Recorder(names, detailed=True)
    part = Trouble(names, recorder)
    recorder.parts.append(part)
    try:
        with enable_grad(), fork_rng(), PreservedBuffers(names.models), listening(recorder):
            result = what(*make_differentiable(what, inputs, names)[0])
            run_backward(result, recorder, part)
    except Exception as error:
        failure_of(recorder, part.failing, error, tuple(part.found.values()))
        error.add_note("viz.post_mortem() draws the graph as far as it got")
        raise
    snapshot = recorder.snapshot or recorder.arrange()
    return Report(snapshot if snapshot.graph.nodes else None, tuple(part.found.values()))


class PreservedBuffers:
    """Puts the buffers of models back when the block ends: a look must not change them."""

    def __init__(self, models: list[Module]) -> None:
        self.models = models

    def __enter__(self) -> None:
        self.kept = [(buffer, buffer._array.copy()) for model in self.models
                     for buffer in model.buffers()]  # fmt: skip

    def __exit__(self, *exception: object) -> None:
        for buffer, array in self.kept:
            buffer._array[...] = array


def run_backward(result: Any, recorder: Recorder, part: Trouble) -> None:
    """Run backward without touching any `.grad`, and gather what was found."""
    outputs = [tree_leaf for tree_leaf in tree_leaves(result) if wants_gradient(tree_leaf)]
    for tree_leaf in tree_leaves(result):
        if isinstance(tree_leaf, Tensor):
            part.births.reached(tree_leaf)
    if outputs:
        leaves = [each for each in reachable([output._node for output in outputs])
                  if isinstance(each, Tensor)]  # fmt: skip
        starts = [ones_like(output) for output in outputs]
        with numpy.errstate(all="ignore"):  # the report tells of NaN and infinities
            found = grad(outputs, leaves, starts, allow_unused=True) if leaves else ()
        for leaf, gradient in zip(leaves, found, strict=True):
            recorder.leaf_received(leaf, gradient)
            if gradient is not None:
                part.chain.received(leaf)
    else:
        part.add(finding("no-graph", subject="no-graph"), recorder)
        for cut in part.chain.cuts:
            part.add(finding("cut", names="All parameters", how=cut.how, advice=cut.advice,
                             line=cut.line, subject=f"cut {cut.line}"), recorder)  # fmt: skip
    snapshot = recorder.snapshot = recorder.arrange() if recorder.vertices else None
    found = [*part.habits.now.values(), *part.births.found_in_order()]
    found += part.chain.findings(set(), set(), part.habits.line, looks=1) if outputs else []
    for each in found:
        part.add(each, recorder if snapshot is not None else None)


def trouble(loss: Tensor | None = None, *models: Module) -> Report:
    """Read the graph behind a tensor, and say what is wrong with it.

    Without a tensor: look for all graphs that are alive, and say who keeps them.

    Args:
        loss: what backward would run on.
        models: whose parameters should be behind it; by default those of the caller's models.

    Raises: NotCheckableError: not a tensor.

    >>> w = tensor(1.0, requires_grad=True)
    >>> print(edutorch.viz.diagnostics.checks((w * 3).detach() * 2))  # doctest: +ELLIPSIS
    ✗ Nothing that this was computed from wants a gradient, so backward() cannot run.
      → Compute it from ...
    """
    if loss is None:
        return Report(None, tuple(find_kept_graphs()))
    if not isinstance(loss, Tensor):
        raise NotCheckableError(
            "viz.trouble", f"expected a tensor, got {type(loss).__name__}",
            hint="viz.trouble(loss), or viz.check(model, x) for a module or a function",
        )  # fmt: skip
    frame = sys._getframe(1)
    known = list(models) or find_models(variables(frame))
    names = Names(known, frame)
    snapshot = read_graph(loss, names)
    if loss._node is None:
        return Report(snapshot, (finding("no-graph"),))
    found = [*find_bad_values(loss, names), *find_bad_gradients(loss, names), *find_stale(loss),
             *find_unreached(loss, names, models)]  # fmt: skip
    return Report(snapshot, tuple(found))


def find_unreached(loss: Tensor, names: Names, given: tuple[Any, ...]) -> list[Finding]:
    """Find parameters of the models that the graph does not lead to."""
    behind = {id(each) for each in reachable([loss._node]) if isinstance(each, Tensor)}
    chain = GradientFlow(names)
    chain.got, chain.backward_ran = behind, True
    chain._ran = {id(module) for model in names.models for module in model.modules()}
    return [] if loss._node is LEAF else chain.unreached(behind, bool(given))


def post_mortem() -> Report:
    """Draw the last computation that failed, as far as it got, with the op that failed in red.

    It is the last one in `viz.live` or `viz.check`, else the last error of the notebook.

    Raises: NotCheckableError: nothing has failed.
    """
    error = last_error()
    failure: Failure | None = LastFailure.failure
    if failure is None and error is not None:
        failure = from_traceback(error)
    if failure is None:
        raise NotCheckableError(
            "viz.post_mortem", "nothing has failed yet",
            hint="run the code in `with viz.live():` or with viz.check(function, x)",
        )  # fmt: skip
    return Report(failure.snapshot, (failure.finding, *failure.others))
