"""What no library can be faster than: the products of matrices in a step, and nothing else.

PyTorch counts their operations. At the speed of one large product, timed in the same rounds with
the same threads, they take so much of PyTorch's time for the step. Where that is more than a goal,
the goal cannot be met on this machine. (A convolution can do with fewer operations, by Winograd's
way for example: there it is a guide, and no floor.)
"""

from __future__ import annotations

from typing import Any

from .apart import EAGER, PRODUCT, Apart
from .timing import Result, Work
from .workloads import LARGE, LARGE_PRODUCT, same

OURS, THEIRS = "our product", "PyTorch's product"

WORTH_A_FLOOR = 1e6
"""With fewer operations in its products, a step has others to do."""


def products(rivals: dict[str, Work], operations: float) -> dict[str, Work]:
    """Return what has to be timed beside the rivals; nothing where it tells nothing."""
    if operations < WORTH_A_FLOOR or EAGER not in rivals:
        return {}
    import edutorch

    return {OURS: LARGE_PRODUCT.build(edutorch, same), THEIRS: Apart(PRODUCT, EAGER)}


def operations_of(step: Any) -> float:
    """Return how many operations the products in PyTorch's step have: 2 m k n for (m, k) (k, n)."""
    return float(step.operations()) if isinstance(step, Apart) else 0.0


def floor(result: Result, operations: float) -> float | None:
    """Return the floor as a ratio to PyTorch's time; None where it was not measured."""
    if OURS not in result.samples:
        return None
    quickest = min(result.ratio(rival, EAGER) for rival in (OURS, THEIRS))
    return quickest * operations / (2 * LARGE**3)
