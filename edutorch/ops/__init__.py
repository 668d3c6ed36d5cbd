"""Every op, by family. What is imported here is public as `edutorch.<name>`.

The order matters only for reading: rules are looked up when they run.
"""

from __future__ import annotations

from types import ModuleType as _Module

from ..core.tensor import Tensor as _Tensor
from .creation import arange, empty, eye, full, linspace, logspace, ones, zeros
from .from_data import as_tensor, from_numpy, tensor
from .like import empty_like, full_like, ones_like, zeros_like
from .elementwise import (
    abs, exp, exp2, expm1, log, log1p, log2, log10, logit, neg, positive, reciprocal, relu, rsqrt,
    sigmoid, softplus, sqrt, square,
)  # fmt: skip
from .rounding import ceil, floor, frac, nan_to_num, round, sign, trunc
from .trigonometry import (
    acos, acosh, asin, asinh, atan, atanh, cos, cosh, deg2rad, rad2deg, sin, sinc, sinh, tan, tanh,
)  # fmt: skip
from .special import erf, erfc, erfinv, xlogy
from .arithmetic import (
    add, addcdiv, addcmul, atan2, clamp, div, floor_divide, fmod, hypot, lerp, logaddexp, maximum,
    minimum, mul, pow, remainder, sub,
)  # fmt: skip
from .comparison import (
    allclose, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, eq, equal, ge, gt, isclose,
    isfinite, isinf, isnan, isneginf, isposinf, le, logical_and, logical_not, logical_or,
    logical_xor, lt, ne, signbit,
)  # fmt: skip
from .reduction import (
    all, amax, amin, any, argmax, argmin, count_nonzero, logsumexp, mean, prod, sum,
)  # fmt: skip
from .statistics import (
    aminmax, median, nanmean, nansum, norm, quantile, std, std_mean, var, var_mean,
)  # fmt: skip
from .running import cumprod, cumsum, diff, logcumsumexp
from .movement import (
    as_strided, as_strided_scatter, diagonal, narrow, permute, reshape, select, squeeze, t,
    transpose, unsqueeze,
)  # fmt: skip
from .movement import expand  # hidden below: a method only, as in PyTorch
from .axes import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_to,
    flatten,
    movedim,
    ravel,
    unflatten,
)
from .arrange import (
    broadcast_tensors, diag, diag_embed, flip, fliplr, flipud, meshgrid, repeat_interleave, roll,
    rot90, tile, tril, tril_indices, triu, triu_indices,
)  # fmt: skip
from .joining import (
    cat, chunk, column_stack, dstack, hstack, split, stack, tensor_split, unbind, vstack,
)  # fmt: skip
from . import indexing, random_fill
from .along import (
    gather, index_add, index_copy, index_fill, index_put, index_select, scatter, scatter_add, take,
    take_along_dim,
)  # fmt: skip
from .masks import argwhere, isin, masked_fill, masked_select, nonzero, where
from .linalg import (
    addmm, addmv, baddbmm, bmm, cdist, cross, dot, inner, kron, matmul, mm, mv, outer, tensordot,
    trace,
)  # fmt: skip
from .einsum import einsum
from .softmax import log_softmax, softmax
from .sorting import argsort, kthvalue, max, min, msort, sort, topk
from .counting import bincount, bucketize, histc, searchsorted
from .distinct import unique, unique_consecutive
from .extremes import cummax, cummin, mode, nanmedian
from .scatter_reduce import scatter_reduce
from .conversion import clone, fill, real
from .about import is_complex, is_floating_point, is_nonzero, is_tensor, numel
from .random import (
    Generator, bernoulli, initial_seed, manual_seed, multinomial, normal, rand, rand_like, randint,
    randn, randn_like, randperm,
)  # fmt: skip
from .random_state import get_rng_state, set_rng_state

# PyTorch's second names for the same functions; those of methods are methods too.
multiply, divide, true_divide, subtract, negative, absolute = mul, div, div, sub, neg, abs
arctan, arcsin, arccos, arctan2, arcsinh, arccosh, arctanh = (
    atan,
    asin,
    acos,
    atan2,
    asinh,
    acosh,
    atanh,
)
greater, greater_equal, less, less_equal, not_equal = gt, ge, lt, le, ne
swapaxes = swapdims = transpose
moveaxis, clip, fix = movedim, clamp, trunc
concat = concatenate = cat
row_stack, asarray = vstack, as_tensor

for _name in (
    "multiply", "divide", "true_divide", "subtract", "negative", "absolute", "arctan", "arcsin",
    "arccos", "arctan2", "arcsinh", "arccosh", "arctanh", "greater", "greater_equal", "less",
    "less_equal", "not_equal", "swapaxes", "swapdims", "moveaxis", "clip", "fix",
):  # fmt: skip
    setattr(_Tensor, _name, globals()[_name])

__all__ = [
    _name
    for _name, _value in globals().items()
    if not _name.startswith("_")
    and not isinstance(_value, _Module)
    and _name not in ("annotations", "expand")
]
