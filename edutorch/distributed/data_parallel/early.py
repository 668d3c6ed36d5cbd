"""Takes the gradients of parameters while backward still runs, so that messages overlap with it.

The engine writes `.grad` once a backward pass is over. But the gradient of a parameter is complete
as soon as the last op that uses it has run. So when a pass begins, the uses of each parameter are
counted in its graph, and each op that has some gets a hook for this pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ...core.autograd.graph import RemovableHandle, reachable
from ...core.tensor import Tensor
from .reducer import Reducer

__all__ = ["EarlyGradients"]

MIN_BYTES = 1 << 20
"""Below this, the message takes less time than the hooks."""


class EarlyGradients:
    """The gradients that one backward pass has computed so far.

    Args:
        reducer: gets each gradient when it is complete.
        index: the position of each parameter.
    """

    def __init__(self, reducer: Reducer, index: Mapping[Tensor, int]) -> None:
        self.reducer, self.index = reducer, index
        size = sum(p.numel() * p.element_size() for p in index)
        self.is_worthwhile = size >= MIN_BYTES and reducer.group.size() > 1
        self.handles: list[RemovableHandle] = []
        self.missing: Counter[int] = Counter()
        self.sums: dict[int, Any] = {}
        self.late: set[int] = set()  # these are taken from `.grad`, once the pass is over

    def begin(self, roots: Sequence[Tensor]) -> None:
        """Count the uses of the parameters behind the roots of a pass, and place the hooks."""
        if not (self.is_worthwhile and self.reducer.is_active):
            return
        self.end()
        for node in reachable([root._node for root in roots]):
            if not node._order:
                continue  # a leaf
            uses = [
                (position, self.index[edge])
                for position, edge in enumerate(node.edges)
                if edge is not None and not edge._order and edge in self.index
            ]
            if uses:
                self.missing.update(index for _, index in uses)
                self.handles.append(node.add_hook("after", partial(self.take, uses)))
        self.late = {index for index in self.missing if self.is_late(index)}

    def is_late(self, index: int) -> bool:
        """Whether only the engine knows the gradient: it has hooks, or `.grad` is in the bucket."""
        parameter = self.reducer.parameters[index]
        hooks, grad = parameter._hooks, parameter._grad
        is_view = grad is not None and grad is self.reducer.view_of(index)
        return is_view or bool(hooks and hooks.gradient) or parameter.is_complex()

    def take(
        self, uses: Sequence[tuple[int, int]], partials: Sequence[Tensor | None], _: Any
    ) -> None:
        """Take what an op has computed for some parameters."""
        for position, index in uses:
            g, parameter = partials[position], self.reducer.parameters[index]
            self.missing[index] -= 1
            if g is None or g.is_sparse or g.shape != parameter.shape or g.dtype != parameter.dtype:
                self.late.add(index)
            if index in self.late:
                continue
            assert g is not None
            known = self.sums.get(index)
            self.sums[index] = g._array if known is None else known + g._array
            if not self.missing[index]:
                self.reducer.take(index, self.sums.pop(index))

    def end(self) -> None:
        """Remove the hooks of the last pass."""
        for handle in self.handles:
            handle.remove()
        self.handles = []
        self.missing, self.sums, self.late = Counter(), {}, set()
