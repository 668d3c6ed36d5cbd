"""The doors of `vmap`: how tensors enter a level, and how they leave it.

Both are ordinary ops, so gradients go through them: what entered by the one leaves by the
other, and the other way round. A tensor from outside that all examples use (a weight, say)
enters shared, and its gradient is the sum of what the examples have to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import backends
from ..backends.batching_random import drawn_inside
from ..backends.numpy import Array
from ..backends.vmap_errors import VmapError
from ..core.op import op
from ..core.tensor import Tensor
from ..modes import override_modes, current


@op(linear=True, fast=False, method=False)
def batched(xp: Any, input: Array, level: Any, place: int | None) -> Array:
    """The tensor inside of a level of vmap: each example gets its slice of dimension `place`.

    With place=None all examples share the tensor.

    >>> vmap(lambda x: x.sum())(tensor([[1.0, 2.0], [3.0, 4.0]]))  # enters by dim 0
    tensor([3., 7.])
    """
    return level.enter(input, place)


@op(linear=True, fast=False, method=False)
def unbatched(xp: Any, input: Array, level: Any, place: int | None) -> Array:
    """The tensor outside of a level of vmap: the examples lie along dimension `place` again.

    With place=None they are added up.

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
    """Return a tensor inside of a level: itself, or as one that all examples share."""
    inside = backends.of(tensor._array) is level
    return tensor if inside else batched(tensor, level, None)


def lift_to_innermost(tensor: Tensor) -> Tensor:
    """Return a tensor as the innermost open level of vmap has it.

    By such a tensor each example can be differentiated by itself.
    """
    levels = current().batches
    return lift_to_level(tensor, levels[-1]) if levels else tensor


def draw_rows_outside(draw: Callable[[Tensor], Tensor], input: Tensor) -> Tensor:
    """Call a function that draws for each row of a matrix with the rows of all examples.

    Raises: VmapError: the level does not let each example draw by itself.
    """
    level: Any = backends.of(input._array)
    if level.randomness == "same":
        raise VmapError(
            "random",
            "vmap: Vmap does not currently support same randomness with a batched tensor input. "
            "Please use different randomness with vmap",
        )
    drawn_inside(None, [level])
    rows = unbatched(input.detach(), level, 0)
    outer = tuple(batch for batch in current().batches if batch.level < level.level)
    with override_modes(batches=outer):
        found = draw(rows.reshape(-1, rows.shape[-1]))
    return batched(found.reshape(*rows.shape[:-1], -1), level, 0)
