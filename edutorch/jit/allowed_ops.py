"""The ops that a program may call by their PyTorch names, where ours take the same arguments.

A file names what it calls, so this list is what a file can reach: ops on tensors, and nothing that
reads a file, changes a setting or imports. What takes other arguments than ours is in
`operators.py` and `layer_operators.py`.
"""

from __future__ import annotations

ELEMENTWISE = """
abs absolute acos acosh addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh
asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min clip conj copysign cos cosh deg2rad
digamma div divide erf erfc erfinv exp exp2 expm1 fix floor floor_divide fmax fmin fmod frac gcd
greater greater_equal heaviside hypot i0 imag isclose isfinite isin isinf isnan isneginf isposinf
isreal lcm ldexp lerp less less_equal lgamma log log10 log1p log2 logaddexp logaddexp2 logical_and
logical_not logical_or logical_xor logit masked_fill maximum minimum multiply mvlgamma nan_to_num
neg negative not_equal polygamma positive pow rad2deg real reciprocal relu remainder
round rsqrt sgn sigmoid sign signbit sin sinc sinh softplus sqrt square sub subtract tan tanh
true_divide trunc where xlogy fill hardshrink selu celu prelu threshold rrelu
"""

REDUCTIONS = """
all allclose amax amin aminmax any argmax argmin bincount count_nonzero cummax cummin cumprod cumsum
diff dist equal histc kthvalue logcumsumexp logsumexp max mean median min mode nanmean nanmedian
nanquantile nansum norm prod quantile std std_mean sum trapezoid unique_consecutive var var_mean
"""

SHAPES = """
adjoint as_strided atleast_1d atleast_2d atleast_3d broadcast_to cat chunk clone
column_stack concat concatenate contiguous detach diag diag_embed diagonal diagonal_scatter dsplit
dstack expand_as flatten flip fliplr flipud hsplit hstack index_add index_copy
index_fill index_select is_contiguous is_nonzero masked_scatter masked_select meshgrid moveaxis
movedim mT narrow nonzero numel permute ravel repeat_interleave reshape reshape_as resolve_conj
roll rot90 row_stack scatter scatter_add scatter_reduce select select_scatter slice_scatter
split split_with_sizes squeeze stack storage_offset stride swapaxes swapdims t
take take_along_dim tensor_split tile transpose tril tril_indices triu triu_indices unbind unflatten
unfold unsqueeze view_as view_as_complex view_as_real vsplit vstack
"""

PRODUCTS = """
addbmm addmm addmv addr baddbmm bilinear bmm cdist chain_matmul cholesky cholesky_inverse
cholesky_solve cross det dot einsum ger inner inverse kron linear logdet matmul matrix_exp
matrix_power mm multi_dot mv outer pinverse qr slogdet svd tensordot trace vdot
"""

SEARCHES = "argsort bucketize searchsorted sort topk renorm cov corrcoef vander cosine_similarity"

CREATION = """
arange bernoulli complex empty empty_like empty_strided eye full full_like hann_window
hamming_window linspace logspace multinomial new_empty new_full new_ones new_zeros normal ones
ones_like polar poisson rand rand_like randint randint_like randn randn_like randperm scalar_tensor
zeros zeros_like bernoulli_ exponential_ normal_ uniform_ random_ geometric_ log_normal_ cauchy_
"""

LAYERS = """
affine_grid_generator alpha_dropout avg_pool1d batch_norm channel_shuffle conv1d conv2d conv3d
conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss ctc_loss dropout
embedding embedding_bag feature_alpha_dropout feature_dropout grid_sampler
grid_sampler_2d grid_sampler_3d group_norm gru gru_cell hinge_embedding_loss instance_norm
layer_norm log_softmax lstm lstm_cell margin_ranking_loss max_pool1d native_batch_norm
native_group_norm native_layer_norm pairwise_distance pdist pixel_shuffle pixel_unshuffle
poisson_nll_loss rms_norm rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell softmax triplet_margin_loss
"""

IN_PLACE_ONLY = "copy_ fill_ zero_ fill_diagonal_ requires_grad_ detach_ resolve_neg"
"""Names that end in an underscore without a twin above."""

QUESTIONS = "is_floating_point is_complex is_signed is_same_size element_size nelement get_device"

CONVERSIONS = "cpu float double half int long bool short bfloat16 type_as real"

ALLOWED_OPS = frozenset(
    " ".join(
        [ELEMENTWISE, REDUCTIONS, SHAPES, PRODUCTS, SEARCHES, CREATION, LAYERS, IN_PLACE_ONLY,
         QUESTIONS, CONVERSIONS]
    ).split()
)  # fmt: skip

SUBMODULE_OPS = {
    "linalg": frozenset(
        """
        cholesky cond cross det diagonal eigh eigvalsh inv lstsq matmul matrix_norm matrix_power
        matrix_rank multi_dot norm pinv qr slogdet solve solve_triangular svd svdvals vecdot
        """.split()
    ),
    "fft": frozenset(
        """
        fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn
        rfft rfft2 rfftfreq rfftn
        """.split()
    ),
    "special": frozenset(
        """
        bessel_j0 bessel_j1 digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammainc gammaincc
        gammaln i0 i0e i1 i1e log1p log_ndtr log_softmax logit logsumexp ndtr ndtri polygamma psi
        round sinc softmax xlog1py xlogy zeta
        """.split()
    ),
}
"""Ops of `torch.linalg`, `fft` and `special`: `torch.linalg_inv` in a program."""

LIST_RESULTS = frozenset(
    """
    atleast_1d chunk dsplit hsplit meshgrid split split_with_sizes tensor_split
    unbind vsplit stride
    """.split()
)
"""Ops that return a list in TorchScript, and a tuple in Python."""
