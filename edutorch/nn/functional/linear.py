"""The linear layer, y = x Wᵀ + b, and the bilinear one, yₖ = x1ᵀ Aₖ x2 + bₖ."""

from __future__ import annotations

import math
from typing import Any

from ...backends.numpy import Array, Namespace
from ...core.composed import composed_in_float32
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops import matmul, reshape, squeeze, sum, unsqueeze
from ...ops.linalg import matrix_product
from .op_decorators import ArrayOrTensor, check_same_dtype, compute_in_float32, layer

__all__ = ["bilinear", "linear"]


@layer(
    "... k, m k, m -> ... m", hint=lambda *arrays: features_hint(*arrays), dtypes="ifc", out=True
)
def linear(xp: Namespace, input: Array, weight: Array, bias: Array | None = None) -> Array:
    """Affine map of the last axis: y = x Wᵀ + b.

    Args:
        input: (..., k).
        weight: (m, k), or (k) for a single output without an axis.
        bias: (m), or () for a single output.

    Shape: (..., m), or (...) with a weight of one axis.

    Raises: ShapeError: the last axis of `input` is not as long as W's rows.
        DTypeError: input and weight have different dtypes.

    >>> nn.functional.linear(tensor([[1.0, 2.0]]), tensor([[3.0, 4.0]]), tensor([5.0]))
    tensor([[16.]])
    """
    if input.dtype is not weight.dtype:
        check_same_dtype("linear", {"input": input, "weight": weight})
    if bias is not None and bias.dtype is not weight.dtype:
        check_same_dtype("linear", {"input": input, "weight": weight, "bias": bias})
    if input.itemsize == 2 and input.dtype.kind not in "iu":
        return compute_in_float32(linear.op.forward, xp, input, weight, bias)
    if input.ndim <= 2:
        y = matrix_product(xp, input, weight.T)
    else:  # one large product is faster than one for each sample
        y = matrix_product(
            xp, input.reshape(math.prod(input.shape[:-1]), input.shape[-1]), weight.T
        )
        y = y.reshape(*input.shape[:-1], weight.shape[0])
    if bias is not None:
        y += bias
    return y


linear.vjp(
    input=lambda g, weight: (
        g @ weight
        if len(g.shape) <= 2
        else reshape(flatten_batch(g) @ weight, (*g.shape[:-1], weight.shape[-1]))
    ),
    weight=lambda g, input: flatten_batch(g).T @ flatten_batch(input),
    bias=lambda g: g,  # the engine sums it over all rows
    latex={"input": r"g\,W", "weight": r"g^\top x", "bias": r"\textstyle\sum g"},
)


def one_output(input: object, weight: object, bias: object = None) -> Any:
    """Return x · w + b for a weight of one axis, or None for other weights."""
    if not isinstance(weight, Tensor) or weight.ndim != 1:
        return None
    if bias is not None and getattr(bias, "ndim", 0):
        return None
    row = None if bias is None else reshape(bias, (1,))
    return squeeze(linear(input, unsqueeze(weight, 0), row), -1)


linear.op.composed = one_output


def flatten_batch(x: ArrayOrTensor) -> Any:
    """Join all axes but the last: (…, k) to (n, k)."""
    return x if len(x.shape) == 2 else reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def features_hint(input: Array, weight: Array, bias: Array | None = None) -> str | None:
    """Return a hint about features that do not fit the layer."""
    if weight.ndim != 2 or not input.ndim or input.shape[-1] == weight.shape[1]:
        return None
    features = weight.shape[1]
    hint = f"the layer expects {features} features in the last axis"
    if math.prod(input.shape[1:]) == features:
        flat = (input.shape[0], features)
        return f"{hint}; flatten the other axes first: x.flatten(1) gives {flat}"
    if math.prod(input.shape) == features:
        return f"{hint}; flatten the sample first: x.flatten() gives ({features},)"
    if input.ndim == 2 and input.shape[0] == features:
        return f"{hint}; did you mean x.T?"
    return f"{hint}, or should be made for {input.shape[-1]}"


# The bilinear map -----------------------------------------------------------------------------


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
    # X1 and A as one product, then a sum over j: k matrices at once.
    left = matmul(reshape(input1, (count, i)), reshape(weight.permute(1, 0, 2), (i, k * j)))
    products = reshape(left, (count, k, j)) * unsqueeze(reshape(input2, (count, j)), 1)
    y = sum(products, -1).to(products.dtype)  # a sum of small integers is one of int64
    y = reshape(y, (*input1.shape[:-1], k))
    return y if bias is None else y + bias
