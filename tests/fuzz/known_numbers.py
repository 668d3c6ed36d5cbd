"""Intended differences from PyTorch where digits, or the range of a type, run out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SAME_DIGITS = r"(-?\d\.0*[1-9]\d\d)\d* here, \1\d* in PyTorch.*"
"""Two numbers that share their first three digits or more, as a finding writes them."""

OF_NUMBERS: tuple[tuple[str, str, str, str], ...] = (
    (r"(Tensor\.)?(addmm|addmv|addbmm|baddbmm)_?", r"value.* nan here, -?inf in PyTorch.*",
     "alpha=inf", "a product that underflows to 0 before it is scaled: 0 · ∞"),
    (r"(Tensor\.)?cholesky_inverse",
     r"value.* (-?inf|nan) here, -?\S+e\+3[5-8] in PyTorch, -?\d\S* in float64.*", "single",
     "a factor that is singular in float32: of PyTorch's numbers no digit is right, either"),
    (r"(Tensor\.|linalg\.)?slogdet", r"value.*: output\[0\].*j\) here, 0j in PyTorch.*",
     "expanded", "equal rows of complex numbers: rounding decides whether 0 remains"),
    (r"(Tensor\.|linalg\.)?slogdet", r"value.*: output\[0\].*j\) here, 0j in PyTorch.*",
     "singular", "equal rows of complex numbers: rounding decides whether 0 remains"),
    (r"special\.airy_ai", f"value.* {SAME_DIGITS}", "from -6 to -2",
     "PyTorch's expansion for large numbers starts too early: 6 digits of 16"),
    (r"special\.laguerre_polynomial_l", f"value.* {SAME_DIGITS}", "integers",
     "of bools and integers PyTorch's recurrence is in float32, with an error in each step"),
    (r"batch_norm", r"gradient.* nan here, -?0\.0 in PyTorch.*", "empty",
     "the root of a negative variance is NaN; PyTorch does not look at it for an empty input"),
    (r"distributions\.Kumaraswamy\.(variance|stddev)", f"gradient.* {SAME_DIGITS}", "single",
     "a difference of two moments in float32: errors of 1e-4, in PyTorch of 5e-4"),
    (r"nn\.LayerNorm|(nn\.functional\.)?layer_norm", f"gradient.* {SAME_DIGITS}", "single",
     "of groups of two numbers the slope is what remains of 1 - x̂², in PyTorch, too"),
    (r"(Tensor\.|special\.)?(igammac?|gammaincc?)_?", r"gradient.* nan here, -?0\.0 in PyTorch.*",
     "wide integers", "at -32768 the value is NaN; PyTorch's a - 1 is 32767 in int16"),
    (r".*([eE]mbedding_?[bB]ag)", "gradient.*", "mode=max",
     "of equal rows each gets its share, as with amax; in PyTorch the first gets all"),
    (r".*(margin_ranking_loss|MarginRankingLoss)", "(gradient|second|forward mode).*",
     "wide integers", "PyTorch negates the target: -(-128) is -128 in int8"),
    (r".*(gaussian_nll_loss|GaussianNLLLoss|pairwise_distance|PairwiseDistance|"
     r"triplet_margin_loss|TripletMarginLoss)", "(value|gradient|second|forward mode).*",
     "wide integers", "PyTorch's differences of small integers wrap: 100 - (-100) is -56"),
    (r".*(poisson_nll_loss|PoissonNLLLoss)", r"gradient.* \(nan\+nanj\) in PyTorch.*", "complex",
     "the slope 1 - t / ∞ is 1; PyTorch's quotient of complex numbers is NaN"),
    (r"(Tensor\.)?corrcoef", r"second.* in PyTorch, (-?\S+e-1\d|-?0\.0) in float64.*",
     "of floats", "of two observations it is 1 or -1: what rounding leaves"),
    (r"(Tensor\.)?((nan)?quantile|msort)", "(gradient|second|forward mode).*", "expanded",
     "ties of one number that is expanded: PyTorch's sort of more than 16 is not stable"),
    (r"nuclear_norm|linalg\.matrix_norm", r"second.* nan in PyTorch.*", "expanded",
     "of equal rows singular values are 0, which have no derivative"),
    (r"(Tensor\.)?(arctan2|atan2)_?", "(gradient|second|forward mode).*", "unsigned",
     "PyTorch negates the bytes: -1 is 255"),
    (r"Tensor\.(to_dense|int|long|short|char|byte)",
     r"value strict.* -?\d+ here, -?\d+ in PyTorch.*", "of floats",
     "the strict device converts as a GPU: what an integer cannot be saturates"),
    (r"special\.(i1e|scaled_modified_bessel_i1)|(Tensor\.)?i1e", "second.* 0.0 in PyTorch.*",
     "extreme", "next to 0 it falls by x², as everywhere; PyTorch takes the slope of 0 there"),
    (r"nn\.LayerNorm|(nn\.functional\.)?layer_norm",
     r"gradient.* -?0\.0 here, -?\S+e-1\d in PyTorch.*", "double",
     "a group of one number has the slope 0: what rounding leaves in PyTorch"),
    (r"(Tensor\.)?cholesky_inverse", r"value.* -?\S+e\+\d\d here, -?\S+e\+\d\d in PyTorch.*",
     "single", "a factor that is singular in float32: of PyTorch's numbers no digit is right"),
    (r"(Tensor\.)?cholesky_inverse", r"value out.*e-\d\d here, \S+e-\d\d in PyTorch.*", "single",
     "digits of float32 that a factor of this condition leaves"),
    (r"(Tensor\.)?cholesky_solve", r"(gradient|second).* \S+e\+[12]\d in float64.*", "double",
     "a factor whose condition is above 1e16: the judge has no right digit, either"),
    (r"(nn\.functional\.)?cosine_similarity|nn\.CosineSimilarity",
     r"(gradient|second).* nan in PyTorch, -?0\.0 in float64.*", "short",
     "vectors of one number are parallel: what rounding leaves"),
    (r"(Tensor\.)?renorm_?", "gradient.* \\S+e-0[67] here.*", "expanded",
     "equal numbers move along the sphere: what rounding leaves of 0"),
)  # fmt: skip
"""(path, kind, condition, reason), as `DIFFERENT_WHERE` in known_conditions.py."""


def is_wide(x: np.ndarray) -> bool:
    """Whether a difference of such integers may leave the range of their type."""
    if x.dtype.kind not in "iu" or not x.size:
        return False
    return x.dtype == np.uint8 or bool(abs(x.astype(float)).max() > np.iinfo(x.dtype).max / 2)


CONDITIONS_OF_NUMBERS: dict[str, Callable[[np.ndarray], bool]] = {
    "wide integers": is_wide,
    "from -6 to -2": lambda x: not np.iscomplexobj(x) and bool(((x > -6) & (x < -2)).any()),
}
"""What at least one tensor of a call holds."""
