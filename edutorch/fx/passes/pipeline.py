"""The standard pipeline of passes."""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Graph
from .dce_cse_fold import drop_unused, fold_constants, merge_equal
from .simplify import tidy

__all__ = ["PASSES", "standard"]

PASSES: tuple[Callable[[Graph], Graph], ...] = (drop_unused, fold_constants, tidy, merge_equal)


def standard(graph: Graph) -> Graph:
    """Run all passes in order.

    >>> graph = fx.capture(lambda x: (x * 1).exp() + x.exp(), ones(2)).graph
    >>> print(fx.passes.standard(graph).python_code().src.strip())
    def forward(self, x):
        exp = torch.exp(x);  x = None
        add = torch.add(exp, exp, alpha = 1);  exp = None
        return (add,)
    """
    for pass_ in PASSES:
        graph = pass_(graph)
    return graph
