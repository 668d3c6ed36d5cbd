"""What the suite of PyTorch's samples leaves out, with the reasons, and what has no one answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

RANDOM = set(
    """
    bernoulli cauchy exponential geometric log_normal normal uniform multinomial randint randn
    rand_like randn_like randint_like nn.functional.dropout nn.functional.dropout2d
    nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.feature_alpha_dropout
    nn.functional.rrelu nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    nn.functional.scaled_dot_product_attention nn.functional.multi_head_attention_forward
    pca_lowrank svd_lowrank
    """.split()
)
"""Ops that may draw random numbers: where PyTorch's own two answers differ, distributions are
compared in the place of values."""

RANDOM_MODULES = set(
    """
    TransformerEncoder TransformerEncoderLayer TransformerDecoderLayer Transformer
    MultiheadAttention FractionalMaxPool2d FractionalMaxPool3d RNN GRU LSTM
    """.split()
)
"""Modules that drop elements, or draw regions, while they train."""

UNINITIALIZED = set(
    """
    empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_
    """.split()
)
"""Ops that leave elements as they lie in memory."""


def eigen(module: Any, result: Any) -> Any:
    """Return w and V diag(w) V⁻¹: each eigenvector has a factor that is free."""
    values, vectors = result
    if not vectors.numel():
        return values, vectors
    vectors = vectors.to(module.complex128)
    return values, module.linalg.solve(
        vectors.mT, (vectors * values.unsqueeze(-2).to(vectors.dtype)).mT
    ).mT.to(result[1].dtype if result[1].is_complex() else module.complex128)


def symmetric_eigen(module: Any, result: Any) -> Any:
    """Return w and V diag(w) Vᴴ."""
    values, vectors = result
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mH


def singular(module: Any, result: Any) -> Any:
    """Return S and U S Vᴴ: each pair of singular vectors has a factor that is free."""
    left, values, right = result
    count = values.shape[-1]
    if left.shape[-1] < count or right.shape[-2] < count:
        return values
    return values, (left[..., :count] * values.unsqueeze(-2)) @ right[..., :count, :]


def old_singular(module: Any, result: Any) -> Any:
    """Return the same of the old `svd`, which returns V and not its adjoint."""
    left, values, right = result
    return singular(module, (left, values, right.mH))


INVARIANTS: dict[str, Callable[[Any, Any], Any]] = {
    "linalg.eig": eigen,
    "linalg.eigh": symmetric_eigen,
    "linalg.svd": singular,
    "svd": old_singular,
    "pca_lowrank": old_singular,
    "svd_lowrank": old_singular,
}
"""What is compared of a result that is not unique."""


CHANCE = "the elements are those that lie in memory"
"""Why types and shapes alone are compared of a sample."""


class Known(NamedTuple):
    """A difference that stays: which checks of which ops, how the failure reads, and why."""

    names: str
    checks: str
    failure: str
    reason: str


KNOWN = (
    Known(
        "as_strided_scatter", "gradient", "by tensor 0: value",
        "PyTorch gives the gradient to the elements that were overwritten; here to the others",
    ),
    Known(
        "argsort|msort|sort|topk", "forward|method|gradient|out=", "value: .* of 8000",
        "the order of equal 16-bit numbers, which PyTorch leaves open",
    ),
    Known(
        r"special\.bessel_[jy][01]", ".*", "value: ",
        "PyTorch is off by 3e-7 in float64 near 5; here 14 digits are right, as in SciPy",
    ),
    Known(
        "kthvalue|topk|mode|median", ".*", r"part [13]: value: \d+ for \d+",
        "which of equal numbers is taken, which PyTorch leaves open",
    ),
    Known(
        r"nn\.functional\.poisson_nll_loss|PoissonNLLLoss", "gradient", "value: .* for nan",
        "at a target of 0 PyTorch multiplies the slope of a log that is not used, ∞, by 0",
    ),
    Known(
        "normal", "distribution", "imaginary mean",
        "a real mean of complex numbers is real; PyTorch adds it to the imaginary part, too",
    ),
    Known(
        "mode", "gradient", "by tensor 0: value",
        "the gradient goes to the one of equal numbers whose index was taken",
    ),
    Known(
        r"fft\.ihfft[2n]", "out=", r"empty out: shape",
        "PyTorch leaves an empty `out` as it is; here it is filled",
    ),
    Known(
        r"linalg\.slogdet", "forward", "requires_grad: False for True",
        "the sign of a real determinant has no gradient; PyTorch marks it all the same",
    ),
    Known(
        r"linalg\.lstsq", "forward", "requires_grad: False for True",
        "residuals that are empty want no gradient; PyTorch marks them all the same",
    ),
    Known(
        "normal", "out=", "empty out: accepted",
        "an empty `out` takes the shape of the result, as everywhere; PyTorch refuses it here",
    ),
    Known(
        "nonzero", "out=", "must be Tensor, not tuple",
        "with `as_tuple=True` a tuple of tensors can be given for the parts; PyTorch refuses it",
    ),
    Known(
        "__rpow__|pow", ".*", "negative integer powers",
        "an integer to a negative 0-d power is refused, as a number is; PyTorch cuts it to 0",
    ),
)  # fmt: skip
"""Differences that are better here, or that PyTorch leaves open."""

KNOWN_ANSWERS = (
    Known(
        "cat|take", "accepted", "written-to tensor|not resizable",
        "an `out` that shares memory with an input gets the right result: it is written last",
    ),
    Known(
        "RNNCell|GRUCell", "class", "argument `bias` must be bool, not str",
        "a word given for a flag is refused when the layer is made",
    ),
    Known(
        "__r.*__", "accepted|unclear", r"\(2, ",
        "the method of a tensor, called with a number for the tensor: Python's own refusal",
    ),
)  # fmt: skip
"""Bad calls that need no answer of their own."""


def reason(table: tuple[Known, ...], name: str, check: str, failure: str) -> str | None:
    """Return why a failure is known and stays, or None."""
    for known in table:
        fits = re.fullmatch(known.names, name) and re.fullmatch(known.checks, check)
        if fits and re.search(known.failure, failure):
            return known.reason
    return None
