"""What the fuzzer leaves out, and why; and where edutorch differs from PyTorch on purpose."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

import numpy as np

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
    (r"Tensor\.(eq|ne|lt|le|gt|ge|less|greater|not_equal|less_equal|greater_equal|logical_\w+)_",
     "(requires_grad|forward mode|gradient|structure).*",
     "a comparison has no derivative: in place, too, its result requires no gradient"),
    (r"binary_cross_entropy_with_logits|margin_ranking_loss|hinge_embedding_loss|kl_div|"
     r"poisson_nll_loss|triplet_margin_loss|cosine_embedding_loss|ctc_loss",
     "shape.*", "without `reduction` PyTorch's inner form of a loss takes no mean, whatever its "
     "documentation says; nn.functional's does"),
    (r"(special\.)?(bessel_.*|scaled_modified_bessel_.*|modified_bessel_.*|airy_ai|"
     r"spherical_bessel_j0)", "(requires_grad|forward mode|gradient|second).*",
     "PyTorch has no derivative, or a 0 in forward mode"),
    (r"(special\.|Tensor\.)?(i0|i1|bessel_[jy][01]|airy_ai|polygamma|digamma|zeta|"
     r"chebyshev_.*|shifted_chebyshev_.*)_?", "value.*",
     "PyTorch answers NaN at ∞ and beyond what its recurrence reaches; the limit is known"),
    (r"(nn\.functional\.hardsigmoid|nn\.Hardsigmoid)", "(gradient|second|forward mode).*",
     "PyTorch's 1/6 is that of float32, also in float64"),
    (r"distributions\.GeneralizedPareto\..*", "accepted", "PyTorch mixes up bfloat16 and float32"),
    (r"distributions\.VonMises\..*", "(value|gradient|second|forward mode).*",
     "PyTorch's Bessel function is a fit with 8 digits"),
    (r"nn\.(functional\.)?(lp_pool1d|LPPool1d|avg_pool3d|AvgPool3d|lp_pool3d|LPPool3d|pad|"
     r"fractional_max_pool3d.*|FractionalMaxPool3d|LSTM|GRU|RNN|GaussianNLLLoss|"
     r"gaussian_nll_loss|bilinear|max_pool\dd_with_indices)", "accepted.*",
     "sizes that PyTorch takes in one or two dimensions and not here, or leaves to a library; "
     "a variance on another device is not looked at"),
    (r"(nn\.functional\.)?gaussian_nll_loss|nn\.GaussianNLLLoss", "forward mode.*",
     "below eps the tangent is the variance's, as the gradient is in backward"),
    (r"nn\.functional\.(cross_entropy|nll_loss)|nn\.(CrossEntropy|NLL)Loss(2d)?",
     "(value|gradient|second|forward mode).* nan in PyTorch.*",
     "a class that weighs 0 counts for nothing, whatever its score is"),
    (r"nn\.functional\.scaled_dot_product_attention",
     "(value|gradient|second|forward mode).* nan in PyTorch.*",
     "a query that may see nothing gets 0, and a key that nobody may see may be NaN"),
    (r"nn\.functional\.scaled_dot_product_attention", r"value.* nan here, -?0\.0 in PyTorch.*",
     "PyTorch takes a query whose scores are all NaN, or all -∞ without a mask, for a hidden one"),
    (r"nn\.(functional\.)?(bilinear|Bilinear|linear|Linear|conv.*|Conv.*)",
     "(gradient|second|forward mode).* nan in PyTorch.*",
     "each input is linear in the others: no 0 · ∞ where one of them does not move"),
    (r".*", r"(gradient|second).*: at \S+( \S+)* -?0\.0 here, \S+e-1\d in PyTorch.*",
     "it is 0; what PyTorch has is rounding"),
    (r".*(nll_loss|NLLLoss2?d?|cross_entropy|CrossEntropyLoss)", "refused.*int64.*",
     "classes as bytes: PyTorch takes uint8, too; it is more often a mask"),
    (r"nn\.(BCELoss|Hardtanh|CosineSimilarity|functional\.(batch_norm|cosine_similarity))",
     "accepted.*", "another device is not looked at; limits that are equal, an eps of NaN, running "
     "statistics of one number are taken"),
    (r"nn\.functional\.(mse|l1|smooth_l1|huber)_loss", "refused.*Weights and input.*",
     "weights belong to the losses, not to an input that is stretched"),
    (r"nn\.MaxPool\dd", "accepted.*", "half of a dilated window, as functional.max_pool takes it"),
    (r"distributions\.(LowRank)?MultivariateNormal\..*", "refused.*float16.*",
     "float16 has no Cholesky factor here; PyTorch's autocast turns it into float32"),
    (r".*", "refused.*Unexpected floating ScalarType.*",
     "float16 under an autocast to bfloat16: where PyTorch composes, it does not look"),
    (r".*(lp_pool3d|LPPool3d|LSTM|GRU|RNN)", "dtype autocast",
     "PyTorch's pool is float32 in three dimensions only, its LSTM of float16, too"),
    (r"nn\.functional\.(mse|l1|smooth_l1|huber)_loss", "dtype autocast",
     "of losses with weights PyTorch's result is bfloat16, of those without float32"),
    (r"nn\.(functional\.)?(ctc_loss|CTCLoss)", "(gradient|second|forward mode).* nan in PyTorch.*",
     "an alignment that cannot be: its loss is ∞, whatever the scores are"),
    (r"nn\.functional\.conv_transpose.*", "refused.*too small.*",
     "an output without elements: PyTorch refuses it in one and two dimensions"),
    (r"nn\.(functional\.)?(max_pool.*|MaxPool.*)", r"value.* -1 here.*",
     "a window that sees nothing but border has no index"),
    (r"distributions\.Multinomial\..*", "dtype.*", "16 bits stay 16 bits"),
    (r"distributions\.Multinomial\.entropy", "value.*", "what is left of terms that cancel"),
    (r"nn\.functional\.scaled_dot_product_attention", "refused.* nan.*", "a probability of NaN"),
    (r"nn\.(RReLU|functional\.rrelu_?)", "accepted.*", "a bound of NaN gives NaN"),
    (r"nn\.functional\.huber_loss", "dtype", "the type of the input, stretched or not"),
    (r"distributions\.\w+\.icdf", r"value.* nan here.*", "below 0 and above 1 there is none"),
    (r"nn\.functional\.conv_tbc", "refused.*dtype.*", "PyTorch's converts the bias"),
    (r"nn\.(functional\.)?(conv_transpose\dd|ConvTranspose\dd)", "dtype.*",
     "types that differ: PyTorch takes them in forward mode only"),
    (r"nn\.(functional\.)?(multi(label)?_margin_loss|Multi(Label)?MarginLoss)",
     r"value.* nan here, \S+ in PyTorch.*", "NaN among the scores is none to pass over"),
    (r"nn\.functional\.kl_div|nn\.KLDivLoss",
     "(value|gradient|second|forward mode).* nan in PyTorch.*",
     "at t = 0 the target's slope is 0, as its loss is"),
    (r"nn\.(functional\.)?(pixel_unshuffle|PixelUnshuffle|pixel_shuffle|PixelShuffle)", "shape.*",
     "PyTorch returns an empty tensor as it is"),
    (r"distributions\.(LowRank)?MultivariateNormal\..*", "dtype",
     "PyTorch's tangent of float32 is float64"),
    (r"distributions\.ContinuousBernoulli\..*", "(value|gradient|second).*",
     "near p = 1/2 the formulas cancel, in PyTorch as much"),
    (r"distributions\.(Relaxed.*|OneHot.*|Categorical|Multinomial)\..*",
     "(value|gradient|second derivative|forward mode) 16 bits.*",
     "probabilities are normalized, and kept off 0 and 1, in their own 16 bits or in float32"),
    (r"nn\.(functional\.)?(\w*margin\w*_loss|\w*Margin\w*Loss|\w*hinge\w*|\w*Hinge\w*)",
     r"value.* \S+e-\d\d here, 0\.0 in PyTorch.*", "exactly at the hinge: what rounding leaves"),
    (r"optim\..*", "accepted", "gradients with gaps, empty parameters, True as a number: PyTorch's "
     "own way to compute objects, ours does not"),
    (r"distributions\.Binomial\.entropy", "(gradient|second).*",
     "at p = 1/2 all terms cancel, and what is left is their rounding"),
    (r"optim\.Muon", "value.*", "both iterate in bfloat16: 2 digits"),
    (r"optim\.(Rprop|RMSprop)", "value.*",
     "a gradient of NaN makes NaN: PyTorch's sign of NaN is 0, and the step is lost silently"),
    (r"(Tensor\.)?polar", "gradient.*", "at length 0 the length's derivative is the direction"),
    (r"(Tensor\.)?as_strided_scatter", "(gradient|second|forward mode).*",
     "PyTorch gives the gradient to the numbers that were written over"),
    (r"(Tensor\.|special\.)?(ar?c?cosh|log_ndtr)_?", "(gradient|second|forward mode).*",
     "outside the domain, or where an intermediate overflows: NaN stays NaN, the limit is known"),
    (r"(Tensor\.)?(clamp|clip)_?(min|max)?_?", "forward mode.*",
     "at a tie the tangent is the input's, as the gradient is in backward; PyTorch's are at odds"),
    (r"(Tensor\.)?(cumprod|hypot)_?", "gradient.*", "PyTorch divides by 0 or ∞ on the way"),
    (r"(Tensor\.)?searchsorted|bucketize", "value.*",
     "NaN lies behind all numbers, as in `sort`; PyTorch's comparison with NaN goes on to the end"),
    (r"nn\.MultiMarginLoss|nn\.functional\.multi(label)?_margin_loss", "value.*",
     "of an empty batch PyTorch returns memory that was not written"),
    (r".*binary_cross_entropy_with_logits|nn\.BCEWithLogitsLoss", "dtype",
     "of two floating types the wider one; PyTorch computes within the memory of 1 - target"),
    (r"(nn\.functional\.)?cosine_similarity|nn\.CosineSimilarity",
     "(gradient|second|forward mode).*",
     "a vector shorter than eps: PyTorch's gradient goes on as if nothing had been clamped"),
    (r"(nn\.functional\.)?gelu|nn\.GELU", "value.*",
     "below -3 the tail itself; 1 + erf(x) in PyTorch loses its digits, in float64 from -6 on"),
    (r"(Tensor\.)?cholesky_(inverse|solve)", "(gradient|second|forward mode).*",
     "PyTorch's formulas use the triangle of the factor that the function does not read"),
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
    (r"(Tensor\.)?prelu|nn\.PReLU|nn\.functional\.prelu", "forward mode.*",
     "at 0 the slope is that of backward; PyTorch's are at odds"),
    (r"(Tensor\.)?(sinc_?|special\.sinc)", "(second|gradient|forward mode).*",
     "near 0 its series: cos πx - y in PyTorch has no digits left there"),
    (r"(Tensor\.|special\.)?polygamma_?", r"(gradient|second|forward mode).* -?inf here.*",
     "a pole"),
    (r"(Tensor\.|special\.)?i[01]", "forward mode.* nan in PyTorch.*", "∞ at ∞"),
    (r"special\.\w+_polynomial_\w+", r"(value|forward mode).* nan here.*",
     "of a degree that no integer holds"),
    (r"special\.\w+_polynomial_\w+", "refused.*too many steps.*", "it would take hours"),
    (r"special\.ndtr", r"value.*e-\d+ here.*", "the tail itself, of integers too"),
    (r"(Tensor\.)?(std|var)(_mean)?", "(value|gradient|second|forward mode).* nan in PyTorch.*",
     "the mean of infinities is one; equal numbers have a deviation of 0, with gradient 0"),
    (r"(cumulative_)?trapezoid|trapz", "(value|dtype|requires_grad).*",
     "of one number or none there is no area"),
    (r"(nn\.functional\.)?(group_norm|kl_div)", "(gradient|second).* nan in PyTorch.*",
     "of an empty batch, and of 0 · log 0"),
    (r"(Tensor\.)?(index_reduce|scatter_reduce)_?",
     "(gradient|second|forward mode).* nan in PyTorch.*",
     "PyTorch divides the product by a number that is 0 or infinite"),
    (r"(Tensor\.|special\.)?logsumexp", r"(gradient|second|forward mode).* \(?nan\S* in PyTorch.*",
     "where all are -∞ it is a constant"),
    (r"(Tensor\.)?pow_?|(Tensor\.)?float_power_?", r"(gradient|second).* \(?nan\S* in PyTorch.*",
     "0 to a power: the limit"),
    (r"(linalg\.)?vander", "(gradient|second|forward mode).* nan in PyTorch.*",
     "x⁰ and x¹ have slopes 0 and 1 at ∞, too"),
    (r"(nn\.functional\.)?pixel_(un)?shuffle", "shape.*",
     "of an empty batch PyTorch returns the input as it is"),
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
    (r"linalg\.cholesky(_ex)?|(Tensor\.)?cholesky", "forward mode.*",
     "PyTorch lets the triangle move that is not read"),
    (r"(Tensor\.)?logdet", r"value.*3\.14159\d*j\)? here.*", "the angle π is -π, too"),
    (r"(Tensor\.)?as_strided_?", "forward mode.*",
     "what is outside of the view does not move, as in backward"),
    (r"special\.\w+_polynomial_\w+", "(value|forward mode).* -?inf here, nan in PyTorch.*",
     "beyond the range, where PyTorch's recurrence meets ∞ - ∞"),
    (r"(Tensor\.)?bincount|cdist", "dtype.*", "of nothing PyTorch's type depends on the way"),
    (r"fft\.ihfft\w*", "value out.* 0j in PyTorch.*",
     "into `out` PyTorch writes nothing for bools"),
    (r"(Tensor\.)?lcm_?", "value.*", "beyond the range of its type there is none"),
    (r"(Tensor\.)?hypot_?", "(second|forward mode).* nan in PyTorch.*", "0 / 0 at the origin"),
    (r"(nn\.functional\.)?embedding|nn\.Embedding", "forward mode.*",
     "the row of the padding stays, as in backward"),
    (r"(nn\.functional\.)?avg_pool\dd|nn\.AvgPool\dd", r"value.*\d{16,} here.*",
     "means of integers beyond 2⁵³ are those of float64"),
    (r".*", "accepted.*(INTERNAL ASSERT|view size is not compatible).*", "a fault of PyTorch"),
    (r"(Tensor\.)?gcd_?", r"value.*-\d+ in PyTorch.*",
     "a divisor is positive, but for that of -128"),
    (r"linalg\.(inv|solve)_ex", "forward mode.* nan in PyTorch.*", "of a singular matrix"),
    (r"(Tensor\.)?(addr|addmm|addmv|addbmm|baddbmm)_?", "requires_grad.*",
     "with beta = 0 the input is not read: nothing depends on it"),
    (r"(Tensor\.)?(arctan2|atan2)_?", "second.* nan in PyTorch.*", "at the origin: 0 / 0"),
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
    (r"(Tensor\.)?triangular_solve", "(second|forward mode|requires_grad).*",
     "PyTorch lets the triangle move that is not read"),
    (r"(Tensor\.)?ldexp_?", "(value|gradient|forward mode|refused).*",
     "PyTorch's power of two overflows, where the product does not"),
)  # fmt: skip
"""(pattern of the path, pattern of the kind, reason): where edutorch differs on purpose. The
second one may go on with what differs, as a finding says it: "value: .* nan in PyTorch.*"."""

LOGITS = (r"(nn\.functional\.)?(binary_cross_entropy_with_logits|multilabel_soft_margin_loss)|"
          r"nn\.(BCEWithLogitsLoss|MultiLabelSoftMarginLoss)")  # fmt: skip
LENGTHS = (r"(nn\.functional\.)?(cosine_similarity|normalize|pairwise_distance|pdist|"
           r"cosine_embedding_loss|triplet_margin_loss)|nn\.(CosineSimilarity|PairwiseDistance|"
           r"CosineEmbeddingLoss|TripletMarginLoss)")  # fmt: skip

MATRICES = (
    r"linalg\..*|fft\..*|(Tensor\.)?(inverse|det|logdet|slogdet|lu|lu_solve|lu_unpack|qr|svd|pinverse|"
    r"cholesky.*|orgqr|ormqr|geqrf|matrix_power|matrix_exp|triangular_solve|chain_matmul|stft|istft)"
)

DIFFERENT_WHERE: tuple[tuple[str, str, str, str], ...] = (
    (LOGITS, "(value|gradient|second|forward mode).*", "infinite",
     "an infinite score costs nothing where it is right, and ∞ where it is wrong: NaN in PyTorch"),
    (r".*(soft_margin_loss|SoftMarginLoss)", "(value|gradient|second|forward mode).*", "infinite",
     "log(1 + e^x) does not overflow, and an infinite target pulls"),
    (LOGITS, "refused.*", "complex", "a complex target is none"),
    (LOGITS, "refused.*", "integers", "integers are no floating target: PyTorch refuses them, too, "
     "but for forward mode"),
    (r".*(mse_loss|soft_margin_loss|SoftMarginLoss|MSELoss)", "refused.*", "complex",
     "PyTorch takes complex numbers in some forms of the same call"),
    (r"nn\..*", "(dtype|requires_grad|refused|accepted).*", "empty=",
     "of an empty batch PyTorch returns the input, or leaves checks out"),
    (r"nn\..*", "(gradient|second|forward mode).* nan in PyTorch.*", "empty=", "a mean of nothing"),
    (r".*(LPPool|lp_pool)\dd", "(gradient|second|forward mode).*", "ends",
     "of zeros PyTorch's slope is 0 for any p; for 1 it is 1"),
    (r".*(LPPool|lp_pool)\dd", "(gradient|second|forward mode).*", "extreme",
     "powers that are 0: the same"),
    (r"nn\.(PReLU|functional\.prelu)", "second.*", "ends", "at 0 there is a corner"),
    (r"nn\.(functional\.)?(grid_sample|mish|Mish|hardswish|Hardswish|\w*_norm|\w*Norm\w*)",
     ".* nan in PyTorch.*", "infinite", "what lies at ∞ is outside; the limits are known"),
    (r"nn\.(functional\.)?(mish|Mish)", ".* nan in PyTorch.*", "extreme", "the limit is known"),
    (r"nn\.functional\.grid_sample", ".* nan in PyTorch.*", "nan", "NaN lies outside the image"),
    (r".*([cC]osine_?[eE]mbedding_?[lL]oss|[iI]nstanceNorm\dd|mse_loss)", "(dtype|refused).*",
     "integers", "PyTorch computes with them as it happens"),
    (r"nn\.(functional\.)?(multi_margin_loss|MultiMarginLoss)", "(gradient|second).*", "infinite",
     "∞ - ∞ passes its gradient on, as relu(NaN) does"),
    (r".*(bilinear|Bilinear)", "(gradient|second).* nan here.*", "extreme", "g · x overflows"),
    (r"distributions\..*", "(value|gradient|second|dtype).*", "complex",
     "no parameter is complex; PyTorch computes with them where nothing happens to object"),
    (r".*(margin_ranking_loss|MarginRankingLoss)", "value.*", "integers",
     "the difference is turned round, not the target, of which the least has no negative"),
    (r".*(triplet_margin_loss|TripletMarginLoss)", "value.*", "integers",
     "PyTorch adds the margin before it subtracts, and large numbers swallow it"),
    (r".*[pP]ad(\dd)?", "(value|gradient|second|forward mode).*", "mode=",
     "around, with a negative width: PyTorch reads memory that was not written"),
    (r".*(silu|SiLU)_?", "forward mode.*", "complex", "PyTorch's tangent is conjugated"),
    (r".*(ctc_loss|CTCLoss)", "(value|gradient|second).*", "ends", "a blank among the targets"),
    (r".*(multilabel_margin_loss|MultiLabelMarginLoss)", "(gradient|second).*", "nan",
     "NaN passes its gradient on, as relu(NaN) does"),
    (r".*(LocalResponseNorm|local_response_norm)", "(gradient|second).*", "infinite",
     "∞ to the power of 0"),
    (r"nn\.RMSNorm|.*rms_norm", "dtype.*", "complex", "a complex mean square has no use"),
    (r".*rms_norm|nn\.RMSNorm", "refused.*", "complex", "a complex mean square has no use"),
    (r".*(bilinear|Bilinear|margin_loss|MarginLoss)", "(gradient|second).* autocast.*",
     "extreme", "bfloat16 overflows"),
    (r".*([dD]ropout(\dd)?|multi_margin_loss|MultiMarginLoss)", "(dtype|refused).*", "integers",
     "whole numbers are scaled here, or refused"),
    (r".*([dD]ropout\dd?|Dropout|dropout)", "refused.*", "complex", "random zeros of real numbers"),
    (r"nn\.(MultiheadAttention|functional\.scaled_dot_product_attention)",
     "(gradient|second|forward mode).*", "extreme", "scores beyond the range of the type"),
    (r"nn\.functional\.normalize", "second.* nan in PyTorch.*", "ends", "a vector of zeros"),
    (r".*huber_loss", "dtype.*", "complex", "a complex weight makes a complex loss in PyTorch"),
    (LOGITS, "dtype.*", "complex", "a complex target is none"),
    (r".*([uU]psampl|interpolate).*", "value.*", "unsigned", "PyTorch's weights are rounded"),
    (r"nn\.(functional\.)?(batch_norm|BatchNorm\dd)", "(gradient|second).*", "transposed=",
     "of an image (w, h, c, n).permute(3, 2, 1, 0) PyTorch sums the wrong elements up"),
    (r"nn\.(functional\.)?(batch_norm|BatchNorm\dd)", "(gradient|second).*", "empty=",
     "of nothing: 0 · ∞"),
    (r"nn\.(RNN|LSTM|GRU)(Cell)?", "(gradient|second|forward mode).*", "infinite",
     "of an infinite state: 0 · ∞ in both, at different places"),
    (r".*([eE]mbedding_?[bB]ag)", "(gradient|second).*", "scale_grad_by_freq=",
     "PyTorch looks the frequency of another index up"),
    (r"distributions\.\w+\.i?cdf", "second derivative.*", "ends",
     "at 0 and 1 PyTorch's second derivatives are 0 · ∞; the limit is known"),
    (r"distributions\.(Half)?Cauchy\.icdf", "(value|gradient).*", "ends",
     "at 0 and 1 it is ±∞; the tangent of a rounded π/2 is 1.6e16"),
    (r"distributions\.(Beta|Binomial|Chi2|Dirichlet|FisherSnedecor|Gamma|InverseGamma|Kumaraswamy|"
     r"Multinomial|NegativeBinomial|Poisson|StudentT|Weibull|Wishart)\..*",
     "(gradient|second|forward mode).*", "double",
     "PyTorch's trigamma has 9 digits, which float64 shows"),
    (r"distributions\.\w+\.entropy", ".* nan in PyTorch.*", "infinite", "what is certain has 0"),
    (r"distributions\.\w+\.(log_prob|cdf|icdf)", "(gradient|second|forward mode).*", "infinite",
     "at ∞ PyTorch's formulas are ∞ - ∞ or 0 · ∞; the limit is known"),
    (r"distributions\..*", "(dtype|value|structure|refused|accepted).*", "integers",
     "whole numbers as parameters: PyTorch computes with them where nothing happens to object"),
    (r"optim\..*", "value 16 bits", "squares",
     "squares of gradients leave float16, in which both keep them: NaN in PyTorch, no step here"),
    (LENGTHS, "(value|gradient|second|forward mode).*", "extreme",
     "squares leave the range of the type, in float64 too, where lengths do not"),
    (r"batch_norm|(feature_)?(alpha_)?dropout_?|grid_sampler(_\dd)?|poisson_nll_loss|"
     r"cosine_embedding_loss", "dtype.*", "integers",
     "of integers, for which PyTorch has no such function but where nothing is computed"),
    (r".*", r"(gradient|second|forward mode).*: at .* \(?nan\S* in PyTorch.*", "not ordinary",
     "at ∞ and the ends of the range PyTorch's rules meet 0 · ∞; a number here is the limit"),
    (r"(Tensor\.)?(prod|cumprod_?)", "(gradient|second|forward mode).*", "not ordinary",
     "the product of all others, which may be 0 · ∞; PyTorch looks at the zeros first"),
    (r"special\.\w+_polynomial_\w+", "(value|forward mode).*", "not ordinary",
     "of a degree that no integer holds"),
    (r"(Tensor\.)?cov", "value.*", "integers",
     "PyTorch multiplies bytes by weights of bytes, beyond their range"),
    (r"(Tensor\.)?(var|std)(_mean)?", "forward mode.*", "none", "NaN of nothing stays NaN"),
    (r"(Tensor\.)?(maximum|minimum|max|min)", "forward mode.*", "not ordinary",
     "next to NaN the tangent is that of the gradient; PyTorch's are at odds"),
    (r"linalg\.cond", "requires_grad.*", "none", "of no matrices nothing is computed"),
    (r".*grid_sampl.*", "(gradient|second|forward mode).*", "not ordinary",
     "outside of all images nothing moves; in PyTorch ∞ - ∞ does"),
    (r"(Tensor\.|special\.)?(igammac?_?|hist\w+|gammainc\w?)", "(value|forward mode).*",
     "not ordinary", "with both far out the limit, where PyTorch gives up, or its bins overflow"),
    (r"(Tensor\.)?(dist|norm|cdist|renorm_?|norm_except_dim)|"
     r"(nn\.functional\.)?(layer|group|batch|instance|rms)_norm|"
     r"nn\.(Layer|Group|Batch|Instance|RMS)Norm(\dd)?",
     "(value|gradient|second|forward mode).*", "not ordinary",
     "squares leave the range of the type, where lengths do not"),
    (MATRICES, "(value|gradient|second|forward mode).*", "not ordinary",
     "what comes of NaN and ∞ depends on the order of LAPACK's or FFT's steps"),
    (r"(Tensor\.)?((nan)?quantile|msort)", "(gradient|second|forward mode).*", "ties beyond 16",
     "PyTorch's sort of more than 16 is not stable: which of equal numbers gets it is open"),
    (r".*(margin_ranking|hinge_embedding|cosine_embedding|soft_margin)_loss|"
     r"nn\.(MarginRanking|HingeEmbedding|CosineEmbedding|SoftMargin)Loss", "value.*", "unsigned",
     "PyTorch negates bytes: -1 is 255, and 255 is equal to -1"),
)  # fmt: skip
"""(path, kind, condition, reason): what differs on purpose for some arguments; a condition is one
of `CONDITIONS`, or a setting that is given, the layout of a tensor, or "empty": "p="."""

OPEN: dict[tuple[str, str], str] = {
    ("nn.MultiheadAttention", "second derivative"): (
        "5e-8 beside saturated weights, where float64 cancels; the judge is PyTorch's own path"
    ),
    ("nn.GroupNorm", "gradient"): (
        "a gradient in float32 that nearly cancels: 3 digits; PyTorch adds up in float64"
    ),
    ("nn.BatchNorm2d", "gradient"): (
        "a sum of 1,820 terms in float32 that cancel: 4 digits; PyTorch adds up in float64"
    ),
    ("nn.functional.linear", "refused forward"): (
        "a weight of one axis, (in_features): the contract of the op has two; use x @ weight"
    ),
}
"""(path, kind): why a finding is not mended yet. The fixed seed may meet it and still pass."""


def is_ordinary(x: np.ndarray) -> np.ndarray:
    """Return where numbers are finite, and their products neither overflow nor lose digits."""
    top = 1e36 if x.dtype in (np.float32, np.complex64) else 1e300
    return np.isfinite(x) & (abs(x) < top) & (abs(x) > 1 / top)


CONDITIONS: dict[str, Callable[[np.ndarray], bool]] = {
    "infinite": lambda x: bool(np.isinf(x).any()),
    "extreme": lambda x: bool(((abs(x) > 1e18) | ((x != 0) & (abs(x) < 1e-18))).any()),
    "squares": lambda x: bool(((abs(x) > 200) | ((x != 0) & (abs(x) < 8e-3))).any()),
    "not ordinary": lambda x: not bool(((x == 0) | is_ordinary(x)).all()),
    "ties beyond 16": lambda x: x.size > 16 and np.unique(x).size < x.size,
    "none": lambda x: not x.size,
    "unsigned": lambda x: x.dtype == np.uint8,
    "complex": np.iscomplexobj,
    "double": lambda x: x.dtype == np.float64,
    "integers": lambda x: x.dtype.kind in "biu",
    "nan": lambda x: bool(np.isnan(x).any()),
    "ends": lambda x: bool(((x == 0) | (x == 1)).any()),
}
"""What at least one tensor of a call holds."""


def reason_different(
    path: str, kind: str, detail: str = "", tensors: Sequence[np.ndarray] = (),
    settings: Collection[str] = (),
) -> str | None:  # fmt: skip
    """Return why a difference is intended, or None.

    Args:
        detail: what differs, in words.
        tensors: the numbers of the call's tensors.
        settings: the names of the settings that are given.
    """

    def fits(path_pattern: str, kind_pattern: str) -> bool:
        return bool(re.fullmatch(path_pattern, path)) and bool(
            re.fullmatch(kind_pattern, kind) or re.fullmatch(kind_pattern, f"{kind}: {detail}")
        )

    def holds(condition: str) -> bool:
        if condition.endswith("="):
            return condition[:-1] in settings
        return any(CONDITIONS[condition](tensor) for tensor in tensors)

    for path_pattern, kind_pattern, reason in DIFFERENT:
        if fits(path_pattern, kind_pattern):
            return reason
    for path_pattern, kind_pattern, condition, reason in DIFFERENT_WHERE:
        if fits(path_pattern, kind_pattern) and holds(condition):
            return reason
    return None
