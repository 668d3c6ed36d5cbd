"""`loss_parallel`: cross entropy of logits whose classes are divided, without gathering them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....core.tensor import Tensor
from ....ops import clamp, gather
from ..dispatch import SPECIAL
from ..dtensor import DTensor, wrap_local
from ..placement_types import Partial, Placement, Replicate, chunk_bounds
from ..redistribution import Spec

__all__ = ["loss_parallel"]


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Inside of it, `cross_entropy` works on logits that are divided along the classes.

    Each rank needs only the largest of its logits, the sum of its exponentials, and the logit of
    the right class, if that is one of its own: one number for each row and rank is sent.

    >>> with distributed.tensor.parallel.loss_parallel():
    ...     pass
    """
    before = {name: SPECIAL.get(name) for name in ("log_softmax", "nll_loss")}
    SPECIAL.update(log_softmax=log_softmax_of_parts, nll_loss=nll_loss_of_parts)
    try:
        yield
    finally:
        for name, function in before.items():
            if function is None:
                del SPECIAL[name]
            else:
                SPECIAL[name] = function


def divided_axis(input: Any, dim: int) -> int | None:
    """Return the axis of the mesh that divides `dim`; None if there is not exactly one."""
    if not isinstance(input, DTensor):
        return None
    axes = [i for i, p in enumerate(input.placements) if p.is_shard(dim % input.ndim)]
    others = [p for p in input.placements if p.is_partial()]
    return axes[0] if len(axes) == 1 and not others else None


def log_softmax_of_parts(input: Any, dim: int = -1, dtype: Any = None) -> Any:
    """x - max x - log Σ exp(x - max x), where max and Σ go over all ranks."""
    axis = divided_axis(input, dim)
    if axis is None or dtype is not None:
        return NotImplemented
    largest = over_ranks(input.detach().to_local().amax(dim, keepdim=True), input, dim, "max")
    shifted = input - largest
    total = shifted.exp().sum(dim, keepdim=True)
    return shifted - total.redistribute(placements=largest.placements).log()


def over_ranks(local: Tensor, input: DTensor, dim: int, reduce_op: str) -> DTensor:
    """Reduce what each rank has found along a divided axis."""
    spec = input._spec
    dim = dim % len(spec.shape)
    placements: tuple[Placement, ...] = tuple(
        Partial(reduce_op) if p.is_shard(dim) else p for p in spec.placements
    )
    sizes = tuple(1 if i == dim else size for i, size in enumerate(spec.shape))
    whole = tuple(Replicate() if p.is_partial() else p for p in placements)
    return wrap_local(local, Spec(spec.mesh, placements, sizes)).redistribute(placements=whole)


def nll_loss_of_parts(
    input: Any, target: Tensor, weight: Any = None, ignore_index: int = -100,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """-log p of the right class, of rows (n, classes), from the rank that has this class."""
    axis = divided_axis(input, 1)
    if axis is None or weight is not None or input.ndim != 2:
        return NotImplemented
    spec = input._spec
    mesh = spec.mesh
    if any(not p.is_replicate() for i, p in enumerate(spec.placements) if i != axis):
        return NotImplemented
    classes = target.full_tensor() if isinstance(target, DTensor) else target
    start, stop = chunk_bounds(spec.shape[1], mesh.size(axis), mesh.get_local_rank(axis))
    counts = classes != ignore_index
    is_here = (classes >= start) & (classes < stop) & counts
    local = input.to_local()
    if stop > start:
        own = clamp(classes - start, 0, stop - start - 1)
        picked = gather(local, 1, own.unsqueeze(1)).squeeze(1)
    else:
        picked = local.sum(1)
    terms = -picked * is_here.to(picked.dtype)
    placements = tuple(Partial() if i == axis else p for i, p in enumerate(spec.placements))
    whole = (Replicate(),) * mesh.ndim
    rows = wrap_local(terms, Spec(mesh, placements, (spec.shape[0],)))
    if reduction == "none":
        return rows.redistribute(placements=whole)
    total = rows.sum().redistribute(placements=whole)
    return total / counts.sum().to(picked.dtype) if reduction == "mean" else total
