"""Where ops differ from PyTorch at infinities, NaN and the largest and smallest values: see
test_every_op_extremes.py. Each op says which half differs, "values" or "gradients", and why."""

from __future__ import annotations

EXTREME_DIFFERENCES: dict[str, dict[str, str]] = {}


def differs(names: str, part: str, reason: str) -> None:
    for name in names.split():
        EXTREME_DIFFERENCES.setdefault(name, {})[part] = reason


# Overflow on the way -------------------------------------------------------------------------

differs("add sub", "values", "alpha · other overflows first, PyTorch multiplies and adds at once")
differs("addcmul", "values", "value · a · b overflows first, PyTorch multiplies and adds at once")
differs("addcdiv lerp", "values", "PyTorch computes float16 in float32, where less overflows")
differs(
    "prod", "values", "a product of float16 keeps its digits here, PyTorch's overflows on the way"
)
differs(
    "cumprod cumsum", "values", "PyTorch counts in a wider type, here the numbers' own overflows"
)
differs(
    "var", "values", "the sum of the largest numbers overflows, PyTorch's running mean does not"
)
differs("softplus", "values", "beta · x overflows; PyTorch takes x itself beyond a threshold")
differs("atan2", "gradients", "without the squares, which leave the range in PyTorch")
differs("addcdiv", "gradients", "a / b / b, where b² of PyTorch leaves the range")
differs("sinc", "gradients", "near 0 its series: cos πx - y in PyTorch has no digits left there")
differs("softplus", "gradients", "PyTorch's is exactly 1 beyond a threshold")
differs("gelu", "values", "at ∞ it is ∞, PyTorch's vectorised float32 says NaN")
differs("gelu", "gradients", "x² overflows float16, in which PyTorch does not compute")
differs(
    "vector_norm", "gradients", "powers of the largest numbers overflow elsewhere; NaN is passed on"
)
differs("mse_loss", "gradients", "2 (x - t) / n does not overflow before it is divided by n")
differs("mvlgamma", "values", "computed in float64 whatever the type: float16 overflows in PyTorch")

# NaN -----------------------------------------------------------------------------------------

differs(
    "relu hardtanh_forward elu_forward selu_forward",
    "gradients",
    "at NaN it is 0 (or NaN), PyTorch's g",
)
differs("kl_div_forward", "values", "a target of 0 counts 0, even beside NaN or ±∞")
differs("kl_div_forward", "gradients", "a target of 0 counts 0, even beside NaN or ±∞")
differs(
    "amax amin nn.aminmax",
    "gradients",
    "the NaNs share the gradient, as PyTorch's `max()` does",
)
differs("signbit copysign", "values", "NaN loses its sign on the way to bfloat16")
differs("copysign", "gradients", "±g everywhere; PyTorch divides by x, which may be ∞ or NaN")
differs("mode_dim", "values", "every NaN is a number of its own here")
differs("mode_dim", "gradients", "as its values: which number it was taken from")
differs(
    "cumprod", "gradients", "products of the others; PyTorch divides, and treats the first 0 alone"
)
differs("logcumsumexp", "gradients", "∞ - ∞ meets other terms on PyTorch's way")
differs("zeta", "values", "NaN in, NaN out; at s = ∞ and q = ∞ the limit")
differs("zeta", "gradients", "as its values")
differs(
    "igamma igammac",
    "values",
    "NaN in, NaN out; with both far out the limit, where PyTorch gives up",
)
differs(
    "igamma igammac",
    "gradients",
    "where both numbers are huge PyTorch's density has no digits left",
)

# Edges of domains ------------------------------------------------------------------------------

differs(
    "logaddexp logaddexp2 logsumexp",
    "gradients",
    "0 where all are -∞, as of a constant; PyTorch's -∞ - -∞ is NaN",
)
differs("acosh", "gradients", "NaN where y is NaN; PyTorch's formula has numbers there")
differs("hypot", "gradients", "0 at the origin, as for norms; PyTorch divides 0 by 0")
differs(
    "logit", "gradients", "the sign of 0 and NaN with `eps`: PyTorch's vectorised kernel differs"
)
differs("pow", "values", "PyTorch takes exponent 0.5 for a root: NaN, and not ∞, at -∞")
differs("pow", "gradients", "PyTorch takes exponent -0.5 for a root: at -∞ and -0 the signs differ")
differs("remainder fmod", "values", "exact; where a / b overflows PyTorch says NaN")
differs("mvlgamma", "gradients", "at -0 PyTorch's ψ(-0) has the other sign")
differs("digamma polygamma", "gradients", "∞ at the poles, where PyTorch divides by a rounded sin")
differs(
    "polygamma",
    "values",
    "0 at ∞; ∞ (not 1e60) next to a pole below 0; more digits in PyTorch's bfloat16",
)

# Precision -------------------------------------------------------------------------------------

differs("xlogy xlog1py", "gradients", "with a number for `other` PyTorch's has only seven digits")
differs("erf", "values", "PyTorch's bfloat16 is 0 for the smallest numbers")
differs("ndtr", "values", "has digits far below 0, where PyTorch says 0")
differs("log_ndtr", "gradients", "follows -x far below 0; PyTorch divides 0 by 0")
differs("erfcx", "gradients", "2 x y - 2/√π: huge x leaves no digit of the difference")
differs("i0e i1e", "values", "e⁻ˣ I(x) at the largest numbers, where √x overflows in one of both")
WAVES = "bessel_j0 bessel_j1 bessel_y0 bessel_y1 airy_ai"
differs(WAVES, "values", "0 at ∞; the phase of a wave at 1e30 is a matter of rounding")
FALLING = (
    "modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1"
)
differs(FALLING, "values", "finite at the smallest numbers, where PyTorch's x / 2 is 0")
differs("i0 i1", "values", "∞ at ∞, where PyTorch multiplies ∞ by 0")
differs("i0 i1", "gradients", "as its values; NaN in, NaN out")
differs("i1e", "gradients", "NaN in, NaN out; PyTorch's is ½ there")
POLYNOMIALS = (
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
    "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
    "shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he "
    "laguerre_polynomial_l legendre_polynomial_p"
)
differs(POLYNOMIALS, "values", "±∞ where float32 overflows, by float64 inside; NaN in, NaN out")

# Functions made of ops -------------------------------------------------------------------------

SQUARES = "the square of the largest number is ∞: 0 comes of it here, NaN in PyTorch"
differs("nn.layer_norm", "values", SQUARES)
differs("nn.layer_norm nn.rms_norm", "gradients", SQUARES)
EPS = "float16 is computed in float32, which knows `eps`; in PyTorch's float16 it is 0"
differs("nn.normalize nn.cosine_similarity", "values", EPS)
differs("nn.normalize", "gradients", EPS)
differs(
    "nn.cosine_similarity",
    "gradients",
    "at 0 the other's direction / eps; PyTorch's square of the largest number is ∞, and leaves 0",
)
differs(
    "nn.std", "values", "the square of the largest number is ∞; PyTorch computes in a wider type"
)
differs("nn.std", "gradients", "right in float16, where PyTorch divides by a variance that is ∞")
differs("nn.nanmean", "values", "the sum of float16 does not overflow before it is divided")
differs("nn.nanmean", "gradients", "of NaN alone: none is counted, so none gets a gradient")
differs("nn.kl_div", "values", "t (log t - x): infinities meet in another order than in PyTorch")
differs("nn.kl_div", "gradients", "at t = 0 the target's is 0, as its loss is; PyTorch's is NaN")
CERTAIN = "an infinite score that is right costs 0, PyTorch's NaN; an infinite target's is NaN"
for _name in (
    "bce_with_logits_forward",
    "bce_with_logits_grad",
    "nn.binary_cross_entropy_with_logits",
):
    differs(_name, "values", CERTAIN)
    differs(_name, "gradients", CERTAIN)
differs("nn.hardsigmoid", "gradients", "1/6 in float64; PyTorch has only seven digits of it")
differs(
    "hardswish_forward nn.hardswish", "gradients", "at ±∞ it is 1 and 0, PyTorch's of -∞ is 0 too"
)
differs("hardswish_forward nn.hardswish", "values", "x · σ(x), no overflow at the largest number")
differs("nn.celu", "gradients", "at NaN it is 0, PyTorch's NaN")
differs("mish_forward nn.mish", "gradients", "at ±∞ it is 1 and 0, PyTorch's of -∞ is NaN")
differs("nn.hardshrink", "gradients", "at NaN it is g, PyTorch's 0")
