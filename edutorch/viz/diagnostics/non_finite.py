"""Finds where the first NaN or infinity was made, in forward and in backward.

Each result is looked at once (one sum over it). A bad one is either made here, or it came from a
bad operand: then it has the same origin. So when the loss is bad, its origin is already known.
An infinity that a mask put there on purpose is no trouble, unless a NaN comes of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...core.fast.lazy_gradients import as_array
from ...core.source_location import user_location
from ...core.tensor import LEAF, Tensor
from ...events import GradientAccumulated, OpApplied, WorkEnded, WorkStarted
from ..graph.graph_reader import input_names, line_of, line_text
from ..graph.model import qualified_name
from ..graph.names import Names
from .messages import Finding, finding
from .non_finite_causes import (
    DELIBERATE_OPS,
    count_non_finite,
    cause_in_backward,
    cause_of,
    describe_operand,
    has_nan,
    as_plain_array,
)


@dataclass
class Origin:
    """Where something bad was made first; `masked`: on purpose."""

    finding: Finding
    nan: bool
    masked: bool = False


class NonFiniteTracker:
    """Hears all ops of a step and remembers of bad tensors where their numbers went bad."""

    hears = (OpApplied, WorkStarted, WorkEnded, GradientAccumulated)
    works = ("node", "backward")

    def __init__(self, names: Names) -> None:
        self.names = names
        self.found: dict[str, Finding] = {}  # by way: forward, backward
        self._origins: dict[int, tuple[weakref.ref[Any], Origin]] = {}
        self._incoming: list[Any] = []  # of the nodes that run backward now, innermost last
        self._blamed = False  # a rule of this backward made the first bad gradient
        self._leaves = []

    def forget(self) -> None:
        """Begin a new step."""
        self.found, self._origins, self._incoming = {}, {}, []
        self._blamed = False
        self._leaves: list[weakref.ref[Tensor]] = []  # whose gradients were bad

    def found_in_order(self) -> list[Finding]:
        """Return what is trouble in this step: what happened first comes first."""
        return [self.found[way] for way in ("forward", "backward") if way in self.found]

    def take(self, event: Any) -> None:
        """Hear an event."""
        kind = type(event)
        if kind is OpApplied:
            outputs = event.output if isinstance(event.output, tuple) else (event.output,)
            for output in outputs:
                self._made(event, output)
        elif kind is WorkStarted and event.kind == "node":
            self._incoming.append(event.inputs[0])
        elif kind is WorkEnded and event.kind == "node" and self._incoming:
            g = self._incoming.pop()
            if not event.failed and not self._blamed:
                self._went_back(event, g)
        elif kind is WorkStarted and event.kind == "backward":
            self._blamed = False
        elif kind is GradientAccumulated and self._blamed and event.gradient is not None:
            self.received(event.tensor, event.gradient)

    # Forward ----------------------------------------------------------------------------

    def _made(self, event: OpApplied, output: Tensor) -> None:
        """Look at one result."""
        array = output._array
        if not count_non_finite(array):
            return
        nan = has_nan(array)
        origin = self._inherited(event, nan)
        if origin is None:
            origin = self._born(event, output, nan)
        self._remember(output, origin)

    def _remember(self, tensor: Tensor, origin: Origin) -> None:
        self._origins[id(tensor)] = weakref.ref(tensor), origin

    def origin(self, tensor: Any, line: str = "") -> Origin | None:
        """Return where the bad numbers of a tensor came from.

        Args:
            line: of the user's code that uses it, in case it came in with them.
        """
        known = self._origins.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        if not isinstance(tensor, Tensor) or not count_non_finite(tensor._array):
            return None
        origin = self._came_in(tensor, line)  # it was there before the step
        self._remember(tensor, origin)
        return origin

    def _came_in(self, tensor: Tensor, line: str = "") -> Origin:
        kind, module, label = self.names.of(tensor)
        name = "The data" if (module, label) == ("", "data") else f"`{qualified_name(module, label)}`"
        nan = has_nan(tensor._array)
        number = f"{count_non_finite(tensor._array):,}"
        what = "nan-parameter" if kind == "parameter" else "nan-data"
        return Origin(
            finding(what, name=name, count=number, line=line, subject=f"nan-data {name}"),
            nan,
            masked=not nan and kind != "parameter",
        )

    def _inherited(self, event: OpApplied, nan: bool) -> Origin | None:
        """Return the origin of a bad operand, if that explains the result."""
        line = line_text(user_location())
        origins = [each for each in (self.origin(given, line) for given in event.inputs)
                   if each is not None]  # fmt: skip
        if not origins:
            return None
        first = next((origin for origin in origins if origin.nan), origins[0])
        if nan and not first.nan and first.masked:
            return None  # a mask is no explanation for a NaN
        return first if first.nan or not nan else Origin(first.finding, True)

    def _born(self, event: OpApplied, output: Tensor, nan: bool) -> Origin:
        """Describe what an op has made of good operands."""
        op = event.op
        names = list(op.inputs)
        if op.variadic:
            names = [f"{op.inputs[0]}[{index}]" for index in range(len(event.inputs))]
        operands = {
            name: getattr(given, "_array", given)
            for name, given in zip(names, event.inputs, strict=True)
            if given is not None
        }
        cause, advice = cause_of(op.name, operands, as_plain_array(output._array))
        rows = tuple(
            describe_operand(self._called(name, given), operands[name])
            for name, given in zip(names, event.inputs, strict=True) if name in operands
        )  # fmt: skip
        made = finding(
            "nan", what="NaN" if nan else "Inf", op=op.public_name, cause=cause, advice=advice,
            line=line_of(event.node) if event.node is not None else "",
            order=0 if event.node is None else event.node._order,
            details=rows, subject=f"nan {op.name}",
        )  # fmt: skip
        return Origin(made, nan, masked=not nan and op.name in DELIBERATE_OPS)

    def _called(self, argument: str, given: Any) -> str:
        """Write what an operand is called: `argument`, and by its own name if it has one."""
        if not isinstance(given, Tensor):
            return argument
        if given._node is not None and given._node is not LEAF:
            return f"{argument} from {given._node.op.public_name}"
        path = self.names.path_of_leaf(given)
        return argument if path in ("data", "leaf") else f"{argument} = {path}"

    def reached(self, tensor: Tensor) -> None:
        """Say that a tensor matters: the loss, or a result that is asked about."""
        origin = self.origin(tensor)
        lost = tensor._array.size == 1 and count_non_finite(tensor._array)  # a loss, behind all masks
        if origin is not None and (not origin.masked or lost):
            self.found.setdefault("forward", origin.finding)

    # Backward ---------------------------------------------------------------------------

    def _went_back(self, event: WorkEnded, g: Any) -> None:
        """Look at what left a node; if it is bad and what came in is not, its rule made it."""
        partials = event.result or ()
        node = event.subject
        gradients = (each for each in map(gradient_array, partials) if each is not None)
        if not any(map(count_non_finite, gradients)):
            return
        self._blamed = True
        incoming = gradient_array(g)
        if incoming is None or count_non_finite(incoming):
            return  # it was handed in: the loss itself says why
        self._rule_of(node, incoming, partials, line_of(node))

    def _rule_of(self, node: Any, incoming: Any, partials: Any, line: str) -> None:
        """Say why the rule of a node made something bad of a good gradient."""
        values = saved_arrays(node)
        cause, advice = cause_in_backward(node.op.name, values, incoming)
        rows = [describe_operand("incoming gradient", incoming)]
        rows += [describe_operand("result" if name == "y" else name, value)
                 for name, value in values.items() if name in (*node.op.inputs, "y")]  # fmt: skip
        arrays = zip(input_names(node), map(gradient_array, partials), strict=False)
        bad = {name: each for name, each in arrays if each is not None and count_non_finite(each)}
        nan = any(map(has_nan, bad.values()))
        rows.append(f"bad: the gradient towards {', '.join(bad)}")
        self.found["backward"] = finding(
            "nan-gradient", what="NaN" if nan else "Inf", op=node.op.public_name, cause=cause,
            advice=advice, line=line, order=node._order, details=tuple(rows),
            subject=f"nan-gradient {node.op.name}",
        )  # fmt: skip

    def received(self, leaf: Tensor, gradient: Any) -> None:
        """Note a leaf that a bad gradient has reached."""
        array = gradient_array(gradient)
        if array is not None and count_non_finite(array):
            self._leaves.append(weakref.ref(leaf))

    def does_harm(self) -> bool:
        """Whether bad gradients of this step are still there, or in the parameters.

        With float16, a `GradScaler` finds them, and leaves the update out: that is its work.
        """
        leaves = (reference() for reference in self._leaves)
        return any(
            count_non_finite(leaf._array) or (leaf._grad is not None and count_non_finite(leaf._grad._array))
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
            if any(count_non_finite(array) for array in map(gradient_array, partials) if array is not None):
                incoming = gradient_array(as_array(g))
                if incoming is not None and not count_non_finite(incoming):
                    self._rule_of(node, incoming, partials, lines(node))
                return


def gradient_array(gradient: Any) -> Any:
    """Return the array of a gradient; of those of several outputs, the first."""
    array = getattr(gradient, "_array", gradient)
    if hasattr(array, "by_output"):
        array = next(iter(array.by_output.values()), None)
        array = getattr(array, "_array", array)
    return None if array is None else as_plain_array(array)


def saved_arrays(node: Any) -> dict[str, Any]:
    """Return the arrays and numbers that a node has kept for its rules, by name."""
    if node.op.variadic or not isinstance(node.saved, tuple):
        return {}
    pairs = zip(node.op.saved, node.saved, strict=False)
    found = ((name, getattr(saved, "_array", saved)) for name, saved in pairs)
    return {name: value for name, value in found
            if hasattr(value, "dtype") or isinstance(value, int | float)}  # fmt: skip
