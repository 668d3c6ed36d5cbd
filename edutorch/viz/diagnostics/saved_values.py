"""Reads what ops have saved for backward from a graph: where a NaN began, what is stale.

Nothing was recorded while it was computed. But most ops save an operand or their result, so the
first bad one is mostly visible, as long as backward has not run: then the graph is empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from ...autograd import grad
from ...backends.numpy import Array
from ...core.autograd.graph import Node, reachable
from ...core.tensor import LEAF, Tensor
from ...errors import EdutorchError, warn
from ...events import listen_backward
from ...modes import override_modes
from ...ops import ones_like
from ..graph.graph_reader import input_names, line_of
from ..graph.model import GraphNode, gradient_label
from ..graph.names import Names, variables
from .graph_leaks import GraphGrowth
from .messages import Finding, finding, join_names
from .non_finite import NonFiniteTracker, saved_arrays
from .non_finite_causes import (
    BACKWARD_CAUSES,
    DELIBERATE,
    DELIBERATE_OPS,
    FORWARD_CAUSES,
    Cause,
    cause_of,
    count_non_finite,
    describe_operand,
    has_nan,
)

if TYPE_CHECKING:
    from ..live.recorder import Recorder

LineOf = Callable[[Node], str]


class SavedValues:
    """The arrays that the ops behind a loss have saved: of their operands and results.

    Args:
        loss: the tensor on which backward would run.
        lines: returns the line of an op, where it was not recorded.
    """

    def __init__(self, loss: Tensor, names: Names, lines: LineOf = line_of) -> None:
        self.names, self.lines = names, lines
        self.steps = reachable([loss._node])
        self._results: dict[Any, Any] = {loss._node: loss._array}
        self._saved: dict[Any, dict[str, Any]] = {}
        for node in self.steps:
            if isinstance(node, Tensor):
                self._results[node] = node._array
                continue
            saved = self._saved[node] = saved_arrays(node)
            if "y" in saved and not node.gathers:
                self._results[node] = saved["y"]
            for name, edge in zip(input_names(node), node.edges, strict=False):
                array = saved.get(name)
                if edge is not None and getattr(array, "shape", None) == tuple(edge.shape):
                    self._results.setdefault(edge, array)

    def operands(self, node: Node) -> dict[str, Any]:
        """Return the operands of an op by name, as far as they are known."""
        operands = {
            name: value for name, value in self._saved[node].items() if name in node.op.inputs
        }
        for name, edge in zip(input_names(node), node.edges, strict=False):
            if edge is not None and edge in self._results:
                operands.setdefault(name, self._results[edge])
        return operands

    def first_bad(self) -> Finding | None:
        """Return where the first bad value came from, or None if it is not visible."""
        masks: dict[Any, Any] = {}  # ops that wrote given infinities, and their results
        for node in self.steps:
            y = self._results.get(node)
            if isinstance(node, Tensor):
                if count_non_finite(node._array):
                    return NonFiniteTracker(self.names)._input_origin(node).finding
                continue
            data = self._bad_data(node)
            if data is not None:
                return data
            operands = self.operands(node)
            nan = y is not None and has_nan(y)
            masked = {name for name, edge in zip(input_names(node), node.edges, strict=False)
                      if edge in masks}  # fmt: skip
            if any(
                count_non_finite(value) for name, value in operands.items() if name not in masked
            ):
                continue
            if y is not None and count_non_finite(y):
                if not nan and (masked or node.op.name in DELIBERATE_OPS):
                    masks[node] = y
                    continue
                why = cause_of(node.op.name, operands, y) if operands else None
                why = why or self._forward_cause(node, operands, y)
                return why and self._finding_of(node, operands, y, why)  # else the cause is unknown
            cause = self._forward_cause(node, operands, None) if y is None else None
            if cause is not None:
                return self._finding_of(node, operands, y, cause)
        for node, y in masks.items():  # and it has reached the loss
            return self._finding_of(node, self.operands(node), y, DELIBERATE)
        return None

    def _forward_cause(self, node: Node, operands: Mapping[str, Any], y: Array) -> Cause | None:
        """Return why an op has made bad values, where not all of its operands are known."""
        why = FORWARD_CAUSES.get(node.op.name)
        try:
            return None if why is None else why(operands, y)
        except (KeyError, AttributeError, TypeError, ValueError):
            return None  # not all of what it needs was saved

    def _bad_data(self, node: Node) -> Finding | None:
        """Check whether an operand that requires no gradient has a NaN in it."""
        for name, edge in zip(input_names(node), node.edges, strict=False):
            array = self._saved[node].get(name)
            if (
                edge is None
                and hasattr(array, "dtype")
                and count_non_finite(array)
                and has_nan(array)
            ):
                called = next((f"`{variable}`" for variable, value in variables(self.names.frame)
                               if getattr(value, "_array", None) is array), "The data")  # fmt: skip
                return finding("nan-data", name=called, count=f"{count_non_finite(array):,}",
                               line=self.lines(node), subject=f"nan-data {called}")  # fmt: skip
        return None

    def _finding_of(self, node: Node, operands: Mapping[str, Any], y: Array, why: Cause) -> Finding:
        what = "NaN or Inf" if y is None else "NaN" if has_nan(y) else "Inf"
        rows = tuple(describe_operand(name, value) for name, value in operands.items())
        return finding(
            "nan", what=what, op=node.op.public_name, cause=why[0], advice=why[1],
            line=self.lines(node), order=node._order, details=rows, subject=f"nan {node.op.name}",
        )  # fmt: skip


def find_bad_values(loss: Tensor, names: Names, lines: LineOf = line_of) -> list[Finding]:
    """Find the first op behind a bad loss that got good values, as far as is still known."""
    if not count_non_finite(loss._array):
        return []
    if loss._node is LEAF:
        return [NonFiniteTracker(names)._input_origin(loss).finding]
    made = SavedValues(loss, names, lines).first_bad()
    if made is not None:
        return [made]
    size = float(abs(loss._array).max())  # of the array: an op on the tensor would be recorded
    return [finding("nan-loss", loss=size, line=lines(loss._node))]


def find_bad_gradients(loss: Tensor, names: Names) -> list[Finding]:
    """Find leaves with a bad `.grad`, and the rule that made it."""
    steps = reachable([loss._node])
    leaves = [step for step in steps if isinstance(step, Tensor) and step._grad is not None
              and count_non_finite(step._grad._array)]  # fmt: skip
    if not leaves:
        return []
    made = None if count_non_finite(loss._array) else rerun_backward(loss, leaves, steps, names)
    if made is not None:
        return [made]
    paths = [gradient_label(names.path_of_leaf(leaf)) for leaf in leaves]
    cause, advice, line = suspect_rule(steps)
    count = sum(count_non_finite(leaf._grad._array) for leaf in leaves if leaf._grad is not None)
    return [finding("bad-grad", names=join_names(paths), count=f"{count:,}", cause=cause,
                    advice=advice, line=line, subject="bad-grad")]  # fmt: skip


def rerun_backward(
    loss: Tensor, leaves: list[Tensor], steps: list[Any], names: Names
) -> Finding | None:
    """Run backward once more, where the graph still allows it, and check the rules of its ops."""
    if any(step.hooks if isinstance(step, Node) else step._hooks for step in steps):
        return None  # the user's hooks would run again
    tracker = NonFiniteTracker(names)
    try:
        with override_modes(listeners=(tracker.take,)):
            grad([loss], leaves, [ones_like(loss)], retain_graph=True, allow_unused=True)
    except EdutorchError:
        return None  # the graph has been freed
    return tracker.findings.get("backward")


def suspect_rule(steps: list[Any]) -> tuple[str, str, str]:
    """Return which op could have made a bad gradient, what helps, and the op's line."""
    steep = [step for step in steps if isinstance(step, Node) and step.op.name in BACKWARD_CAUSES]
    if steep:
        why, _, advice = BACKWARD_CAUSES[steep[-1].op.name]
        return (
            f"{steep[-1].op.public_name} is on the way to it, and {why}",
            advice,
            line_of(steep[-1]),
        )
    line = next((line_of(step) for step in reversed(steps) if isinstance(step, Node)), "")
    return (
        "backward has freed the graph, so the op is not to be seen",
        "Run viz.check(function, x): it watches backward while it runs.", line,
    )  # fmt: skip


def find_stale(loss: Tensor) -> list[Finding]:
    """Find a value that an op has saved for backward, and that was changed afterwards."""
    for node in reachable([loss._node]):
        if isinstance(node, Tensor) or node.op.variadic or not isinstance(node.saved, tuple):
            continue
        for name, saved in zip(node.op.saved, node.saved, strict=False):
            writes = node.writes if name == "y" else getattr(saved, "_writes", None)
            if writes is None or writes.time <= node._order:
                continue
            if writes.may_have_changed(getattr(saved, "_array", saved), node._order):
                return [finding("stale", op=node.op.public_name, name=name, line=line_of(node),
                                order=node._order, subject="stale")]  # fmt: skip
    return []


# Before backward --------------------------------------------------------------------------
#
# Of an idle step only the loss is known. When that is NaN, it is too late to ask why: backward has
# freed the graph, and with the next update all parameters are NaN. So the check comes before. It
# takes a fifth of a microsecond.


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
        self.picture_indices: dict[int, int] = {}  # order of an op -> index of it in the picture

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

    def _lines_behind(self, root: Node | None) -> Callable[[Any], str]:
        """Return a function that returns the line of an op that was not recorded.

        It is the line of the same op in the last picture.
        """
        snapshot = self.recorder.snapshot
        nodes = snapshot.graph.nodes if snapshot else ()
        lines: dict[str, set[str]] = {}
        for node in nodes:
            if has_gradient_rule(node):
                lines.setdefault(node.label, set()).add(node.line)
        same = find_same_ops(root, nodes)
        self.picture_indices = {node._order: index for node, index in same.items()}

        def line(node: Node) -> str:
            if node in same:
                return line_of(node) or nodes[same[node]].line
            known = lines.get(node.op.name, set())
            return line_of(node) or (next(iter(known)) if len(known) == 1 else "")

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


def find_same_ops(root: Node | None, nodes: Sequence[GraphNode]) -> dict[Node, int]:
    """Find the ops behind a node in a picture: the first of a name is the first of that name there.

    Names that occur more often in one of the two are left out.
    """
    indices: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        if has_gradient_rule(node):
            indices.setdefault(node.label, []).append(index)
    ops: dict[str, list[Node]] = {}
    for node in reachable([root]):
        if not isinstance(node, Tensor):
            ops.setdefault(node.op.name, []).append(node)
    return {
        node: index
        for name, group in ops.items()
        if len(group) == len(indices.get(name, ()))
        for node, index in zip(group, indices[name], strict=True)
    }


def has_gradient_rule(node: GraphNode) -> bool:
    """Return whether a node of a picture is an op that backward runs through."""
    return node.kind in ("op", "output") and node.differentiable
