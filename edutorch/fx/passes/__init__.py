"""Optimization passes: each takes a captured graph and returns one that computes the same bits.

    from edutorch.fx import passes
    better = passes.fold_constants(graph)

The input graph is not modified, so that both can be compared.
"""

from __future__ import annotations

from .dce_cse_fold import drop_unused, fold_constants, merge_equal
from .pipeline import standard
from .simplify import tidy

__all__ = ["drop_unused", "fold_constants", "merge_equal", "standard", "tidy"]
