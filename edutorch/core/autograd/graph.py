"""The graph that is recorded in the forward pass, and walked back by `engine.py`.

In the forward pass every op records a `Node` (`record`): the op, the nodes that its inputs came
from (`edges`) and the values that its derivative rules name (`saved`). In the backward pass the
node applies these rules: `Node.backward` is the readable form, in place of which each op gets one
that is generated from its rules (`Op.choose_path`, `fast/backward_codegen.py`). `reference.py` is
the backward pass by the textbook. One clock numbers the nodes, and it also stamps every
in-place write. Two things follow from that number:

* A node is always younger than the nodes it was computed from. Running the
  youngest first is therefore a correct order, and no counting is needed.
* A saved value is stale exactly if it was written to after its node was made.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from ... import backends
from ...backends.numpy import Array, ArrayOrTensor, Stored
from ...dtypes import STORED
from ...errors import CodeLocation, Source, read_line
from ...events import GradientAccumulated, emit
from ...modes import current
from ..precision import widen_for_rules
from ..shapes import keepdim_shape
from . import versions
from .versions import VersionCounter, clock, refuse_stale_index, second_backward, stale_value

if TYPE_CHECKING:
    from ..op import Op
    from ..tensor import Tensor


class Leaf:
    """The value of `Tensor._node` of a leaf that requires grad."""

    def __repr__(self) -> str:
        return "LEAF"


LEAF = Leaf()


def fill(tensor: Tensor, array: Array) -> Tensor:
    """Set every slot of a new tensor that holds `array` and has no history."""
    if array.__class__ is ndarray and array.dtype in STORED:
        array = array.view(Stored)
    tensor._array = array
    tensor._node = tensor._grad = tensor._writes = tensor._base = tensor._hooks = None
    return tensor


def edge_of(value: Any) -> Any:
    """Return the edge to an operand: its node, a leaf itself, None where no gradient is needed."""
    node = getattr(value, "_node", None)  # a number has none
    return value if node is LEAF else node


def array_of(value: Any) -> Any:
    """Return a tensor's array; anything else unchanged."""
    return getattr(value, "_array", value)


class RemovableHandle:
    """A handle that removes its hook: by `handle.remove()`, or at the end of a `with` block."""

    _ids = itertools.count()

    def __init__(self, hooks: dict[int, Any], hook: Callable[..., Any]) -> None:
        self.hooks = hooks
        self.id = next(self._ids)
        while self.id in hooks:  # hooks that were loaded from a file keep their ids
            self.id = next(self._ids)
        hooks[self.id] = hook

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        self.hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class Hooks:
    """The hooks of a node or a leaf, in the order in which backward calls them."""

    __slots__ = ("accumulated", "after", "before", "gradient", "retain")

    def __init__(self) -> None:
        self.gradient: dict[int, Any] = {}  # of the tensor: hook(gradient)
        self.before: dict[int, Any] = {}  # of the node: hook(gradients of its outputs)
        self.retain: dict[int, Any] = {}  # see `Tensor.retain_grad`
        self.after: dict[int, Any] = {}  # of the node: hook(gradients of inputs, of outputs)
        self.accumulated: dict[int, Any] = {}  # of a leaf, once `.grad` is new: hook(leaf)


class Node:
    """One recorded op: a step of the backward pass.

    `edges` holds, for each differentiable input, the node it came from, the leaf
    tensor itself, or None where no gradient is needed. `shape` and `dtype` are
    the output's. `saved` is emptied once backward has used it, if it `holds` arrays.
    """

    __slots__ = (
        "__weakref__", "_notes", "_order", "dtype", "edges", "hooks", "saved", "scalars", "shape",
        "writes",
    )  # fmt: skip

    op: Op
    origin: type[Node]  # its type, before a composed function gave it a name (`composed.py`)
    holds = False
    gathers = False  # several outputs' gradients arrive together, as `OutputGradients`
    _order: int
    edges: tuple[Node | Tensor | None, ...]
    saved: tuple[Any, ...] | None
    shape: tuple[int, ...]
    dtype: Any
    hooks: Hooks | None
    scalars: tuple[tuple[str, float], ...]  # Python numbers among the inputs; unset without any
    writes: VersionCounter | None  # the output's, once it has some: see `tensor.writes_of`
    _notes: dict[str, Any]  # what only some nodes have; unset until `notes` is asked for
    restore_result: Callable[[Any], Tensor]  # attached by `tensor.py`

    def __init_subclass__(cls) -> None:
        cls.origin = cls.__dict__.get("origin", cls)

    def backward(self, g: ArrayOrTensor, edges: tuple[Any, ...], recording: bool) -> Sequence[Any]:
        """Apply the chain rule: return the gradient of each edge, from that of the output.

        Args:
            g: the gradient of the output.
            edges: those whose gradient is wanted; None for the others.
            recording: whether the rules are given tensors, so that what they do is recorded too.
        """
        op = self.op
        values = {"g": g, "node": self, **self.saved_values(recording)}
        if g.dtype.itemsize == 2:
            values |= widen_for_rules(op, values)
        if op.family.reduces:  # g and y as if the reduced dims had been kept: they broadcast
            shape = keepdim_shape(values["input_shape"], values["dim"])
            for name in values.keys() & {"g", "y"}:
                values[name] = values[name].reshape(shape)
        if op.joint_rule is not None:  # one rule for all inputs, or for all tensors of a list
            partials = op.joint_rule.function(*map(values.get, op.joint_rule.parameters))
            return [None if edge is None else g for g, edge in zip(partials, edges, strict=True)]
        return [
            None if edge is None or rule is None
            else rule.function(*map(values.get, rule.parameters))
            for rule, edge in zip(map(op.rules.get, op.inputs), edges, strict=True)
        ]  # fmt: skip

    def saved_values(self, recording: bool) -> dict[str, Any]:
        """Return what the rules need of the forward pass: arrays, or tensors if `recording`.

        Raises: GradientError: it was freed. StaleValueError: it was written to in the meantime.
        """
        if self.saved is None:
            raise second_backward(self)
        values = dict(zip(self.op.saved, self.saved, strict=True))
        for name, value in values.items():
            if name == "y":
                self.refuse_stale("the result", self.writes, value)
                values[name] = self.restore_result(value) if recording else value
            elif name in self.op.inputs:
                for tensor in value if self.op.variadic else (value,):
                    self.refuse_stale(name, getattr(tensor, "_writes", None), array_of(tensor))
                if not recording:
                    values[name] = [*map(array_of, value)] if self.op.variadic else array_of(value)
            elif name in self.op.copied:
                refuse_stale_index(self, name, value)
        return values

    def refuse_stale(self, name: str, writes: VersionCounter | None, array: Array) -> None:
        """Raise StaleValueError if `array` was written to after this node saved it."""
        if writes is None or writes.time <= self._order:
            return
        if writes.may_have_changed(array, self._order):  # takes longer: it compares regions
            raise stale_value(self, name, writes)

    def name(self) -> str:
        """Return PyTorch's name for this node, such as 'MulBackward0'."""
        return type(self).__name__

    def public_node(self) -> tuple[Node, int]:
        """Return the node that users see for this one, and the index of its output."""
        return self, 0

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that receive its gradients, each with the index of its output."""
        return tuple(
            edge.public_node() if isinstance(edge, Node)
            else (None if edge is None else AccumulateGrad(edge), 0)
            for edge in self.edges
        )  # fmt: skip

    @property
    def notes(self) -> dict[str, Any]:
        """Further data of this node: its source location, its tangents, …"""
        try:
            return self._notes
        except AttributeError:
            self._notes = {}
            return self._notes

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for the user's own data about this node."""
        return self.notes.setdefault("metadata", {})

    @property
    def source(self) -> Source | None:
        """The user's line that computed it: (file, line, text), if it was recorded."""
        location = self.notes.get("location")
        return None if location is None else read_line(location)

    @property
    def formulas(self) -> dict[str, str]:
        """The LaTeX of its derivative rules, by input."""
        return self.op.formulas

    def _sequence_nr(self) -> int:
        """Return its index in the order of recording."""
        return self._order

    def add_hook(self, slot: str, hook: Callable[..., Any]) -> RemovableHandle:
        """Add a hook to one of the slots of `Hooks`."""
        self.hooks = self.hooks or Hooks()
        return RemovableHandle(getattr(self.hooks, slot), hook)

    def register_prehook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call `hook(grad_outputs)` before this node runs; a tuple it returns replaces them."""
        return self.add_hook("before", hook)

    def register_hook(self, hook: Callable[[Any, Any], Any]) -> RemovableHandle:
        """Call `hook(grad_inputs, grad_outputs)` after this node has run.

        Both are tuples with None where there is no gradient. A tuple that the hook
        returns replaces `grad_inputs`.
        """
        return self.add_hook("after", hook)

    def __repr__(self) -> str:
        return f"<{self.name()}>"


def record(op: Op, output: Tensor, values: dict[str, Any]) -> None:
    """Give an output the node of the op that computed it.

    (`fast/call_codegen.py` writes these lines anew for each op, with the names filled in.)

    Args:
        values: the inputs, the settings and the arrays of further outputs, by name.
    """
    inputs = values[op.inputs[0]] if op.variadic else [values[name] for name in op.inputs]
    node = (op.node_type if op.choose_node is None else op.choose_node(values))()
    node._order, node.edges = clock(), tuple(edge_of(value) for value in inputs)
    y = output._array
    node.saved = tuple(value_to_save(op, name, values, y) for name in op.saved)
    for value in (*inputs, *values.values()):  # they may be saved: `numpy()` asks since when
        if hasattr(value, "_writes"):
            value._saved_at = node._order
    node.shape, node.dtype, node.hooks, node.writes = y.shape, y.dtype, None, None
    scalars = [name for name in op.inputs[1:] if values[name].__class__ in (int, float)]
    if scalars:  # for pictures, which write `x * 2`: a rule may not need the number
        node.scalars = tuple((name, values[name]) for name in scalars if name in op.scalars)
    output._node = node


def value_to_save(op: Op, name: str, values: dict[str, Any], y: Array) -> Any:
    """Return what a node saves under a name that the rules of its op use."""
    if name == "y":
        return y  # the array: the tensor holds the node, and both would be a reference cycle
    if name.endswith("_shape"):
        value = values[name.removesuffix("_shape")]
        shapes = [array_of(item).shape for item in value] if op.variadic else None
        return shapes or getattr(array_of(value), "shape", ())
    if name not in op.inputs:
        return values[name]
    if op.variadic:
        return tuple(values[name])
    users = [values[user] for user, rule in op.rules.items() if name in rule.parameters]
    is_used = len(users) == len(op.inputs) or any(edge_of(user) is not None for user in users)
    return values[name] if is_used else None


# Leaves ---------------------------------------------------------------------------------


class AccumulateGrad:
    """The node of a leaf, for hooks. `accumulate` below adds the gradient to `variable.grad`."""

    __slots__ = ("variable",)
    next_functions = ()

    def register_prehook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call `hook(grad_outputs)` before the gradient is added to `variable.grad`."""
        return self.variable._add_hook("before", hook)

    def register_hook(self, hook: Callable[[Any, Any], Any]) -> RemovableHandle:
        """Call `hook((), grad_outputs)` after the gradient was added to `variable.grad`."""
        return self.variable._add_hook("after", hook)

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    def name(self) -> str:
        """Return 'AccumulateGrad'."""
        return "AccumulateGrad"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and self.variable is other.variable

    def __hash__(self) -> int:
        return id(self.variable)

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


ACCUMULATE_LOCK = threading.RLock()
"""Serializes threads that run backward into the same leaf."""


def accumulate(
    leaf: Tensor, g: Tensor, recording: bool = False, location: CodeLocation | None = None
) -> None:
    """Add the gradient of one backward pass to `leaf.grad`; the first one becomes it.

    Args: location: of the user's line, by default that of the call.
    """
    with ACCUMULATE_LOCK:
        total = leaf._grad
        if total is None:
            leaf._grad = g
        elif recording or total.is_sparse or g.is_sparse:
            # (A dense tensor comes first: dense + sparse is dense.)
            leaf._grad = g + total if total.is_sparse and not g.is_sparse else total + g
        else:
            if backends.switched_cards:
                backends.cards.select_card_of(total._array)
            total._array += g._array  # in place: an optimizer may hold the tensor
            total._bump(location)
    if current().listeners:
        emit(GradientAccumulated(leaf, g if recording else g._array))
    if leaf._hooks:
        for hook in tuple(leaf._hooks.accumulated.values()):
            hook(leaf)


# Walking the graph ----------------------------------------------------------------------


def reachable(roots: Sequence[Any], since: int = 0) -> list[Any]:
    """Return every node and leaf behind `roots` that is not older than `since`, oldest first."""
    seen, stack = set(), [root for root in roots if root is not None]
    while stack:
        edge = stack.pop()
        if edge not in seen and edge._order >= since:
            seen.add(edge)
            if edge._order:
                stack.extend(step for step in edge.edges if step is not None)
    return sorted(seen, key=lambda edge: edge._order)


def edges_leading_to(roots: Sequence[Any], targets: Sequence[Any]) -> set[Any]:
    """Return the targets and all nodes from which one of them can be reached."""
    wanted = set(targets)
    since = min((target._order for target in targets), default=0)
    for edge in reachable(roots, since):
        if edge._order and any(step in wanted for step in edge.edges if step is not None):
            wanted.add(edge)
    return wanted


# `typing.get_type_hints` looks it up there.
versions.Node = Node  # type: ignore[attr-defined]
