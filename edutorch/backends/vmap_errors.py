"""Errors of `vmap`: operations that cannot be batched."""

from __future__ import annotations

from collections import Counter

from ..errors import EdutorchError

LOOPED: Counter[str] = Counter()
"""How often a function or an op was run once per example, by its name."""


class VmapError(EdutorchError, RuntimeError):
    """An operation that cannot be batched."""


class NotBatchableError(VmapError):
    """An operation that has to run once per example: its control flow depends on elements."""


def unsupported_error(op: str) -> VmapError:
    return VmapError(
        op,
        f"vmap: It looks like you're calling .{op}() on a Tensor. We don't support vmap over "
        f"calling .{op}() on a Tensor, please try to rewrite what you're doing with other "
        "operations",
        hint="inside of vmap a tensor stands for all examples at once; where(condition, a, b) "
        "chooses for each of them",
    )


def branching_error() -> NotBatchableError:
    return NotBatchableError(
        "bool",
        "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
        "flow. We don't support that yet",
        hint="the examples may go different ways; use where(condition, a, b), which computes both",
    )


def in_place_error() -> NotBatchableError:
    return NotBatchableError(
        "in-place",
        "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a "
        "Tensor `other` in extra_args that has more elements than `self`. This happened due to "
        "`other` being vmapped over but `self` not being vmapped over in a vmap",
        hint="write x = x + y instead of x += y, or start from a tensor that belongs to the "
        "batch: y.new_zeros(shape) instead of zeros(shape)",
    )


def dynamic_shape_error(what: str) -> VmapError:
    return VmapError(
        "vmap",
        "vmap: We do not support batching operators that can support dynamic shape. Attempting "
        f"to batch over {what}",
        hint="each example would get a result of another size; use where(condition, a, b) or "
        "masked_fill, which keep the shape",
    )


def different_shapes_error(shapes: list[tuple[int, ...]]) -> VmapError:
    return VmapError(
        "vmap",
        "vmap: the result has another shape for each example, and such results cannot be stacked",
        {"shapes": ", ".join(str(shape) for shape in shapes[:4])},
        "use where(condition, a, b) instead of picking by a mask",
    )
