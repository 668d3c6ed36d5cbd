"""Recursive filters of second order ("biquads"): they pass some frequencies and weaken others.

    a₀ y[n] = b₀ x[n] + b₁ x[n-1] + b₂ x[n-2] - a₁ y[n-1] - a₂ y[n-2]

The coefficients are those of R. Bristow-Johnson's "Cookbook formulae for audio EQ biquad filter
coefficients": w₀ = 2π · frequency / sample rate is the angle per sample of the filter's frequency,
α = sin w₀ / 2Q says how narrow it is. Each function below is one row of that table.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...core.composed import wrap_functions as _guard
from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...ops import as_tensor, cos, exp, sin, sqrt, stack
from .recursion import lfilter

__all__ = [
    "allpass_biquad", "band_biquad", "bandpass_biquad", "bandreject_biquad", "bass_biquad",
    "biquad", "deemph_biquad", "equalizer_biquad", "highpass_biquad", "lowpass_biquad",
    "riaa_biquad", "treble_biquad",
]  # fmt: skip

Number = float | Tensor
"""A setting of a filter; a tensor may require grad, so that the filter can be learned."""


class Angle(NamedTuple):
    """What the formulas need of a frequency and its width: cos w₀, sin w₀ and α."""

    cos: Tensor
    sin: Tensor
    alpha: Tensor


def _as_like(waveform: Tensor, value: Number) -> Tensor:
    return as_tensor(value, dtype=waveform.dtype, device=waveform.device)


def _angle(name: str, waveform: Tensor, sample_rate: int, frequency: Number, Q: Number) -> Angle:
    """Return the angle of a frequency in Hz.

    Raises: ValueError: the sample rate or Q is not positive.
    """
    for argument, value in (("sample_rate", sample_rate), ("Q", Q)):
        if not float(value) > 0:
            raise InvalidValueError(name, f"{argument} must be positive, got {float(value)}")
    w0 = 2 * math.pi * _as_like(waveform, frequency) / sample_rate
    sine = sin(w0)
    return Angle(cos(w0), sine, sine / 2 / _as_like(waveform, Q))


def biquad(
    waveform: Tensor, b0: Number, b1: Number, b2: Number, a0: Number, a1: Number, a2: Number
) -> Tensor:
    """Apply a filter of second order, with its coefficients; the result is clipped to [-1, 1].

    Shape: (..., time).

    Raises: ValueError: a0 is 0.

    >>> audio.functional.biquad(tensor([1.0, 0.0, 0.0, 0.0]), 1.0, 0.0, 0.0, 1.0, -0.5, 0.0)
    tensor([1.0000, 0.5000, 0.2500, 0.1250])
    """
    b = stack([_as_like(waveform, b0), _as_like(waveform, b1), _as_like(waveform, b2)])
    a = stack([_as_like(waveform, a0), _as_like(waveform, a1), _as_like(waveform, a2)])
    return lfilter(waveform, a.reshape(3), b.reshape(3))


def lowpass_biquad(
    waveform: Tensor, sample_rate: int, cutoff_freq: float, Q: float = 0.707
) -> Tensor:
    """Pass what is below `cutoff_freq` (in Hz): there the amplitude is Q, far above 0.

    >>> audio.functional.lowpass_biquad(ones(200), 8000, 1000.0)[-1]  # a constant has frequency 0
    tensor(1.0000)
    """
    w = _angle("lowpass_biquad", waveform, sample_rate, cutoff_freq, Q)
    b = (1 - w.cos) / 2
    return biquad(waveform, b, 2 * b, b, 1 + w.alpha, -2 * w.cos, 1 - w.alpha)


def highpass_biquad(
    waveform: Tensor, sample_rate: int, cutoff_freq: float, Q: float = 0.707
) -> Tensor:
    """Pass what is above `cutoff_freq` (in Hz).

    >>> audio.functional.highpass_biquad(ones(200), 8000, 1000.0)[-1].abs() < 1e-6
    tensor(True)
    """
    w = _angle("highpass_biquad", waveform, sample_rate, cutoff_freq, Q)
    b = (1 + w.cos) / 2
    return biquad(waveform, b, -2 * b, b, 1 + w.alpha, -2 * w.cos, 1 - w.alpha)


def bandpass_biquad(
    waveform: Tensor,
    sample_rate: int,
    central_freq: float,
    Q: float = 0.707,
    const_skirt_gain: bool = False,
) -> Tensor:
    """Pass a band around `central_freq` (in Hz), as wide as the frequency divided by Q.

    Args:
        const_skirt_gain: the amplitude in the middle is Q, that of the slopes is fixed; else
            that in the middle is 1.

    >>> audio.functional.bandpass_biquad(ones(200), 8000, 1000.0)[-1].abs() < 1e-6
    tensor(True)
    """
    w = _angle("bandpass_biquad", waveform, sample_rate, central_freq, Q)
    b = w.sin / 2 if const_skirt_gain else w.alpha
    return biquad(waveform, b, 0.0, -b, 1 + w.alpha, -2 * w.cos, 1 - w.alpha)


def bandreject_biquad(
    waveform: Tensor, sample_rate: int, central_freq: float, Q: float = 0.707
) -> Tensor:
    """Remove a band around `central_freq` (in Hz): a notch.

    >>> audio.functional.bandreject_biquad(ones(300) / 2, 8000, 1000.0)[-1]
    tensor(0.5000)
    """
    w = _angle("bandreject_biquad", waveform, sample_rate, central_freq, Q)
    return biquad(waveform, 1.0, -2 * w.cos, 1.0, 1 + w.alpha, -2 * w.cos, 1 - w.alpha)


def allpass_biquad(
    waveform: Tensor, sample_rate: int, central_freq: float, Q: float = 0.707
) -> Tensor:
    """Pass all frequencies, and shift their phases, by half a turn at `central_freq` (in Hz).

    >>> audio.functional.allpass_biquad(ones(300) / 2, 8000, 1000.0)[-1]
    tensor(0.5000)
    """
    w = _angle("allpass_biquad", waveform, sample_rate, central_freq, Q)
    return biquad(
        waveform, 1 - w.alpha, -2 * w.cos, 1 + w.alpha, 1 + w.alpha, -2 * w.cos, 1 - w.alpha
    )


def band_biquad(
    waveform: Tensor,
    sample_rate: int,
    central_freq: float,
    Q: float = 0.707,
    noise: bool = False,
) -> Tensor:
    """Pass a band around `central_freq` (in Hz), as the effect `band` of SoX: a two-pole resonator.

    Args:
        noise: keep the loudness of noise, rather than that of a tone in the middle.

    >>> audio.functional.band_biquad(ones(300) / 2, 8000, 1000.0)[-1]
    tensor(0.4225)
    """
    w = _angle("band_biquad", waveform, sample_rate, central_freq, Q)
    width = _as_like(waveform, central_freq) / _as_like(waveform, Q)
    a2 = exp(-2 * math.pi * width / sample_rate)
    a1 = -4 * a2 / (1 + a2) * w.cos
    if noise:
        b0 = sqrt(((1 + a2) ** 2 - a1 * a1) * (1 - a2) / (1 + a2))
    else:
        b0 = sqrt(1 - a1 * a1 / (4 * a2)) * (1 - a2)
    return biquad(waveform, b0, 0.0, 0.0, 1.0, a1, a2)


def equalizer_biquad(
    waveform: Tensor, sample_rate: int, center_freq: float, gain: float, Q: float = 0.707
) -> Tensor:
    """Amplify a band around `center_freq` (in Hz) by `gain` dB, and leave the rest.

    >>> audio.functional.equalizer_biquad(ones(300) / 2, 8000, 1000.0, 6.0)[-1]
    tensor(0.5000)
    """
    w = _angle("equalizer_biquad", waveform, sample_rate, center_freq, Q)
    A = exp(_as_like(waveform, gain) / 40.0 * math.log(10))
    up, down = w.alpha * A, w.alpha / A
    return biquad(waveform, 1 + up, -2 * w.cos, 1 - up, 1 + down, -2 * w.cos, 1 - down)


def _shelf(waveform: Tensor, w: Angle, A: Tensor, sign: int) -> Tensor:
    """Apply a shelf: below (sign 1) or above (sign -1) the frequency of `w` the amplitude is A².

    The two are each other's mirror image: cos w₀ changes its sign, and so do b₁ and a₁.
    """
    spread = 2 * sqrt(A) * w.alpha
    less, more = (A - 1) * w.cos * sign, (A + 1) * w.cos * sign
    b0, b2 = A * ((A + 1) - less + spread), A * ((A + 1) - less - spread)
    b1 = 2 * A * ((A - 1) - more) * sign
    a0, a2 = (A + 1) + less + spread, (A + 1) + less - spread
    a1 = -2 * ((A - 1) + more) * sign
    return biquad(waveform, b0 / a0, b1 / a0, b2 / a0, 1.0, a1 / a0, a2 / a0)


def bass_biquad(
    waveform: Tensor, sample_rate: int, gain: float, central_freq: float = 100, Q: float = 0.707
) -> Tensor:
    """Amplify what is below `central_freq` (in Hz) by `gain` dB.

    >>> audio.functional.bass_biquad(ones(2000) / 4, 8000, 6.0)[-1]  # + 6 dB is twice as much
    tensor(0.4988)
    """
    w = _angle("bass_biquad", waveform, sample_rate, central_freq, Q)
    return _shelf(waveform, w, exp(_as_like(waveform, gain) / 40 * math.log(10)), 1)


def treble_biquad(
    waveform: Tensor, sample_rate: int, gain: float, central_freq: float = 3000, Q: float = 0.707
) -> Tensor:
    """Amplify what is above `central_freq` (in Hz) by `gain` dB.

    >>> audio.functional.treble_biquad(ones(300) / 4, 16000, 6.0)[-1]
    tensor(0.2500)
    """
    w = _angle("treble_biquad", waveform, sample_rate, central_freq, Q)
    return _shelf(waveform, w, exp(_as_like(waveform, gain) / 40 * math.log(10)), -1)


DEEMPHASIS = {44100: (5283, 0.4845, -9.477), 48000: (5356, 0.479, -9.62)}
"""For a sample rate the frequency, the slope and the gain in dB of a de-emphasis."""


def deemph_biquad(waveform: Tensor, sample_rate: int) -> Tensor:
    """Undo the emphasis of high frequencies on some compact discs (ISO 908).

    Raises: ValueError: the sample rate is not 44100 or 48000 Hz.

    >>> audio.functional.deemph_biquad(ones(300) / 4, 44100)[-1]
    tensor(0.2500)
    """
    if sample_rate not in DEEMPHASIS:
        raise InvalidValueError(
            "deemph_biquad", "Sample rate must be 44100 (audio-CD) or 48000 (DAT)",
            {"sample_rate": sample_rate},
        )  # fmt: skip
    frequency, slope, gain = DEEMPHASIS[sample_rate]
    w0, A = 2 * math.pi * frequency / sample_rate, 10 ** (gain / 40)
    alpha = math.sin(w0) / 2 * math.sqrt((A + 1 / A) * (1 / slope - 1) + 2)
    angle = (_as_like(waveform, value) for value in (math.cos(w0), math.sin(w0), alpha))
    return _shelf(waveform, Angle(*angle), _as_like(waveform, A), -1)


RIAA = {
    44100: ((-0.2014898, 0.923382), (0.7083149, 0.9924091)),
    48000: ((-0.1766069, 0.932159), (0.7396325, 0.993133)),
    88200: ((-0.1168735, 0.9648312), (0.8590646, 0.9964002)),
    96000: ((-0.1141486, 0.9676817), (0.8699137, 0.9966946)),
}
"""For a sample rate the zeros and the poles of the playback curve of vinyl records."""


def riaa_biquad(waveform: Tensor, sample_rate: int) -> Tensor:
    """Play back a vinyl record: the bass was cut weakly and the treble strongly (RIAA curve).

    Raises: ValueError: the sample rate is not 44.1, 48, 88.2 or 96 kHz.

    >>> audio.functional.riaa_biquad(tensor([0.1, 0.0]), 44100)
    tensor([0.0238, 0.0233])
    """
    if sample_rate not in RIAA:
        raise InvalidValueError(
            "riaa_biquad", "Sample rate must be 44.1k, 48k, 88.2k, or 96k",
            {"sample_rate": sample_rate},
        )  # fmt: skip
    zeros, poles = RIAA[sample_rate]
    b = (1.0, -sum(zeros), math.prod(zeros))
    a = (1.0, -sum(poles), math.prod(poles))
    # At 1 kHz the amplitude is 1.
    z = complex(
        math.cos(2 * math.pi * 1000 / sample_rate), -math.sin(2 * math.pi * 1000 / sample_rate)
    )
    response = abs(b[0] + b[1] * z + b[2] * z * z) / abs(a[0] + a[1] * z + a[2] * z * z)
    b0, b1, b2 = (value / response for value in b)
    return biquad(waveform, b0, b1, b2, *a)


_guard(globals())
