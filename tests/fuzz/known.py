"""Calls that the fuzzer skips, and intended differences from PyTorch, with reasons."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np

from .known_conditions import CONDITIONS, DIFFERENT_WHERE
from .known_layers import IN_LAYERS

UNTRIED: tuple[tuple[str, str], ...] = (
    (r"(set|get|is|use|are)_(?!same_size|nonzero|signed|complex|floating|tensor|conj|neg).*",
     "a setting of the library, or a question about one"),
    (r"(seed|initial_seed|manual_seed|compiled_with_cxx11_abi|clear_autocast_cache|autocast.*|"
     r"set_.*|typename|compile|vmap|load|save|no_grad|enable_grad|inference_mode|.*_grad_enabled)",
     "no function of tensors"),
    (r"(Generator|Size|Tensor|device|dtype|layout|memory_format|finfo|iinfo|OutOfMemoryError|"
     r".*Tensor|Tensor\.(new|storage|untyped_storage|storage_type|data_ptr|const_data_ptr))",
     "makes or describes an object of the library"),
    (r"(tensor|as_tensor|asarray|from_.*|frombuffer|can_cast|promote_types|result_type|"
     r"broadcast_shapes|is_storage|scalar_tensor|Tensor\.(numpy|tolist|item|apply_|map_|map2_|set_|"
     r"copy_|module_load|as_subclass|backward|register.*|retain_grad|requires_grad_|record_stream|"
     r"pin_memory|cuda|cpu|share_memory_|is_set_to|reinforce|type|to|type_as|get_device|is_pinned))",
     "takes no tensors, or other arguments than numbers: tested by hand"),
    (r"(empty.*|Tensor\.(new_empty.*|resize.*)|resize_as_|nonzero_static)",
     "returns memory that was not written"),
    (r"(.*symeig|eig|Tensor\.eig|lstsq|Tensor\.lstsq|solve|Tensor\.solve|matrix_rank)",
     "removed from PyTorch: it only says so"),
    (r"(lobpcg|.*rnn_tanh|.*rnn_relu|lstm|gru|native_.*|convolution|.*_copy|(Tensor\.)?slice_inverse)",
     "PyTorch's own inner form of a function that is tried, or an iteration"),
    (r"nn\.(Module.*|Parameter.*|Buffer|Uninitialized.*|Container|Sequential|Lazy.*|DataParallel|"
     r"SyncBatchNorm|RNNBase|RNNCellBase|Identity|Transformer.*|LinearCrossEntropy.*|"
     r"AdaptiveLogSoftmaxWithLoss|factory_kwargs|CrossMapLRN2d|TripletMarginWithDistanceLoss)",
     "a container, a base class, or made of modules that are tried"),
    (r"nn\.functional\.(multi_head_attention_forward|linear_cross_entropy|"
     r"triplet_margin_with_distance_loss|handle_torch_function|boolean_dispatch)",
     "as the module is tried, or takes a function"),
    (r"optim\.(Optimizer|SparseAdam|swap_in.*)", "not an optimizer of dense tensors"),
    (r"distributions\.(Distribution|ExponentialFamily|Independent|TransformedDistribution|"
     r"MixtureSameFamily|LKJCholesky|ExpRelaxedCategorical|LogitRelaxedBernoulli)",
     "made of other distributions"),
    (r"linalg\.(LinAlgError|Tensor)|fft\.Tensor|special\.Tensor", "no function"),
)  # fmt: skip

RANDOM = re.compile(
    r"(nn\.functional\.|nn\.|Tensor\.)?(rand.*|bernoulli_?|multinomial|normal_?|poisson|binomial|"
    r".*dropout.*|.*Dropout.*|rrelu_?|RReLU|gumbel_softmax|fractional_max_pool.*|"
    r"FractionalMaxPool.*|uniform_|random_|cauchy_|exponential_|geometric_|log_normal_|"
    r".*_lowrank)"
)
"""What draws random numbers: other ones than PyTorch's, so that only shapes and dtypes count."""

UNIQUE_OUTPUTS = {
    "svd": "output[1]", "eigh": "output[0]", "eig": "", "eigvals": "", "qr": "", "lu": "output[0]",
    "geqrf": "", "ldl_factor.*": "", "lu_factor.*": "", "unique.*": "output output[0]",
    "lstsq": "output[0]",
}  # fmt: skip
"""What is unique in the outputs of a decomposition; the rest, and its gradients, are left out."""

DIFFERENT: tuple[tuple[str, str, str], ...] = (
    *IN_LAYERS,
    (r"Tensor\.(eq|ne|lt|le|gt|ge|less|greater|not_equal|less_equal|greater_equal|logical_\w+)_",
     "(requires_grad|forward mode|gradient|structure).*",
     "a comparison has no derivative: in place, too, its result requires no gradient"),
    (r"(special\.)?(bessel_.*|scaled_modified_bessel_.*|modified_bessel_.*|airy_ai|"
     r"spherical_bessel_j0)", "(requires_grad|forward mode|gradient|second).*",
     "PyTorch has no derivative, or a 0 in forward mode"),
    (r"(special\.|Tensor\.)?(i0|i1|bessel_[jy][01]|airy_ai|polygamma|digamma|zeta|"
     r"chebyshev_.*|shifted_chebyshev_.*)_?",
     r"value.* \(?-?(nan|inf)\S* in PyTorch.*",
     "PyTorch answers NaN at ∞ and beyond what its recurrence reaches; the limit is known"),
    (r".*", "refused.*Unexpected floating ScalarType.*",
     "float16 under an autocast to bfloat16: where PyTorch composes, it does not look"),
    (r"(Tensor\.)?polar", "gradient.*", "at length 0 the length's derivative is the direction"),
    (r"(Tensor\.)?as_strided_scatter", "(gradient|second|forward mode).*",
     "PyTorch gives the gradient to the numbers that were written over"),
    (r"(Tensor\.|special\.)?(ar?c?cosh|log_ndtr)_?",
     r"(gradient|second|forward mode).* \(?-?(nan|inf)\S* (here|in PyTorch).*",
     "outside the domain, or where an intermediate overflows: NaN stays NaN, the limit is known"),
    (r"(Tensor\.)?(clamp|clip)_?(min|max)?_?", "forward mode.*",
     "at a tie the tangent is the input's, as the gradient is in backward; PyTorch's are at odds"),
    (r"(Tensor\.)?(cumprod|hypot)_?", r"gradient.* \(?-?(nan|inf)\S* in PyTorch.*",
     "PyTorch divides by 0 or ∞ on the way"),
    (r"(Tensor\.)?cholesky_inverse", r"value.*j\)? in PyTorch.*",
     "a factor whose diagonal is not real: LAPACK takes half of it"),
    (r"linalg\.cholesky_ex", r"(value|gradient|second|forward mode).* \(?nan\S* here.*",
     "the factor of a matrix that is not positive-definite is NaN: LAPACK leaves it unfinished"),
    (r"linalg\.cholesky(_ex)?|(Tensor\.)?cholesky",
     r"(gradient|second).*: at \((?:\d+, )*(\d+), \2\).*j\) here.*",
     "of numbers on the diagonal only the real part is read"),
    (r"(Tensor\.)?(nan)?quantile", "(value|gradient|second|forward mode).* nan in PyTorch.*",
     "beside an infinity PyTorch's is 0 · ∞"),
    (r"(Tensor\.|linalg\.)?(slogdet|logdet)",
     r"(gradient|second|forward mode).*: at \S+( \S+)* \(?-?(inf|nan)\S* here.*",
     "of singular matrices: infinite or NaN in both, with signs of rounding errors"),
    (r"(Tensor\.|linalg\.)?slogdet", r"value.* nan here, -?0\.0 in PyTorch.*",
     "with NaN in a matrix its sign is not known"),
    (r"(Tensor\.)?f(max|min)", "forward mode.*",
     "at a tie the tangent is the input's, as the gradient is in backward; PyTorch's are at odds"),
    (r"(Tensor\.)?(cum(max|min)|(nan)?median)", "refused.*complex.*",
     "complex numbers have no order; PyTorch takes one of them or none, but not two"),
    (r"(Tensor\.)?(amax|amin|aminmax)", "(gradient|second|forward mode).* nan in PyTorch.*",
     "NaNs share the gradient, as in max() of PyTorch"),
    (r"(Tensor\.)?(stride|dim_order)", "value.*",
     "the steps of axes with one number or none: PyTorch takes over what NumPy had"),
    (r"linalg\.(inv|solve)_ex", r"value.* \(?-?inf\S* here.*",
     "of a singular matrix there is no result: `info` says so"),
    (r"(Tensor\.|linalg\.)?det",
     r"(gradient|second|forward mode).* \(?-?(0\.0|nan|0j)\S* in PyTorch.*",
     "of a singular matrix the derivatives are its cofactors"),
    (r"(Tensor\.)?logdet", r"(gradient|forward mode).* -?(0\.0|nan) in PyTorch.*",
     "beside a negative determinant, whose logarithm is NaN"),
    (r"(Tensor\.|linalg\.)?(slogdet|logdet)", r"value.* \(?-inf\S* here.*",
     "singular but for rounding errors"),
    (r"(Tensor\.|linalg\.)?(orgqr|ormqr|householder_product)",
     r"(gradient|second|forward mode).* \(?nan\S* in PyTorch.*",
     "PyTorch divides by what is 0 where tau is 1 / |v|²"),
    (r"(Tensor\.|special\.)?polygamma_?", r"(value|gradient|second|forward mode).* -?inf here.*",
     "a pole"),
    (r"(Tensor\.|special\.)?i[01]", "forward mode.* nan in PyTorch.*", "∞ at ∞"),
    (r"special\.\w+_polynomial_\w+", r"(value|forward mode).* nan here.*",
     "of a degree that no integer holds"),
    (r"special\.\w+_polynomial_\w+", "refused.*too many steps.*", "it would take hours"),
    (r"special\.ndtr", r"value.*e-\d+ here.*", "the tail itself, of integers too"),
    (r"(Tensor\.)?(std|var)(_mean)?", "(value|gradient|second|forward mode).* nan in PyTorch.*",
     "the mean of infinities is one; equal numbers have a deviation of 0, with gradient 0"),
    (r"(Tensor\.)?(index_reduce|scatter_reduce)_?",
     "(gradient|second|forward mode).* nan in PyTorch.*",
     "PyTorch divides the product by a number that is 0 or infinite"),
    (r"(Tensor\.|special\.)?logsumexp", r"(gradient|second|forward mode).* \(?nan\S* in PyTorch.*",
     "where all are -∞ it is a constant"),
    (r"(Tensor\.)?pow_?|(Tensor\.)?float_power_?", r"(gradient|second).* \(?nan\S* in PyTorch.*",
     "0 to a power: the limit"),
    (r"(linalg\.)?vander", "(gradient|second|forward mode).* nan in PyTorch.*",
     "x⁰ and x¹ have slopes 0 and 1 at ∞, too"),
    (r".*", "dtype.*jvp1.*", "a tangent has the type of its number; PyTorch's may be wider"),
    (r"(Tensor\.)?digamma_?", r"(gradient|forward mode).*( nan in PyTorch| inf here).*",
     "a pole, or the limit at ∞"),
    (r".*grid_sampl.*", r"(value|forward mode).*( nan here|0\.0 here, nan in PyTorch).*",
     "where a coordinate is NaN the result is, where it is infinite one is outside"),
    (r"linalg\.eigvalsh|linalg\.eigh", "second.*",
     "of a symmetric matrix the derivatives by (i, j) and (j, i) are known as a sum only"),
    (r"linalg\.(inv|solve)_ex",
     r"(value.*output\[1\]|(gradient|second).* \(?nan\S* in PyTorch).*",
     "singular but for rounding errors"),
    (r"(Tensor\.|linalg\.)?slogdet", r"(value|forward mode).* \(?-?(0\.0|0j)\S* here.*",
     "singular but for rounding errors"),
    (r"linalg\.cholesky(_ex)?|(Tensor\.)?cholesky|distributions\.MultivariateNormal\.\w+",
     "forward mode.*",
     "PyTorch lets the triangle move that is not read"),
    (r"(Tensor\.)?logdet", r"value.*3\.14159\d*j\)? here.*", "the angle π is -π, too"),
    (r"(Tensor\.)?as_strided_?", "forward mode.*",
     "what is outside of the view does not move, as in backward"),
    (r"special\.\w+_polynomial_\w+", "(value|forward mode).* -?inf here, nan in PyTorch.*",
     "beyond the range, where PyTorch's recurrence meets ∞ - ∞"),
    (r"(Tensor\.)?(index_reduce|scatter_reduce)_?", r"gradient.*j\)? here.*",
     "PyTorch's rule of a product lacks the conjugate"),
    (r"linalg\.cond",
     r"(gradient|second|forward mode).* (\(?-?(nan|inf)\S*|\S+e\+\d\d\S*) (here|in PyTorch).*",
     "singular but for rounding errors"),
    (r"linalg\.lstsq", r"value.* 0\.0 here.*", "with rcond above 1 no singular value counts"),
    (r"(Tensor\.)?copysign_?", "second.* nan in PyTorch.*", "at 0 PyTorch divides by it"),
    (r"(Tensor\.)?dist", "(gradient|second|forward mode).* nan in PyTorch.*",
     "a power of 10,000: 0 · ∞"),
    (r"linalg\.cholesky(_ex)?|(Tensor\.)?cholesky", r"(gradient|second).*j\)? here.*",
     "as finite differences are; PyTorch lets the imaginary part of the diagonal count"),
    (r"(Tensor\.)?bincount|cdist", "dtype.*", "of nothing PyTorch's type depends on the way"),
    (r"fft\.ihfft\w*", "value out.* 0j in PyTorch.*",
     "into `out` PyTorch writes nothing for bools"),
    (r"(Tensor\.)?lcm_?", "value.*", "beyond the range of its type there is none"),
    (r"(Tensor\.)?hypot_?", "(second|forward mode).* nan in PyTorch.*", "0 / 0 at the origin"),
    (r".*", "accepted.*(INTERNAL ASSERT|view size is not compatible).*", "a fault of PyTorch"),
    (r"(Tensor\.)?gcd_?", r"value.*-\d+ in PyTorch.*",
     "a divisor is positive, but for that of -128"),
    (r"linalg\.(inv|solve)_ex", "forward mode.* nan in PyTorch.*", "of a singular matrix"),
    (r"(Tensor\.)?(addr|addmm|addmv|addbmm|baddbmm)_?", "requires_grad.*",
     "with beta = 0 the input is not read: nothing depends on it"),
    (r"(Tensor\.)?(arctan2|atan2)_?", "(second|forward mode).* nan in PyTorch.*",
     "at the origin: 0 / 0"),
    (r"(Tensor\.)?(linalg\.)?svd", "refused backward.*", "what of U and V is not unique"),
    (r".*", "refused.*more than one element of the written-to tensor.*",
     "one number that stands for many is not written: what would be in it depends on the order"),
    (r".*", "refused.*(contained non-finite values|expected count >= 0).*",
     "what LAPACK and generators make of NaN is no answer"),
    (r"(Tensor\.)?(pow_?|__rpow__|fill)", "refused.*(negative integer powers|complex value).*",
     "PyTorch's 0 is no power, and it drops what is imaginary"),
    (r"(Tensor\.)?(float_power|pow)_?", r"second.* \(?nan\S* here.*",
     "a negative number to a real power has no derivative by the exponent"),
    (r"(Tensor\.)?median", "refused.*bools.*", "PyTorch takes them only where there are none"),
    (r"(Tensor\.)?triangular_solve", "requires_grad.*",
     "of the triangle that is not read nothing depends"),
    (r"(Tensor\.)?(pow|float_power)_?", r"(value|forward mode).* \(1\+0j\) here, \(nan\S* in PyT.*",
     "complex numbers to the power of 0"),
    (r"(Tensor\.)?prod", "second derivative 16 bits.* inf here, nan in PyTorch.*",
     "products of all others that are beyond the range"),
    (r"(Tensor\.)?lu_unpack", "refused.*must be of shape.*",
     "pivots that are not those of the matrix: PyTorch reads beside them"),
    (r"(Tensor\.)?ldexp_?", "refused.*",
     "PyTorch's power of two overflows, where the product does not"),
    (r"(Tensor\.|special\.)?(lgamma|gammaln)_?", "(gradient|second|forward mode).* -?inf here.*",
     "a pole"),
    (r"(Tensor\.)?cholesky_inverse", "forward mode.* nan in PyTorch.*",
     "of a factor that is singular but for rounding errors"),
    (r"distributions\.(Pareto|InverseGamma|StudentT)\.(mean|variance|stddev)",
     "(gradient|second|forward mode).* nan in PyTorch.*",
     "where a moment becomes infinite: PyTorch's 0 · ∞ or ∞ - ∞"),
    (r"distributions\.ContinuousBernoulli\.\w+", "dtype autocast.*",
     "its logit is computed in float32, and autocast leaves it so"),
)  # fmt: skip
"""(pattern of the path, pattern of the kind, reason): where edutorch differs on purpose. The
second one may go on with what differs, as a finding says it: "value: .* nan in PyTorch.*"."""

OPEN: dict[tuple[str, str], str] = {
    ("nn.functional.glu", "second derivative 16 bits"): "at ∞ the slope of σ' meets ∞ - ∞",
    ("nn.functional.glu", "second derivative"): "at ∞ the slope of σ' meets ∞ - ∞",
}
"""(path, kind): why a finding is not mended yet. The fixed seed may meet it and still pass."""


def reason_different(
    path: str, kind: str, detail: str = "", tensors: Sequence[np.ndarray] = (),
    settings: Collection[str] = (),
) -> str | None:  # fmt: skip
    """Return why a difference is intended, or None.

    Args:
        detail: what differs, in words.
        tensors: the numbers of the call's tensors.
        settings: the names of the settings that are given, and "name=value" of each.
    """

    def fits(path_pattern: str, kind_pattern: str) -> bool:
        return bool(re.fullmatch(path_pattern, path)) and bool(
            re.fullmatch(kind_pattern, kind) or re.fullmatch(kind_pattern, f"{kind}: {detail}")
        )

    def holds(condition: str) -> bool:
        if condition.endswith("="):
            return condition[:-1] in settings
        if "=" in condition:
            return any(re.fullmatch(condition, setting) for setting in settings)
        if condition not in CONDITIONS:
            return condition in settings
        return any(CONDITIONS[condition](tensor) for tensor in tensors)

    for path_pattern, kind_pattern, reason in DIFFERENT:
        if fits(path_pattern, kind_pattern):
            return reason
    for path_pattern, kind_pattern, condition, reason in DIFFERENT_WHERE:
        if fits(path_pattern, kind_pattern) and all(map(holds, condition.split(" & "))):
            return reason
    return None
