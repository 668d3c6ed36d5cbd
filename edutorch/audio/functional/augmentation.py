"""Changes that make training data more varied: masks in spectrograms, noise, echoes.

`mask_along_axis` is SpecAugment (D. Park et al., 2019): a stretch of frequencies or of time is
overwritten, so that the model learns to do without it.
"""

from __future__ import annotations

from ... import fft
from ...core.composed import wrap_functions as _guard
from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeValueError
from ...nn.functional import conv1d
from ...ops import arange, broadcast_to, log10, rand, where

__all__ = ["add_noise", "convolve", "fftconvolve", "mask_along_axis", "mask_along_axis_iid"]

# Masks -------------------------------------------------------------------------------------------


def _mask_limit(name: str, specgram: Tensor, mask_param: int, axis: int, p: float) -> int:
    """Return how wide a mask may be, at most.

    Raises: ValueError: the axis is none of the last two, or p is not a probability.
    """
    dim = specgram.ndim
    if axis not in (dim - 2, dim - 1):
        raise InvalidValueError(
            name, "Only Frequency and Time masking are supported (axis "
            f"{dim - 2} and axis {dim - 1} supported; {axis} given).",
            {"specgram": tuple(specgram.shape)},
        )  # fmt: skip
    if not 0.0 <= p <= 1.0:
        raise InvalidValueError(name, f"The value of p must be between 0.0 and 1.0 ({p} given).")
    return mask_param if p == 1.0 else min(mask_param, int(specgram.shape[axis] * p))


def mask_along_axis(
    specgram: Tensor, mask_param: int, mask_value: float, axis: int, p: float = 1.0
) -> Tensor:
    """Overwrite one stretch of an axis, the same in a whole batch, of a random width and start.

    Args:
        specgram: (..., freq, time).
        mask_param: the width is drawn from [0, mask_param).
        mask_value: what is written.
        axis: the number of the last axis (time), or of the last but one (frequency).
        p: the mask covers at most this part of the axis.

    Raises: ValueError: another axis, fewer than 2, p not in [0, 1], or a mask that is wider than
        the axis.

    >>> masked = audio.functional.mask_along_axis(ones(2, 10), 5, 0.0, 1)
    >>> (masked == 0).sum(1) < 5
    tensor([True, True])
    """
    if specgram.ndim < 2:
        raise ShapeValueError(
            "mask_along_axis", "Spectrogram must have at least two dimensions (time and frequency) "
            f"({specgram.ndim} given).",
        )  # fmt: skip
    limit = _mask_limit("mask_along_axis", specgram, mask_param, axis, p)
    if limit < 1:
        return specgram
    size = specgram.shape[axis]
    # A mask that is wider than the axis would start before it.
    width = rand(1) * limit
    start = int(rand(1) * (size - width))
    positions = arange(size, device=specgram.device)
    mask = (positions >= start) & (positions < start + int(width))
    return specgram.masked_fill(
        mask.unsqueeze(-1) if axis == specgram.ndim - 2 else mask, mask_value
    )


def mask_along_axis_iid(
    specgrams: Tensor, mask_param: int, mask_value: float | Tensor, axis: int, p: float = 1.0
) -> Tensor:
    """Overwrite one stretch of an axis, another one in each spectrogram of a batch.

    Args: as for `mask_along_axis`, with specgrams (..., freq, time) of at least 3 axes.

    Raises: ValueError: another axis, fewer than 3, or p not in [0, 1].

    >>> masked = audio.functional.mask_along_axis_iid(ones(2, 1, 10), 8, 0.0, 2)
    >>> (masked == 0).sum(2).flatten()
    tensor([3, 7])
    """
    dim = specgrams.ndim
    if dim < 3:
        raise ShapeValueError(
            "mask_along_axis_iid",
            f"Spectrogram must have at least three dimensions ({dim} given).",
        )
    limit = _mask_limit("mask_along_axis_iid", specgrams, mask_param, axis, p)
    if limit < 1:
        return specgrams
    shape, size = specgrams.shape[:-2], specgrams.shape[axis]
    width = rand(shape, dtype=specgrams.dtype, device=specgrams.device) * limit
    start = rand(shape, dtype=specgrams.dtype, device=specgrams.device) * (size - width)
    start, width = start.long().unsqueeze(-1), width.long().unsqueeze(-1)
    positions = arange(size, device=specgrams.device)
    mask = (positions >= start) & (positions < start + width)
    return where(mask.unsqueeze(-1 if axis == dim - 2 else -2), mask_value, specgrams)


# Sums and products of signals --------------------------------------------------------------------


def add_noise(
    waveform: Tensor, noise: Tensor, snr: Tensor, lengths: Tensor | None = None
) -> Tensor:
    """Add noise that is `snr` decibels quieter: y = x + a · n with 10 log₁₀(|x|² / |an|²) = snr.

    Args:
        waveform, noise: (..., time).
        snr: the signal-to-noise ratio in dB of each waveform, (...).
        lengths: the number of valid samples of each waveform, (...); by default all.

    Raises: ValueError: shapes that do not fit.

    >>> x, noise = ones(1, 4), tensor([[1.0, -1.0, 1.0, -1.0]])
    >>> audio.functional.add_noise(x, noise, tensor([20.0]))
    tensor([[1.1000, 0.9000, 1.1000, 0.9000]])
    """
    rows = {
        "waveform": tuple(waveform.shape), "noise": tuple(noise.shape), "snr": tuple(snr.shape),
        "lengths": None if lengths is None else tuple(lengths.shape),
    }  # fmt: skip
    dims = {
        waveform.ndim - 1,
        noise.ndim - 1,
        snr.ndim,
        snr.ndim if lengths is None else lengths.ndim,
    }
    if len(dims) > 1:
        raise ShapeValueError("add_noise", "Input leading dimensions don't match.", rows)
    if waveform.shape[-1] != noise.shape[-1]:
        raise ShapeValueError(
            "add_noise", "Length dimensions of waveform and noise don't match (got "
            f"{waveform.shape[-1]} and {noise.shape[-1]}).", rows,
        )  # fmt: skip
    signal, disturbance = waveform, noise
    if lengths is not None:
        valid = arange(waveform.shape[-1], device=lengths.device) < lengths.unsqueeze(-1)
        signal, disturbance = waveform * valid, noise * valid
    ratio = 10 * (log10(signal.square().sum(-1)) - log10(disturbance.square().sum(-1)))
    return waveform + (10 ** ((ratio - snr) / 20.0)).unsqueeze(-1) * noise


def check_mode(name: str, mode: str) -> None:
    """Raise ValueError for an unknown part of a convolution."""
    modes = ["full", "valid", "same"]
    if mode not in modes:
        raise InvalidValueError(
            name, f"Unrecognized mode value '{mode}'. Please specify one of {modes}."
        )


def _leading_shape(name: str, x: Tensor, y: Tensor) -> tuple[int, ...]:
    """Return the shape of both signals without time.

    Raises: ValueError: they cannot be broadcast, or one is empty.
    """
    rows = {"x": tuple(x.shape), "y": tuple(y.shape)}
    if x.ndim != y.ndim:
        raise ShapeValueError(
            name, f"The operands must be the same dimension (got {x.ndim} and {y.ndim}).", rows
        )
    pairs = list(zip(x.shape[:-1], y.shape[:-1], strict=True))
    if any(a != b and 1 not in (a, b) for a, b in pairs):
        raise ShapeValueError(
            name, "Leading dimensions of x and y are not broadcastable (got "
            f"{tuple(x.shape)} and {tuple(y.shape)}).", rows,
        )  # fmt: skip
    if not x.ndim or not x.shape[-1] or not y.shape[-1]:
        raise ShapeValueError(name, "a signal is empty", rows)
    return tuple(b if a == 1 else a for a, b in pairs)


def _part(full: Tensor, n: int, m: int, mode: str) -> Tensor:
    """Return the middle of a convolution of n and m samples that `mode` asks for."""
    if mode == "full":
        return full
    length = n if mode == "same" else max(n, m) - min(n, m) + 1
    start = (n + m - 1 - length) // 2
    return full[..., start : start + length]


def fftconvolve(x: Tensor, y: Tensor, mode: str = "full") -> Tensor:
    """Convolve two signals by the product of their spectra: fast for long ones.

    Args, Shape, Raises: as `convolve`.

    >>> z = audio.functional.fftconvolve(tensor([1.0, 2.0]), tensor([1.0, 0.0, 3.0]))
    >>> allclose(z, tensor([1.0, 2.0, 3.0, 6.0]))
    True
    """
    check_mode("fftconvolve", mode)
    _leading_shape("fftconvolve", x, y)
    n, m = x.shape[-1], y.shape[-1]
    # Any size that holds the result will do; for powers of 2 the transform is fastest.
    size = 1 << (n + m - 2).bit_length()
    full = fft.irfft(fft.rfft(x, size) * fft.rfft(y, size), size)
    return _part(full[..., : n + m - 1], n, m, mode)


def convolve(x: Tensor, y: Tensor, mode: str = "full") -> Tensor:
    """Convolve two signals: z[k] = Σ_i x[i] y[k-i]; with a room's impulse response, add its echo.

    Args:
        x: (..., n), and y: (..., m), with leading axes that can be broadcast.
        mode: "full", "same" (the middle n values) or "valid" (where both overlap completely).

    Shape: (..., n + m - 1) in mode "full".

    Raises: ValueError: an unknown mode, or shapes that do not fit.

    >>> audio.functional.convolve(tensor([1.0, 2.0]), tensor([1.0, 0.0, 3.0]))
    tensor([1., 2., 3., 6.])
    """
    check_mode("convolve", mode)
    leading = _leading_shape("convolve", x, y)
    n, m = x.shape[-1], y.shape[-1]
    x, y = broadcast_to(x, (*leading, n)), broadcast_to(y, (*leading, m))
    signal, taps = (x, y) if n >= m else (y, x)
    signal, taps = signal.reshape(-1, signal.shape[-1]), taps.reshape(-1, taps.shape[-1])
    # Each signal is a channel with a filter of its own; conv1d correlates, hence the flip.
    full = conv1d(
        signal, taps.flip(-1).unsqueeze(1), padding=taps.shape[-1] - 1, groups=signal.shape[0]
    )
    return _part(full.reshape(*leading, n + m - 1), n, m, mode)


_guard(globals())
