"""The bilinear map: each output is a weighted sum of the products of two inputs."""

from __future__ import annotations

import math

from ...core.precision import composed_in_float32
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops import matmul, reshape, sum, unsqueeze

__all__ = ["bilinear"]


@composed_in_float32
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A weighted sum of all products x1ᵢ · x2ⱼ for each output: yₖ = x1ᵀ Aₖ x2 + bₖ.

    Args:
        input1, input2: (…, i) and (…, j).
        weight: A, (k, i, j).

    Raises: ShapeError: the sizes do not fit.

    >>> nn.functional.bilinear(tensor([[2.0]]), tensor([[3.0]]), tensor([[[10.0]]]))
    tensor([[60.]])
    """
    shapes = {
        "input1 (… i)": tuple(input1.shape),
        "input2 (… j)": tuple(input2.shape),
        "weight (k i j)": tuple(weight.shape),
    }
    fits = (
        weight.ndim == 3
        and input1.ndim > 0
        and input1.shape[:-1] == input2.shape[:-1]
        and (*input1.shape[-1:], *input2.shape[-1:]) == tuple(weight.shape[1:])
    )
    if not fits:
        raise ShapeError("bilinear", "the features do not fit the weight", shapes)
    k, i, j = weight.shape
    count = math.prod(input1.shape[:-1])
    left = matmul(reshape(input1, (count, i)), reshape(weight.permute(1, 0, 2), (i, k * j)))
    products = reshape(left, (count, k, j)) * unsqueeze(reshape(input2, (count, j)), 1)
    y = sum(products, -1).to(products.dtype)  # a sum of small integers is one of int64
    y = reshape(y, (*input1.shape[:-1], k))
    return y if bias is None else y + bias
