"""`Variable`: the wrapper of tensors in PyTorch before 0.4. Now every tensor is one."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor


class _TensorsAreVariables(type):
    """Makes `isinstance(x, Variable)` true for tensors, and `Variable(x)` a tensor."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor)

    def __call__(cls, data: Tensor, requires_grad: bool = False, **old: Any) -> Tensor:
        """Return a tensor of the same memory that starts a new graph."""
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable: `data` must be a Tensor, not {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)


class Variable(metaclass=_TensorsAreVariables):
    """A tensor, as old code creates it: `Variable(x, requires_grad=True)`.

    >>> x = edutorch.autograd.Variable(tensor([1.0]), requires_grad=True)
    >>> x.requires_grad, isinstance(x, edutorch.autograd.Variable)
    (True, True)
    """
