"""How much arithmetic an op is, from its shapes. A multiplication and an addition are two.

    matmul     2 · (numbers in the result) · (length of the sums)
    conv       2 · (numbers in the result) · (numbers in one filter); for a transposed one
               of the input
    elementwise and others that compute each number once: numbers in the result
    reduction  numbers in the input
    moving numbers around: none

In backward, each gradient of a matmul or a convolution is a sum of the same size, so
its node counts the forward's once per gradient that it returns. Nodes of other ops
count nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Shapes = Sequence[Sequence[int]]

PRODUCTS = {"matmul", "mm", "bmm", "mv", "dot", "addmm", "linear", "baddbmm", "addmv", "vdot"}
"""Ops that are a sum of products over one axis: of the last axis of the first matrix."""

CONVOLUTIONS = {"conv1d", "conv2d", "conv3d", "conv_nd"}


def flops_of(op: Any, shapes: Shapes, output: Sequence[int]) -> int:
    """Return how many operations an op's forward is (see above).

    Args:
        shapes: of its inputs; () for a number.
        output: the shape of its result.
    """
    name, family = getattr(op, "name", ""), getattr(op, "family", "")
    if name in PRODUCTS and shapes:
        matrices = shapes[1:] if name.startswith(("addm", "badd")) else shapes
        return 2 * math.prod(output) * (matrices[0][-1] if matrices and matrices[0] else 1)
    if name == "conv_transpose_nd":  # each number of the input meets each weight of its filter
        return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])
    if name in CONVOLUTIONS:
        return 2 * math.prod(output) * math.prod(shapes[1][1:])
    if family == "reduction":
        return math.prod(shapes[0]) if shapes else 0
    return math.prod(output) if family == "elementwise" else 0


def is_product_op(op: Any) -> bool:
    """Say whether each gradient of the op costs as much as its forward."""
    name = getattr(op, "name", "")
    return name in PRODUCTS or name in CONVOLUTIONS or name == "conv_transpose_nd"
