"""The guards of a compiled version: everything that was assumed when it was captured.

Shapes, dtypes and memory layouts of tensors, whether they require gradients, values of other
arguments, modes such as `no_grad`, settings of modules, global names: whatever Python read while
the function was captured. `mismatch` says in words what differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from ..backends.device import get_default_device
from ..backends.numpy import Exported, Shared, as_plain_array
from ..core.autograd.graph import LEAF
from ..core.tensor import PLAIN_TENSORS, Tensor
from ..fx.captured_graph import Captured
from ..fx.captured_state import describe_value
from ..fx.traced_array import is_device_array, may_share_memory, memory_owner, same_view
from ..modes import Modes, current
from ..utils._pytree import TreeSpec

__all__ = ["Guards", "current_flags"]

ARRAYS = {np.ndarray, Shared, Exported}
VALUES = (int, float, bool, str, bytes, complex, type(None))


def is_guarded_array(array: Any) -> bool:
    """Whether the array of a tensor is one that a compiled version can be called with."""
    return array.__class__ in ARRAYS or is_device_array(array)


def current_flags() -> tuple[Any, ...]:
    """Return the global settings that ops depend on."""
    return dtypes.get_default_dtype(), get_default_device()


class Guards:
    """The conditions for the use of one compiled version.

    Args:
        captured: the capture that it was compiled from.
        leaves: the arguments of that call, flattened; `spec` is their tree.
        names: the name of each of them in messages.
        described: the description of each of them, before the function ran.
    """

    def __init__(
        self, captured: Captured, leaves: list[Any], spec: TreeSpec, names: list[str],
        described: list[tuple[Any, ...]],
    ) -> None:  # fmt: skip
        self.spec, self.names, self.reach = spec, names, captured.reach
        self.mode: Modes = current()
        self.flags = current_flags()
        self.leaves = described
        self.fixed_tensors: list[  # parameters, buffers: tensors that are no arguments
            list[Any]
        ] = []  # name, tensor, what it was like, its array, its node
        self.captured = captured
        argument_ids = {id(leaf) for leaf in leaves if isinstance(leaf, Tensor)}
        reachable = captured.reach.tensors if captured.reach is not None else {}
        # The function owns this argument, too: another tensor would be another graph.
        self.identities = [
            (index, leaf) for index, leaf in enumerate(leaves)
            if isinstance(leaf, Tensor) and id(leaf) in reachable
        ]  # fmt: skip
        for input_ in captured.inputs:
            if input_.kind == "tensor" and id(input_.tensor) not in argument_ids:
                tensor = input_.tensor
                self.fixed_tensors.append(
                    [input_.name, tensor, describe(tensor), tensor._array, tensor._node]
                )
        # With or without accumulated gradients, the graph differs.
        self.absent = [(tensor, before) for tensor, before in captured.grads]
        # A write through one argument is seen through the other.
        self.overlaps = overlapping_arguments(leaves)
        writes = [captured.inputs[number] for number in captured.graph.writes.values()]
        self.pairs = bool(self.overlaps) or any(write.kind == "argument" for write in writes)
        written = [write.tensor for write in writes if write.kind == "tensor"]
        self.shown = shown_tensors(leaves, [tensor for _, tensor in reachable.values()])
        self.owners = set(memory_owners(written))

    def needs_gradient(self, number: int) -> bool:
        """Whether an input of the graph requires a gradient."""
        input_ = self.captured.inputs[number]
        if input_.kind == "argument":
            return self.leaves[input_.index][4] is not None
        return input_.kind == "tensor" and input_.tensor._node is not None

    def mismatch(self, leaves: list[Any], spec: TreeSpec) -> str | None:
        """Return what differs from the captured call, or None if nothing does."""
        mode = current()
        if mode is not self.mode and mode != self.mode:  # nearly always the same object
            return describe_mode_difference(self.mode, mode)
        # Cheap comparisons first: every call makes them.
        if len(leaves) != len(self.leaves) or (spec is not self.spec and spec != self.spec):
            return "the arguments are put together in another way"
        for index, (leaf, expected) in enumerate(zip(leaves, self.leaves, strict=True)):
            if not matches_description(leaf, expected):
                return (
                    f"argument {self.names[index]}: {describe_difference(expected, describe(leaf))}"
                )
        for fixed in self.fixed_tensors:
            tensor = fixed[1]
            if tensor._array is fixed[3] and tensor._node is fixed[4]:
                continue  # nearly always: an update writes into the same array
            if not matches_description(tensor, fixed[2]):
                return f"{fixed[0]}: {describe_difference(fixed[2], describe(tensor))}"
            fixed[3], fixed[4] = tensor._array, tensor._node
        if current_flags() != self.flags:  # `zeros(3)` in the function depends on them
            return f"the default type or device was {self.flags}, now it is {current_flags()}"
        for tensor, before in self.absent:
            grad = tensor._grad
            if (grad is None) is not (before is None):
                was, now = ("None", "a tensor") if before is None else ("a tensor", "None")
                return f"a gradient was {was} before, now it is {now}"
        for index, tensor in self.identities:
            if leaves[index] is not tensor:
                return f"argument {self.names[index]}: another tensor than one the function owns"
        shared = self.memory_mismatch(leaves)
        if shared is not None:
            return shared
        if self.reach is not None:
            return self.reach.changed()  # the most expensive comparison comes last
        return None

    def memory_mismatch(self, leaves: list[Any]) -> str | None:
        """Return what differs in the memory that arguments share, or None if nothing does."""
        # Quadratic, so only where a write makes it matter.
        if self.pairs and len(leaves) > 1 and overlapping_arguments(leaves) != self.overlaps:
            return "other arguments share their memory than before"
        for index, tensor in self.shown:
            if not is_same_view(leaves[index], tensor):
                return f"argument {self.names[index]}: it showed memory that the function has"
        if self.owners:
            known = {index for index, _ in (*self.shown, *self.identities)}
            others = [leaf for index, leaf in enumerate(leaves) if index not in known]
            if any(owner in self.owners for owner in memory_owners(others)):
                return "an argument shows memory that the function writes"
        return None


def describe(value: object) -> tuple[Any, ...]:
    """Return the properties of an argument that are compared."""
    if isinstance(value, Tensor):
        array = value._array
        node = value._node  # None, LEAF, or the node that computed it
        needs = None if node is None else ("leaf" if node is LEAF else "computed")
        return (value.__class__, array.shape, array.dtype, array.strides, needs)
    return (value.__class__, value)


def matches_description(value: Any, known: tuple[Any, ...]) -> bool:
    """Whether an argument has the properties of the captured call's."""
    if value.__class__ is not known[0]:  # True is not 1: they promote in other ways
        return False
    if value.__class__ in PLAIN_TENSORS:
        array = value._array
        if array.shape != known[1] or array.dtype != known[2] or array.strides != known[3]:
            return False
        node = value._node
        if node is None:
            return known[4] is None
        return known[4] == ("leaf" if node is LEAF else "computed")
    if value.__class__ in VALUES:
        return value == known[1] or (value != value and known[1] != known[1])  # nan is nan
    return value is known[1]


def overlapping_arguments(leaves: list[Any]) -> list[tuple[int, int, bool]]:
    """Return the pairs of arguments that share memory, and whether they are the same view."""
    arrays = [(i, leaf._array) for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    return [
        (i, j, first is second or same_view(first, second))
        for position, (i, first) in enumerate(arrays)
        for j, second in arrays[position + 1 :]
        if first is second or may_share_memory(first, second)
    ]


def memory_owners(leaves: list[Any]) -> list[Any]:
    """Return what stands for the memory of each argument that is a tensor."""
    return [
        memory_owner(as_plain_array(leaf._array)) for leaf in leaves if isinstance(leaf, Tensor)
    ]


def shown_tensors(leaves: list[Any], tensors: list[Tensor]) -> list[tuple[int, Tensor]]:
    """Return which arguments are the same view as one of some tensors.

    The graph has one input for both. Each is (index of the argument, the tensor).
    """
    return [
        (index, tensor)
        for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor)
        for tensor in tensors if tensor is not leaf and is_same_view(leaf, tensor)
    ]  # fmt: skip


def is_same_view(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors show the same elements of one memory."""
    first, second = as_plain_array(one._array), as_plain_array(other._array)
    return first.__class__ is second.__class__ and same_view(first, second)


def describe_difference(known: tuple[Any, ...], now: tuple[Any, ...]) -> str:
    """Describe how an argument differs."""
    if known[0] is not now[0]:
        return f"a {known[0].__name__} before, now a {now[0].__name__}"
    if len(known) == 2:
        return f"{describe_value(known[1])} before, now {describe_value(now[1])}"
    for what, before, after in zip(
        ("shape", "dtype", "strides"), known[1:4], now[1:4], strict=True
    ):
        if before != after:
            return f"{what} {before} before, now {after}"
    texts = {None: "wanted no gradient", "leaf": "was a leaf that wants a gradient",
             "computed": "was computed from something that wants a gradient"}  # fmt: skip
    return f"{texts[known[4]]} before, now it {texts[now[4]]}"


def on_off(on: bool) -> str:
    return "on" if on else "off"


def describe_mode_difference(before: Modes, after: Modes) -> str:
    """Describe how the modes differ."""
    if before.inference != after.inference:
        return f"inference mode was {on_off(before.inference)}, now it is {on_off(after.inference)}"
    if before.grad != after.grad:
        return f"gradients were {on_off(before.grad)} before, now they are {on_off(after.grad)}"
    return "other modes are in force"
