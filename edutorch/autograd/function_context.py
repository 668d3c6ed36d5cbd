"""`Context`: the `ctx` of a `Function`'s forward and backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType

from ..core.autograd.saved_tensors import PackedTensor
from ..core.autograd.versions import VersionCounter, second_backward, stale_value
from ..core.numpy_aliasing import copy_if_shared
from ..core.tensor import Tensor, restore_result
from ..modes import current


@dataclass(frozen=True, slots=True)
class SavedOutput:
    """An output saved as an array: saving the tensor would make a reference cycle with its node."""

    node: ReferenceType[Any]
    index: int
    array: Any  # or the PackedTensor of a user's hook
    writes: VersionCounter


class Context:
    """The `ctx` of a `Function`: attributes set in forward can be read in backward.

    `needs_input_grad` has a bool per argument of forward: whether it requires grad.
    """

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._to_save: tuple[Tensor | None, ...] = ()
        self._saved: tuple[Any, ...] | None = ()
        self._names: tuple[str, ...] = ()
        self._node: ReferenceType[Any] | None = None
        self._time = 0
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._materialize = True
        self._in_forward_mode = False
        self.saved_for_forward: tuple[Tensor | None, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors for backward, which reads them from `saved_tensors`.

        Raises: TypeError: a value is neither a tensor nor None.
        """
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, got {type(tensor).__name__}; "
                    "hint: anything else can be an attribute, ctx.size = size"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors for `jvp`, which reads them from `saved_tensors`.

        Raises: TypeError: a value is neither a tensor nor None.
        """
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    "save_for_forward expects all arguments to be tensors; "
                    "you should save non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    @contextmanager
    def _forward_mode(self) -> Iterator[None]:
        """Make `saved_tensors` return those saved for forward mode, while `jvp` runs."""
        self._in_forward_mode = bool(self.saved_for_forward)
        try:
            yield
        finally:
            self._in_forward_mode = False

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that forward saved.

        Raises: GradientError: they were freed. StaleValueError: one was overwritten since.
        """
        if self._in_forward_mode:
            return self.saved_for_forward
        node = None if self._node is None else self._node()
        if node is None:
            return self._to_save
        if self._saved is None:
            raise second_backward(node)
        tensors = []
        for name, saved in zip(self._names, self._saved, strict=True):
            if isinstance(saved, SavedOutput):
                writes, name = saved.writes, "the result"
            else:
                writes = getattr(saved, "_writes", None)
            if isinstance(saved, PackedTensor):
                saved = saved.restore(node, name)
            elif isinstance(saved, SavedOutput) and isinstance(saved.array, PackedTensor):
                array = saved.array.restore(node, name)._array
                saved, writes = SavedOutput(saved.node, saved.index, array, VersionCounter()), None
            array = (
                saved.array if isinstance(saved, SavedOutput) else getattr(saved, "_array", None)
            )
            is_late = writes is not None and writes.time > self._time
            if is_late and writes.may_have_changed(array, self._time):
                raise stale_value(node, name, writes)
            if isinstance(saved, SavedOutput):
                output_node = saved.node() or node.node_of_output(saved.index, saved.array)
                output_node.writes = saved.writes
                saved = restore_result(output_node, saved.array)
            tensors.append(saved)
        return tuple(tensors)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Mark the inputs that forward has written to; it must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Mark the outputs that have no gradient, such as indices."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether backward gets zeros (True) or None for outputs without a gradient."""
        self._materialize = value

    def _save_tensors(
        self, node: Any, inputs: Sequence[Tensor], names: Sequence[str], makers: dict[int, Any]
    ) -> None:
        """Save the tensors of `save_for_backward`, once the node of the call exists."""
        saved, names_in_errors = [], []
        saving = current().saving
        hooks = saving if isinstance(saving, tuple) else None
        for number, tensor in enumerate(self._to_save):
            node_ref = makers.get(id(tensor))
            if tensor is not None and node_ref is not None:
                output_node = node_ref()
                tensor._writes = tensor._writes or VersionCounter()
                index = getattr(output_node, "index", 0)
                array = PackedTensor(tensor.detach(), hooks) if hooks else tensor._array
                saved.append(SavedOutput(node_ref, index, array, tensor._writes))
                names_in_errors.append("y" if output_node is node else f"output {number}")
            else:
                position = next((i for i, input_ in enumerate(inputs) if input_ is tensor), None)
                tensor = copy_if_shared(tensor)
                saved.append(
                    PackedTensor(tensor, hooks) if hooks and tensor is not None else tensor
                )
                names_in_errors.append(
                    f"saved tensor {number}" if position is None else names[position]
                )
        self._saved, self._names, self._to_save = tuple(saved), tuple(names_in_errors), ()


def identities(tensors: Sequence[Tensor]) -> set[int]:
    return {id(tensor) for tensor in tensors}
