"""The autocast policies of ops, by device: PyTorch's lists.

A name is that of an op or of a composed function. The arguments of a composed function with an
entry are converted as a whole, and the ops inside it are not, as in PyTorch, where it is one op.
For a function without an entry, the policies of its ops apply.

* LOWER_PRECISION: matrix products, fastest in 16 bits with sums in 32.
* FLOAT32: ops that overflow or lose precision in 16 bits: powers, norms, losses.
* FLOAT32_SET_OPT_DTYPE: the same, unless the caller passes a dtype.
* PROMOTE: the 16-bit dtype if all operands have it, float32 otherwise.
* FALLTHROUGH: one op without conversion in PyTorch, but composed of listed ones here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from ..backends import DEVICES
from ..core.composed import composition_of
from ..core.tensor import Tensor
from ..dtypes import bfloat16
from ..modes import current

LOWER_PRECISION, FLOAT32, FLOAT32_SET_OPT_DTYPE = "lower", "float32", "float32 unless told"
PROMOTE, REFUSED, FALLTHROUGH = "widest", "refused", "as it is"

Policies = dict[str, str]


def policy_table(**names: str) -> Policies:
    """Return the policy of each name, given the names of each policy in one string."""
    policies = {
        "lower": LOWER_PRECISION, "float32": FLOAT32, "unless_told": FLOAT32_SET_OPT_DTYPE,
        "widest": PROMOTE, "refused": REFUSED, "as_it_is": FALLTHROUGH,
    }  # fmt: skip
    return {name: policies[key] for key, text in names.items() for name in text.split()}


PRODUCTS = (
    "conv1d conv2d conv3d conv_nd conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d "
    "matmul mm bmm addmm addbmm baddbmm linear vecdot prelu "
    "scaled_dot_product_attention"
)
LOSSES = (
    "mse_loss l1_loss smooth_l1_loss huber_loss kl_div nll_loss poisson_nll_loss "
    "binary_cross_entropy_with_logits cosine_embedding_loss hinge_embedding_loss "
    "margin_ranking_loss soft_margin_loss multi_margin_loss multilabel_margin_loss "
    "triplet_margin_loss"
)

CPU = policy_table(
    lower=PRODUCTS + " affine_grid",
    float32=LOSSES + " binary_cross_entropy cross_entropy ctc_loss "
    "prod quantile nanquantile cdist trace polar view_as_complex stft "
    "avg_pool3d max_pool3d adaptive_avg_pool3d adaptive_max_pool3d "
    "adaptive_max_pool3d_with_indices fractional_max_pool2d fractional_max_pool2d_with_indices "
    "fractional_max_pool3d fractional_max_pool3d_with_indices max_unpool1d "
    "max_unpool2d max_unpool3d "
    "grid_sample grid_sampler grid_sampler_2d grid_sampler_3d "
    "fft fft2 fftn ifft ifft2 ifftn rfft rfft2 rfftn irfft irfft2 irfftn hfft ihfft "
    "cholesky cholesky_ex cholesky_inverse cholesky_solve cond eig eigh eigvals eigvalsh geqrf "
    "householder_product inv inv_ex inverse lstsq lu_solve matrix_rank orgqr ormqr pinverse qr "
    "solve svd svdvals tensorinv tensorsolve triangular_solve",
    widest="cat concat concatenate stack index_copy",
    as_it_is="convolution bilinear block_diag vander",
)

CUDA = policy_table(
    lower=PRODUCTS + " convolution addmv addr mv einsum_forward chain_matmul multi_dot "
    "run_recurrent lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
    float32=LOSSES + " acos asin cosh erfinv exp expm1 log log10 log1p log2 logsumexp pow "
    "reciprocal rsqrt sinh softplus square rms_norm tan layer_norm native_layer_norm group_norm "
    "cosine_similarity frobenius_norm nuclear_norm dist pdist cdist renorm",
    unless_told="prod softmax log_softmax cumprod cumsum sum vector_norm matrix_norm norm",
    widest="addcdiv addcmul atan2 bilinear cross dot vdot grid_sample grid_sampler index_put "
    "tensordot scatter_add inner",
    as_it_is="trace nansum nanmean mish celu logsigmoid adaptive_avg_pool1d vander lu_solve",
    refused="binary_cross_entropy",
)

POLICIES: dict[str, Policies] = {
    name: CUDA if device.has_gpu_rules else CPU for name, device in DEVICES.items()
}


# Policies that depend on the arguments ---------------------------------------------------------


def pad_policy(
    dtype: Any, input: Any, pad: Any, mode: str = "constant", *rest: Any, **named: Any
) -> str | None:
    """Return FLOAT32 for `replicate`, and for `reflect` with up to two axes."""
    axes = len(pad) // 2
    is_float32 = mode == "replicate" or (mode == "reflect" and axes < 3)
    return FLOAT32 if is_float32 else FALLTHROUGH


def max_pool_policy(dtype: Any, *args: Any, return_indices: bool = False, **named: Any) -> str:
    """Return FALLTHROUGH for pooling with indices, which is another op in PyTorch."""
    return FALLTHROUGH if return_indices or (len(args) > 6 and args[6]) else FLOAT32


def interpolate_policy(dtype: Any, *args: Any, mode: str = "nearest", **named: Any) -> str | None:
    """Return FLOAT32 but for the mode `area`, which is `adaptive_avg_pool2d`."""
    return None if "area" in (mode, *args[3:4]) else FLOAT32


def local_response_norm_policy(dtype: Any, input: Any, *args: Any, **named: Any) -> str | None:
    """Return FLOAT32 for images, for which PyTorch uses `avg_pool3d`."""
    return FLOAT32 if input.ndim > 3 else None


def rnn_policy(dtype: Any, step: Any, *args: Any, **named: Any) -> str | None:
    """Return LOWER_PRECISION for a whole LSTM in bfloat16; others are converted op by op."""
    return LOWER_PRECISION if step.__name__ == "lstm_step" and dtype is bfloat16 else None


def einsum_policy(dtype: Any, operands: Sequence[Any], equation: str) -> str | None:
    """Return LOWER_PRECISION if a shared axis is summed: that is a matrix product."""
    left, _, output = equation.replace(" ", "").replace("...", "").partition("->")
    letters = [letter for term in left.split(",") for letter in set(term)]
    summed = set(letters) - set(output) if "->" in equation else set(letters)
    return LOWER_PRECISION if any(letters.count(letter) > 1 for letter in summed) else None


def inner_policy(dtype: Any, input: Any, other: Any, **named: Any) -> str | None:
    """Return FALLTHROUGH for two vectors, which is `dot`; else it is `matmul`."""
    return FALLTHROUGH if input.ndim == other.ndim == 1 else None


ON_CPU: dict[str, Callable[..., str | None]] = {
    "pad": pad_policy,
    "max_pool3d": max_pool_policy,
    "local_response_norm": local_response_norm_policy,
    "run_recurrent": rnn_policy,
    "einsum_forward": einsum_policy,
    "inner": inner_policy,
}
ON_GPU: dict[str, Callable[..., str | None]] = {"interpolate": interpolate_policy}
DEPENDENT_POLICIES = {
    (device, name): policy
    for device, device_type in DEVICES.items()
    for name, policy in (ON_GPU if device_type.has_gpu_rules else ON_CPU).items()
}


def under_autocast(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a method so that autocast converts its arguments as a whole."""

    @functools.wraps(method)
    def wrapped(*args: Any, **named: Any) -> Any:
        autocast = current().autocast
        if autocast is None:
            return method(*args, **named)
        return autocast.call(method, name, args, named)

    return wrapped


def wrap_methods() -> None:
    """Wrap the methods of all listed names that are not ops: an op calls autocast itself.

    Such a method is a composed function with a policy, as in `x.addmm(a, b)`. The functions of
    these names are wrapped in `core/composed.py`.
    """
    for name in sorted({name for policies in POLICIES.values() for name in policies}):
        method = vars(Tensor).get(name)
        if (composition := composition_of(method)) is not None:
            composition.autocasts = True  # its call path is not written yet
        elif isinstance(method, FunctionType) and not hasattr(method, "op"):
            setattr(Tensor, name, under_autocast(method, name))
