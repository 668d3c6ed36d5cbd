"""Finds parameters that get no gradient, and where the chain to them is cut.

The graph does not know what was taken out of it: a detached tensor looks like any data. But it
shares the memory of a result, and an op that records nothing though its operands do is visible.
Only what leaves the framework (`.item()`, `.tolist()`, a NumPy copy) is out of sight.

A module knows the modules and parameters that are its attributes. It does not know what is in a
plain list, tuple or dict, or a tensor that is no `nn.Parameter`: no optimizer gets them, and
`state_dict` leaves them out. Hiding a module like this may be intended (a teacher). So only those
are reported that the loss depends on, and that no optimizer has.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ...backends.numpy import Array, Shared
from ...core.tensor import LEAF, Tensor
from ...errors import CodeLocation, user_location
from ...events import (
    GradientAccumulated,
    ModuleEntered,
    OpApplied,
    TensorAliased,
    WorkEnded,
    WorkStarted,
)
from ...modes import current
from ..graph.graph_reader import line_text
from ..graph.names import Names
from .messages import Finding, finding, join_names

MOST_CUTS = 20
"""In one step no more cuts than this are followed back to the parameters behind them."""

MOST_WALKED = 3000
"""…and no more ops behind each."""

MIN_SAMPLES = 3
"""A parameter is called unused after this many steps without a gradient."""


@dataclass
class Cut:
    """A position where the chain ends: how, and whose gradients it stops."""

    how: str
    advice: str
    line: str
    leaves: set[int] = field(default_factory=set)


class GradientFlow:
    """Follows the ops of a step, and which leaves get a gradient."""

    event_types = (
        OpApplied, GradientAccumulated, ModuleEntered, TensorAliased, WorkStarted, WorkEnded,
    )  # fmt: skip
    work_kinds = ("backward", "node")

    def __init__(self, names: Names) -> None:
        self.names = names
        self._missed: dict[int, int] = {}  # parameter -> steps without a gradient
        self._ever: set[int] = set()
        self._ran: set[int] = set()  # modules
        self._known: dict[Any, Cut] = {}  # cuts by location: each is walked once
        self.forget()

    def forget(self) -> None:
        """Begin a new step."""
        self.with_gradient: set[int] = set()  # leaves that have a gradient
        self._double: set[int] = set()  # ops recorded while backward ran, by order
        self._second = False  # backward has run through one of them: they were wanted
        self.backward_ran = False
        self.cuts: list[Cut] = []
        self._arrays: dict[int, tuple[weakref.ref[Any], int]] = {}  # -> order of the node
        self._behind: dict[int, tuple[list[int], list[int]]] = {}  # nodes and leaves, by node
        self._detached: dict[
            int, tuple[weakref.ref[Tensor], CodeLocation]
        ] = {}  # where detach() was called
        self._recording = self._walks = 0
        self._twice = ""  # the line that ran backward with create_graph

    def take(self, event: Any) -> None:
        """Handle an event."""
        event_type = type(event)
        if event_type is OpApplied:
            self._check_op(event)
        elif event_type is GradientAccumulated:
            self.record_gradient(event.tensor)
        elif event_type is ModuleEntered:
            self._ran.add(id(event.module))
        elif event_type is TensorAliased:
            if event.detached:
                self._detached[id(event.alias)] = weakref.ref(event.alias), user_location()
        elif event_type is WorkStarted and event.kind == "node":
            self._second |= event.subject._order in self._double
        elif event_type is WorkStarted and event.kind == "backward":
            self.backward_ran = True
            if event.subject.recording:
                self._recording += 1
                self._twice = line_text(user_location())
        elif event_type is WorkEnded and event.kind == "backward" and self._recording:
            self._recording -= 1

    def record_gradient(self, leaf: Tensor) -> None:
        """Record that a leaf got a gradient."""
        self.with_gradient.add(id(leaf))

    # Cuts -------------------------------------------------------------------------------

    def _check_op(self, event: OpApplied) -> None:
        outputs = event.output if isinstance(event.output, tuple) else (event.output,)
        if event.node is not None:
            if self._recording and current().grad:
                self._double.add(event.node._order)
            edges = [edge for edge in event.node.edges if edge is not None]
            self._behind[event.node._order] = (
                [edge._order for edge in edges if edge._order],
                [id(edge) for edge in edges if not edge._order],
            )
            for output in outputs:
                self._note(output._array, event.node._order)
            if len(self.cuts) < MOST_CUTS:
                for input_ in event.inputs:
                    if isinstance(input_, Tensor) and input_._node is None:
                        self._check_detached(input_, event)
            return
        if len(self.cuts) >= MOST_CUTS:
            return
        tracked = next((input_ for input_ in event.inputs if isinstance(input_, Tensor)
                      and input_._node is not None), None)  # fmt: skip
        if tracked is None:
            return
        if not current().grad:
            self._cut_at_tensor(
                tracked, "no_grad() around {op}", "Compute it outside of no_grad().", event
            )
        elif outputs[0]._array.dtype not in dtypes.DIFFERENTIABLE:
            what = (
                "a conversion to integers"
                if event.op.name == "convert_dtype"
                else event.op.public_name
            )
            self._cut_at_tensor(
                tracked, f"{what}, which has no slope",
                "Stay with floating numbers: softmax in place of argmax, sigmoid in place of a "
                "threshold.", event,
            )  # fmt: skip

    def _note(self, array: Array, node: int) -> None:
        """Remember whose result an array is, without keeping it alive."""
        try:
            self._arrays[id(array)] = weakref.ref(array), node
        except TypeError:
            pass  # a library whose arrays allow no weak references

    def _check_detached(self, tensor: Tensor, event: OpApplied) -> None:
        """Check whether what looks like data has the memory of a recorded result."""
        node = self._producer_of(tensor._array)
        if node:
            how = "detach(), .data or numpy() in front of {op}"
            advice = "Leave detach() out, and compute with tensors instead of NumPy arrays."
            known = self._detached.get(id(tensor))
            location = known[1] if known is not None and known[0]() is tensor else user_location()
            self._record_cut(node, how, advice, event, location)

    def _producer_of(self, array: Array) -> int:
        """Return the order of the node whose result an array shows, 0 if there is none."""
        outside, steps = isinstance(array, Shared), 0
        while array is not None and steps < 8:
            known = self._arrays.get(id(array))
            if known is not None and known[0]() is array:
                return known[1]
            if outside and isinstance(array, np.ndarray):  # NumPy has had it: compare addresses
                for reference, node in self._arrays.values():
                    result = reference()
                    if isinstance(result, np.ndarray) and result.ctypes.data == array.ctypes.data:
                        return node
            array, steps = getattr(array, "base", None), steps + 1
        return 0

    def _cut_at_tensor(self, tensor: Tensor, how: str, advice: str, event: OpApplied) -> None:
        leaf = tensor._node is LEAF
        node = 0 if leaf else tensor._node._order
        cut = self._record_cut(node, how, advice, event, user_location())
        if leaf:
            cut.leaves.add(id(tensor))

    def _record_cut(
        self, node: int, how: str, advice: str, event: OpApplied, location: CodeLocation
    ) -> Cut:
        """Record a cut behind a node at a location of the user's code, with the leaves it stops."""
        known = self._known.get(location)
        if known is None:
            how = how.format(op=event.op.public_name)
            known = self._known[location] = Cut(how, advice, line_text(location))
            if len(self._known) > 1000:
                self._known.clear()
        if node and self._walks < MOST_CUTS:
            self._walks += 1
            known.leaves |= self._leaves_behind(node)
        if known not in self.cuts:
            self.cuts.append(known)
        return known

    def _leaves_behind(self, node: int) -> set[int]:
        """Return the ids of the leaves that something was computed from in this step."""
        seen, stack, leaves = set(), [node], set()
        while stack and len(seen) < MOST_WALKED:
            node = stack.pop()
            if node in seen or node not in self._behind:
                continue
            seen.add(node)
            nodes, leaf_ids = self._behind[node]
            stack.extend(nodes)
            leaves.update(leaf_ids)
        return leaves

    # Parameters -------------------------------------------------------------------------

    def findings(
        self, optimized: set[int], held: set[int], line: str = "", samples: int = MIN_SAMPLES
    ) -> list[Finding]:
        """Return the findings after a step in which backward has run.

        A model of which nothing is trained is not meant to be: a teacher, a target network.

        Args:
            optimized: the ids of the parameters of the optimizers that ended the step. Those of
                another one may be waiting for their turn.
            held: the ids of those of all optimizers.
            line: the line of the user's code that ran backward.
            samples: after this many steps without a gradient a parameter is called unused.
        """
        if not self.backward_ran and not self.with_gradient:
            return []
        findings, without_gradient = [], []
        for model in self.names.models:
            parameters = list(model.named_parameters())
            self._ever |= self.with_gradient.intersection(
                id(parameter) for _, parameter in parameters
            )
            trained = any(id(parameter) in self._ever for _, parameter in parameters)
            for path, parameter in parameters:
                key = id(parameter)
                if not (key in optimized if optimized else trained):
                    continue
                if (
                    key in self.with_gradient
                    or not parameter.requires_grad
                    or parameter._grad is not None
                ):
                    self._missed.pop(key, None)
                    continue
                self._missed[key] = self._missed.get(key, 0) + 1
                if key not in self._ever and self._missed[key] >= samples:
                    without_gradient.append((path, parameter, model))
        findings += self._explain(without_gradient, line)
        findings += find_unregistered(self.names, self.with_gradient, held, line)
        if self._double and not self._second:
            findings.append(finding("double-backward", count=len(self._double), subject="double",
                                 line=self._twice or line))  # fmt: skip
        return findings

    def unreached_findings(self, behind: set[int], named: bool) -> list[Finding]:
        """Return the findings where only the graph itself is known: `behind` are its leaves.

        Args:
            named: the user named the models; else those of which nothing is behind are left out.
        """
        without_gradient = []
        for model in self.names.models:
            parameters = list(model.named_parameters())
            if named or any(id(parameter) in behind for _, parameter in parameters):
                without_gradient += [(path, parameter, model) for path, parameter in parameters
                           if parameter.requires_grad and id(parameter) not in behind]  # fmt: skip
        findings = list(self._explain(without_gradient, ""))
        return findings + find_unregistered(self.names, behind, set(), "")

    def _explain(self, parameters: list[tuple[str, Tensor, Any]], line: str) -> Iterable[Finding]:
        """Yield why each parameter gets no gradient; those with the same reason together."""
        groups: dict[tuple[str, str], tuple[list[str], Cut | None]] = {}
        for path, parameter, model in parameters:
            cut = next((cut for cut in self.cuts if id(parameter) in cut.leaves), None)
            owner = path.rpartition(".")[0]
            module = model.get_submodule(owner) if owner else model
            never = id(module) not in self._ran
            reason = (
                ("cut", cut.line) if cut else ("never-called", owner) if never else ("unused", "")
            )
            path = self.names.path_of_leaf(parameter)
            groups.setdefault(reason, ([], cut))[0].append(path)
        for (reason_kind, key), (paths, cut) in groups.items():
            names, subject = join_names(paths), f"{reason_kind} {key}"
            if cut is not None:
                yield finding("cut", names=names, how=cut.how, advice=cut.advice, line=cut.line,
                              subject=subject)  # fmt: skip
            else:
                module = f"`{key}`" if key else "the model's forward()"
                yield finding(reason_kind, names=names, module=module, line=line, subject=subject)


# Parameters that a module holds where `parameters()` does not look -----------------------

MOST_ITEMS = 1000
"""How many items of a container are searched at most."""


class HiddenParameter(NamedTuple):
    """A parameter that its module does not know: its path, and what holds it."""

    path: str
    tensor: Tensor
    holder: str  # `layers`, or `body.layers`
    thing: str
    model: Any
    advice: str


def hidden_parameters(names: Names) -> Iterator[HiddenParameter]:
    """Yield the parameters that the modules of all models hold without registering them."""
    for model in names.models:
        known = {id(parameter) for parameter in model.parameters()}
        for path, module in model.named_modules():
            for name, value in vars(module).items():
                holder = f"{path}.{name}" if path else name
                for subpath, tensor, thing, advice in hidden_in(value, name):
                    if id(tensor) not in known:
                        yield HiddenParameter(
                            holder + subpath, tensor, holder, thing, model, advice
                        )


def hidden_in(value: object, name: str) -> Iterator[tuple[str, Tensor, str, str]]:
    """Yield what an attribute hides: its subpath, the tensor, what the attribute is, what helps."""
    from ...nn import Module

    if name.startswith("_") or isinstance(value, Module):
        return
    if isinstance(value, Tensor):
        if is_learned(value):
            advice = f"Write self.{name} = nn.Parameter(…)."
            yield "", value, "a plain tensor", advice
        return
    if not isinstance(value, list | tuple | dict):
        return
    keyed = isinstance(value, dict)
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value))[:MOST_ITEMS]
    thing = f"a plain {type(value).__name__}"
    for key, item in pairs:
        subpath = f"[{key!r}]"
        if isinstance(item, Module):
            container = "ModuleDict" if keyed else "ModuleList"
            advice = f"Write self.{name} = nn.{container}(…): it registers what is in it."
            for path, parameter in item.named_parameters():
                yield f"{subpath}.{path}", parameter, thing, advice
        elif isinstance(item, Tensor) and is_learned(item):
            container = "ParameterDict" if keyed else "ParameterList"
            advice = f"Write self.{name} = nn.{container}(…): it registers what is in it."
            yield subpath, item, thing, advice


def is_learned(tensor: Tensor) -> bool:
    """Return True for a leaf that requires a gradient."""
    return tensor._node is LEAF and tensor.requires_grad


def find_unregistered(names: Names, got: set[int], optimized: set[int], line: str) -> list[Finding]:
    """Return a finding for each attribute that hides parameters which a loss depends on.

    Args:
        got: the ids of the leaves that got a gradient, or would.
        optimized: the ids of those that an optimizer holds.
        line: the line of the user's code that ran backward.
    """
    groups: dict[str, list[HiddenParameter]] = {}
    for hidden_parameter in hidden_parameters(names):
        if id(hidden_parameter.tensor) in got and id(hidden_parameter.tensor) not in optimized:
            groups.setdefault(hidden_parameter.holder, []).append(hidden_parameter)
    return [
        finding("unregistered",
                names=join_names(list(dict.fromkeys(parameter.path for parameter in hidden))),
                model=type(hidden[0].model).__name__, holder=f"`{holder}`", thing=hidden[0].thing,
                advice=hidden[0].advice, line=line, subject=f"unregistered {holder}")
        for holder, hidden in groups.items()
    ]  # fmt: skip
