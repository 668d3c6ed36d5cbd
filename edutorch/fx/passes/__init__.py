"""Passes: each takes a captured graph and returns a better one that computes the same bits.

    from edutorch.fx import passes
    better = passes.fold_constants(graph)

The graph that is given stays as it is, so that both can be looked at.
"""

from __future__ import annotations

from .dce_cse_fold import drop_unused, fold_constants, merge_equal
from .pipeline import standard
from .simplify import tidy

__all__ = ["drop_unused", "fold_constants", "merge_equal", "standard", "tidy"]
