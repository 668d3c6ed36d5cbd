"""Finds where the first NaN or infinity was made, in forward and in backward.

Each result is checked once (one sum over it). A non-finite one is either made here, or it came from
a bad operand: then it has the same origin. So when the loss is bad, its origin is already known.
An infinity that a mask put there on purpose is no trouble, unless a NaN comes of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...backends.numpy import Array
from ...core.autograd.graph import Node
from ...core.fast.lazy_gradients import as_array
from ...core.tensor import LEAF, Tensor
from ...errors import user_location
from ...events import GradientAccumulated, OpApplied, WorkEnded, WorkStarted
from ..graph.graph_reader import input_names, line_of, line_text
from ..graph.model import qualified_name
from ..graph.names import Names
from ..tensors.summaries import stored_elements
from .messages import Finding, finding
from .non_finite_causes import (
    DELIBERATE_OPS,
    cause_in_backward,
    cause_of,
    count_non_finite,
    describe_operand,
    has_nan,
)


@dataclass
class Origin:
    """Where something non-finite was made first; `masked`: on purpose."""

    finding: Finding
    nan: bool
    masked: bool = False


class NonFiniteTracker:
    """Follows all ops of a step and remembers where tensors became non-finite."""

    event_types = (OpApplied, WorkStarted, WorkEnded, GradientAccumulated)
    work_kinds = ("node", "backward")

    def __init__(self, names: Names) -> None:
        self.names = names
        self.findings: dict[str, Finding] = {}  # by pass: forward, backward
        self._origins: dict[int, tuple[weakref.ref[Any], Origin]] = {}
        self._incoming: list[Any] = []  # of the nodes that run backward now, innermost last
        self._is_blamed = False  # a rule of this backward made the first bad gradient
        self._leaves = []

    def forget(self) -> None:
        """Begin a new step."""
        self.findings, self._origins, self._incoming = {}, {}, []
        self._is_blamed = False
        self._leaves: list[weakref.ref[Tensor]] = []  # whose gradients were bad

    def findings_in_order(self) -> list[Finding]:
        """Return the findings of this step in the order in which they happened."""
        return [self.findings[way] for way in ("forward", "backward") if way in self.findings]

    def take(self, event: Any) -> None:
        """Handle an event."""
        event_type = type(event)
        if event_type is OpApplied:
            outputs = event.output if isinstance(event.output, tuple) else (event.output,)
            for output in outputs:
                self._check_result(event, output)
        elif event_type is WorkStarted and event.kind == "node":
            self._incoming.append(event.inputs[0])
        elif event_type is WorkEnded and event.kind == "node" and self._incoming:
            g = self._incoming.pop()
            if not event.failed and not self._is_blamed:
                self._check_rule(event, g)
        elif event_type is WorkStarted and event.kind == "backward":
            self._is_blamed = False
        elif event_type is GradientAccumulated and self._is_blamed and event.gradient is not None:
            self.record_gradient(event.tensor, event.gradient)

    # Forward ----------------------------------------------------------------------------

    def _check_result(self, event: OpApplied, output: Tensor) -> None:
        """Check one result."""
        array = output._array
        if not count_non_finite(array):
            return
        nan = has_nan(array)
        origin = self._inherited_origin(event, nan)
        if origin is None:
            origin = self._new_origin(event, output, nan)
        self._remember(output, origin)

    def _remember(self, tensor: Tensor, origin: Origin) -> None:
        self._origins[id(tensor)] = weakref.ref(tensor), origin

    def origin(self, tensor: Tensor, line: str = "") -> Origin | None:
        """Return where the non-finite values of a tensor came from.

        Args:
            line: the line of the user's code that uses it, in case it came in with them.
        """
        known = self._origins.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        if not isinstance(tensor, Tensor) or not count_non_finite(tensor._array):
            return None
        origin = self._input_origin(tensor, line)  # it was bad before the step
        self._remember(tensor, origin)
        return origin

    def _input_origin(self, tensor: Tensor, line: str = "") -> Origin:
        role, module, label = self.names.of(tensor)
        name = (
            "The data" if (module, label) == ("", "data") else f"`{qualified_name(module, label)}`"
        )
        nan = has_nan(tensor._array)
        number = f"{count_non_finite(tensor._array):,}"
        what = "nan-parameter" if role == "parameter" else "nan-data"
        return Origin(
            finding(what, name=name, count=number, line=line, subject=f"nan-data {name}"),
            nan,
            masked=not nan and role != "parameter",
        )

    def _inherited_origin(self, event: OpApplied, nan: bool) -> Origin | None:
        """Return the origin of a bad operand, if that explains the result."""
        line = line_text(user_location())
        origins = [origin for origin in (self.origin(operand, line) for operand in event.inputs)
                   if origin is not None]  # fmt: skip
        if not origins:
            return None
        first = next((origin for origin in origins if origin.nan), origins[0])
        if nan and not first.nan and first.masked:
            return None  # a mask is no explanation for a NaN
        return first if first.nan or not nan else Origin(first.finding, True)

    def _new_origin(self, event: OpApplied, output: Tensor, nan: bool) -> Origin:
        """Describe what an op has made of good operands."""
        op = event.op
        names = list(op.inputs)
        if op.variadic:
            names = [f"{op.inputs[0]}[{index}]" for index in range(len(event.inputs))]
        operands = {
            name: getattr(operand, "_array", operand)
            for name, operand in zip(names, event.inputs, strict=True)
            if operand is not None
        }
        cause, advice = cause_of(op.name, operands, stored_elements(output._array))
        rows = tuple(
            describe_operand(self._operand_name(name, operand), operands[name])
            for name, operand in zip(names, event.inputs, strict=True) if name in operands
        )  # fmt: skip
        made = finding(
            "nan", what="NaN" if nan else "Inf", op=op.public_name, cause=cause, advice=advice,
            line=line_of(event.node) if event.node is not None else "",
            order=0 if event.node is None else event.node._order,
            details=rows, subject=f"nan {op.name}",
        )  # fmt: skip
        return Origin(made, nan, masked=not nan and op.name in DELIBERATE_OPS)

    def _operand_name(self, argument: str, operand: object) -> str:
        """Return the name of an operand: `argument`, and its own name if it has one."""
        if not isinstance(operand, Tensor):
            return argument
        if operand._node is not None and operand._node is not LEAF:
            return f"{argument} from {operand._node.op.public_name}"
        path = self.names.path_of_leaf(operand)
        return argument if path in ("data", "leaf") else f"{argument} = {path}"

    def require_finite(self, tensor: Tensor) -> None:
        """Report a tensor that matters, if it is bad: the loss, or a result that is checked."""
        origin = self.origin(tensor)
        lost = tensor._array.size == 1 and count_non_finite(
            tensor._array
        )  # a loss, behind all masks
        if origin is not None and (not origin.masked or lost):
            self.findings.setdefault("forward", origin.finding)

    # Backward ---------------------------------------------------------------------------

    def _check_rule(self, event: WorkEnded, g: Array) -> None:
        """Check what left a node; if it is bad and what came in is not, its rule made it."""
        partials = event.result or ()
        node = event.subject
        gradients = (array for array in map(gradient_array, partials) if array is not None)
        if not any(map(count_non_finite, gradients)):
            return
        self._is_blamed = True
        incoming = gradient_array(g)
        if incoming is None or count_non_finite(incoming):
            return  # it came in: the loss itself shows why
        self._blame_rule(node, incoming, partials, line_of(node))

    def _blame_rule(self, node: Node, incoming: Array, partials: Sequence[Any], line: str) -> None:
        """Report why the rule of a node made something bad of a good gradient."""
        values = saved_arrays(node)
        cause, advice = cause_in_backward(node.op.name, values, incoming)
        rows = [describe_operand("incoming gradient", incoming)]
        rows += [describe_operand("result" if name == "y" else name, value)
                 for name, value in values.items() if name in (*node.op.inputs, "y")]  # fmt: skip
        arrays = zip(input_names(node), map(gradient_array, partials), strict=False)
        bad = {name: array for name, array in arrays
               if array is not None and count_non_finite(array)}  # fmt: skip
        nan = any(map(has_nan, bad.values()))
        rows.append(f"bad: the gradient towards {', '.join(bad)}")
        self.findings["backward"] = finding(
            "nan-gradient", what="NaN" if nan else "Inf", op=node.op.public_name, cause=cause,
            advice=advice, line=line, order=node._order, details=tuple(rows),
            subject=f"nan-gradient {node.op.name}",
        )  # fmt: skip

    def record_gradient(self, leaf: Tensor, gradient: Tensor | Array) -> None:
        """Record a leaf that a bad gradient has reached."""
        array = gradient_array(gradient)
        if array is not None and count_non_finite(array):
            self._leaves.append(weakref.ref(leaf))

    def does_harm(self) -> bool:
        """Return True if bad gradients of this step are still there, or in the parameters.

        With float16, a `GradScaler` finds them, and leaves the update out: that is its purpose.
        """
        leaves = (reference() for reference in self._leaves)
        return any(
            count_non_finite(leaf._array)
            or (leaf._grad is not None and count_non_finite(leaf._grad._array))
            for leaf in leaves if leaf is not None
        )  # fmt: skip

    def blame(self, ran: Iterable[tuple[Any, Any, Any]], lines: Callable[[Any], str]) -> None:
        """Find the first rule that made a bad gradient among nodes that backward ran through.

        Args:
            ran: each node, the gradient that came in, and what left it.
            lines: returns the line of an op.
        """
        for node, g, partials in ran:
            partials = [as_array(partial) for partial in partials or ()]
            if any(
                count_non_finite(array)
                for array in map(gradient_array, partials)
                if array is not None
            ):
                incoming = gradient_array(as_array(g))
                if incoming is not None and not count_non_finite(incoming):
                    self._blame_rule(node, incoming, partials, lines(node))
                return


def gradient_array(gradient: Tensor | Array) -> Any:
    """Return the array of a gradient; of those of several outputs, the first."""
    array = getattr(gradient, "_array", gradient)
    if hasattr(array, "by_output"):
        array = next(iter(array.by_output.values()), None)
        array = getattr(array, "_array", array)
    return None if array is None else stored_elements(array)


def saved_arrays(node: Node) -> dict[str, Any]:
    """Return the arrays and numbers that a node has saved for its rules, by name."""
    if node.op.variadic or not isinstance(node.saved, tuple):
        return {}
    pairs = zip(node.op.saved, node.saved, strict=False)
    arrays = ((name, getattr(saved, "_array", saved)) for name, saved in pairs)
    return {name: value for name, value in arrays
            if hasattr(value, "dtype") or isinstance(value, int | float)}  # fmt: skip
