"""Every op, by family. What is imported here is public as `edutorch.<name>`.

The order matters only to readers: names inside rules are looked up when a rule runs.
"""

from __future__ import annotations

from types import ModuleType as _Module

from ..core.tensor import Tensor as _Tensor
from ..core.argument_checks import wrap_functions as _guard
from .creation import (
    arange, empty, empty_permuted, empty_strided, eye, full, linspace, logspace, ones, range,
    scalar_tensor, zeros,
)  # fmt: skip
from .from_data import (
    as_tensor, asarray, from_dlpack, from_file, from_numpy, frombuffer, tensor,
)  # fmt: skip
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
from .gamma import digamma, lgamma, mvlgamma, polygamma
from .incomplete_gamma import igamma, igammac
from .modified_bessel import i0
from .arithmetic import (
    add, addcdiv, addcmul, atan2, clamp, div, floor_divide, fmod, hypot, lerp, maximum,
    minimum, mul, remainder, sub,
)  # fmt: skip
from .powers import pow
from .comparison import (
    allclose, bitwise_and, bitwise_not, bitwise_or, bitwise_xor, eq, equal, ge, gt, isclose,
    isfinite, isinf, isnan, isneginf, isposinf, le, logical_and, logical_not, logical_or,
    logical_xor, lt, ne, signbit,
)  # fmt: skip
from .more_arithmetic import float_power, logaddexp, logaddexp2, rsub
from .minmax import clamp_max, clamp_min, fmax, fmin, heaviside
from .floating_point import copysign, frexp, ldexp, nextafter
from .integers import bitwise_left_shift, bitwise_right_shift, gcd, lcm
from .reduction import (
    all, amax, amin, any, argmax, argmin, count_nonzero, logsumexp, mean, prod, sum,
)  # fmt: skip
from .statistics import aminmax, nanmean, nansum, norm
from .variance import std, std_mean, var, var_mean
from .quantiles import median, nanmedian, nanquantile, quantile
from .cumulative import cumprod, cumsum, logcumsumexp
from .calculus import cumulative_trapezoid, diff, gradient, trapezoid
from .views import (
    as_strided, as_strided_scatter, diagonal, narrow, permute, reshape, select, squeeze, t,
    transpose, unsqueeze,
)  # fmt: skip
from .views import expand  # left out of `__all__`: only a method, as in PyTorch
from .shape import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_to,
    flatten,
    movedim,
    ravel,
    swapaxes,
    unflatten,
)
from .rearrange import (
    broadcast_tensors, diag, diag_embed, diagflat, flip, fliplr, flipud, meshgrid,
    repeat_interleave, roll, rot90, tile, tril, tril_indices, triu, triu_indices,
)  # fmt: skip
from .joining import (
    cat, chunk, column_stack, dsplit, dstack, hsplit, hstack, split, split_with_sizes, stack,
    tensor_split, unbind, unsafe_chunk, unsafe_split, unsafe_split_with_sizes, vsplit, vstack,
)  # fmt: skip
from . import indexing, random_fill
from .gather_scatter import (
    gather, index_add, index_copy, index_fill, index_put, index_select, scatter_add, take,
    take_along_dim,
)  # fmt: skip
from .index_writes import (
    index_put_, index_reduce, masked_scatter, put, scatter,
)  # fmt: skip
from .view_copy import (
    alias_copy, as_strided_copy, detach, detach_, detach_copy, diagonal_copy, diagonal_scatter,
    expand_copy, narrow_copy, permute_copy, select_copy, select_scatter, slice_copy, slice_inverse,
    slice_scatter, split_copy, split_with_sizes_copy, squeeze_copy, t_copy, transpose_copy,
    unbind_copy, unfold_copy, unsqueeze_copy, view_as_complex_copy, view_as_real_copy, view_copy,
)  # fmt: skip
from .inplace_views import as_strided_, resize_as_
from .masking import argwhere, isin, masked_fill, masked_select, nonzero, where
from .linalg import (
    addmm, addmv, baddbmm, bmm, cdist, cross, dot, inner, kron, matmul, mm, mv, outer, tensordot,
    trace,
)  # fmt: skip
from .products import addbmm, addr, adjoint, block_diag, dist, ger, renorm, vdot
from .torch_linalg import (
    chain_matmul, cholesky, cholesky_inverse, cholesky_solve, det, eig, frobenius_norm, geqrf,
    inverse, logdet, lstsq, lu, lu_solve, lu_unpack, matrix_exp, matrix_power, matrix_rank,
    nuclear_norm, orgqr, ormqr, pinverse, qr, slogdet, solve, svd, symeig, triangular_solve, vander,
)  # fmt: skip
from .covariance import corrcoef, cov
from .eigen import lobpcg
from .low_rank import pca_lowrank, svd_lowrank
from .einsum import einsum
from .softmax import log_softmax, softmax
from .sorting import argsort, kthvalue, max, min, msort, sort, topk
from .bincount_searchsorted import bincount, bucketize, histc, searchsorted
from .unique import unique, unique_consecutive
from .cummax_mode import cummax, cummin, mode
from .histograms import histogram, histogramdd
from .combinatorics import cartesian_prod, combinations, nonzero_static, unravel_index
from .scatter_reduce import scatter_reduce
from .conversion import clone, fill, fill_, zero_
from .complex import (
    angle, complex, conj, conj_physical, imag, is_conj, is_neg, isreal, polar, real, resolve_conj,
    resolve_neg, sgn, view_as_complex, view_as_real,
)  # fmt: skip
from .windows import (
    bartlett_window, blackman_window, hamming_window, hann_window, kaiser_window,
)  # fmt: skip
from .predicates import (
    get_device, is_complex, is_distributed, is_floating_point, is_inference, is_nonzero,
    is_same_size, is_signed, is_tensor, numel,
)  # fmt: skip
from .random import (
    Generator, bernoulli, initial_seed, manual_seed, multinomial, normal, rand, randint, randn,
    randperm, seed,
)  # fmt: skip
from .random_like import rand_like, randint_like, randn_like
from .random_counts import binomial, poisson
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
swapdims = transpose
moveaxis, clip, fix = movedim, clamp, trunc
concat = concatenate = cat
row_stack, trapz = vstack, trapezoid

for _name in (
    "multiply", "divide", "true_divide", "subtract", "negative", "absolute", "arctan", "arcsin",
    "arccos", "arctan2", "arcsinh", "arccosh", "arctanh", "greater", "greater_equal", "less",
    "less_equal", "not_equal", "swapdims", "moveaxis", "clip", "fix",
):  # fmt: skip
    setattr(_Tensor, _name, globals()[_name])
    if hasattr(globals()[_name], "in_place"):
        setattr(_Tensor, f"{_name}_", globals()[_name].in_place)

# In-place methods that PyTorch has as functions too: exp_(x) is x.exp_().
for _name in (
    "abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil "
    "clamp clamp_max clamp_min clip conj_physical cos cosh deg2rad erf erfc exp exp2 expm1 fix "
    "floor frac gcd i0 lcm ldexp log log10 log1p log2 logit nan_to_num neg negative rad2deg "
    "reciprocal round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc xlogy"
).split():
    globals()[f"{_name}_"] = getattr(_Tensor, f"{_name}_")

# Operator names that PyTorch keeps from Python 2, and `reversed(tensor)`.
for _name in ("__div__", "__rdiv__", "__idiv__"):
    setattr(_Tensor, _name, getattr(_Tensor, _name.replace("div", "truediv")))


def _reversed(self: _Tensor) -> _Tensor:
    """The tensor with its first axis in reverse order."""
    return flip(self, (0,)) if self.ndim else self


_Tensor.__reversed__ = _reversed  # type: ignore[attr-defined]

_guard(globals())
abs.in_place = _Tensor.abs_  # the guarded one

__all__ = [
    _name
    for _name, _value in globals().items()
    if not _name.startswith("_")
    and not isinstance(_value, _Module)
    and _name not in ("annotations", "expand")
]
