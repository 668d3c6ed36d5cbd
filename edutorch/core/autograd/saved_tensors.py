"""Hooks on the tensors saved for backward.

Normally a node keeps the tensors that its rules name. Inside `saved_tensors_hooks` each of
them is passed to `pack`, and only the result of `pack` is kept: a copy on another device, a
file name, a key to recompute it from. When backward reads the values of `node.saved`, `unpack`
returns the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

from ...errors import GradientError
from ...modes import override_modes
from ..fast.lazy_gradients import materialize_pending
from ..registry import REGISTRY
from ..tensor import Tensor, fill, restore_result, wrap, writes_of
from .graph import Node, edge_of, record
from .versions import VersionCounter, clock, second_backward, stale_value

if TYPE_CHECKING:
    from ..op import Op

Hooks = tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]


class PackedTensor:
    """The result of `pack` for one tensor, with the edge of that tensor in the graph."""

    __slots__ = ("edge", "packed", "unpack", "version", "writes")

    def __init__(self, tensor: Tensor, hooks: Hooks) -> None:
        pack, self.unpack = hooks
        self.writes = writes_of(tensor)
        tensor._saved_at = clock()
        version = self.version = self.writes.count
        # Not the tensor: `pack` may be meant to free its memory.
        self.edge = None if tensor._node is None else edge_of(tensor)
        # What the hook computes is not part of the graph, nor packed again.
        with override_modes(grad=False, saving=None):
            self.packed = pack(tensor)
        if tensor._version != version:
            raise GradientError(
                "saved_tensors_hooks", "a saved tensor pack hook is modifying its input in place",
                hint="return a new tensor, and leave the given one as it is",
            )  # fmt: skip

    def restore(self, node: Node | None = None, name: str = "") -> Tensor:
        """Return the tensor, with the history that it had.

        Raises: StaleValueError: `pack` kept the same memory, and that was overwritten.
        """
        materialize_pending()
        with override_modes(saving=None):
            value = self.unpack(self.packed)
        if not isinstance(value, Tensor):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor "
                f"but got result of type {type(value).__name__}"
            )
        if node is not None and value._writes is self.writes and self.writes.count != self.version:
            raise stale_value(node, name, self.writes)
        tensor = fill(object.__new__(Tensor), value._array)
        if self.edge is None or not self.edge._order:
            if self.edge is not None:  # a leaf: one step away from it, for second derivatives
                values = {"input": self.edge, "dtype": tensor.dtype}
                record(REGISTRY["convert_dtype"], tensor, values)
            return tensor
        tensor._node = self.edge
        return tensor


class PackedValues:
    """Replaces `node.saved`: iterating over it unpacks the values."""

    __slots__ = ("items", "node", "results")

    def __init__(self, node: Node, hooks: Hooks) -> None:
        self.node = ref(node)  # the node holds this
        self.results = {"y", *node.op.outputs}
        pairs = zip(node.op.saved, node.saved or (), strict=True)
        self.items = [
            pack_value(value, node.writes if name in self.results else None, hooks)
            for name, value in pairs
        ]

    def __iter__(self) -> Iterator[Any]:
        node = self.node()
        assert node is not None
        # Only once: what is unpacked has a counter of its own.
        node.writes = None  # the result's memory may be written to: it is packed
        for name, item in zip(node.op.saved, self.items, strict=True):
            value = unpack_value(item, node, "the result" if name == "y" else name)
            yield value._array if name in self.results else value


def pack_value(value: Any, writes: VersionCounter | None, hooks: Hooks) -> Any:
    """Pack a tensor, a result's array (with its version counter) or a tuple of tensors."""
    if isinstance(value, Tensor):
        return PackedTensor(value, hooks)
    if writes is not None:
        result = wrap(value)
        result._writes = writes
        return PackedTensor(result, hooks)
    if isinstance(value, tuple) and value and all(isinstance(tensor, Tensor) for tensor in value):
        return tuple(PackedTensor(tensor, hooks) for tensor in value)
    return value


def unpack_value(item: Any, node: Node, name: str) -> Any:
    if isinstance(item, PackedTensor):
        return item.restore(node, name)
    if (
        isinstance(item, tuple)
        and item
        and all(isinstance(packed, PackedTensor) for packed in item)
    ):
        return tuple(packed.restore(node, name) for packed in item)
    return item


def attach_saved_members(op: Op) -> None:
    """Let the type of an op's nodes tell what they save: `holds`, and PyTorch's `_saved_other`.

    These are members and no `__getattr__`: with one, reading any slot of a node takes longer.
    """
    op.node_type.holds = any(name == "y" or name in op.inputs for name in op.saved)
    names = {f"_saved_{name}": name for name in op.saved}
    if op.inputs[0] in op.saved:
        names["_saved_self"] = op.inputs[0]
    if "y" in op.saved:
        names["_saved_result"] = "y"
    for member, name in names.items():
        setattr(op.node_type, member, property(partial(saved_value, name)))


def saved_value(name: str, node: Node) -> Any:
    """Return a saved value of `node` by the name that its op has for it.

    Raises: GradientError: it was freed. StaleValueError: it was overwritten.
    """
    if node.saved is None:
        raise second_backward(node)
    value = dict(zip(node.op.saved, node.saved, strict=True))[name]
    is_result = name == "y"
    writes = node.writes if is_result else getattr(value, "_writes", None)
    label = "the result" if is_result else name
    node.refuse_stale(label, writes, getattr(value, "_array", value))
    return restore_result(node, value) if is_result else value
