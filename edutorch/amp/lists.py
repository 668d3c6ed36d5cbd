"""Which op computes in which type under autocast, on which device: PyTorch's lists.

A name is that of a function of ours, an op or a composed one: a composed function with an
entry is converted for as a whole, and the ops inside it are left alone, as in PyTorch,
where it is one op. A function without an entry follows the ops that it is composed of.

* LOWER: products, which a processor computes fastest in 16 bits and adds up in 32.
* FLOAT32: what would overflow or lose its digits in 16 bits: powers, norms, losses.
* FLOAT32_UNLESS_TOLD: the same, unless the caller asks for a dtype.
* WIDEST: 16 bits if all operands have them, float32 otherwise.
* AS_IT_IS: one op in PyTorch, which converts nothing, but composed of listed ones here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..dtypes import bfloat16

LOWER_PRECISION, FLOAT32, FLOAT32_SET_OPT_DTYPE = "lower", "float32", "float32 unless told"
PROMOTE, REFUSED, FALLTHROUGH = "widest", "refused", "as it is"

Policies = dict[str, str]


def policy_table(**names: str) -> Policies:
    """Return the policy of each name, given the names of each policy."""
    kinds = {
        "lower": LOWER_PRECISION, "float32": FLOAT32, "unless_told": FLOAT32_SET_OPT_DTYPE,
        "widest": PROMOTE, "refused": REFUSED, "as_it_is": FALLTHROUGH,
    }  # fmt: skip
    return {name: kinds[kind] for kind, text in names.items() for name in text.split()}


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
    lower=PRODUCTS + " convolution addmv addr mv einsum_of chain_matmul multi_dot "
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

# `strict` stands in for a GPU in the tests.
POLICIES: dict[str, Policies] = {"cpu": CPU, "cuda": CUDA, "strict": CUDA}


# What depends on how a function is called ------------------------------------------------------


def pad_policy(
    kind: Any, input: Any, pad: Any, mode: str = "constant", *rest: Any, **named: Any
) -> str | None:
    """Mirrored and repeated borders are computed in float32, for up to so many axes."""
    axes = len(pad) // 2
    listed = mode == "replicate" or (mode == "reflect" and axes < 3)
    return FLOAT32 if listed else FALLTHROUGH


def max_pool_policy(kind: Any, *args: Any, return_indices: bool = False, **named: Any) -> str:
    """Pooling that says where the largest numbers were is another op."""
    return FALLTHROUGH if return_indices or (len(args) > 6 and args[6]) else FLOAT32


def interpolate_policy(kind: Any, *args: Any, mode: str = "nearest", **named: Any) -> str | None:
    """A GPU enlarges images in float32; means over areas are `adaptive_avg_pool2d`."""
    return None if "area" in (mode, *args[3:4]) else FLOAT32


def local_response_norm_policy(kind: Any, input: Any, *args: Any, **named: Any) -> str | None:
    """Images are averaged over channels by `avg_pool3d`, sequences by `avg_pool2d`."""
    return FLOAT32 if input.ndim > 3 else None


def rnn_policy(kind: Any, step: Any, *args: Any, **named: Any) -> str | None:
    """A whole LSTM is one product in bfloat16, if the processor has these; others go op by op."""
    return LOWER_PRECISION if step.__name__ == "lstm_step" and kind is bfloat16 else None


def einsum_policy(kind: Any, operands: Sequence[Any], equation: str) -> str | None:
    """Factors of which a common axis is summed are a matrix product; other sums are not."""
    left, _, output = equation.replace(" ", "").replace("...", "").partition("->")
    letters = [letter for term in left.split(",") for letter in set(term)]
    summed = set(letters) - set(output) if "->" in equation else set(letters)
    return LOWER_PRECISION if any(letters.count(each) > 1 for each in summed) else None


def inner_policy(kind: Any, input: Any, other: Any, **named: Any) -> str | None:
    """Of two vectors it is `dot`, of others `matmul`."""
    return FALLTHROUGH if input.ndim == other.ndim == 1 else None


DEPENDENT_POLICIES: dict[tuple[str, str], Callable[..., str | None]] = {
    ("cpu", "pad"): pad_policy,
    ("cpu", "max_pool3d"): max_pool_policy,
    ("cpu", "local_response_norm"): local_response_norm_policy,
    ("cuda", "interpolate"): interpolate_policy,
    ("cpu", "run_recurrent"): rnn_policy,
    ("cpu", "einsum_forward"): einsum_policy,
    ("cpu", "inner"): inner_policy,
}

DEPENDENT_POLICIES |= {("strict", name): DEPENDENT_POLICIES[place, name] for place, name in DEPENDENT_POLICIES if place == "cuda"}
