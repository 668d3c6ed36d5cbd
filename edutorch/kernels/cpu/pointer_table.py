"""Many arrays in one call of a kernel, as a table of their addresses.

Handing 200 arrays to a compiled function would take longer than the function itself, so an
optimizer notes once where its numbers lie. A kernel counts the numbers of all tensors through,
finds the tensor that its part begins in, and goes on to the next where one ends.
"""

from __future__ import annotations

from typing import Any

from numba import carray, njit, types  # pyright: ignore[reportPrivateImportUsage]
from numba.extending import intrinsic

__all__ = ["common_count", "numbers_of", "tensor_of"]


def pointer_type(typing, address, like):
    """Take an address for that of numbers such as those of an array."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(
            arguments[0], context.get_value_type(signature.return_type.dtype).as_pointer()
        )

    return types.CPointer(like.dtype)(types.int64, like), lower


pointer: Any = intrinsic(pointer_type)


@njit
def tensor_of(number, ends):
    """Return which tensor a number belongs to, counted through all of them."""
    tensor = 0
    while number >= ends[tensor]:
        tensor += 1
    return tensor


@njit
def numbers_of(address, first, count, like):
    """Return some numbers of a tensor as an array; of one that does not exist (0), nothing."""
    if address != 0:
        address += first * like.itemsize
    return carray(pointer(address, like), (count,))


def count(addresses, step, like):
    """Add a step to each of these numbers; return the number if it is the same for all, or -1."""
    same = True
    total = carray(pointer(addresses[0], like), (1,))[0] + step
    for address in addresses:
        held = carray(pointer(address, like), (1,))
        held[0] += step
        same = same and held[0] == total
    return float(total) if same else -1.0


def common_count() -> Any:
    """Compile `count` for both kinds of numbers."""
    signatures = [
        types.float64(types.int64[::1], types.float64, number[::1])
        for number in (types.float32, types.float64)
    ]
    return njit(signatures, cache=True, error_model="numpy")(count)
