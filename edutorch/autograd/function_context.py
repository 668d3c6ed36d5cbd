"""What a `Function` and its recorded node share: the `ctx` of forward and backward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType

from ..core.autograd.graph import VersionCounter, second_backward, stale_value
from ..core.autograd.saved_tensors import PackedTensor
from ..core.numpy_aliasing import kept_apart
from ..core.tensor import Tensor, restore_result
from ..modes import current


@dataclass(frozen=True, slots=True)
class SavedOutput:
    """An output saved as an array: the tensor itself would hold its node, which holds it."""

    node: ReferenceType[Any]
    index: int
    array: Any  # or what the user's hook made of it, packed
    writes: VersionCounter


class Context:
    """The `ctx` of a `Function`: set any attribute on it in forward, read it in backward.

    `needs_input_grad` says for each argument of forward whether it wants a gradient.
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
        """Keep tensors for backward, which finds them in `saved_tensors`.

        Raises: TypeError: something else than a tensor or None.
        """
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, got {type(tensor).__name__}; "
                    "hint: anything else can be an attribute, ctx.size = size"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp`, which finds them in `saved_tensors`.

        Raises: TypeError: something else than a tensor or None.
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
        """Let `saved_tensors` be those saved for forward mode, while `jvp` runs."""
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
        found = []
        for name, each in zip(self._names, self._saved, strict=True):
            if isinstance(each, SavedOutput):
                writes, name = each.writes, "the result"
            else:
                writes = getattr(each, "_writes", None)
            if isinstance(each, PackedTensor):
                each = each.restore(node, name)
            elif isinstance(each, SavedOutput) and isinstance(each.array, PackedTensor):
                array = each.array.restore(node, name)._array
                each, writes = SavedOutput(each.node, each.index, array, VersionCounter()), None
            array = each.array if isinstance(each, SavedOutput) else getattr(each, "_array", None)
            is_late = writes is not None and writes.time > self._time
            if is_late and writes.reached(array, self._time):
                raise stale_value(node, name, writes)
            if isinstance(each, SavedOutput):
                maker = each.node() or node.node_of_output(each.index, each.array)
                maker.writes = each.writes
                each = restore_result(maker, each.array)
            found.append(each)
        return tuple(found)

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs forward has written to; it must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient, such as indices."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether backward gets zeros (True) or None for outputs without a gradient."""
        self._materialize = value

    def _save_tensors(
        self, node: Any, inputs: Sequence[Tensor], names: Sequence[str], makers: dict[int, Any]
    ) -> None:
        """Save what was to be saved, now that `node` is there and every output has its maker."""
        saved, called = [], []
        saving = current().saving
        hooks = saving if isinstance(saving, tuple) else None
        for number, each in enumerate(self._to_save):
            maker = makers.get(id(each))
            if each is not None and maker is not None:
                made = maker()
                each._writes = each._writes or VersionCounter()
                index = getattr(made, "index", 0)
                array = PackedTensor(each.detach(), hooks) if hooks else each._array
                saved.append(SavedOutput(maker, index, array, each._writes))
                called.append("y" if made is node else f"output {number}")
            else:
                place = next((i for i, given in enumerate(inputs) if given is each), None)
                each = kept_apart(each)
                saved.append(PackedTensor(each, hooks) if hooks and each is not None else each)
                called.append(f"saved tensor {number}" if place is None else names[place])
        self._saved, self._names, self._to_save = tuple(saved), tuple(called), ()


def identities(tensors: Sequence[Tensor]) -> set[int]:
    return {id(tensor) for tensor in tensors}
