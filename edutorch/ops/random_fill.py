"""In-place sampling: tensors overwritten with samples of a distribution."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from .. import dtypes
from ..core.autograd.view_tracking import notify_write
from ..core.composed import as_method
from ..core.error_messages import is_any_true
from ..core.tensor import Tensor
from ..core.tensor_methods import write
from ..errors import DTypeError, ValueRangeError, refuse_complex
from ..modes import current
from .conversion import replace_values
from .random import Generator, check_bounds, rand, randint, randn


def accept_from_keyword(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make a method accept PyTorch's `from=`, a Python keyword, as **{"from": 1}."""

    @functools.wraps(function)
    def method(*args: Any, **named: Any) -> Tensor:
        if "from" in named:
            named["from_"] = named.pop("from")
        return function(*args, **named)

    return method


def check_floating(name: str, input: Tensor, complex_too: bool = False) -> None:
    """Raise DTypeError unless the tensor is floating-point (or complex, with `complex_too`)."""
    if not (input.is_floating_point() or (complex_too and input.is_complex())):
        rows = {"input": str(input.dtype)}
        raise DTypeError(name, "fills tensors of floating numbers", rows, "x.float()")


def fill_with(input: Tensor, values: Tensor, name: str) -> Tensor:
    """Overwrite a tensor with samples.

    Unless it is recorded for a gradient, listeners are only notified of a write, without an op
    that would have the samples as its input.
    """
    modes = current()
    is_recorded = modes.grad and input.requires_grad
    if modes.listeners and not is_recorded and values.dtype is input.dtype:
        write(input, name, values._array)
        notify_write(input)
        return input
    return replace_values(input, values, name)


@as_method
@accept_from_keyword
def uniform_(
    input: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with uniform samples on [from, to); both parts of complex ones.

    Raises: ValueRangeError: from is above to. DTypeError: a tensor of integers.

    >>> (uniform_(zeros(4), 2, 3) >= 2).all()
    tensor(True)
    """
    check_floating("uniform_", input, complex_too=True)
    if from_ > to:
        text = f"expects to return a [from, to) range, but found from={from_} > to={to}"
        raise ValueRangeError("uniform_", text)
    samples = rand(*input.shape, dtype=input.dtype, device=input.device, generator=generator)
    start = complex(from_, from_) if input.is_complex() else from_
    return fill_with(input, samples * (to - from_) + start, "uniform_")


@as_method
def normal_(
    input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Fill with normal samples; each part of complex ones has half the variance.

    The mean of complex samples is real. (PyTorch adds it to the imaginary part too.)

    Raises: ValueRangeError: std is negative. DTypeError: a tensor of integers.

    >>> math.isfinite(normal_(zeros(4)).sum())
    True
    """
    check_floating("normal_", input, complex_too=True)
    if std < 0:
        raise ValueRangeError("normal_", f"expects std >= 0.0, but found std {std}")
    samples = randn(*input.shape, dtype=input.dtype, device=input.device, generator=generator)
    return fill_with(input, samples.mul_(std).add_(mean), "normal_")  # in the same memory


@as_method
def bernoulli_(input: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 (probability p) or 0.

    Args:
        p: the probability, or a tensor of one per element.

    Raises: ValueRangeError: a probability is not in [0, 1].

    >>> bernoulli_(zeros(2), 1.0)
    tensor([1., 1.])
    """
    refuse_complex("bernoulli_", input=input)
    is_probability = (p >= 0) & (p <= 1)
    if is_any_true(~is_probability) if isinstance(p, Tensor) else not is_probability:
        raise ValueRangeError("bernoulli_", f"expects p to be in [0, 1], but got p={p}")
    samples = rand(*input.shape, device=input.device, generator=generator)
    return fill_with(input, (samples < p).to(input.dtype), "bernoulli_")


@as_method
def random_(
    input: Tensor, *bounds: int | None, generator: Generator | None = None, **named: int | None
) -> Tensor:
    """Fill with random integers from [from, to); a single bound is the upper one.

    The default upper bound is the largest integer up to which the dtype represents all.

    Raises: ValueRangeError: from is not below to, or out of the range of the dtype.

    >>> (random_(zeros(4), 2, 3) == 2).all()
    tensor(True)
    """
    refuse_complex("random_", input=input)
    if len(bounds) + len(named) > 2 or not named.keys() <= {"from", "from_", "to"}:
        raise TypeError(f"random_ takes `from` and `to`, got {bounds} and {named}")
    low = named.get("from", named.get("from_"))
    high = named.get("to")
    if len(bounds) == 2:
        low, high = bounds
    elif bounds and "to" in named:
        low = bounds[0]
    elif bounds:
        high = bounds[0]
    low = 0 if low is None else low
    high = LARGEST.get(input.dtype.name, 2**31) if high is None else high
    if low >= high:
        text = f"expects 'from' to be less than 'to', but got from={low} >= to={high}"
        raise ValueRangeError("random_", text)
    check_bounds("random_", low, high, input.dtype)
    samples = randint(low, high, tuple(input.shape), device=input.device, generator=generator)
    return fill_with(input, samples.to(input.dtype), "random_")


LARGEST = {
    "bool": 2, "uint8": 2**8, "int8": 2**7, "int16": 2**15, "int64": 2**63 - 1,
    "float16": 2**11 + 1, "bfloat16": 2**8 + 1, "float32": 2**24 + 1, "float64": 2**53 + 1,
}  # fmt: skip


# Other distributions ----------------------------------------------------------------------------


def _uniform(input: Tensor, generator: Generator | None) -> Tensor:
    """Uniform samples in (0, 1], whose logarithm is finite; at least float32, for the tails."""
    dtype = dtypes.float64 if input.dtype is dtypes.float64 else dtypes.float32
    return 1 - rand(*input.shape, dtype=dtype, device=input.device, generator=generator)


def _check_positive(name: str, what: str, value: float) -> None:
    if not value > 0:
        raise ValueRangeError(name, f"expects {what} > 0.0, but found {what}={value}")


@as_method
def exponential_(input: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with samples of the exponential distribution: p(x) = λ exp(-λx).

    Raises: ValueRangeError: lambd is not positive.

    >>> (exponential_(zeros(4)) >= 0).all()
    tensor(True)
    """
    check_floating("exponential_", input)
    _check_positive("exponential_", "lambda", lambd)
    return fill_with(input, -_uniform(input, generator).log() / lambd, "exponential_")


@as_method
def geometric_(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with samples of the geometric distribution: trials up to the first success.

    Raises: ValueRangeError: p is not in (0, 1).

    >>> (geometric_(zeros(4), 0.5) >= 1).all()
    tensor(True)
    """
    refuse_complex("geometric_", input=input)
    if not 0 < p < 1:
        raise ValueRangeError("geometric_", f"expects p to be in (0, 1), but got p={p}")
    tries = (_uniform(input, generator).log() / math.log1p(-p)).ceil().clamp(min=1)
    return fill_with(input, tries, "geometric_")


@as_method
def cauchy_(
    input: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Fill with samples of the Cauchy distribution.

    Raises: ValueRangeError: sigma is not positive.

    >>> cauchy_(zeros(4)).shape
    torch.Size([4])
    """
    check_floating("cauchy_", input)
    _check_positive("cauchy_", "sigma", sigma)
    angle = math.pi * (_uniform(input, generator) - 0.5)
    return fill_with(input, median + sigma * angle.tan(), "cauchy_")


@as_method
def log_normal_(
    input: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None
) -> Tensor:
    """Fill with samples whose logarithm is normal with this mean and standard deviation.

    Raises: ValueRangeError: std is not positive.

    >>> (log_normal_(zeros(4)) > 0).all()
    tensor(True)
    """
    check_floating("log_normal_", input)
    _check_positive("log_normal_", "std", std)
    samples = randn(*input.shape, dtype=input.dtype, device=input.device, generator=generator)
    return fill_with(input, (samples * std + mean).exp(), "log_normal_")
