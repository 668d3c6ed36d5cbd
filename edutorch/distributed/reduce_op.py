"""The operations of reductions: `ReduceOp.SUM`, `AVG`, …"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = ["ReduceOp"]


class ReduceOp:
    """How the elements of all ranks become one: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR.

    AVG is the sum divided by the number of ranks. PREMUL_SUM multiplies by `factor` before the
    sum.

    >>> distributed.ReduceOp.SUM
    <ReduceOp.SUM>
    """

    SUM: ClassVar[ReduceOp]
    AVG: ClassVar[ReduceOp]
    PRODUCT: ClassVar[ReduceOp]
    MIN: ClassVar[ReduceOp]
    MAX: ClassVar[ReduceOp]
    BAND: ClassVar[ReduceOp]
    BOR: ClassVar[ReduceOp]
    BXOR: ClassVar[ReduceOp]
    PREMUL_SUM: ClassVar[ReduceOp]

    __slots__ = ("factor", "name")

    def __init__(self, op: str | ReduceOp, factor: Any = None) -> None:
        self.name = op.name if isinstance(op, ReduceOp) else op
        self.factor = factor

    def __repr__(self) -> str:
        return f"<ReduceOp.{self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReduceOp) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


NAMES = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
for _name in NAMES:
    setattr(ReduceOp, _name, ReduceOp(_name))


def make_premul_sum(factor: Any) -> ReduceOp:
    """Return the op that multiplies by a number or a tensor of one element, and then adds."""
    return ReduceOp("PREMUL_SUM", factor)
