"""The discrete Fourier transform and its inverse.

    spectrum = fft.rfft(signal)
    strongest = fft.rfftfreq(len(signal), 1 / rate)[spectrum.abs().argmax()]

Three transforms are enough (ops/fft.py defines them and their derivatives): complex, real
(whose spectrum is half as long), and the inverse of the real one. The others apply these
along several axes, or with forward and inverse exchanged:

    hfft(x) = irfft(conj(x)), ihfft(x) = conj(rfft(x)), with the constant in the other direction
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import dtypes
from .backends.numpy import Array, Namespace
from .core.composed import takes_out
from .core.composed import wrap_functions as _guard
from .core.shapes import normal_dim
from .core.tensor import Tensor
from .errors import DTypeError, ShapeError
from .ops import conj, roll
from .ops.creation import creation
from .ops.fft import (
    INVERSE_NORM,
    as_int_tuple,
    axes_and_sizes,
    check_input,
    check_norm,
    dft,
    from_half_spectrum,
    half_spectrum,
    resize_axes,
    single_size,
)

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2",
    "rfftfreq", "rfftn",
]  # fmt: skip

Sizes = Sequence[int] | int | None

# Along several axes ------------------------------------------------------------------------------


def _complex_transform(
    name: str, input: Tensor, s: Sizes, dim: Sizes, norm: str | None, inverse: bool = False
) -> Tensor:
    """The complex transform along several axes."""
    norm, input = check_norm(name, norm), check_input(name, input)
    axes, sizes = axes_and_sizes(name, input, s, dim)
    if not axes:
        return input + 0j
    return dft(resize_axes(input, axes, sizes), axes, inverse, norm)


def _real_transform(name: str, input: Tensor, s: Sizes, dim: Sizes, norm: str | None) -> Tensor:
    """Real input to a half spectrum: the last axis first, then the others in full."""
    norm, input = check_norm(name, norm), check_input(name, input, real=True)
    axes, sizes = axes_and_sizes(name, input, s, dim)
    if not axes:
        raise ShapeError(name, "must transform at least one axis", {"input": tuple(input.shape)})
    y, others = half_spectrum(resize_axes(input, axes, sizes), axes[-1], norm), axes[:-1]
    return dft(y, others, False, norm) if others else y


def _inverse_real_transform(
    name: str, input: Tensor, s: Sizes, dim: Sizes, norm: str | None
) -> Tensor:
    """A half spectrum to real output: the last axis is transformed last."""
    norm, input = check_norm(name, norm), check_input(name, input)
    axes, sizes = axes_and_sizes(name, input, s, dim, real_out=True)
    if not axes:
        raise ShapeError(name, "must transform at least one axis", {"input": tuple(input.shape)})
    n, others = sizes[-1], axes[:-1]
    half = resize_axes(input, axes, (*sizes[:-1], n // 2 + 1))
    if others:
        half = dft(half, others, True, norm)
    return from_half_spectrum(half, n, axes[-1], norm)


def _inverse_norm(name: str, norm: str | None) -> str:
    return INVERSE_NORM[check_norm(name, norm)]


@takes_out
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along an axis: y[k] = Σ_j x[j] e^(-2πi jk/n).

    Args:
        n: the size of the axis, which is truncated or zero-padded.
        norm: the normalization: "backward" (1/n in the inverse), "forward" (1/n in the
            forward transform) or "ortho" (1/√n in both).

    Raises: DimError: no such axis. ShapeError: n is less than 1. DTypeError: half precision.

    >>> edutorch.fft.fft(tensor([1.0, 0.0, -1.0, 0.0]))
    tensor([0.+0.j, 2.+0.j, 0.+0.j, 2.+0.j])
    """
    return _complex_transform("fft.fft", input, single_size("fft.fft", n), dim, norm)


@takes_out
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`: x[j] = 1/n · Σ_k y[k] e^(+2πi jk/n).

    >>> edutorch.fft.ifft(tensor([0.0, 2.0, 0.0, 2.0]))
    tensor([ 1.+0.j,  0.+0.j, -1.+0.j,  0.+0.j])
    """
    return _complex_transform(
        "fft.ifft", input, single_size("fft.ifft", n), dim, norm, inverse=True
    )


@takes_out
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The transform of a real input: the first n//2 + 1 frequencies of `fft`.

    The others are their conjugates: y[n-k] = conj(y[k]).

    Raises: DTypeError: the input is complex.

    >>> edutorch.fft.rfft(tensor([1.0, 0.0, -1.0, 0.0]))
    tensor([0.+0.j, 2.+0.j, 0.+0.j])
    """
    return _real_transform("fft.rfft", input, single_size("fft.rfft", n), dim, norm)


@takes_out
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: a real signal from its half spectrum.

    Give `n` if it is odd: by default it is 2 (m - 1) for m frequencies.

    >>> edutorch.fft.irfft(edutorch.fft.rfft(tensor([1.0, 2.0, 4.0])), 3)
    tensor([1., 2., 4.])
    """
    return _inverse_real_transform("fft.irfft", input, single_size("fft.irfft", n), dim, norm)


@takes_out
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real spectrum of a Hermitian signal given by its half: x[-j] = conj(x[j]).

    By default `n` is 2 (m - 1) for m given elements.

    >>> edutorch.fft.hfft(tensor([1.0, 2.0, 3.0]))
    tensor([ 8., -2.,  0., -2.])
    """
    return _inverse_real_transform(
        "fft.hfft", conj(input), single_size("fft.hfft", n), dim, _inverse_norm("fft.hfft", norm)
    )


@takes_out
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: half of the signal whose spectrum is real.

    >>> edutorch.fft.ihfft(tensor([8.0, -2.0, 0.0, -2.0])).real
    tensor([1., 2., 3.])
    """
    return conj(
        _real_transform(
            "fft.ihfft", input, single_size("fft.ihfft", n), dim, _inverse_norm("fft.ihfft", norm)
        )
    )


@takes_out
def fft2(input: Tensor, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None) -> Tensor:
    """The transform `fft` along two axes.

    >>> edutorch.fft.fft2(ones(2, 2))
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]])
    """
    return _complex_transform("fft.fft2", input, s, dim, norm)


@takes_out
def ifft2(input: Tensor, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of `fft2`: `ifft` along two axes.

    >>> edutorch.fft.ifft2(tensor([[4.0, 0.0], [0.0, 0.0]]))
    tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]])
    """
    return _complex_transform("fft.ifft2", input, s, dim, norm, inverse=True)


@takes_out
def rfft2(input: Tensor, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None) -> Tensor:
    """The transform of a real input along two axes: `rfft` along the last, `fft` along the other.

    >>> edutorch.fft.rfft2(ones(2, 4)).shape
    torch.Size([2, 3])
    """
    return _real_transform("fft.rfft2", input, s, dim, norm)


@takes_out
def irfft2(
    input: Tensor, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None
) -> Tensor:
    """The inverse of `rfft2`, with a real result.

    It is `irfft` along the last axis, `ifft` along the others.

    >>> x = tensor([[1.0, 2.0], [3.0, 5.0]])
    >>> edutorch.fft.irfft2(edutorch.fft.rfft2(x))
    tensor([[1., 2.],
            [3., 5.]])
    """
    return _inverse_real_transform("fft.irfft2", input, s, dim, norm)


@takes_out
def hfft2(input: Tensor, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None) -> Tensor:
    """The real spectrum of a Hermitian signal given by its half.

    It is `hfft` along the last axis, `fft` along the others.

    >>> edutorch.fft.hfft2(ones(2, 3)).shape
    torch.Size([2, 4])
    """
    return _inverse_real_transform(
        "fft.hfft2", conj(input), s, dim, _inverse_norm("fft.hfft2", norm)
    )


@takes_out
def ihfft2(
    input: Tensor, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None
) -> Tensor:
    """The inverse of `hfft2`: half of the signal whose spectrum along two axes is real.

    >>> edutorch.fft.ihfft2(ones(2, 4)).shape
    torch.Size([2, 3])
    """
    return conj(_real_transform("fft.ihfft2", input, s, dim, _inverse_norm("fft.ihfft2", norm)))


@takes_out
def fftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The transform `fft` along several axes.

    Args:
        s: the size of each axis (-1: unchanged), which is truncated or zero-padded.
        dim: the axes; by default all, or as many last ones as `s` has sizes.
        norm: as for `fft`.

    >>> edutorch.fft.fftn(ones(2, 2))
    tensor([[4.+0.j, 0.+0.j],
            [0.+0.j, 0.+0.j]])
    """
    return _complex_transform("fft.fftn", input, s, dim, norm)


@takes_out
def ifftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The inverse of `fftn`: `ifft` along several axes.

    >>> edutorch.fft.ifftn(tensor([[4.0, 0.0], [0.0, 0.0]]))
    tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]])
    """
    return _complex_transform("fft.ifftn", input, s, dim, norm, inverse=True)


@takes_out
def rfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The transform of a real input along several axes.

    It is `rfft` along the last, `fft` along the others.

    >>> edutorch.fft.rfftn(ones(2, 4)).shape
    torch.Size([2, 3])
    """
    return _real_transform("fft.rfftn", input, s, dim, norm)


@takes_out
def irfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`, with a real result.

    It is `irfft` along the last axis, `ifft` along the others.

    >>> x = tensor([[1.0, 2.0], [3.0, 5.0]])
    >>> edutorch.fft.irfftn(edutorch.fft.rfftn(x))
    tensor([[1., 2.],
            [3., 5.]])
    """
    return _inverse_real_transform("fft.irfftn", input, s, dim, norm)


@takes_out
def hfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The real spectrum of a Hermitian signal given by its half.

    It is `hfft` along the last axis, `fft` along the others.

    >>> edutorch.fft.hfftn(ones(2, 3)).shape
    torch.Size([2, 4])
    """
    return _inverse_real_transform(
        "fft.hfftn", conj(input), s, dim, _inverse_norm("fft.hfftn", norm)
    )


@takes_out
def ihfftn(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
    """The inverse of `hfftn`: half of the signal whose spectrum along several axes is real.

    >>> edutorch.fft.ihfftn(ones(2, 4)).shape
    torch.Size([2, 3])
    """
    return conj(_real_transform("fft.ihfftn", input, s, dim, _inverse_norm("fft.ihfftn", norm)))


# The frequencies, and their order ----------------------------------------------------------------


def _frequency_dtype(name: str, n: int, dtype: Any) -> Any:
    """Return the dtype of `n` frequencies."""
    result_dtype = dtypes.get_default_dtype() if dtype is None else dtypes.of(dtype)
    if not result_dtype.is_floating_point:
        raise DTypeError(name, f"requires a floating point dtype, got {result_dtype}")
    if n < 0:
        raise ShapeError(name, f"Trying to create tensor with negative dimension {n}")
    return result_dtype.numpy


@creation
def fftfreq(xp: Namespace, n: int, d: float = 1.0, *, dtype: Any = None) -> Array:
    """The frequencies of `fft`: 0, 1, …, then the negative ones, over n · d.

    Args:
        d: the sample spacing.

    >>> edutorch.fft.fftfreq(4, 0.5)
    tensor([ 0.0000,  0.5000, -1.0000, -0.5000])
    """
    array_dtype = _frequency_dtype("fft.fftfreq", n, dtype)
    k = xp.arange(n)
    return (xp.where(k < (n + 1) // 2, k, k - n) / (n * d)).astype(array_dtype)


@creation
def rfftfreq(xp: Namespace, n: int, d: float = 1.0, *, dtype: Any = None) -> Array:
    """The frequencies of `rfft`: 0, 1, …, n//2, over n · d.

    >>> edutorch.fft.rfftfreq(4, 0.5)
    tensor([0.0000, 0.5000, 1.0000])
    """
    array_dtype = _frequency_dtype("fft.rfftfreq", n, dtype)
    return (xp.arange(n // 2 + 1) / (n * d)).astype(array_dtype)


def _shift_by_half(name: str, input: Tensor, dim: Sizes, direction: int) -> Tensor:
    axes = as_int_tuple(range(input.ndim) if dim is None else dim) or ()
    if not axes:
        raise ShapeError(name, "needs an axis to shift along", {"input": tuple(input.shape)})
    axes = tuple(normal_dim(name, axis, input.ndim) for axis in axes)
    return roll(input, tuple(direction * (input.shape[i] // 2) for i in axes), axes)


def fftshift(input: Tensor, dim: Sizes = None) -> Tensor:
    """Reorder a spectrum so that frequency 0 is in the middle.

    >>> edutorch.fft.fftshift(edutorch.fft.fftfreq(5, 0.2))
    tensor([-2., -1.,  0.,  1.,  2.])
    """
    return _shift_by_half("fft.fftshift", input, dim, 1)


def ifftshift(input: Tensor, dim: Sizes = None) -> Tensor:
    """The inverse of `fftshift`: frequency 0 comes first.

    >>> edutorch.fft.ifftshift(tensor([-2.0, -1.0, 0.0, 1.0, 2.0]))
    tensor([ 0.,  1.,  2., -2., -1.])
    """
    return _shift_by_half("fft.ifftshift", input, dim, -1)


_guard(globals())
