"""What `grad_fn` is called where a function is composed of several ops here, but one in PyTorch.

    >>> import edutorch
    >>> x = edutorch.ones(2, 2, requires_grad=True)
    >>> edutorch.addmm(x, x, x).grad_fn
    <AddmmBackward0>

An op says the name of its own nodes itself (`node=` of `core.op.Op`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .autograd import Node, clock
from .pieces import OutputNode
from .tensor import LEAF, Tensor

Function = TypeVar("Function", bound=Callable[..., Any])


def recorded_as(name: str | Callable[..., str]) -> Callable[[Function], Function]:
    """Give the last node that a composed function records the name of PyTorch's node.

    Args:
        name: PyTorch's name for it, or a function of the call's arguments that returns it ("": it
            keeps its own).
    """

    def decorator(function: Function) -> Function:
        @functools.wraps(function)
        def recorded(*args: Any, **settings: Any) -> Any:
            start = clock()
            result = function(*args, **settings)
            for tensor in result if isinstance(result, tuple) else (result,):
                node = getattr(tensor, "_node", None)
                if node is not None and node is not LEAF and node._order > start:
                    name_result(tensor, name if isinstance(name, str) else name(*args, **settings))
            return result

        return recorded  # type: ignore[return-value]

    return decorator


def name_result(tensor: Tensor, name: str) -> None:
    """Name the node of a result; one of several outputs keeps the name of their op."""
    node = tensor._node
    if name and isinstance(node, Node) and not isinstance(node, OutputNode):
        node.__class__ = node.op.node_named(name)
