"""The tensors that a module owns: parameters are trained, buffers are kept."""

from __future__ import annotations

import copy
from typing import Any

from ..core.tensor import PLAIN_TENSORS, Tensor, fill, same_memory, wrap
from ..ops import empty

__all__ = ["Buffer", "Parameter"]


def adopt(tensor: Tensor, data: Tensor | None) -> None:
    """Let a new tensor show the memory of `data` (of an empty tensor, if there is none)."""
    source = empty(0) if data is None else data
    if not isinstance(source, Tensor):
        raise TypeError(
            f"{type(tensor).__name__}: expected a Tensor, got {type(data).__name__}; "
            "make one with tensor(...)"
        )
    fill(tensor, source._array)
    same_memory(tensor, source)  # a write through either is noticed by both


class Parameter(Tensor):
    """A tensor to be trained: a module that holds one lists it in `parameters()`.

    What is computed from parameters are ordinary tensors.

    >>> nn.Parameter(tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    __slots__ = ()

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        adopt(self, data)
        if requires_grad:
            self.requires_grad_()

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            twin = type(self)(self.detach().clone(), self.requires_grad)
            twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
            memo[id(self)] = twin
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild, (type(self), wrap(self._array), self.requires_grad), self.__dict__ or None


class Buffer(Tensor):
    """A tensor that belongs to a module without being trained, such as a running mean.

    A `persistent` one is part of the module's `state_dict`.

    >>> nn.Buffer(zeros(2))
    tensor([0., 0.])
    """

    __slots__ = ()

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        adopt(self, data)
        self.persistent = persistent

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        if id(self) not in memo:
            twin = type(self)(self.detach().clone(), persistent=self.persistent)
            twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
            memo[id(self)] = twin
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild, (type(self), wrap(self._array), self.persistent), self.__dict__ or None


def _rebuild(kind: type, data: Tensor, flag: bool) -> Any:
    """Unpickle a parameter or a buffer."""
    return kind(data, flag) if issubclass(kind, Parameter) else kind(data, persistent=flag)


PLAIN_TENSORS |= {Parameter, Buffer}
