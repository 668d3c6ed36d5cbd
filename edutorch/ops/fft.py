"""The ops of the discrete Fourier transform, from which `edutorch.fft` is composed.

    y[k] = c · Σ_j x[j] e^(-2πi jk/n)

This is a product with a matrix whose element is e^(-2πi jk/n), which is symmetric in j and k.
So the gradient of a transform is *the same transform* of the gradient: no inverse, no
conjugate. (Those appear in texts that use the conjugate of our g: see the head of
`core/autograd/engine.py`.) The constant c is the same.

The spectrum of a real signal is Hermitian, y[n-k] = conj(y[k]), so `half_spectrum` keeps
one half. In the inverse, each element inside the half counts twice, for itself and for its
conjugate; the first (k = 0), and for even n the last (k = n/2), have none and count once.
But for these weights the two transforms would be each other's transpose.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..backends.numpy import Array, Namespace
from ..core.error_messages import need_tensor
from ..core.op import op
from ..core.shapes import normal_dim
from ..core.tensor import Tensor
from ..errors import DimError, DTypeError, ShapeError, ValueRangeError
from .complex import conj_physical

# The ops -----------------------------------------------------------------------------------------


TRANSFORMS = (
    "fft.fft fft.ifft fft.rfft fft.irfft fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2 fft.fftn "
    "fft.ifftn fft.rfftn fft.irfftn fft.hfft fft.ihfft fft.hfft2 fft.ihfft2 fft.hfftn "
    "fft.ihfftn stft istft"
)
"""The public functions that use these ops, named in error messages."""


@op(linear=True, method=False, public=TRANSFORMS, node="ConstantPadNdBackward0")
def resize_signal(
    xp: Namespace, input: Array, dim: tuple[int, ...], size: tuple[int, ...]
) -> Array:
    """The input truncated, or padded with zeros, at the end of each axis of `dim`."""
    shape, index = list(input.shape), [slice(None)] * input.ndim
    for axis, n in zip(dim, size, strict=True):
        index[axis] = slice(min(n, shape[axis]))
        shape[axis] = n
    y = xp.zeros(tuple(shape), input.dtype)
    y[tuple(index)] = input[tuple(index)]
    return y


# Truncated elements get a gradient of 0; the gradient of the padding is dropped.
resize_signal.vjp(
    input=lambda g, input_shape, dim: resize_signal(g, dim, tuple(input_shape[i] for i in dim)),
    latex=r"g\ \text{in the size of the input}",
)


@op(linear=True, method=False, promotion="float", public=TRANSFORMS, node="FftC2CBackward0")
def dft(xp: Namespace, input: Array, dim: tuple[int, ...], inverse: bool, norm: str) -> Array:
    """The transform along each axis of `dim`, or its inverse (with e^(+2πi jk/n))."""
    if inverse:
        return xp.fft.ifftn(input, axes=dim, norm=norm)
    return xp.fft.fftn(input, axes=dim, norm=norm)


# The matrix of the transform is symmetric; so is that of the inverse.
dft.vjp(
    input=lambda g, dim, inverse, norm: dft(g, dim, inverse, norm),
    latex=r"F^\top g = F\,g",
)


@op(linear=True, method=False, promotion="float", public=TRANSFORMS, node="FftR2CBackward0")
def half_spectrum(xp: Namespace, input: Array, dim: int, norm: str) -> Array:
    """The first n//2 + 1 frequencies of the transform of n real elements."""
    return xp.fft.rfft(input, axis=dim, norm=norm)


# x[j] is in each y[k]: its gradient is Re Σ_k g[k] e^(-2πi jk/n), each k of the half once.
half_spectrum.vjp(
    input=lambda g, input_shape, dim, norm: from_half_spectrum(
        conj_physical(scale_spectrum(g, input_shape[dim], dim, 0.5)),
        input_shape[dim],
        dim,
        INVERSE_NORM[norm],
    ),
    latex=r"\mathrm{Re}\left(F_{\text{half}}^\top\,g\right)",
)


@op(linear=True, method=False, promotion="float", public=TRANSFORMS, node="FftC2RBackward0")
def from_half_spectrum(xp: Namespace, input: Array, n: int, dim: int, norm: str) -> Array:
    """The n real elements with the given half spectrum."""
    return xp.fft.irfft(input, n, axis=dim, norm=norm)


# An element inside the half spectrum also stands for its conjugate: it counts twice.
from_half_spectrum.vjp(
    input=lambda g, n, dim, norm: scale_spectrum(
        conj_physical(half_spectrum(g, dim, INVERSE_NORM[norm])), n, dim, 2.0
    ),
    latex=r"w_k\,\overline{F_{\text{half}}\,g}",
)


@op(linear=True, method=False, public=TRANSFORMS, node="MulBackward0")
def scale_spectrum(xp: Namespace, input: Array, n: int, dim: int, weight: float) -> Array:
    """A half spectrum with the elements that stand for two frequencies multiplied by `weight`."""
    y = input.copy()
    inside = (slice(None),) * dim + (slice(1, (n + 1) // 2),)
    y[inside] = y[inside] * weight
    return y


scale_spectrum.vjp(
    input=lambda g, n, dim, weight: scale_spectrum(g, n, dim, weight),
    latex=r"w_k\,g",
)

# Arguments ---------------------------------------------------------------------------------------

INVERSE_NORM = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
"""The `norm` that gives the inverse the constant that the forward transform has with the key."""


def check_norm(name: str, norm: str | None) -> str:
    """Return which direction is scaled: "backward" (1/n), "forward" (1/n) or "ortho" (1/√n each).

    Raises: ValueRangeError: an unknown `norm`.
    """
    norm = "backward" if norm is None else norm
    if norm not in INVERSE_NORM:
        raise ValueRangeError(
            name, f'Invalid normalization mode: "{norm}"',
            hint='norm is "backward" (the default), "forward" or "ortho"',
        )  # fmt: skip
    return norm


def check_input(name: str, input: Tensor, real: bool = False) -> Tensor:
    """Return the input if its dtype can be transformed.

    Raises: DTypeError: half precision, or complex where the input has to be `real`.
    """
    need_tensor(name, "input", input)
    dtype = input.dtype
    if dtype in (dtypes.float16, dtypes.bfloat16):
        raise DTypeError(name, f"Unsupported dtype {dtype}", hint="convert it: x.float()")
    if real and dtype.is_complex:
        raise DTypeError(
            name, f"expects a real input tensor, but got {dtype}", {"input": tuple(input.shape)},
            "fft.fft transforms complex numbers; x.real are their real parts",
        )  # fmt: skip
    return input


def as_int_tuple(value: Any) -> tuple[int, ...] | None:
    """Return one integer or several as a tuple; None stays None."""
    if value is None:
        return None
    if hasattr(value, "__index__"):
        return (operator.index(value),)
    return tuple(operator.index(element) for element in value)


def single_size(name: str, n: int | None) -> tuple[int, ...] | None:
    """Return the size of a single axis as a tuple.

    Raises: ShapeError: less than 1 (among several sizes, -1 would mean unchanged).
    """
    return None if n is None else check_sizes(name, None, (operator.index(n),))


def axes_and_sizes(
    name: str, input: Tensor, s: Any, dim: Any, real_out: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes to transform and their sizes (with `real_out`, those of the real result).

    Raises: DimError: no such axis. ShapeError: an invalid size, a repeated axis, or not as many
        sizes as axes.
    """
    s, dim, shape = as_int_tuple(s), as_int_tuple(dim), tuple(input.shape)
    if s is not None and len(s) > len(shape) and dim is None:
        raise ShapeError(name, f"Got shape with {len(s)} values", {"input": shape, "s": s})
    if s is not None and dim is not None and len(s) != len(dim):
        raise ShapeError(
            name, "When given, dim and shape arguments must have the same length",
            {"s": s, "dim": dim},
        )  # fmt: skip
    if dim is None:
        dim = range(len(shape) - (len(shape) if s is None else len(s)), len(shape))
    if dim and not shape:
        raise DimError(name, f"Dimension specified as {dim[0]} but tensor has no dimensions")
    axes = tuple(normal_dim(name, axis, len(shape)) for axis in dim)
    if len(set(axes)) < len(axes):
        raise ShapeError(name, "FFT dims must be unique", {"dim": tuple(dim)})
    requested = s or (-1,) * len(axes)
    sizes = [shape[axis] if n == -1 else n for axis, n in zip(axes, requested, strict=True)]
    if real_out and axes and requested[-1] == -1:
        sizes[-1] = 2 * (sizes[-1] - 1)
    return axes, check_sizes(name, shape, sizes)


def check_sizes(name: str, shape: tuple[int, ...] | None, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes as a tuple.

    Raises: ShapeError: one of them is less than 1.
    """
    for n in sizes:
        if n < 1:
            raise ShapeError(
                name, f"Invalid number of data points ({n}) specified",
                {} if shape is None else {"input": shape},
                "a transform needs one number at least; a result of real numbers has "
                "2 (n - 1) of them where no size is given",
            )  # fmt: skip
    return tuple(sizes)


def resize_axes(input: Tensor, dim: tuple[int, ...], sizes: tuple[int, ...]) -> Tensor:
    """Truncate or pad the axes to these sizes, where they differ."""
    if all(input.shape[axis] == n for axis, n in zip(dim, sizes, strict=True)):
        return input
    return resize_signal(input, dim, sizes)
