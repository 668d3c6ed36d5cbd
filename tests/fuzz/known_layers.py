"""Where layers, optimizers and distributions differ from PyTorch on purpose; and what all differ in
for some arguments only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

IN_LAYERS: tuple[tuple[str, str, str], ...] = (
    (r"binary_cross_entropy_with_logits|margin_ranking_loss|hinge_embedding_loss|kl_div|"
     r"poisson_nll_loss|triplet_margin_loss|cosine_embedding_loss|ctc_loss",
     "shape.*", "without `reduction` PyTorch's inner form of a loss takes no mean, whatever its "
     "documentation says; nn.functional's does"),
    (r"distributions\.GeneralizedPareto\..*", "accepted", "PyTorch mixes up bfloat16 and float32"),
    (r"nn\.(functional\.)?(lp_pool1d|LPPool1d|avg_pool3d|AvgPool3d|lp_pool3d|LPPool3d|pad|"
     r"fractional_max_pool3d.*|FractionalMaxPool3d|LSTM|GRU|RNN|GaussianNLLLoss|"
     r"gaussian_nll_loss|bilinear|instance_norm|max_pool\dd_with_indices)", "accepted.*",
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
    (r".*(ctc_loss|CTCLoss)", "refused.*out of bounds.*",
     "a label that is no class: PyTorch reads beyond the scores"),
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
    (r"distributions\.(Relaxed.*|OneHot.*|Categorical|Multinomial)\..*",
     "(value|gradient|second derivative|forward mode) 16 bits.*",
     "probabilities are normalized, and kept off 0 and 1, in their own 16 bits or in float32"),
    (r"nn\.(functional\.)?(\w*margin\w*_loss|\w*Margin\w*Loss|\w*hinge\w*|\w*Hinge\w*)",
     r"value.* \S+e-\d\d here, 0\.0 in PyTorch.*", "exactly at the hinge: what rounding leaves"),
    (r"optim\..*", "unclear error.* nan.*", "NaN is no setting; PyTorch takes what is not below 0"),
    (r"optim\..*", "accepted", "gradients with gaps, empty parameters, True as a number: PyTorch's "
     "own way to compute objects, ours does not"),
    (r"distributions\.Binomial\.entropy", "(gradient|second).*",
     "at p = 1/2 all terms cancel, and what is left is their rounding"),
    (r"optim\.(Rprop|RMSprop)", "value.* nan here.*",
     "a gradient of NaN makes NaN: PyTorch's sign of NaN is 0, and the step is lost silently"),
    (r"nn\.MultiMarginLoss|nn\.functional\.multi(label)?_margin_loss", "value.*",
     "of an empty batch PyTorch returns memory that was not written"),
    (r".*binary_cross_entropy_with_logits|nn\.BCEWithLogitsLoss", "dtype.*",
     "of two floating types the wider one; PyTorch computes within the memory of 1 - target"),
    (r"(nn\.functional\.)?gelu|nn\.GELU", r"value.* -\d\S*e-\d+ here.*",
     "below -3 the tail itself; 1 + erf(x) in PyTorch loses its digits, in float64 from -6 on"),
    (r"(nn\.functional\.)?(group_norm|kl_div)", "(gradient|second).* nan in PyTorch.*",
     "of an empty batch, and of 0 · log 0"),
    (r"(nn\.functional\.)?pixel_(un)?shuffle", "shape.*",
     "of an empty batch PyTorch returns the input as it is"),
    (r"(nn\.functional\.)?avg_pool\dd|nn\.AvgPool\dd", r"value.*\d{16,} here.*",
     "means of integers beyond 2⁵³ are those of float64"),
)  # fmt: skip
"""(pattern of the path, pattern of the kind, reason), as `DIFFERENT` in known.py."""

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
    (r"(nn\.functional\.hardsigmoid|nn\.Hardsigmoid)", "(gradient|second|forward mode).*",
     "double", "PyTorch's 1/6 is that of float32, also in float64"),
    (r"(Tensor\.)?prelu|nn\.PReLU|nn\.functional\.prelu", "forward mode.*", "zeros",
     "at 0 the slope is that of backward; PyTorch's are at odds"),
    (r"(nn\.functional\.)?embedding|nn\.Embedding", "forward mode.*", "padding_idx=",
     "the row of the padding stays, as in backward"),
    (r"(Tensor\.)?searchsorted|bucketize", "value.*", "nan",
     "NaN lies behind all numbers, as in `sort`; PyTorch's comparison with NaN goes on to the end"),
    (r"(cumulative_)?trapezoid|trapz", "(value|dtype|requires_grad|shape).*", "short",
     "of one number or none there is no area"),
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
    (r".*(LPPool|lp_pool)\dd", "(gradient|second|forward mode).*", "nan",
     "NaN among negative numbers: PyTorch's slope is 0"),
    (r".*(gaussian_nll_loss|GaussianNLLLoss)", "(gradient|second|forward mode).*", "infinite",
     "of an infinite variance: 0 · ∞ in both, at different places"),
    (r".*(LPPool|lp_pool)\dd", "(gradient|second|forward mode).*", "extreme",
     "powers that are 0: the same"),
    (r"nn\.(PReLU|functional\.prelu)|(Tensor\.)?prelu", "second.*", "zeros",
     "at 0 there is a corner"),
    (r"nn\.(functional\.)?(grid_sample|mish|Mish|hardswish|Hardswish|\w*_norm|\w*Norm\w*)",
     ".* nan in PyTorch.*", "infinite", "what lies at ∞ is outside; the limits are known"),
    (r"nn\.(functional\.)?(mish|Mish)", ".* nan in PyTorch.*", "extreme", "the limit is known"),
    (r"nn\.functional\.grid_sample", ".* nan in PyTorch.*", "nan", "NaN lies outside the image"),
    (r".*([cC]osine_?[eE]mbedding_?[lL]oss|[iI]nstanceNorm\dd|mse_loss)", "(dtype|refused).*",
     "integers", "PyTorch computes with them as it happens"),
    (r"nn\.(functional\.)?(multi_margin_loss|MultiMarginLoss)", "(gradient|second).*", "nan",
     "NaN passes its gradient on, as relu(NaN) does"),
    (r"nn\.(functional\.)?(multi_margin_loss|MultiMarginLoss)", "(gradient|second).*", "infinite",
     "∞ - ∞ passes its gradient on, as relu(NaN) does"),
    (r".*(bilinear|Bilinear)", "(gradient|second).* nan here.*", "extreme", "g · x overflows"),
    (r"distributions\..*", "(value|gradient|second|dtype).*", "complex",
     "no parameter is complex; PyTorch computes with them where nothing happens to object"),
    (r".*(margin_ranking_loss|MarginRankingLoss)", "value.*", "integers",
     "the difference is turned round, not the target, of which the least has no negative"),
    (r".*(triplet_margin_loss|TripletMarginLoss)", "value.*", "integers",
     "PyTorch adds the margin before it subtracts, and large numbers swallow it"),
    (r".*(silu|SiLU)_?", "forward mode.*", "complex", "PyTorch's tangent is conjugated"),
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
    (LOGITS, "(value|gradient|second).*", "integers", "PyTorch computes pos_weight - 1 in bytes"),
    (LOGITS, "accepted.*", "weight=", "weights that stretch the losses"),
    (r"distributions\..*", "(gradient|second|forward mode).*", "extreme",
     "probabilities below the least normal number"),
    (r"nn\.(functional\.rms_norm|RMSNorm)", "second.*", "ends", "√(0 + ε) with a tiny ε"),
    (r".*([uU]psampl|interpolate).*", "value.*", "unsigned", "PyTorch's weights are rounded"),
    (r"nn\.(functional\.)?(batch_norm|BatchNorm\dd)", "(gradient|second).*", "transposed=",
     "of an image (w, h, c, n).permute(3, 2, 1, 0) PyTorch sums the wrong elements up"),
    (r"nn\.(functional\.)?(batch_norm|BatchNorm\dd)", "(gradient|second).*", "empty=",
     "of nothing: 0 · ∞"),
    (r".*(triplet_margin_loss|TripletMarginLoss|pairwise_distance|PairwiseDistance|pdist|normalize)",
     "(value|gradient|second|forward mode).*", r"p=(10000\.0|1e-05|nan)",
     "high powers leave the range of the type, in float64 too, where lengths do not"),
    (r"nn\.(functional\.hardtanh_?|Hardtanh)", "gradient.*", "min_val=", "a limit of NaN"),
    (r"nn\.(RNN|LSTM|GRU)(Cell)?", "(gradient|second|forward mode).*", "nan",
     "a derivative by NaN is a convention, through a state, too"),
    (r".*pairwise_distance|nn\.PairwiseDistance", "dtype.*", "complex", "a length is real"),
    (r"nn\.(RNN|LSTM|GRU)(Cell)?", "(gradient|second|forward mode).*", "infinite",
     "of an infinite state: 0 · ∞ in both, at different places"),
    (r".*([eE]mbedding_?[bB]ag)", "(gradient|second).*", "scale_grad_by_freq=",
     "PyTorch looks the frequency of another index up"),
    (r"distributions\.\w+\.i?cdf", "second derivative.*", "ends",
     "at 0 and 1 PyTorch's second derivatives are 0 · ∞; the limit is known"),
    (r"distributions\.(Half)?Cauchy\.icdf", "(value|gradient|forward mode).*", "ends",
     "at 0 and 1 it is ±∞; the tangent of a rounded π/2 is 1.6e16"),
    (r"distributions\.\w+\.entropy", ".* nan in PyTorch.*", "infinite", "what is certain has 0"),
    (r"distributions\.\w+\.(log_prob|cdf|icdf)", "(gradient|second|forward mode).*", "infinite",
     "at ∞ PyTorch's formulas are ∞ - ∞ or 0 · ∞; the limit is known"),
    (r"distributions\..*", "(dtype|value|structure|refused|accepted).*", "integers",
     "whole numbers as parameters: PyTorch computes with them where nothing happens to object"),
    (LENGTHS, "(value|gradient|second|forward mode).*", "extreme & double",
     "squares leave the range of the type, where lengths do not"),
    (r"batch_norm|(feature_)?(alpha_)?dropout_?|grid_sampler(_\dd)?|poisson_nll_loss|"
     r"cosine_embedding_loss", "dtype.*", "integers",
     "of integers, for which PyTorch has no such function but where nothing is computed"),
    (r".*", r"(gradient|second|forward mode).*: at .* \(?nan\S* in PyTorch, "
     r"(\(?-?(nan|inf)\S*|nothing) in float64.*", "not ordinary",
     "at ∞ and the ends of the range PyTorch's rules meet 0 · ∞, in float64, too"),
    (r"(Tensor\.)?(prod|cumprod_?)", "(gradient|second|forward mode).*", "not ordinary",
     "the product of all others, which may be 0 · ∞; PyTorch looks at the zeros first"),
    (r"special\.\w+_polynomial_\w+", "(value|forward mode).*", "not ordinary",
     "of a degree that no integer holds"),
    (r"(Tensor\.)?(cov|corrcoef)", "value.*", "integers",
     "PyTorch computes with integers, beyond their range"),
    (r"(special\.)?(spherical_)?bessel_[jy][01]", "value.*", "large",
     "a wave that is shorter than the distance of neighbouring numbers"),
    (r"(Tensor\.)?lerp_?", "forward mode.* nan here.*", "infinite",
     "both ends are weighed: ∞ - ∞"),
    (r"adaptive_avg_pool1d", "dtype.*", "empty", "PyTorch returns an empty tensor as it is"),
    (r"nn\.functional\.(mse|l1|smooth_l1|huber)_loss", "(gradient|second).* nan here, -?inf in .*",
     "weight=", "weights whose sum is 0"),
    (r"(Tensor\.)?(var|std)(_mean)?", "forward mode.*", "none", "NaN of nothing stays NaN"),
    (r"(Tensor\.)?(maximum|minimum|max|min)", "forward mode.*", "not ordinary",
     "next to NaN the tangent is that of the gradient; PyTorch's are at odds"),
    (r"(Tensor\.)?(less|lt|le|gt|ge|greater|eq|ne|(less|greater|not)_equal)_?", "value.*",
     "unsigned", "a byte is not below -1: PyTorch makes 255 of it"),
    (r"linalg\.cond", "requires_grad.*", "none", "of no matrices nothing is computed"),
    (r".*grid_sampl.*", "(gradient|second|forward mode).*", "not ordinary",
     "outside of all images nothing moves; in PyTorch ∞ - ∞ does"),
    (r"(Tensor\.|special\.)?(igammac?_?|hist\w+|gammainc\w?)", "(value|forward mode).*",
     "not ordinary", "with both far out the limit, where PyTorch gives up, or its bins overflow"),
    (r"(Tensor\.)?(dist|norm|cdist|renorm_?|norm_except_dim)|"
     r"(nn\.functional\.)?(layer|group|batch|instance|rms)_norm|"
     r"nn\.(Layer|Group|Batch|Instance|RMS)Norm(\dd)?",
     "(gradient|second|forward mode).*", "not ordinary",
     "squares leave the range of the type, where lengths do not; PyTorch takes none of one number"),
    (r"linalg\.cond", "refused.*", "none", "of no matrices nothing is computed"),
    (MATRICES, r"(value|gradient|second|forward mode).* \(?\S*(nan|inf)\S* (here|in PyTorch).*",
     "not finite", "what comes of NaN and ∞ depends on the order of LAPACK's or FFT's steps"),
    (MATRICES, "(value|gradient|second|forward mode).*", "subnormal",
     "OpenBLAS does not divide by a pivot below the least normal number"),
    (r"(Tensor\.)?lu|linalg\.(lu\w*|(inv|solve)_ex)", "(value|gradient|second|forward mode).*",
     "singular", "singular but for rounding errors, which choose the pivots"),
    (r"linalg\.pinv", "dtype autocast", "single",
     "float32, as other decompositions; PyTorch's last product is bfloat16"),
    (r"(Tensor\.)?orgqr|linalg\.householder_product", "requires_grad.*", "none",
     "of no reflections nothing is computed"),
    (r"(Tensor\.)?(lu|lu_solve)|linalg\.lu\w*", "(value|gradient|second|forward mode).*", "nan",
     "which row NaN makes the pivot is open"),
    (r"(Tensor\.|linalg\.)?slogdet", "value.*output.0.*", "infinite",
     "the sign beside an infinite logarithm"),
    (r".*grid_sampl.*", "(value|gradient|second|forward mode).*", "not finite & 5 axes",
     "NaN counts as -1, as PyTorch's documentation has it; in volumes it is another end there"),
    (r"distributions\.ContinuousBernoulli\.icdf", r"(gradient|second).* 0\.0 here, nan in PyT.*",
     "outside of [0, 1]", "of no number between 0 and 1 there is no quantile"),
    (MATRICES, r"(value|gradient|second|forward mode).* \(?\S*(nan|inf)\S* in PyTorch.*",
     "not ordinary", "PyTorch's products leave the range of the type on the way"),
    (r"(Tensor\.)?((nan)?quantile|msort)", "(gradient|second|forward mode).*", "ties beyond 16",
     "PyTorch's sort of more than 16 is not stable: which of equal numbers gets it is open"),
    (r".*(margin_ranking|hinge_embedding|cosine_embedding|soft_margin)_loss|"
     r"nn\.(MarginRanking|HingeEmbedding|CosineEmbedding|SoftMargin)Loss", "value.*", "unsigned",
     "PyTorch negates bytes: -1 is 255, and 255 is equal to -1"),
)  # fmt: skip
"""(path, kind, condition, reason): what differs on purpose for some arguments; a condition is one
of `CONDITIONS`, or a setting that is given, the layout of a tensor, or "empty": "p=", or the
pattern of a setting and its value: "p=(nan|1e-05)". " & " joins several."""


def is_ordinary(x: np.ndarray) -> np.ndarray:
    """Return where numbers are finite, and their products neither overflow nor lose digits."""
    top = 1e36 if x.dtype in (np.float32, np.complex64) else 1e300
    return np.isfinite(x) & (abs(x) < top) & (abs(x) > 1 / top)


def is_singular(x: np.ndarray) -> bool:
    """Return True if one of the matrices has not its full rank, but for rounding errors."""
    if x.ndim < 2 or x.dtype.kind not in "fc" or not x.size or not np.isfinite(x).all():
        return False
    return bool((np.linalg.matrix_rank(x) < min(x.shape[-2:])).any())


CONDITIONS: dict[str, Callable[[np.ndarray], bool]] = {
    "infinite": lambda x: bool(np.isinf(x).any()),
    "extreme": lambda x: bool(((abs(x) > 1e18) | ((x != 0) & (abs(x) < 1e-18))).any()),
    "not finite": lambda x: not bool(np.isfinite(x).all()),
    "not ordinary": lambda x: not bool(((x == 0) | is_ordinary(x)).all()),
    "ties beyond 16": lambda x: x.size > 16 and np.unique(x).size < x.size,
    "subnormal": lambda x: (
        bool(((x != 0) & (abs(x) < np.finfo(x.dtype).tiny)).any())
        if x.dtype.kind in "fc"
        else False
    ),
    "outside of [0, 1]": lambda x: bool(((x < 0) | (x > 1)).any()),
    "singular": is_singular,
    "large": lambda x: bool((abs(x.astype(complex)) > 1e7).any()),
    "single": lambda x: x.dtype == np.float32,
    "none": lambda x: not x.size,
    "short": lambda x: min(x.shape, default=0) < 2,
    "zeros": lambda x: bool((x == 0).any()),
    "unsigned": lambda x: x.dtype == np.uint8,
    "complex": np.iscomplexobj,
    "double": lambda x: x.dtype == np.float64,
    "integers": lambda x: x.dtype.kind in "biu",
    "nan": lambda x: bool(np.isnan(x).any()),
    "ends": lambda x: bool(((x == 0) | (x == 1)).any()),
}
"""What at least one tensor of a call holds."""
