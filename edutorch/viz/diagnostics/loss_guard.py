"""Checks each loss for NaN, before backward runs on it.

Of an idle step only the loss is known. When that is NaN, it is too late to ask why: backward has
freed the graph, and with the next update all parameters are NaN. So the check comes before. It
takes a fifth of a microsecond.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from ...core.autograd.graph import reachable
from ...core.tensor import LEAF, Tensor
from ...errors import warn
from ...events import listen_backward
from ..graph.graph_reader import line_of
from ..graph.names import Names
from .graph_leaks import GraphGrowth
from .messages import Finding
from .non_finite import NonFiniteTracker
from .non_finite_causes import count_non_finite
from .saved_values import find_bad_values

if TYPE_CHECKING:
    from ..live.recorder import Recorder


class LossGuard(listen_backward):
    """Checks the loss of each backward pass before it runs; used in a `with` block.

    Args:
        growth: gets what backward runs on, in steps that are sampled fast.
    """

    def __init__(self, names: Names, recorder: Recorder, growth: GraphGrowth) -> None:
        super().__init__(self.backward_begins)
        self.names, self.recorder, self.graph_growth = names, recorder, growth
        self._suspect: Finding | None = None  # why a loss or a gradient of this step is bad
        self._known = False  # one was reported: everything later follows from it
        self.excused = False  # the last one has done no harm

    def backward_begins(self, roots: tuple[Any, ...]) -> None:
        """Check a loss, in a step that is not sampled in full."""
        recorder = self.recorder
        if recorder.sampling:
            return
        root, light = roots[0], recorder.light
        if light is not None:
            self.graph_growth.record_root(root._node)
            light.on_broken = self.explain_gradients
        array = root._array
        if array.__class__ is ndarray and array.size == 1:  # reading from a GPU waits for it
            loss = array.item()
            if loss - loss != 0:
                self._explain_loss(root)

    def _explain_loss(self, loss: Tensor) -> None:
        """Find out why a loss is bad: what the ops behind it have saved is still there."""
        self.recorder.idle.until = 0.0  # the end of this step must be handled
        if self._suspect is not None or self._known or loss._node is None:
            return
        try:
            findings = find_bad_values(loss, self.names, self._lines(loss))
        except Exception as error:  # noqa: BLE001  (it may not break the loop)
            self._known = True
            warn(f"viz: nobody knows why the loss is bad, after {type(error).__name__}: {error}")
            return
        self._suspect = next(iter(findings), None)

    def explain_gradients(self, ran: Iterable[tuple[Any, Any, Any]]) -> None:
        """Find the rule that made a bad gradient, in a step that was sampled fast.

        Args:
            ran: the nodes that backward ran through, what came in and what left them.
        """
        ran = list(ran)
        if self._suspect is None and not self._known and ran:
            tracker = NonFiniteTracker(self.names)
            tracker.blame(ran, self._lines_behind(ran[0][0]))
            self._suspect = tracker.findings.get("backward")

    def _lines(self, loss: Tensor) -> Callable[[Any], str]:
        return self._lines_behind(None if loss._node is LEAF else loss._node)

    def _lines_behind(self, root: Any) -> Callable[[Any], str]:
        """Return a function that returns the line of an op that was not recorded.

        It is the line of the same op in the last picture: the first of its name for the first, and
        so on.
        """
        lines: dict[str, list[str]] = {}
        snapshot = self.recorder.snapshot
        for node in snapshot.graph.nodes if snapshot else ():
            if node.kind in ("op", "output") and node.differentiable:
                lines.setdefault(node.label, []).append(node.line)
        indices: dict[Any, int] = {}
        counts = Counter[str]()
        for node in reachable([root]):
            if not isinstance(node, Tensor):
                indices[node] = counts[node.op.name]
                counts[node.op.name] += 1

        def line(node: Any) -> str:
            known = lines.get(node.op.name, [])
            if len(known) == counts[node.op.name] and node in indices:
                return line_of(node) or known[indices[node]]
            return line_of(node) or (known[0] if len(set(known)) == 1 else "")

        return line

    def findings(self) -> list[Finding]:
        """Return what was bad in the step that has ended, unless it has done no harm.

        With float16, a `GradScaler` leaves such an update out, and the next loss is finite.
        """
        suspect, self._suspect = self._suspect, None
        if suspect is None:
            self.excused = False
            return []
        loss = self.recorder.loss
        bad_loss = suspect.kind != "nan-gradient" and loss is not None and not math.isfinite(loss)
        leaves = (parameter for model in self.names.models for parameter in model.parameters())
        unknown = not self.names.models or not self.recorder.has_optimizer
        self._known = bad_loss or unknown or any(count_non_finite(leaf._array) for leaf in leaves)
        self.excused = not self._known
        return [suspect] if self._known else []
