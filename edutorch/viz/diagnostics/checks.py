"""Diagnoses in plain sentences, of a loop in a live view or by `check` and `trouble`.

Read `messages.py` first: all that can be reported. Then the checks: `non_finite.py` (the first
NaN), `gradient_flow.py` (parameters without a gradient), `training_loop.py` (mistakes of loops)
and `graph_leaks.py` (graphs that are kept); `post_mortem.py` draws what is left after an
exception.

In a notebook few steps are sampled in full. A light sample proves that a step did the same as the
last of these: so what was found there counts once more. And before each backward the loss is
checked for NaN, while its graph still knows the cause.
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
from .messages import Finding, Report, finding
from .non_finite import NonFiniteTracker
from .post_mortem import (
    Failure,
    FailureTracker,
    LastFailure,
    failure_of,
    from_traceback,
    last_error,
)
from .saved_values import LossGuard, find_bad_gradients, find_bad_values, find_stale
from .training_loop import LoopChecks

if TYPE_CHECKING:
    from ..live.page import PageState
    from ..live.view import View

MOST_SHOWN = 6
"""How many findings the page shows at one time: the newest."""

AT_FIRST, SHARE = 40, 0.001
"""How many light samples are always checked; later ones take this share of the time at most."""


class NotCheckableError(EdutorchError, TypeError):
    """What was given has no graph that could be checked."""


class Trouble(Panel):
    """The panel of the live view that reports what is wrong."""

    name = "trouble"

    def __init__(
        self, names: Names, recorder: Recorder, page_state: PageState | None = None
    ) -> None:
        self.names, self.recorder, self.page_state = names, recorder, page_state
        self.non_finite, self.gradient_flow = NonFiniteTracker(names), GradientFlow(names)
        self.loop_checks, self.graph_growth, self.failure_tracker = (
            LoopChecks(names),
            GraphGrowth(names),
            FailureTracker(names),
        )
        self._findings: dict[str, Finding] = {}
        self._pending_losses: list[float] = []  # losses of steps that were not sampled
        self._over = False  # the last step has ended: the next event begins another one
        self._seen_whole = False  # whether the last step with events was a whole one
        self._checked_samples, self._due = (
            0,
            0.0,
        )  # of light samples, and when the next check may run
        self._positions: dict[str, tuple[str, int]] = {}  # subject -> structure, index of the node
        self._shown: dict[tuple[str, Choice], dict[int, str]] = {}
        self._late: Any = None
        self._guard = LossGuard(names, recorder, self.graph_growth)
        self._checks = (self.failure_tracker, self.non_finite, self.gradient_flow, self.loop_checks)
        # By event type, and by the kind of work that begins or ends.
        self._handlers: dict[tuple[type, str], list[Callable[[Any], None]]] = {}
        for check in (*self._checks, self.graph_growth):
            for event_type in check.event_types:
                has_work = event_type in (WorkStarted, WorkEnded)
                for work in check.work_kinds if has_work else ("",):
                    self._handlers.setdefault((event_type, work), []).append(check.take)
        self.event_types = frozenset(event_type for event_type, _ in self._handlers)

    @classmethod
    def of(cls, view: View) -> Trouble:
        return cls(view._names, view._recorder, view._page_state)

    def __enter__(self) -> Trouble:
        """Begin to check each loss before backward runs on it."""
        self._guard.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._guard.__exit__(*exception)

    # Listening --------------------------------------------------------------------------

    def take(self, event: Any) -> None:
        """Handle an event. An op that begins the next step is kept for that."""
        if type(event) is OpApplied and event.node is not None and self._step_is_over():
            self._late = event
            return
        self._dispatch(event)

    def _dispatch(self, event: Any) -> None:
        """Pass an event on to all checks. None of them may break the loop that it checks."""
        if self._over:
            self._over = self._seen_whole = False
            for check in self._checks:
                check.forget()
        try:
            for take in self._handlers.get((event.__class__, getattr(event, "kind", "")), ()):
                take(event)
        except Exception as error:  # noqa: BLE001
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._handlers.clear()
        warn(f"viz: nothing more is said about trouble, after {type(error).__name__}: {error}")

    def _step_is_over(self) -> bool:
        return self.recorder._accumulated and not self.recorder._optimizer_seen

    def step_ended(self, recorder: Recorder) -> None:
        """Collect the findings of a step."""
        try:
            for item in self._guard.findings():
                self.add(item, recorder)
            for item in self._gather(recorder):
                self.add(item, recorder)
        except Exception as error:  # noqa: BLE001
            self._give_up(error)
        self.failure_tracker.forget()
        late, self._late = self._late, None
        if late is not None:
            self._dispatch(late)

    def _gather(self, recorder: Recorder) -> list[Finding]:
        """Return the findings of a step that has ended, sampled in full, fast, or not at all."""
        if not self._handlers:
            return []
        findings = []
        if recorder.sampled:
            self._check_losses()
            findings = self.loop_checks.step_ended(recorder.loss, recorder.step)
            findings += self.graph_growth.step_ended(full=True)
            findings += self._non_finite_of_step(recorder)
            findings += self._gradient_flow_of_step()
            self._over = self._seen_whole = True
        elif recorder.step_values is not None and self._seen_whole and self._may_check_samples():
            start = time.perf_counter()
            self._check_losses()
            findings = self.loop_checks.repeat_step(recorder.loss, recorder.step)
            findings += self.graph_growth.step_ended(full=False)
            findings += self._gradient_flow_of_step()
            now = time.perf_counter()
            self._checked_samples, self._due = (
                self._checked_samples + 1,
                now + (now - start) / SHARE,
            )
        else:
            self.graph_growth.skip_step()
            self.loop_checks.skip_step(recorder.step)
            self.record_idle([] if recorder.loss is None else [recorder.loss])
        return findings

    def _gradient_flow_of_step(self) -> list[Finding]:
        loop_checks = self.loop_checks
        return self.gradient_flow.findings(
            loop_checks.stepped_parameters(), loop_checks.optimized_parameters(), loop_checks.line
        )

    def _may_check_samples(self) -> bool:
        return self._checked_samples < AT_FIRST or time.perf_counter() > self._due

    def _non_finite_of_step(self, recorder: Recorder) -> list[Finding]:
        """Return the first non-finite values of a step, unless they did no harm."""
        if (loss := recorder.scalar) is not None:
            self.non_finite.require_finite(loss)
        if recorder.has_optimizer and not self.non_finite.does_harm():
            self.non_finite.findings.pop("backward", None)
        return self.non_finite.findings_in_order()

    # Losses -----------------------------------------------------------------------------

    def record_idle(self, losses: list[float]) -> None:
        """Record the losses of idle steps; they are checked later, unless one is NaN."""
        self._pending_losses += losses
        if not math.isfinite(sum(losses)):  # the quicker test
            bad = next((loss for loss in losses if not math.isfinite(loss)), None)
            self._check_losses(before=bad)
            if bad is not None and not (self._knows_non_finite() or self._guard.excused):
                line = self.loop_checks.line
                self.add(
                    finding("nan-loss", loss=bad, line=line, subject="nan-loss"), self.recorder
                )

    def _check_losses(self, before: float | None = None) -> None:
        losses, self._pending_losses = self._pending_losses, []
        at = len(losses) if before is None else losses.index(before)
        findings = self.loop_checks.record_losses(losses[:at]) + self.loop_checks.record_losses(
            losses[at:]
        )
        for item in findings:
            self.add(item, self.recorder)

    @property
    def findings(self) -> dict[str, Finding]:
        """All findings, by subject."""
        if self._pending_losses:
            self._check_losses()
        for item in self.loop_checks.unoptimized(self.recorder.step):
            self.add(item, self.recorder)
        return self._findings

    def _knows_non_finite(self) -> bool:
        return any(finding.kind.startswith("nan") for finding in self._findings.values())

    def add(self, item: Finding, recorder: Recorder | None = None) -> None:
        """Add a finding; a known one keeps the step at which it was made first."""
        if item.subject in self._findings:
            if item.subject not in self._positions:  # the step that it was found in had no picture
                self._locate(item, recorder)
            return
        if item.kind.startswith("nan") and self._knows_non_finite():
            return  # everything after the first NaN follows from it
        self._findings[item.subject] = item.with_step(recorder.step if recorder else 0)
        self._locate(item, recorder)

    def _locate(self, item: Finding, recorder: Recorder | None) -> None:
        """Remember which node of the picture a finding is about."""
        if recorder is None or recorder.snapshot is None or not item.order:
            return
        snapshot = recorder.snapshot
        if recorder.sampled:
            key = recorder.graph.orders.get(item.order)
            at = snapshot.order.index(key) if key in snapshot.order else None
        else:  # the picture is an earlier step's, which had the same op
            at = self._guard.picture_indices.get(item.order)
        if at is not None:
            self._positions[item.subject] = snapshot.graph.structure, at

    # Reporting --------------------------------------------------------------------------

    def patch(self) -> Any:
        """Return the findings for the page, the newest first."""
        if not self.findings:
            return None
        newest = list(self.findings.values())[::-1]
        return {
            "findings": [
                {
                    "kind": item.kind, "says": item.says, "do": item.do, "line": item.line,
                    "details": list(item.details), "step": item.step, "node": self.node_of(item),
                }
                for item in newest[:MOST_SHOWN]
            ],
            "more": max(0, len(newest) - MOST_SHOWN),
        }  # fmt: skip

    def node_of(self, item: Finding) -> str:
        """Return the id of the box that shows a finding's node now, "" if none does."""
        snapshot = self.recorder.snapshot
        structure, index = self._positions.get(item.subject, ("", -1))
        if self.page_state is None or snapshot is None or snapshot.graph.structure != structure:
            return ""
        key = structure, self.page_state.choice
        if key not in self._shown:
            self._shown = {key: self.page_state.plan(snapshot.graph).ids}
        return self._shown[key].get(index, "")

    def text(self) -> str:
        """Return all findings as text, for the static picture."""
        return "".join(f"{finding}\n\n" for finding in self.findings.values())

    def record_failure(self, error: BaseException | None) -> Snapshot | None:
        """Record an exception that ends the block; return the picture of it."""
        if not isinstance(error, Exception):
            return None
        failure = failure_of(
            self.recorder, self.failure_tracker, error, tuple(self.findings.values())
        )
        self.findings["error"] = failure.finding.with_step(self.recorder.step)
        snapshot = failure.snapshot
        if snapshot is not None:
            red = (at for at, node in enumerate(snapshot.graph.nodes) if node.kind == "failed")
            at = next(red, -1)
            if at >= 0:
                self._positions["error"] = snapshot.graph.structure, at
        return snapshot


# Public ---------------------------------------------------------------------------------------


def check(what: Callable[..., Any], *inputs: Any) -> Report:
    """Run a module or function once, forward and backward, and report what is wrong with it.

    It finds the first NaN or infinity and the operand that it came from, parameters without a
    gradient and the position where the chain to them is cut, softmax in front of cross_entropy.
    Gradients, buffers and the random state are as before afterwards. An exception is raised as
    usual; `viz.post_mortem()` then draws the graph as far as it got.

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
        failure_of(recorder, part.failure_tracker, error, tuple(part.findings.values()))
        error.add_note("viz.post_mortem() draws the graph as far as it got")
        raise
    snapshot = recorder.snapshot or recorder.arrange()
    return Report(snapshot if snapshot.graph.nodes else None, tuple(part.findings.values()))


class PreservedBuffers:
    """Restores the buffers of models when the block ends: a check must not change them."""

    def __init__(self, models: list[Module]) -> None:
        self.models = models

    def __enter__(self) -> None:
        self.saved = [(buffer, buffer._array.copy()) for model in self.models
                     for buffer in model.buffers()]  # fmt: skip

    def __exit__(self, *exception: object) -> None:
        for buffer, array in self.saved:
            buffer._array[...] = array


def run_backward(result: object, recorder: Recorder, part: Trouble) -> None:
    """Run backward without touching any `.grad`, and collect the findings."""
    outputs = [tree_leaf for tree_leaf in tree_leaves(result) if wants_gradient(tree_leaf)]
    for tree_leaf in tree_leaves(result):
        if isinstance(tree_leaf, Tensor):
            part.non_finite.require_finite(tree_leaf)
    if outputs:
        leaves = [step for step in reachable([output._node for output in outputs])
                  if isinstance(step, Tensor)]  # fmt: skip
        starts = [ones_like(output) for output in outputs]
        with numpy.errstate(all="ignore"):  # the report tells of NaN and infinities
            gradients = grad(outputs, leaves, starts, allow_unused=True) if leaves else ()
        for leaf, gradient in zip(leaves, gradients, strict=True):
            recorder.record_leaf_gradient(leaf, gradient)
            if gradient is not None:
                part.gradient_flow.record_gradient(leaf)
    else:
        part.add(finding("no-graph", subject="no-graph"), recorder)
        for cut in part.gradient_flow.cuts:
            part.add(finding("cut", names="All parameters", how=cut.how, advice=cut.advice,
                             line=cut.line, subject=f"cut {cut.line}"), recorder)  # fmt: skip
    snapshot = recorder.snapshot = recorder.arrange() if recorder.vertices else None
    findings = [*part.loop_checks.now.values(), *part.non_finite.findings_in_order()]
    findings += (
        part.gradient_flow.findings(set(), set(), part.loop_checks.line, samples=1)
        if outputs
        else []
    )
    for item in findings:
        part.add(item, recorder if snapshot is not None else None)


def trouble(loss: Tensor | None = None, *models: Module) -> Report:
    """Read the graph behind a tensor, and report what is wrong with it.

    Without a tensor: look for all graphs that are alive, and report who keeps them.

    Args:
        loss: the tensor that backward would run on.
        models: whose parameters should be behind it; by default those of the caller's models.

    Raises: NotCheckableError: not a tensor.

    >>> w = tensor(1.0, requires_grad=True)
    >>> print(edutorch.viz.trouble((w * 3).detach() * 2))  # doctest: +ELLIPSIS
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
    findings = [*find_bad_values(loss, names), *find_bad_gradients(loss, names), *find_stale(loss),
             *find_unreached(loss, names, models)]  # fmt: skip
    return Report(snapshot, tuple(findings))


def find_unreached(loss: Tensor, names: Names, named: tuple[Any, ...]) -> list[Finding]:
    """Return findings about parameters of the models that the graph does not lead to."""
    behind = {id(step) for step in reachable([loss._node]) if isinstance(step, Tensor)}
    flow = GradientFlow(names)
    flow.with_gradient, flow.backward_ran = behind, True
    flow._ran = {id(module) for model in names.models for module in model.modules()}
    return [] if loss._node is LEAF else flow.unreached_findings(behind, bool(named))


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
