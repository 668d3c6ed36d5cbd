"""`swap_tensors`: two tensors exchange everything but their identity."""

from __future__ import annotations

import weakref
from typing import Any

from ..core.autograd.versions import clock
from ..core.tensor import Tensor
from ..errors import ArgumentError, InvalidValueError

CONTENTS = ("_array", "_base", "_grad", "_hooks", "_node", "_writes")
"""The slots of a tensor that hold what it is."""


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange the contents of two tensors: memory, gradient, history, class and attributes.

    Whoever holds `t1` then sees what `t2` was, and the other way round. Graphs are not changed: a
    gradient on its way to the leaf `t1` still goes to that object.

    Raises: TypeError: an argument is no tensor. RuntimeError: weak references refer to one of them.

    >>> x, y = ones(2), zeros(3)
    >>> edutorch.utils.swap_tensors(x, y)
    >>> x, y
    (tensor([0., 0., 0.]), tensor([1., 1.]))
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        if not isinstance(tensor, Tensor):
            raise ArgumentError("swap_tensors", f"{name} is no tensor: {type(tensor).__name__}")
        if any(not is_own_reference(tensor, x) for x in weakref.getweakrefs(tensor)):
            raise InvalidValueError(
                "swap_tensors", f"Cannot swap {name} because it has weakref associated with it"
            )
    if t1 is t2:
        return
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    first, second = dict(t1.__dict__), dict(t2.__dict__)
    for tensor, attributes in ((t1, second), (t2, first)):
        tensor.__dict__.clear()
        tensor.__dict__.update(attributes)
    t1._saved_at = t2._saved_at = clock()  # graphs may have saved either
    for slot in CONTENTS:
        value, other = getattr(t1, slot), getattr(t2, slot)
        setattr(t1, slot, other)
        setattr(t2, slot, value)
    redirect(t1, t2)


def is_own_reference(tensor: Tensor, reference: Any) -> bool:
    """Return True for a weak reference that the tensor's own counter of writes holds."""
    writes: Any = tensor._writes
    return writes is not None and (
        reference is writes.owner or any(reference is view for view in writes.views)
    )


def redirect(t1: Tensor, t2: Tensor) -> None:
    """Let the counters of writes, which were swapped, refer to the other object."""
    others = {id(t1): t2, id(t2): t1}
    for writes in {id(x): x for x in (t1._writes, t2._writes) if x is not None}.values():
        counter: Any = writes
        references = [counter.owner, *counter.views]
        targets = [others.get(id(x and x())) for x in references]
        redirected = [
            reference if target is None else weakref.ref(target)
            for reference, target in zip(references, targets, strict=True)
        ]
        counter.owner, counter.views = redirected[0], redirected[1:]
