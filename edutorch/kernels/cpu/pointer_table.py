"""Many arrays in one call of a kernel, as a table of their addresses.

Passing 200 arrays to a compiled function would take longer than the function itself, so an
optimizer stores the addresses of its arrays once. A kernel numbers the elements of all tensors
consecutively, finds the tensor in which its part begins, and goes on to the next where one ends.
"""

from __future__ import annotations

from typing import Any

from numba import carray, njit, types  # pyright: ignore[reportPrivateImportUsage]
from numba.extending import intrinsic

__all__ = ["step_counter", "elements_of", "tensor_of"]


def pointer_type(typing, address, like):
    """Type `pointer`: an address cast to a pointer to elements of an array's dtype."""

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(
            arguments[0], context.get_value_type(signature.return_type.dtype).as_pointer()
        )

    return types.CPointer(like.dtype)(types.int64, like), lower


pointer: Any = intrinsic(pointer_type)


@njit
def tensor_of(element, ends):
    """Return the index of the tensor that holds an element, numbered through all tensors."""
    tensor = 0
    while element >= ends[tensor]:
        tensor += 1
    return tensor


@njit
def elements_of(address, first, count, like):
    """Return some elements of a tensor as an array; an address of 0 stands for no tensor."""
    if address != 0:
        address += first * like.itemsize
    return carray(pointer(address, like), (count,))


def add_to_counts(addresses, step, like):
    """Add a step to each of these counts; return the count if it is the same for all, or -1."""
    is_uniform = True
    total = carray(pointer(addresses[0], like), (1,))[0] + step
    for address in addresses:
        value = carray(pointer(address, like), (1,))
        value[0] += step
        is_uniform = is_uniform and value[0] == total
    return float(total) if is_uniform else -1.0


def step_counter() -> Any:
    """Compile `add_to_counts` for float32 and float64."""
    signatures = [
        types.float64(types.int64[::1], types.float64, dtype[::1])
        for dtype in (types.float32, types.float64)
    ]
    return njit(signatures, cache=True, error_model="numpy")(add_to_counts)
