"""Ops that need more than a rule: what each rank computes is not the op itself.

vector_norm of a divided tensor      the norm of the parts' norms
index_select in divided rows         each rank looks up the rows that it has, the others are 0
"""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...ops import clamp, index_select
from ...ops.norms import vector_norm
from .dispatch import SPECIAL
from .dtensor import DTensor, wrap_local
from .placement_types import Partial, Placement, Replicate, chunk_bounds
from .redistribution import Redistribute, Spec

__all__: list[str] = []


def norm_of_parts(
    input: DTensor, ord: float = 2, dim: Any = None, keepdim: bool = False
) -> Any:  # fmt: skip
    """Compute the norm of all elements without gathering them."""
    spec = input._spec
    is_plain = not any(p.is_partial() for p in spec.placements) and dim is None and not keepdim
    if not is_plain or ord in (0, float("-inf")) or ord < 0:
        return NotImplemented
    if all(p.is_replicate() for p in spec.placements):
        return NotImplemented
    is_largest = ord == float("inf")
    if is_largest and input.requires_grad:
        return NotImplemented
    local = vector_norm(input.to_local(), ord)
    term = "max" if is_largest else "sum"
    placements = tuple(Partial(term) if p.is_shard() else p for p in spec.placements)
    value = wrap_local(local if is_largest else local**ord, Spec(spec.mesh, placements, ()))
    whole = value.redistribute(placements=[Replicate()] * spec.mesh.ndim)
    return whole if is_largest else whole ** (1 / ord)


def look_up_own_rows(input: Any, dim: int, index: Tensor) -> Any:
    """`index_select` where the rows of `input` are divided along one axis of the mesh."""
    if not isinstance(input, DTensor) or not isinstance(index, DTensor) or input.ndim != 2:
        return NotImplemented
    spec, placed = input._spec, index._spec
    mesh = spec.mesh
    axes = [axis for axis, p in enumerate(spec.placements) if p.is_shard(dim)]
    if dim != 0 or len(axes) != 1 or not placed.placements[axes[0]].is_replicate():
        return NotImplemented
    if any(not p.is_replicate() for a, p in enumerate(spec.placements) if a != axes[0]):
        return NotImplemented
    (axis,) = axes
    start, stop = chunk_bounds(spec.shape[0], mesh.size(axis), mesh.get_local_rank(axis))
    rows = index.to_local()
    is_here = (rows >= start) & (rows < stop)
    output: tuple[Placement, ...] = tuple(
        Partial() if a == axis else p for a, p in enumerate(placed.placements)
    )
    arriving = tuple(
        Partial() if p.is_shard() else own
        for p, own in zip(output, spec.placements, strict=True)
    )  # fmt: skip
    table = Redistribute.apply(input._local_tensor, spec, spec.placements, arriving)
    if stop == start:  # no rows at all
        picked = (table.sum(0, keepdim=True) * 0).expand(rows.shape[0], table.shape[1])
    else:
        picked = index_select(table, 0, clamp(rows - start, 0, stop - start - 1))
    local = picked * is_here.to(picked.dtype).unsqueeze(1)
    return wrap_local(local, Spec(mesh, output, (placed.shape[0], spec.shape[1])))


SPECIAL["vector_norm"] = norm_of_parts
SPECIAL["index_select"] = look_up_own_rows
