"""FLOPs of ops, computed from shapes. A multiplication and an addition count as two.

    matmul       2 · (elements of the result) · (length of the sums)
    convolution  2 · (elements of the result) · (elements of one filter); for a transposed
                 convolution: elements of the input
    elementwise  elements of the result
    reduction    elements of the input
    data movement: none

In backward, each gradient of a matmul or a convolution is a product of the same size, so its node
counts the forward's FLOPs once per gradient that it returns. Nodes of other ops count nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Shapes = Sequence[Sequence[int]]

PRODUCTS = {"matmul", "mm", "bmm", "mv", "dot", "addmm", "linear", "baddbmm", "addmv", "vdot"}
"""Matrix products: sums over the last axis of the first matrix."""

CONVOLUTIONS = {"conv1d", "conv2d", "conv3d", "conv_nd"}


def flops_of(op: Any, shapes: Shapes, output: Sequence[int]) -> int:
    """Return the FLOPs of an op's forward (see above).

    Args:
        shapes: the shapes of its inputs; () for a number.
        output: the shape of its result.
    """
    name, family = getattr(op, "name", ""), getattr(op, "family", None)
    if name in PRODUCTS and shapes:
        matrices = shapes[1:] if name.startswith(("addm", "badd")) else shapes
        return 2 * math.prod(output) * (matrices[0][-1] if matrices and matrices[0] else 1)
    if (
        name == "conv_transpose_nd"
    ):  # each element of the input is multiplied by each weight of its filter
        return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])
    if name in CONVOLUTIONS:
        return 2 * math.prod(output) * math.prod(shapes[1][1:])
    if family is None:
        return 0
    if family.reduces:
        return math.prod(shapes[0]) if shapes else 0
    return math.prod(output) if family.broadcasts else 0


def is_product_op(op: Any) -> bool:
    """Return True for products, each of whose gradients costs as much as the forward."""
    name = getattr(op, "name", "")
    return name in PRODUCTS or name in CONVOLUTIONS or name == "conv_transpose_nd"
