"""Spectrograms: which frequencies a sound has at which time, and the way back.

A waveform is cut into overlapping frames, each is weighted by a window and transformed (`stft`).
The squared magnitudes are a power spectrogram. They lack the phases, without which there is no
simple way back to the waveform: `griffinlim` estimates them.
"""

from __future__ import annotations

import math

from ... import dtypes
from ...core.composed import wrap_functions as _guard
from ...core.tensor import Tensor
from ...errors import ArgumentError, DTypeError, InvalidValueError, ShapeValueError, warn
from ...nn.functional import pad as pad_signal
from ...ops import (
    arange,
    cat,
    cumsum,
    full_like,
    hann_window,
    linspace,
    polar,
    rand,
    round,
    sqrt,
)  # fmt: skip
from ...signal.spectrogram import istft, stft
from .resampling import resample

__all__ = [
    "griffinlim", "inverse_spectrogram", "phase_vocoder", "pitch_shift", "spectral_centroid",
    "spectrogram",
]  # fmt: skip


def _norms(name: str, normalized: bool | str) -> tuple[bool, bool]:
    """Return whether spectra are divided by √n_fft, and whether by the norm of the window.

    Raises: ValueError, TypeError: an unknown `normalized`.
    """
    if isinstance(normalized, bool):
        return False, normalized
    if not isinstance(normalized, str):
        raise ArgumentError(
            name, f"normalized must be a bool or a string, got {type(normalized).__name__}"
        )
    if normalized not in ("frame_length", "window"):
        raise InvalidValueError(
            name, f"Invalid normalized parameter: {normalized}",
            hint='it is True, False, "window" (as True) or "frame_length"',
        )  # fmt: skip
    return normalized == "frame_length", normalized == "window"


def _check_signal(name: str, waveform: Tensor, **sizes: int) -> None:
    """Raise ValueError for an empty waveform, or a size that is not positive."""
    for argument, size in sizes.items():
        if size <= 0:
            raise InvalidValueError(name, f"{argument} must be positive, got {size}")
    if not waveform.ndim or not waveform.shape[-1]:
        raise ShapeValueError(
            name, "the waveform is empty", {"waveform (… time)": tuple(waveform.shape)}
        )
    if not waveform.is_floating_point():
        raise DTypeError(
            name, f"expected a floating point waveform, but got {waveform.dtype}",
            hint="audio.load scales samples to floats from -1 to 1",
        )  # fmt: skip


def spectrogram(
    waveform: Tensor,
    pad: int,
    window: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    power: float | None,
    normalized: bool | str,
    center: bool = True,
    pad_mode: str = "reflect",
    onesided: bool = True,
    return_complex: bool | None = None,
) -> Tensor:
    """The spectrogram |S|^power of a waveform, with S its short-time Fourier transform.

    Args:
        waveform: (..., time).
        pad: so many zeros are put before and behind it.
        window: the weights of the samples of a frame, (win_length).
        n_fft: the number of samples that are transformed; a shorter window is filled with zeros.
        hop_length: the distance between frames, in samples.
        power: 1 for magnitudes, 2 for powers, None for the complex spectra.
        normalized: True or "window" divides by the norm of the window, "frame_length" by √n_fft.
        center, pad_mode, onesided: as for `edutorch.stft`.
        return_complex: deprecated, without effect.

    Shape: (..., n_fft // 2 + 1, frames).

    Raises: ValueError, TypeError, RuntimeError: invalid arguments, or an empty waveform.

    >>> x = sin(2 * math.pi * arange(16) / 4)  # a period of 4 samples
    >>> audio.functional.spectrogram(x, 0, hann_window(8), 8, 4, 8, 1.0, False)[1:4, 2]
    tensor([1.0000, 2.0000, 1.0000])
    """
    _check_signal("spectrogram", waveform, n_fft=n_fft, hop_length=hop_length)
    if return_complex is not None:
        warn("spectrogram: return_complex is deprecated: power=None returns complex spectra")
    by_length, by_window = _norms("spectrogram", normalized)
    if pad > 0:
        waveform = pad_signal(waveform, (pad, pad))
    shape = waveform.shape
    spectra = stft(
        waveform.reshape(-1, shape[-1]), n_fft, hop_length, win_length, window, center, pad_mode,
        by_length, onesided, return_complex=True,
    )  # fmt: skip
    spectra = spectra.reshape(shape[:-1] + spectra.shape[-2:])
    if by_window:
        spectra = spectra / sqrt(window.square().sum())
    if power is None:
        return spectra
    return spectra.abs() if power == 1.0 else spectra.abs().pow(power)


def inverse_spectrogram(
    spectrogram: Tensor,
    length: int | None,
    pad: int,
    window: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    normalized: bool | str,
    center: bool = True,
    pad_mode: str = "reflect",
    onesided: bool = True,
) -> Tensor:
    """The waveform of complex spectra: the inverse of `spectrogram(…, power=None)`.

    Args: as for `spectrogram`, and
        length: the number of samples; by default as many as the frames cover.
        pad: so many samples are taken away at both ends, where `length` is given.

    Shape: (..., freq, frames); result (..., time).

    Raises: ValueError: the spectrogram is not complex. ValueError, TypeError, RuntimeError:
        other invalid arguments.

    >>> x, setting = randn(16), (hann_window(8), 8, 4, 8)
    >>> spectra = audio.functional.spectrogram(x, 0, *setting, power=None, normalized=False)
    >>> y = audio.functional.inverse_spectrogram(spectra, 16, 0, *setting, normalized=False)
    >>> allclose(x, y, atol=1e-6)
    True
    """
    by_length, by_window = _norms("inverse_spectrogram", normalized)
    if not spectrogram.is_complex():
        raise InvalidValueError(
            "inverse_spectrogram", "Expected `spectrogram` to be complex dtype.",
            {"spectrogram": spectrogram.dtype}, "griffinlim estimates the phases of magnitudes",
        )  # fmt: skip
    if by_window:
        spectrogram = spectrogram * sqrt(window.square().sum())
    shape = spectrogram.shape
    padded = None if length is None else length + 2 * pad
    waveform = istft(
        spectrogram.reshape(-1, *shape[-2:]), n_fft, hop_length, win_length, window, center,
        by_length, onesided, padded,
    )  # fmt: skip
    if length is not None and pad > 0:
        waveform = waveform[:, pad:-pad]
    return waveform.reshape(shape[:-2] + waveform.shape[-1:])


def griffinlim(
    specgram: Tensor,
    window: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
    power: float,
    n_iter: int,
    momentum: float,
    length: int | None,
    rand_init: bool,
) -> Tensor:
    """Estimate a waveform from a spectrogram without phases.

    Spectra of overlapping frames depend on each other, so most choices of phases belong to no
    waveform. Each iteration makes a waveform from the given magnitudes and the current phases,
    and takes the phases of its spectra as the next ones.

    Args:
        specgram: (..., n_fft // 2 + 1, frames), magnitudes to the power of `power`.
        n_iter: the number of iterations.
        momentum: from 0 to 1: how far each step of the spectra is repeated, which converges faster.
        length: the number of samples; by default as many as the frames cover.
        rand_init: whether to begin with random phases; else with 0.

    Shape: (..., time).

    Raises: ValueError: the momentum is not in [0, 1).

    Paper: N. Perraudin, P. Balazs, P. Søndergaard, "A fast Griffin-Lim algorithm", 2013.

    >>> def powers(x, window=hann_window(32)):
    ...     return audio.functional.spectrogram(x, 0, window, 32, 8, 32, 2.0, False)
    >>> x = sin(arange(400) / 2)
    >>> y = audio.functional.griffinlim(
    ...     powers(x), hann_window(32), 32, 8, 32, 2.0, 32, 0.99, 400, rand_init=False)
    >>> (powers(y) - powers(x)).norm() < 0.5 * powers(x).norm()
    tensor(True)
    """
    if not 0 <= momentum < 1:
        raise InvalidValueError(
            "griffinlim", f"momentum must be in range [0, 1). Found: {momentum}"
        )
    momentum = momentum / (1 + momentum)
    shape = specgram.shape
    magnitudes = specgram.reshape(-1, *shape[-2:]).pow(1 / power)
    complex_dtype = dtypes.complex128 if specgram.dtype == dtypes.float64 else dtypes.complex64
    if rand_init:
        phases = rand(magnitudes.shape, dtype=complex_dtype, device=specgram.device)
    else:
        phases = full_like(magnitudes, 1.0).to(complex_dtype)

    def waveform_of(spectra: Tensor) -> Tensor:
        return istft(spectra, n_fft, hop_length, win_length, window, length=length)

    previous: Tensor | None = None
    for _ in range(n_iter):
        spectra = stft(
            waveform_of(magnitudes * phases), n_fft, hop_length, win_length, window,
            return_complex=True,
        )  # fmt: skip
        phases = spectra if previous is None else spectra - momentum * previous
        phases = phases / (phases.abs() + 1e-16)
        previous = spectra
    waveform = waveform_of(magnitudes * phases)
    return waveform.reshape(shape[:-2] + waveform.shape[-1:])


def phase_vocoder(complex_specgrams: Tensor, rate: float, phase_advance: Tensor) -> Tensor:
    """Change the speed of a sound, but not its pitch, by a factor of `rate`.

    Frames are read `rate` apart, with interpolated magnitudes. Their phases add up what a tone
    in each bin turns from one frame to the next: the advance that its frequency makes expect, and
    the measured difference to that, between -π and π.

    Args:
        complex_specgrams: (..., freq, frames).
        rate: 2 is twice as fast.
        phase_advance: the expected advance of each bin from frame to frame, in radians, (freq, 1).

    Shape: (..., freq, ⌈frames / rate⌉).

    Raises: ValueError: the rate is not positive, or the spectrogram is not complex.

    >>> spectra = stft(sin(arange(64.0)), 16, 4, window=hann_window(16), return_complex=True)
    >>> advance = linspace(0, math.pi * 4, 9).unsqueeze(1)
    >>> audio.functional.phase_vocoder(spectra, 2.0, advance).shape, spectra.shape
    (torch.Size([9, 9]), torch.Size([9, 17]))
    """
    if not rate > 0:
        raise InvalidValueError("phase_vocoder", f"rate must be positive, got {rate}")
    if not complex_specgrams.is_complex():
        raise InvalidValueError(
            "phase_vocoder", "Expected `complex_specgrams` to be complex dtype.",
            {"complex_specgrams": complex_specgrams.dtype},
        )  # fmt: skip
    if rate == 1.0:
        return complex_specgrams
    real_dtype = complex_specgrams.real.dtype
    frames = complex_specgrams.shape[-1]
    time = arange(0, frames, rate, device=complex_specgrams.device, dtype=real_dtype)
    fraction = time % 1.0
    first_phase = complex_specgrams[..., :1].angle()
    padded = pad_signal(complex_specgrams, (0, 2))
    before = padded.index_select(-1, time.long())
    behind = padded.index_select(-1, (time + 1).long())
    deviation = behind.angle() - before.angle() - phase_advance
    deviation = deviation - 2 * math.pi * round(deviation / (2 * math.pi))
    turns = cat([first_phase, (deviation + phase_advance)[..., :-1]], -1)
    magnitude = fraction * behind.abs() + (1 - fraction) * before.abs()
    return polar(magnitude, cumsum(turns, -1))


def pitch_shift(
    waveform: Tensor,
    sample_rate: int,
    n_steps: int,
    bins_per_octave: int = 12,
    n_fft: int = 512,
    win_length: int | None = None,
    hop_length: int | None = None,
    window: Tensor | None = None,
) -> Tensor:
    """Change the pitch of a sound by `n_steps`, but not its speed.

    It is stretched in time by 2^(n_steps / bins_per_octave) without changing the pitch, and then
    resampled to its old length, which changes both back.

    Args:
        waveform: (..., time).
        bins_per_octave: the number of steps of an octave: 12 are semitones.
        hop_length: by default n_fft // 4.
        window: by default a Hann window of `win_length`, which is n_fft by default.

    Shape: as the waveform.

    Raises: ValueError: an empty waveform, or sizes that are not positive.

    >>> x = sin(2 * math.pi * arange(8000) * 400 / 8000)
    >>> y = audio.functional.pitch_shift(x, 8000, 12)  # an octave
    >>> (fft.rfft(y).abs().argmax() * 8000 / 8000).item()
    800.0
    """
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    _check_signal("pitch_shift", waveform, n_fft=n_fft, hop_length=hop_length)
    if window is None:
        window = hann_window(win_length, device=waveform.device)
    shape = waveform.shape
    length = shape[-1]
    rate = 2.0 ** (-float(n_steps) / bins_per_octave)
    spectra = stft(
        waveform.reshape(-1, length), n_fft, hop_length, win_length, window, return_complex=True
    )
    advance = linspace(0, math.pi * hop_length, spectra.shape[-2], device=waveform.device)
    stretched = istft(
        phase_vocoder(spectra, rate, advance.unsqueeze(-1)), n_fft, hop_length, win_length, window,
        length=int(length / rate + 0.5),
    )  # fmt: skip
    shifted = resample(stretched, int(sample_rate / rate), sample_rate)[..., :length]
    return pad_signal(shifted, (0, length - shifted.shape[-1])).reshape(shape)


def spectral_centroid(
    waveform: Tensor,
    sample_rate: int,
    pad: int,
    window: Tensor,
    n_fft: int,
    hop_length: int,
    win_length: int,
) -> Tensor:
    """The mean frequency of each frame in Hz, weighted by the magnitudes: how bright it sounds.

    Args: as for `spectrogram`.

    Shape: (..., time); result (..., frames).

    Raises: as `spectrogram`.

    >>> x = sin(2 * math.pi * arange(64) / 4)
    >>> audio.functional.spectral_centroid(x, 8000, 0, hann_window(16), 16, 8, 16)[4]
    tensor(2000.)
    """
    magnitudes = spectrogram(waveform, pad, window, n_fft, hop_length, win_length, 1.0, False)
    frequencies = linspace(0, sample_rate // 2, n_fft // 2 + 1, device=waveform.device)
    return (frequencies.unsqueeze(-1) * magnitudes).sum(-2) / magnitudes.sum(-2)


_guard(globals())
