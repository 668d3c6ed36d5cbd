"""Every op, by family. What is imported here is public as `edutorch.<name>`.

The order matters only for reading: rules are looked up when they run.
"""

from __future__ import annotations

from ..core.methods import as_method
from ..core.tensor import Tensor
from .creation import (
    arange, as_tensor, empty, empty_like, eye, from_numpy, full, full_like, linspace, ones,
    ones_like, tensor, zeros, zeros_like,
)  # fmt: skip
from .elementwise import (
    abs, acos, asin, atan, ceil, cos, exp, expm1, floor, log, log1p, log2, log10, nan_to_num, neg,
    positive, reciprocal, relu, round, rsqrt, sigmoid, sign, sin, softplus, sqrt, square, tan, tanh,
    trunc,
)  # fmt: skip
from .arithmetic import (
    add, atan2, clamp, div, floor_divide, lerp, maximum, minimum, mul, pow, remainder, sub,
)  # fmt: skip
from .comparison import (
    allclose, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, eq, equal, ge, gt, isclose,
    isfinite, isinf, isnan, le, logical_and, logical_not, logical_or, logical_xor, lt, ne, where,
)  # fmt: skip
from .reduction import (
    all, amax, amin, any, argmax, argmin, count_nonzero, cumprod, cumsum, logsumexp, mean, prod,
    sum, var,
)  # fmt: skip
from .movement import (
    as_strided, as_strided_scatter, broadcast_to, cat, chunk, diagonal, expand, flatten, flip,
    hstack, movedim, narrow, permute, ravel, repeat, reshape, roll, select, split, squeeze, stack,
    t, transpose, tril, triu, unbind, unflatten, unsqueeze, vstack,
)  # fmt: skip
from .indexing import (
    gather, index_select, masked_fill, masked_select, nonzero, scatter, scatter_add,
)  # fmt: skip
from .linalg import bmm, dot, einsum, matmul, mm, mv, outer
from .softmax import log_softmax, softmax
from .sorting import argsort, max, min, sort, topk
from .conversion import clone, real
from .random import (
    Generator, bernoulli, initial_seed, manual_seed, multinomial, normal, rand, rand_like, randint,
    randn, randn_like, randperm,
)  # fmt: skip

# PyTorch's second names for the same functions.
multiply, divide, true_divide, subtract, negative, absolute = mul, div, div, sub, neg, abs
arctan, arcsin, arccos, arctan2, concat, concatenate = atan, asin, acos, atan2, cat, cat
greater, greater_equal, less, less_equal, not_equal = gt, ge, lt, le, ne
swapaxes = swapdims = transpose
clip = clamp

for _name in (
    "multiply", "divide", "true_divide", "subtract", "negative", "absolute", "greater", "less",
    "swapaxes", "swapdims", "clip",
):  # fmt: skip
    setattr(Tensor, _name, globals()[_name])


@as_method
def std(input: Tensor, dim: object = None, keepdim: bool = False, *, correction: float = 1) -> Tensor:
    """The standard deviation: the square root of the variance.

    >>> std(tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return sqrt(var(input, dim, keepdim, correction=correction))


_HIDDEN = {"Tensor", "annotations", "as_method"} | {
    "arithmetic", "comparison", "conversion", "creation", "elementwise", "indexing", "linalg",
    "movement", "random", "reduction", "sorting",
}  # fmt: skip
__all__ = [name for name in globals() if not name.startswith("_") and name not in _HIDDEN]
