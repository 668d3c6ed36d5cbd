"""Window functions, symmetric by default, as `torch.signal.windows`.

`M` is the number of samples; `sym=False` computes M + 1 and omits the last, for a periodic
window. t runs from 0 to 1 over the window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .. import dtypes
from ..backends.numpy import Array, Namespace
from ..core.composed import wrap_functions as _guard
from ..dtypes import DTypeLike
from ..errors import ArgumentError, InvalidValueError
from ..ops.creation import creation
from ..ops.windows import kaiser_values, sum_of_cosines, triangle

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


def _window_dtype(name: str, M: int, dtype: Any) -> Any:
    """Return the dtype of a window of `M` samples.

    Raises: ValueError: a negative count, or not float32 or float64. TypeError: no integer.
    """
    result_dtype = dtypes.get_default_dtype() if dtype is None else dtypes.of(dtype)
    if not hasattr(M, "__index__"):
        raise ArgumentError(name, f"M must be an integer, got {M!r}")
    if M < 0:
        raise InvalidValueError(name, f"requires non-negative window length, got M={M}")
    if result_dtype not in (dtypes.float32, dtypes.float64):
        raise InvalidValueError(name, f"expects float32 or float64 dtypes, got: {result_dtype}")
    return result_dtype.numpy


def _middle(M: int, sym: bool) -> float:
    return (M if not sym and M > 1 else M - 1) / 2


@creation
def general_cosine(
    xp: Namespace, M: int, *, a: Iterable[float], sym: bool = True, dtype: DTypeLike = None
) -> Array:
    """A sum of cosines: w(t) = a₀ - a₁ cos(2πt) + a₂ cos(4πt) - …

    Raises: ValueError, TypeError: `a` is empty, or not a sequence of numbers.

    >>> edutorch.signal.windows.general_cosine(5, a=[0.5, 0.4, 0.1])
    tensor([0.2000, 0.4000, 1.0000, 0.4000, 0.2000])
    """
    array_dtype = _window_dtype("general_cosine", M, dtype)
    if not isinstance(a, Iterable):
        raise ArgumentError("general_cosine", "Coefficients must be a list/tuple")
    weights = [float(coefficient) for coefficient in a]
    if not weights:
        raise InvalidValueError("general_cosine", "Coefficients cannot be empty")
    return sum_of_cosines(xp, M, sym, weights).astype(array_dtype)


@creation
def general_hamming(
    xp: Namespace, M: int, *, alpha: float = 0.54, sym: bool = True, dtype: DTypeLike = None
) -> Array:
    """The general Hamming window: w(t) = alpha - (1 - alpha) cos(2πt).

    >>> edutorch.signal.windows.general_hamming(3, alpha=0.75)
    tensor([0.5000, 1.0000, 0.5000])
    """
    array_dtype = _window_dtype("general_hamming", M, dtype)
    return sum_of_cosines(xp, M, sym, (alpha, 1 - alpha)).astype(array_dtype)


@creation
def hamming(xp: Namespace, M: int, *, sym: bool = True, dtype: DTypeLike = None) -> Array:
    """The Hamming window: w(t) = 0.54 - 0.46 cos(2πt).

    >>> edutorch.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    array_dtype = _window_dtype("hamming", M, dtype)
    return sum_of_cosines(xp, M, sym, (0.54, 0.46)).astype(array_dtype)


@creation
def hann(xp: Namespace, M: int, *, sym: bool = True, dtype: DTypeLike = None) -> Array:
    """The Hann window: w(t) = ½ - ½ cos(2πt).

    >>> edutorch.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    array_dtype = _window_dtype("hann", M, dtype)
    return sum_of_cosines(xp, M, sym, (0.5, 0.5)).astype(array_dtype)


@creation
def blackman(xp: Namespace, M: int, *, sym: bool = True, dtype: DTypeLike = None) -> Array:
    """The Blackman window: w(t) = 0.42 - 0.5 cos(2πt) + 0.08 cos(4πt).

    >>> edutorch.signal.windows.blackman(3).abs().round(decimals=4)
    tensor([0., 1., 0.])
    """
    array_dtype = _window_dtype("blackman", M, dtype)
    return sum_of_cosines(xp, M, sym, (0.42, 0.5, 0.08)).astype(array_dtype)


@creation
def nuttall(xp: Namespace, M: int, *, sym: bool = True, dtype: DTypeLike = None) -> Array:
    """The minimum 4-term Blackman-Harris window of Nuttall, whose side lobes are very low.

    Paper: A. Nuttall, "Some windows with very good sidelobe behavior", 1981.

    >>> edutorch.signal.windows.nuttall(3)
    tensor([3.6280e-04, 1.0000e+00, 3.6280e-04])
    """
    array_dtype = _window_dtype("nuttall", M, dtype)
    return sum_of_cosines(xp, M, sym, (0.3635819, 0.4891775, 0.1365995, 0.0106411)).astype(
        array_dtype
    )


@creation
def bartlett(xp: Namespace, M: int, *, sym: bool = True, dtype: DTypeLike = None) -> Array:
    """The Bartlett window: w(t) = 1 - |2t - 1|.

    >>> edutorch.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    array_dtype = _window_dtype("bartlett", M, dtype)
    return triangle(xp, M, sym).astype(array_dtype)


@creation
def cosine(xp: Namespace, M: int, *, sym: bool = True, dtype: DTypeLike = None) -> Array:
    """The cosine window: w[n] = sin(π (n + ½) / M), with M + 1 unless `sym`.

    >>> edutorch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    array_dtype = _window_dtype("cosine", M, dtype)
    count = M if sym or M == 1 else M + 1
    return xp.sin(math.pi * (xp.arange(M) + 0.5) / max(count, 1)).astype(array_dtype)


@creation
def exponential(
    xp: Namespace,
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: DTypeLike = None,
) -> Array:
    """The exponential window: w[n] = exp(-|n - center| / tau).

    Args:
        center: the position of the peak, only for sym=False; by default the middle.

    Raises: ValueError: tau is not positive; a center for a symmetric window.

    >>> edutorch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    array_dtype = _window_dtype("exponential", M, dtype)
    if tau <= 0:
        raise InvalidValueError("exponential", f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise InvalidValueError("exponential", "Center must be None for symmetric windows")
    center = _middle(M, sym) if center is None else center
    return xp.exp(-abs(xp.arange(M) - center) / tau).astype(array_dtype)


@creation
def gaussian(
    xp: Namespace, M: int, *, std: float = 1.0, sym: bool = True, dtype: DTypeLike = None
) -> Array:
    """The Gaussian window: w[n] = exp(-½ ((n - middle) / std)²).

    Raises: ValueError: std is not positive.

    >>> edutorch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    array_dtype = _window_dtype("gaussian", M, dtype)
    if std <= 0:
        raise InvalidValueError(
            "gaussian", f"Standard deviation must be positive, got: {std} instead."
        )
    z = (xp.arange(M) - _middle(M, sym)) / std
    return xp.exp(-0.5 * z * z).astype(array_dtype)


@creation
def kaiser(
    xp: Namespace, M: int, *, beta: float = 12.0, sym: bool = True, dtype: DTypeLike = None
) -> Array:
    """The Kaiser window: w(t) = I₀(β √(1 - (2t - 1)²)) / I₀(β).

    Raises: ValueError: beta is negative.

    >>> edutorch.signal.windows.kaiser(3, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    array_dtype = _window_dtype("kaiser", M, dtype)
    if beta < 0:
        raise InvalidValueError("kaiser", f"beta must be non-negative, got: {beta} instead.")
    return kaiser_values(xp, M, sym, beta).astype(array_dtype)


_guard(globals())
