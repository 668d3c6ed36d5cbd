"""Matrices that condense a spectrum: triangular filters on the mel scale, and the cosine transform.

A spectrogram (frequencies × frames) times a filter bank (frequencies × filters) says how much
energy lies in each band. The mel scale spaces the bands as people hear pitch: evenly below about
1 kHz, by equal ratios above.
"""

from __future__ import annotations

import math

from ... import dtypes
from ...core.composed import wrap_functions as _guard
from ...core.tensor import Tensor
from ...errors import InvalidValueError, warn
from ...ops import arange, cos, exp, linspace, minimum, where

__all__ = ["create_dct", "linear_fbanks", "melscale_fbanks"]

# Slaney's scale: 15 mel per kHz up to 1 kHz, then 27 steps for each factor of 6.4.
SLANEY_STEP = 200.0 / 3
SLANEY_CORNER = 1000.0
SLANEY_LOG_STEP = math.log(6.4) / 27.0


def _check_scale(mel_scale: str) -> None:
    """Raise ValueError for an unknown mel scale."""
    if mel_scale not in ("htk", "slaney"):
        raise InvalidValueError(
            "melscale_fbanks", 'mel_scale should be one of "htk" or "slaney".',
            {"mel_scale": repr(mel_scale)},
        )  # fmt: skip


def hz_to_mel(frequency: float, mel_scale: str) -> float:
    """Return the mel value of a frequency in Hz.

    >>> hz_to_mel(2000.0, "slaney") - hz_to_mel(1000.0, "slaney") < hz_to_mel(1000.0, "slaney")
    True
    """
    _check_scale(mel_scale)
    if mel_scale == "htk":
        return 2595.0 * math.log10(1.0 + frequency / 700.0)
    if frequency < SLANEY_CORNER:
        return frequency / SLANEY_STEP
    return SLANEY_CORNER / SLANEY_STEP + math.log(frequency / SLANEY_CORNER) / SLANEY_LOG_STEP


def mel_to_hz(mels: Tensor, mel_scale: str) -> Tensor:
    """Return the frequencies in Hz of mel values: the inverse of `hz_to_mel`.

    >>> mel_to_hz(tensor([7.5, 15.0]), "slaney")
    tensor([ 500.0000, 1000.0000])
    """
    _check_scale(mel_scale)
    if mel_scale == "htk":
        return 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    corner = SLANEY_CORNER / SLANEY_STEP
    above = SLANEY_CORNER * exp(SLANEY_LOG_STEP * (mels - corner))
    return where(mels >= corner, above, SLANEY_STEP * mels)


def _triangles(n_freqs: int, sample_rate: int, corners: Tensor) -> Tensor:
    """Return filters that rise from corner i to 1 at corner i + 1, and fall to 0 at corner i + 2.

    Shape: corners (filters + 2); result (n_freqs, filters).
    """
    frequencies = linspace(0, sample_rate // 2, n_freqs, dtype=corners.dtype).unsqueeze(1)
    widths = corners[1:] - corners[:-1]
    rising = (frequencies - corners[:-2]) / widths[:-1]
    falling = (corners[2:] - frequencies) / widths[1:]
    return minimum(rising, falling).clamp(min=0.0)


def _check_sizes(name: str, **sizes: int) -> None:
    """Raise ValueError for a size that is not positive."""
    for argument, size in sizes.items():
        if size <= 0:
            raise InvalidValueError(name, f"{argument} must be positive, got {size}")


def melscale_fbanks(
    n_freqs: int,
    f_min: float,
    f_max: float,
    n_mels: int,
    sample_rate: int,
    norm: str | None = None,
    mel_scale: str = "htk",
) -> Tensor:
    """Triangular filters, evenly spaced in mel: a spectrum @ them is a mel spectrum.

    Args:
        n_freqs: the number of frequencies of the spectrum, n_fft // 2 + 1.
        f_min, f_max: the lowest and the highest frequency, in Hz.
        n_mels: the number of filters.
        sample_rate: in Hz.
        norm: "slaney" divides each filter by its width, so that all have equal area.
        mel_scale: "htk", mel = 2595 log₁₀(1 + f / 700), or "slaney", linear below 1 kHz.

    Shape: (n_freqs, n_mels).

    Raises: ValueError: an unknown `norm` or `mel_scale`, or a size below 1. Warns about filters
        that no frequency of the spectrum falls into: `n_mels` is too large.

    >>> audio.functional.melscale_fbanks(5, 0.0, 4000.0, 2, 8000)
    tensor([[0.0000, 0.0000],
            [0.6759, 0.3241],
            [0.0000, 0.9055],
            [0.0000, 0.4528],
            [0.0000, 0.0000]])
    """
    if norm is not None and norm != "slaney":
        raise InvalidValueError(
            "melscale_fbanks", 'norm must be one of None or "slaney"', {"norm": repr(norm)}
        )
    _check_sizes("melscale_fbanks", n_freqs=n_freqs, n_mels=n_mels, sample_rate=sample_rate)
    start, end = hz_to_mel(f_min, mel_scale), hz_to_mel(f_max, mel_scale)
    # In float64: the width of a filter is a small difference of two frequencies.
    corners = mel_to_hz(linspace(start, end, n_mels + 2, dtype=dtypes.float64), mel_scale)
    filters = _triangles(n_freqs, sample_rate, corners)
    if norm == "slaney":
        filters = filters * (2.0 / (corners[2:] - corners[:-2]))
    if bool((filters.amax(0) == 0.0).any()):
        warn(
            "At least one mel filterbank has all zero values. "
            f"The value for `n_mels` ({n_mels}) may be set too high. "
            f"Or, the value for `n_freqs` ({n_freqs}) may be set too low."
        )
    return filters.to(dtypes.get_default_dtype())


def linear_fbanks(
    n_freqs: int, f_min: float, f_max: float, n_filter: int, sample_rate: int
) -> Tensor:
    """Triangular filters that are evenly spaced in Hz.

    Shape: (n_freqs, n_filter).

    Raises: ValueError: a size below 1.

    >>> audio.functional.linear_fbanks(5, 0.0, 4000.0, 3, 8000)
    tensor([[0., 0., 0.],
            [1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.],
            [0., 0., 0.]])
    """
    _check_sizes("linear_fbanks", n_freqs=n_freqs, n_filter=n_filter, sample_rate=sample_rate)
    corners = linspace(f_min, f_max, n_filter + 2, dtype=dtypes.float64)
    return _triangles(n_freqs, sample_rate, corners).to(dtypes.get_default_dtype())


def create_dct(n_mfcc: int, n_mels: int, norm: str | None) -> Tensor:
    """The matrix of the cosine transform (DCT-II): D[n, k] = 2 cos(π/N · (n + 1/2) · k).

    Args:
        n_mfcc: the number of coefficients to keep.
        n_mels: the number N of values of a frame.
        norm: "ortho" scales the columns so that they are orthonormal; None leaves the factor 2.

    Shape: (n_mels, n_mfcc).

    Raises: ValueError: an unknown `norm`, or a size below 1.

    >>> dct = audio.functional.create_dct(3, 3, "ortho")
    >>> allclose(dct.T @ dct, eye(3), atol=1e-6)
    True
    """
    if norm is not None and norm != "ortho":
        raise InvalidValueError(
            "create_dct", 'norm must be either "ortho" or None', {"norm": repr(norm)}
        )
    _check_sizes("create_dct", n_mfcc=n_mfcc, n_mels=n_mels)
    n = arange(float(n_mels)).unsqueeze(1)
    k = arange(float(n_mfcc))
    waves = cos(math.pi / n_mels * (n + 0.5) * k)
    if norm is None:
        return 2.0 * waves
    scale = where(k == 0, math.sqrt(1.0 / n_mels), math.sqrt(2.0 / n_mels))
    return waves * scale


_guard(globals())
