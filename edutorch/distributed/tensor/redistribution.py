"""From one placement to another: a collective for each axis of the mesh that changes.

    from          to            forward          backward
    Shard(a)      Replicate     all_gather       take the own part
    Replicate     Shard(a)      take the part    all_gather
    Shard(a)      Shard(b)      all_to_all       all_to_all
    Partial       Replicate     all_reduce       nothing
    Partial       Shard(a)      reduce_scatter   all_gather
    Replicate     Partial       0 but on one     nothing

The gradient of a tensor is placed as the tensor is; that of a `Partial` one, whose terms all get
the same gradient, is replicated. So backward is a redistribution too, in the other direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...autograd import Function
from ...core.tensor import Tensor
from ...nn.functional import pad
from ...ops import cat, empty, zeros_like
from ..collectives import (
    all_gather_into_tensor,
    all_reduce,
    all_to_all_single,
    reduce_scatter_tensor,
)
from ..device_mesh import DeviceMesh
from ..errors import DistError
from ..reduce_op import ReduceOp
from .placement_types import Partial, Placement, Replicate, Shard, chunk_bounds

__all__ = [
    "PlaceGradient",
    "Redistribute",
    "Spec",
    "gradient_placements",
    "local_shape",
    "redistribute_local",
]

REDUCE_OPS = {
    "sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
}  # fmt: skip

Placements = tuple[Placement, ...]


class Spec(NamedTuple):
    """Where a distributed tensor is: its mesh, a placement for each axis of it, its whole shape."""

    mesh: DeviceMesh
    placements: Placements
    shape: tuple[int, ...]


def gradient_placements(placements: Sequence[Placement]) -> Placements:
    """Return where the gradient of a tensor with these placements is."""
    return tuple(Replicate() if p.is_partial() else p for p in placements)


def local_shape(spec: Spec) -> tuple[int, ...]:
    """Return the shape of the part that this rank has."""
    sizes = list(spec.shape)
    for axis, placement in enumerate(spec.placements):
        if isinstance(placement, Shard):
            sizes[placement.dim] = length_here(sizes[placement.dim], spec.mesh, axis)
    return tuple(sizes)


def length_here(size: int, mesh: DeviceMesh, axis: int) -> int:
    start, stop = chunk_bounds(size, mesh.size(axis), mesh.get_local_rank(axis))
    return stop - start


class Step(NamedTuple):
    """One change: along an axis of the mesh, from a placement to another."""

    axis: int
    before: Placement
    after: Placement


def plan(current: Sequence[Placement], target: Sequence[Placement]) -> list[Step]:
    """Return the changes from `current` to `target`.

    Where two axes of the mesh divide the same axis of the tensor, the later one divides the parts
    of the earlier: it is undone first and done again last.
    """
    steps, now = [], list(current)
    changing = [i for i, (a, b) in enumerate(zip(current, target, strict=True)) if a != b]
    dims = {p.dim for i in changing for p in (current[i], target[i]) if isinstance(p, Shard)}
    nested = [
        i for i, p in enumerate(current)
        if i > min(changing, default=i) and isinstance(p, Shard) and p.dim in dims
    ]  # fmt: skip
    is_direct = len(changing) == 1 and nested in ([], changing)
    if is_direct:
        (axis,) = changing
        return [Step(axis, current[axis], target[axis])]
    for axis in sorted({*changing, *nested}, reverse=True):
        if not now[axis].is_replicate():
            steps.append(Step(axis, now[axis], Replicate()))
            now[axis] = Replicate()
    for axis, placement in enumerate(target):
        if now[axis] != placement:
            steps.append(Step(axis, now[axis], placement))
    return steps


def redistribute_local(local: Tensor, spec: Spec, target: Sequence[Placement]) -> Tensor:
    """Return the part of this rank for other placements. All ranks of the mesh call it."""
    now = list(spec.placements)
    for step in plan(spec.placements, target):
        earlier = Spec(spec.mesh, tuple(now[: step.axis]), spec.shape)
        local = take_step(local, spec.mesh, step, local_shape(earlier))
        now[step.axis] = step.after
    return local


def take_step(local: Tensor, mesh: DeviceMesh, step: Step, whole: tuple[int, ...]) -> Tensor:
    """Run one change. `whole` is the shape that the ranks along this axis have together."""
    axis, before, after = step
    group, parts, here = mesh.get_group(axis), mesh.size(axis), mesh.get_local_rank(axis)
    if isinstance(before, Shard) and isinstance(after, Shard):
        return exchange(local, before.dim, after.dim, (parts, here), whole, group)
    if isinstance(before, Shard):
        local = gather(local, before.dim, parts, whole, group)
        before = Replicate()
    if isinstance(before, Partial):
        if isinstance(after, Shard) and before.reduce_op in ("sum", "avg"):
            return reduce_and_scatter(local, before, after.dim, (parts, here), group)
        local = local.clone()
        all_reduce(local, REDUCE_OPS[before.reduce_op], group)
    if isinstance(after, Shard):
        start, stop = chunk_bounds(local.shape[after.dim], parts, here)
        return local.narrow(after.dim, start, stop - start).contiguous()
    if isinstance(after, Partial):
        if after.reduce_op == "sum":
            return local if here == 0 else zeros_like(local)
        if after.reduce_op == "product":
            raise DistError("redistribute", "there is no way from Replicate to Partial(product)")
    return local


def padded(local: Tensor, dim: int, length: int) -> Tensor:
    """Return a tensor with `dim` in front and zeros up to `length`, contiguous."""
    first = local.movedim(dim, 0)
    missing = length - first.shape[0]
    if missing:
        first = pad(first, (0, 0) * (first.ndim - 1) + (0, missing))
    return first.contiguous()


def gather(local: Tensor, dim: int, parts: int, whole: tuple[int, ...], group: Any) -> Tensor:
    """Return the whole of which each rank has a part along `dim`."""
    size = whole[dim]
    part = padded(local, dim, -(-size // parts))
    out = empty((parts * part.shape[0], *part.shape[1:]), dtype=part.dtype, device=part.device)
    all_gather_into_tensor(out, part, group)
    return out[:size].movedim(0, dim).contiguous()  # what is padded comes last


def reduce_and_scatter(
    local: Tensor, before: Partial, dim: int, place: tuple[int, int], group: Any
) -> Tensor:
    """Return the own part, along `dim`, of the sum over all ranks."""
    parts, here = place
    size = local.shape[dim]
    length = -(-size // parts)
    terms = padded(local, dim, length * parts)
    out = empty((length, *terms.shape[1:]), dtype=terms.dtype, device=terms.device)
    reduce_scatter_tensor(out, terms, REDUCE_OPS[before.reduce_op], group)
    start, stop = chunk_bounds(size, parts, here)
    return out[: stop - start].movedim(0, dim).contiguous()


def exchange(
    local: Tensor, old: int, new: int, place: tuple[int, int], whole: tuple[int, ...], group: Any
) -> Tensor:
    """Return the own part along `new`, where each rank had one along `old`."""
    parts, here = place
    rows = -(-whole[old] // parts)
    start, stop = chunk_bounds(whole[new], parts, here)
    full = padded(local, old, rows).movedim(0, old)
    blocks = padded(full, new, -(-whole[new] // parts) * parts)
    received = empty(blocks.shape, dtype=blocks.dtype, device=blocks.device)
    all_to_all_single(received, blocks, group=group)
    pieces = [piece[: stop - start].movedim(0, new) for piece in received.chunk(parts)]
    return cat(pieces, old).narrow(old, 0, whole[old]).contiguous()


class Redistribute(Function):
    """The redistribution that autograd records, on local tensors.

    `forward(local, spec, target, arriving)`: `arriving` are the placements of the gradient that
    comes back; `Partial` where each rank computes a term of it.
    """

    @staticmethod
    def forward(
        ctx: Any, local: Tensor, spec: Spec, target: Placements, arriving: Placements
    ) -> Any:
        """Change the placements."""
        ctx.spec, ctx.arriving, ctx.scale = spec, arriving, 1.0
        for axis, (before, after) in enumerate(zip(spec.placements, target, strict=True)):
            if before.is_partial("avg") and not after.is_partial():
                ctx.scale /= spec.mesh.size(axis)
        result = redistribute_local(local, spec, target)
        return result.view_as(result) if result is local else result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        """Bring the gradient to where the tensor was."""
        spec = ctx.spec
        arriving = Spec(spec.mesh, ctx.arriving, spec.shape)
        result = redistribute_local(g, arriving, gradient_placements(spec.placements))
        return (result if ctx.scale == 1.0 else result * ctx.scale), None, None, None


class PlaceGradient(Function):
    """The local tensor itself, whose gradient is brought to other placements.

    `forward(local, spec, leaving)`: `leaving` are those in which the gradient goes on.
    """

    @staticmethod
    def forward(ctx: Any, local: Tensor, spec: Spec, leaving: Placements) -> Any:
        """Return the local tensor."""
        ctx.spec, ctx.leaving = spec, leaving
        return local.view_as(local)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        """Bring the gradient from where the tensor is to where it is wanted."""
        spec = ctx.spec._replace(placements=gradient_placements(ctx.spec.placements))
        return redistribute_local(g, spec, ctx.leaving), None, None
