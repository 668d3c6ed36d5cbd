"""How loud: decibels, gain, companding, loudness as it is heard.

A ratio r of powers is 10 log₁₀ r decibels, a ratio of amplitudes 20 log₁₀ r: powers are squares.
"""

from __future__ import annotations

import math

from ... import dtypes
from ...core.composed import wrap_functions as _guard
from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeValueError, warn
from ...ops import clamp, expm1, log1p, log10, maximum, sign, sin, tensor, where
from .filters import highpass_biquad, treble_biquad

__all__ = [
    "DB_to_amplitude", "amplitude_to_DB", "contrast", "dcshift", "gain", "loudness",
    "mu_law_decoding", "mu_law_encoding",
]  # fmt: skip


def amplitude_to_DB(
    x: Tensor, multiplier: float, amin: float, db_multiplier: float, top_db: float | None = None
) -> Tensor:
    """The decibels of a spectrogram: multiplier · (log₁₀ max(x, amin) - db_multiplier).

    Args:
        x: (freq, time), (channel, freq, time) or (..., channel, freq, time).
        multiplier: 10 for powers, 20 for amplitudes.
        amin: smaller values count as this one, since log 0 is -∞.
        db_multiplier: log₁₀ of the reference, which gets 0 dB.
        top_db: values more than this below the loudest one (of each spectrogram of a batch, with
            all its channels) are raised to that floor.

    Raises: ValueError: `top_db` and fewer than 2 dimensions.

    >>> x = tensor([[1.0, 10.0, 1e-12]])
    >>> audio.functional.amplitude_to_DB(x, 10.0, 1e-10, 0.0, top_db=80.0)
    tensor([[  0.,  10., -70.]])
    """
    decibels = multiplier * log10(clamp(x, min=amin)) - multiplier * db_multiplier
    if top_db is None:
        return decibels
    if decibels.ndim < 2:
        raise ShapeValueError(
            "amplitude_to_DB", "top_db needs a spectrogram", {"x (freq time)": tuple(x.shape)}
        )
    axes = tuple(range(-min(decibels.ndim, 3), 0))
    return maximum(decibels, decibels.amax(dim=axes, keepdim=True) - top_db)


def DB_to_amplitude(x: Tensor, ref: float, power: float) -> Tensor:
    """The inverse of decibels: ref · (10^(x / 10))^power.

    Args:
        ref: what 0 dB stands for.
        power: 1 for powers, 0.5 for amplitudes.

    >>> audio.functional.DB_to_amplitude(tensor([0.0, 20.0]), ref=1.0, power=0.5)
    tensor([ 1., 10.])
    """
    return ref * (10.0 ** (x * 0.1)) ** power


def gain(waveform: Tensor, gain_db: float = 1.0) -> Tensor:
    """Amplify a waveform by so many decibels: y = x · 10^(gain_db / 20).

    >>> audio.functional.gain(tensor([0.1, -0.2]), 20.0)
    tensor([ 1., -2.])
    """
    return waveform if gain_db == 0 else waveform * 10 ** (gain_db / 20)


def contrast(waveform: Tensor, enhancement_amount: float = 75.0) -> Tensor:
    """Make a waveform sound louder: y = sin(πx/2 + c · sin 2πx) with c = enhancement_amount / 750.

    Raises: ValueError: the amount is not from 0 to 100.

    >>> audio.functional.contrast(tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.7071, 1.0000])
    """
    if not 0 <= enhancement_amount <= 100:
        raise InvalidValueError(
            "contrast", "Allowed range of values for enhancement_amount : 0-100",
            {"enhancement_amount": enhancement_amount},
        )  # fmt: skip
    angle = waveform * (math.pi / 2)
    return sin(angle + enhancement_amount / 750.0 * sin(angle * 4))


def dcshift(waveform: Tensor, shift: float, limiter_gain: float | None = None) -> Tensor:
    """Move a waveform up or down by a constant, clipped to [-1, 1].

    Args:
        limiter_gain: instead of clipping, peaks that would leave the range are scaled by about
            this much (0.05 or so).

    >>> audio.functional.dcshift(tensor([-0.5, 0.0, 0.9]), 0.25)
    tensor([-0.2500,  0.2500,  1.0000])
    """
    shifted = clamp(waveform + shift, -1.0, 1.0)
    if limiter_gain is None or shift == 0:
        return shifted
    side = math.copysign(1.0, shift)  # a shift downwards is one upwards of -x
    threshold = 1.0 - (abs(shift) - limiter_gain)
    peak = side * waveform
    limited = (peak - threshold) * limiter_gain / (1 - threshold) + threshold + abs(shift)
    return where(peak > threshold, side * clamp(limited, max=threshold), shifted)


def mu_law_encoding(x: Tensor, quantization_channels: int) -> Tensor:
    """Quantize samples in [-1, 1] finely near 0: F(x) = sign(x) · ln(1 + μ|x|) / ln(1 + μ).

    Returns: integers from 0 to μ = quantization_channels - 1.

    Raises: ValueError: fewer than 2 channels. Warns where `x` holds integers.

    >>> audio.functional.mu_law_encoding(tensor([-1.0, 0.0, 0.01, 1.0]), 256)
    tensor([  0, 128, 157, 255])
    """
    mu = _mu("mu_law_encoding", quantization_channels)
    if not x.is_floating_point():
        warn(f"mu_law_encoding: the input should be floating point in [-1, 1], but is {x.dtype}")
        x = x.float()
    compressed = sign(x) * log1p(mu * x.abs()) / _log1p(mu, x)
    return ((compressed + 1) / 2 * mu + 0.5).long()


def mu_law_decoding(x_mu: Tensor, quantization_channels: int) -> Tensor:
    """The inverse of `mu_law_encoding`: F⁻¹(y) = sign(y) · ((1 + μ)^|y| - 1) / μ.

    Raises: ValueError: fewer than 2 channels.

    >>> audio.functional.mu_law_decoding(tensor([0, 157, 255]), 256)
    tensor([-1.0000,  0.0102,  1.0000])
    """
    mu = _mu("mu_law_decoding", quantization_channels)
    if not x_mu.is_floating_point():
        x_mu = x_mu.float()
    y = x_mu / mu * 2 - 1.0
    return sign(y) * expm1(y.abs() * _log1p(mu, y)) / mu


def _mu(name: str, quantization_channels: int) -> float:
    if quantization_channels < 2:
        raise InvalidValueError(
            name, f"quantization_channels must be at least 2, got {quantization_channels}"
        )
    return quantization_channels - 1.0


def _log1p(mu: float, like: Tensor) -> Tensor:
    return log1p(tensor(mu, dtype=like.dtype, device=like.device))


CHANNEL_WEIGHTS = (1.0, 1.0, 1.0, 1.41, 1.41)
"""Left, right and centre, and the two channels from behind, which are heard louder."""


def loudness(waveform: Tensor, sample_rate: int) -> Tensor:
    """The loudness in LKFS, as broadcasters measure it (ITU-R BS.1770-4).

    The waveform is filtered as the head and the ear filter it; the power of blocks of 0.4 s is
    averaged, without blocks that are quieter than -70 LKFS or 10 below the average.

    Shape: (..., channels, time); result (...).

    Raises: ValueError: more than 5 channels, or a waveform shorter than a block.

    >>> t = arange(16000) / 16000
    >>> audio.functional.loudness(sin(2 * math.pi * 440 * t).unsqueeze(0), 16000)
    tensor(-3.7404)
    """
    shape = tuple(waveform.shape)
    if waveform.ndim < 2 or shape[-2] > len(CHANNEL_WEIGHTS):
        raise ShapeValueError(
            "loudness", "Only up to 5 channels are supported.",
            {"waveform (… channels time)": shape},
        )  # fmt: skip
    block = round(0.4 * sample_rate)
    if shape[-1] < block:
        raise ShapeValueError(
            "loudness", f"a block has {block} samples, the waveform has fewer",
            {"waveform (… channels time)": shape},
        )  # fmt: skip
    waveform = treble_biquad(waveform, sample_rate, 4.0, 1500.0, 1 / math.sqrt(2))
    waveform = highpass_biquad(waveform, sample_rate, 38.0, 0.5)
    energy = waveform.unfold(-1, block, round(block * 0.25)).square().mean(-1)
    weights = tensor(CHANNEL_WEIGHTS[: shape[-2]], dtype=dtypes.float32, device=waveform.device)
    weights = weights.to(waveform.dtype).unsqueeze(-1)
    level = _lkfs((weights * energy).sum(-2))
    is_loud = level > -70.0
    average = _mean_where(is_loud, energy, weights)
    is_loud = is_loud & (level > (average - 10).unsqueeze(-1))
    return _mean_where(is_loud, energy, weights)


def _lkfs(power: Tensor) -> Tensor:
    return -0.691 + 10 * log10(power)


def _mean_where(is_loud: Tensor, energy: Tensor, weights: Tensor) -> Tensor:
    """Return the loudness of the loud blocks' mean energy."""
    chosen = is_loud.unsqueeze(-2)
    mean = (energy * chosen).sum(-1) / chosen.sum(-1)
    return _lkfs((weights.squeeze(-1) * mean).sum(-1))


_guard(globals())
