"""Ops that bring tensors into a level of `vmap` and out of it.

Both are ordinary ops, so gradients flow through them: each is the other's gradient. A tensor
from outside that all examples use (a weight, say) enters unbatched, and its gradient is summed
over the examples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import backends
from ..backends.batching_random import batched_generator
from ..backends.numpy import Array, Namespace
from ..backends.vmap_errors import VmapError
from ..core.op import op
from ..core.tensor import Tensor
from ..modes import current, override_modes


@op(linear=True, fast=False, method=False)
def batched(xp: Namespace, input: Array, level: Any, place: int | None) -> Array:
    """The tensor inside a level of vmap: each example gets its slice of dimension `place`.

    With place=None all examples share the tensor.

    >>> vmap(lambda x: x.sum())(tensor([[1.0, 2.0], [3.0, 4.0]]))  # enters by dim 0
    tensor([3., 7.])
    """
    return level.enter(input, place)


@op(linear=True, fast=False, method=False)
def unbatched(xp: Namespace, input: Array, level: Any, place: int | None) -> Array:
    """The tensor outside a level of vmap: the examples are stacked along dimension `place`.

    With place=None they are summed.

    >>> vmap(lambda x: 2 * x, out_dims=1)(tensor([[1.0, 2.0], [3.0, 4.0]]))  # leaves by dim 1
    tensor([[2., 6.],
            [4., 8.]])
    """
    return level.leave(input, place)


batched.vjp(
    input=lambda g, level, place: unbatched(g, level, place),
    latex=r"g\ \text{of all examples}",
)
unbatched.vjp(
    input=lambda g, level, place: batched(g, level, place),
    latex=r"g\ \text{of each example}",
)


def lift_to_level(tensor: Tensor, level: Any) -> Tensor:
    """Return a tensor inside a level: unchanged if it is there, else shared by all examples."""
    inside = backends.of(tensor._array) is level
    return tensor if inside else batched(tensor, level, None)


def lift_to_innermost(tensor: Tensor) -> Tensor:
    """Return a tensor lifted to the innermost active level of vmap.

    With respect to such a tensor each example can be differentiated separately.
    """
    levels = current().batches
    return lift_to_level(tensor, levels[-1]) if levels else tensor


def draw_rows_outside(draw: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
    """Call `draw`, which samples per row of a matrix, once for the rows of all examples.

    Raises: VmapError: the level has randomness="same".
    """
    level: Any = backends.of(input._array)
    if level.randomness == "same":
        raise VmapError(
            "random",
            "vmap: Vmap does not currently support same randomness with a batched tensor input. "
            "Please use different randomness with vmap",
        )
    batched_generator(None, [level])
    rows = unbatched(input.detach(), level, 0)
    outer = tuple(batch for batch in current().batches if batch.level < level.level)
    with override_modes(batches=outer):
        samples = draw(rows.reshape(-1, rows.shape[-1]))
    return batched(samples.reshape(*rows.shape[:-1], -1), level, 0)
