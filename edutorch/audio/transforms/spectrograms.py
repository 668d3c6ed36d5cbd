"""From waveforms to spectrograms and back, as modules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeValueError, warn
from ...linalg import lstsq
from ...nn.modules import Module
from ...ops import hann_window, linspace, matmul, relu
from .. import functional as F

__all__ = [
    "GriffinLim", "InverseMelScale", "InverseSpectrogram", "MelScale", "MelSpectrogram",
    "PitchShift", "SpectralCentroid", "Spectrogram", "TimeStretch",
]  # fmt: skip

WindowFunction = Callable[..., Tensor]


class Framed(Module):
    """Base of the modules that cut a waveform into frames: their window and its sizes.

    >>> audio.transforms.Spectrogram(n_fft=8).hop_length
    4
    """

    window: Tensor

    def __init__(
        self,
        n_fft: int,
        win_length: int | None,
        hop_length: int | None,
        window_fn: WindowFunction,
        wkwargs: dict[str, Any] | None,
        hops: int = 2,
    ) -> None:
        """By default the window has n_fft samples, and `hops` frames begin within one window."""
        super().__init__()
        name = type(self).__name__
        self.n_fft = n_fft
        self.win_length = n_fft if win_length is None else win_length
        self.hop_length = self.win_length // hops if hop_length is None else hop_length
        for argument in ("n_fft", "win_length", "hop_length"):
            if getattr(self, argument) <= 0:
                raise InvalidValueError(
                    name, f"{argument} must be positive, got {getattr(self, argument)}"
                )
        self.register_buffer("window", window_fn(self.win_length, **(wkwargs or {})))

    def extra_repr(self) -> str:
        return f"n_fft={self.n_fft}, win_length={self.win_length}, hop_length={self.hop_length}"


class Spectrogram(Framed):
    """The spectrogram of a waveform: see `functional.spectrogram`.

    Args:
        n_fft: the number of samples that are transformed.
        win_length: the samples of the window, by default n_fft.
        hop_length: the distance between frames, by default win_length // 2.
        pad: so many zeros are put before and behind the waveform.
        window_fn: makes the window, with the arguments `wkwargs`.
        power: 2 for powers, 1 for magnitudes, None for complex spectra.
        normalized: True or "window" divides by the norm of the window, "frame_length" by √n_fft.
        center, pad_mode, onesided: as for `edutorch.stft`.
        return_complex: deprecated, without effect.

    Shape: (..., time); result (..., n_fft // 2 + 1, frames).

    Raises: ValueError: a size that is not positive.

    >>> audio.transforms.Spectrogram(n_fft=400)(zeros(2, 16000)).shape
    torch.Size([2, 201, 81])
    """

    def __init__(
        self,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: WindowFunction = hann_window,
        power: float | None = 2.0,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool = True,
        return_complex: bool | None = None,
    ) -> None:
        super().__init__(n_fft, win_length, hop_length, window_fn, wkwargs)
        self.pad = pad
        self.power = power
        self.normalized = normalized
        self.center = center
        self.pad_mode = pad_mode
        self.onesided = onesided
        if return_complex is not None:
            warn("Spectrogram: return_complex is deprecated: power=None returns complex spectra")

    def forward(self, waveform: Tensor) -> Tensor:
        return F.spectrogram(
            waveform, self.pad, self.window, self.n_fft, self.hop_length, self.win_length,
            self.power, self.normalized, self.center, self.pad_mode, self.onesided,
        )  # fmt: skip


class InverseSpectrogram(Framed):
    """The waveform of complex spectra: see `functional.inverse_spectrogram`.

    Args: as for `Spectrogram`.

    Shape: (..., n_fft // 2 + 1, frames); result (..., time).

    >>> x = randn(1, 64)
    >>> spectra = audio.transforms.Spectrogram(n_fft=16, power=None)(x)
    >>> allclose(audio.transforms.InverseSpectrogram(n_fft=16)(spectra, 64), x, atol=1e-6)
    True
    """

    def __init__(
        self,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: WindowFunction = hann_window,
        normalized: bool | str = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool = True,
    ) -> None:
        super().__init__(n_fft, win_length, hop_length, window_fn, wkwargs)
        self.pad = pad
        self.normalized = normalized
        self.center = center
        self.pad_mode = pad_mode
        self.onesided = onesided

    def forward(self, spectrogram: Tensor, length: int | None = None) -> Tensor:
        return F.inverse_spectrogram(
            spectrogram, length, self.pad, self.window, self.n_fft, self.hop_length,
            self.win_length, self.normalized, self.center, self.pad_mode, self.onesided,
        )  # fmt: skip


class GriffinLim(Framed):
    """A waveform from a spectrogram without phases: see `functional.griffinlim`.

    Args: as for `Spectrogram`, and
        n_iter: the number of iterations.
        momentum: how far each step is repeated, from 0 to 1.
        length: the number of samples of the result.
        rand_init: whether to begin with random phases.

    Shape: (..., n_fft // 2 + 1, frames); result (..., time).

    Raises: ValueError: the momentum is not in [0, 1).

    >>> audio.transforms.GriffinLim(n_fft=16, n_iter=2)(rand(1, 9, 10)).shape
    torch.Size([1, 72])
    """

    def __init__(
        self,
        n_fft: int = 400,
        n_iter: int = 32,
        win_length: int | None = None,
        hop_length: int | None = None,
        window_fn: WindowFunction = hann_window,
        power: float = 2.0,
        wkwargs: dict[str, Any] | None = None,
        momentum: float = 0.99,
        length: int | None = None,
        rand_init: bool = True,
    ) -> None:
        if not 0 <= momentum < 1:
            raise InvalidValueError(
                "GriffinLim", f"momentum must be in the range [0, 1). Found: {momentum}"
            )
        super().__init__(n_fft, win_length, hop_length, window_fn, wkwargs)
        self.n_iter = n_iter
        self.power = power
        self.momentum = momentum
        self.length = length
        self.rand_init = rand_init

    def forward(self, specgram: Tensor) -> Tensor:
        return F.griffinlim(
            specgram, self.window, self.n_fft, self.hop_length, self.win_length, self.power,
            self.n_iter, self.momentum, self.length, self.rand_init,
        )  # fmt: skip


def _highest_frequency(name: str, f_min: float, f_max: float | None, sample_rate: int) -> float:
    """Return f_max, by default half of the sample rate.

    Raises: ValueError: it is below f_min.
    """
    f_max = float(sample_rate // 2) if f_max is None else f_max
    if f_min > f_max:
        raise InvalidValueError(name, f"Require f_min: {f_min} <= f_max: {f_max}")
    return f_max


class MelScale(Module):
    """Condense the frequencies of a spectrogram into mel bands: see `functional.melscale_fbanks`.

    Args:
        n_mels: the number of bands.
        sample_rate: in Hz.
        f_min, f_max: the range of frequencies in Hz; by default up to sample_rate // 2.
        n_stft: the number of frequencies of the spectrogram.
        norm, mel_scale: as for `functional.melscale_fbanks`.

    Shape: (..., n_stft, frames); result (..., n_mels, frames).

    Raises: ValueError: f_min > f_max, an unknown `norm` or `mel_scale`.

    >>> audio.transforms.MelScale(n_mels=20, n_stft=201)(rand(1, 201, 10)).shape
    torch.Size([1, 20, 10])
    """

    fb: Tensor

    def __init__(
        self,
        n_mels: int = 128,
        sample_rate: int = 16000,
        f_min: float = 0.0,
        f_max: float | None = None,
        n_stft: int = 201,
        norm: str | None = None,
        mel_scale: str = "htk",
    ) -> None:
        super().__init__()
        self.n_mels = n_mels
        self.sample_rate = sample_rate
        self.f_min = f_min
        self.f_max = _highest_frequency("MelScale", f_min, f_max, sample_rate)
        self.n_stft = n_stft
        self.norm = norm
        self.mel_scale = mel_scale
        filters = F.melscale_fbanks(n_stft, f_min, self.f_max, n_mels, sample_rate, norm, mel_scale)
        self.register_buffer("fb", filters)

    def forward(self, specgram: Tensor) -> Tensor:
        if specgram.ndim < 2 or specgram.shape[-2] != self.n_stft:
            raise ShapeValueError(
                "MelScale", f"expected {self.n_stft} frequencies",
                {"specgram (… freq frames)": tuple(specgram.shape)},
                "n_stft is n_fft // 2 + 1 of the spectrogram",
            )  # fmt: skip
        return matmul(specgram.transpose(-1, -2), self.fb).transpose(-1, -2)


class InverseMelScale(Module):
    """Estimate a spectrogram from a mel spectrogram: the least squares solution, without negatives.

    Args: as for `MelScale`, and
        driver: of `linalg.lstsq`.

    Shape: (..., n_mels, frames); result (..., n_stft, frames).

    Raises: ValueError: as `MelScale`; an unknown driver; another number of bands.

    >>> audio.transforms.InverseMelScale(n_stft=201, n_mels=20)(rand(1, 20, 10)).shape
    torch.Size([1, 201, 10])
    """

    fb: Tensor

    def __init__(
        self,
        n_stft: int,
        n_mels: int = 128,
        sample_rate: int = 16000,
        f_min: float = 0.0,
        f_max: float | None = None,
        norm: str | None = None,
        mel_scale: str = "htk",
        driver: str = "gels",
    ) -> None:
        super().__init__()
        drivers = ["gels", "gelsy", "gelsd", "gelss"]
        if driver not in drivers:
            raise InvalidValueError(
                "InverseMelScale", f"driver must be one of {drivers}. Found {driver}."
            )
        self.n_mels = n_mels
        self.driver = driver
        f_max = _highest_frequency("InverseMelScale", f_min, f_max, sample_rate)
        filters = F.melscale_fbanks(n_stft, f_min, f_max, n_mels, sample_rate, norm, mel_scale)
        self.register_buffer("fb", filters)

    def forward(self, melspec: Tensor) -> Tensor:
        if melspec.ndim < 2 or melspec.shape[-2] != self.n_mels:
            raise ShapeValueError(
                "InverseMelScale", f"Expected an input with {self.n_mels} mel bins.",
                {"melspec (… mels frames)": tuple(melspec.shape)},
            )  # fmt: skip
        shape = melspec.shape
        columns = melspec.reshape(-1, *shape[-2:])
        solution = lstsq(self.fb.T.unsqueeze(0), columns, driver=self.driver).solution
        return relu(solution).reshape(*shape[:-2], self.fb.shape[0], shape[-1])


class MelSpectrogram(Module):
    """The spectrogram of a waveform in mel bands: `Spectrogram`, then `MelScale`.

    Args: as for those two.

    Shape: (..., time); result (..., n_mels, frames).

    Raises: ValueError: as those two.

    >>> audio.transforms.MelSpectrogram(sample_rate=16000, n_mels=40)(zeros(1, 16000)).shape
    torch.Size([1, 40, 81])
    """

    def __init__(
        self,
        sample_rate: int = 16000,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        f_min: float = 0.0,
        f_max: float | None = None,
        pad: int = 0,
        n_mels: int = 128,
        window_fn: WindowFunction = hann_window,
        power: float = 2.0,
        normalized: bool = False,
        wkwargs: dict[str, Any] | None = None,
        center: bool = True,
        pad_mode: str = "reflect",
        onesided: bool | None = None,
        norm: str | None = None,
        mel_scale: str = "htk",
    ) -> None:
        super().__init__()
        if onesided is not None:
            warn("MelSpectrogram: onesided is deprecated, and has no effect")
        self.sample_rate = sample_rate
        self.n_mels = n_mels
        self.spectrogram = Spectrogram(
            n_fft, win_length, hop_length, pad, window_fn, power, normalized, wkwargs, center,
            pad_mode,
        )  # fmt: skip
        self.n_fft = n_fft
        self.win_length = self.spectrogram.win_length
        self.hop_length = self.spectrogram.hop_length
        self.mel_scale = MelScale(
            n_mels, sample_rate, f_min, f_max, n_fft // 2 + 1, norm, mel_scale
        )

    def forward(self, waveform: Tensor) -> Tensor:
        return self.mel_scale(self.spectrogram(waveform))


class TimeStretch(Module):
    """Change the speed of complex spectra, but not the pitch: see `functional.phase_vocoder`.

    Args:
        hop_length: the distance between frames, by default n_freq - 1.
        n_freq: the number of frequencies.
        fixed_rate: the rate, unless `forward` is told another one.

    Shape: (..., freq, frames); result (..., freq, ⌈frames / rate⌉).

    Raises: ValueError: there is no rate.

    >>> spectra = audio.transforms.Spectrogram(n_fft=16, power=None)(randn(1, 160))
    >>> audio.transforms.TimeStretch(n_freq=9, fixed_rate=1.5)(spectra).shape, spectra.shape
    (torch.Size([1, 9, 14]), torch.Size([1, 9, 21]))
    """

    phase_advance: Tensor

    def __init__(
        self, hop_length: int | None = None, n_freq: int = 201, fixed_rate: float | None = None
    ) -> None:
        super().__init__()
        self.fixed_rate = fixed_rate
        hop_length = n_freq - 1 if hop_length is None else hop_length
        self.register_buffer(
            "phase_advance", linspace(0, math.pi * hop_length, n_freq).unsqueeze(-1)
        )

    def forward(self, complex_specgrams: Tensor, overriding_rate: float | None = None) -> Tensor:
        rate = self.fixed_rate if overriding_rate is None else overriding_rate
        if rate is None:
            raise InvalidValueError(
                "TimeStretch",
                "If no fixed_rate is specified, must pass a valid rate to the forward method.",
            )
        return F.phase_vocoder(complex_specgrams, rate, self.phase_advance)


class PitchShift(Framed):
    """Change the pitch of a waveform, but not its speed: see `functional.pitch_shift`.

    Args: as there.

    Shape: (..., time).

    >>> audio.transforms.PitchShift(16000, 4)(rand(1, 8000)).shape
    torch.Size([1, 8000])
    """

    def __init__(
        self,
        sample_rate: int,
        n_steps: int,
        bins_per_octave: int = 12,
        n_fft: int = 512,
        win_length: int | None = None,
        hop_length: int | None = None,
        window_fn: WindowFunction = hann_window,
        wkwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(n_fft, win_length, hop_length, window_fn, wkwargs, hops=4)
        self.sample_rate = sample_rate
        self.n_steps = n_steps
        self.bins_per_octave = bins_per_octave

    def forward(self, waveform: Tensor) -> Tensor:
        return F.pitch_shift(
            waveform, self.sample_rate, self.n_steps, self.bins_per_octave, self.n_fft,
            self.win_length, self.hop_length, self.window,
        )  # fmt: skip


class SpectralCentroid(Framed):
    """The mean frequency of each frame: see `functional.spectral_centroid`.

    Args: as for `Spectrogram`.

    Shape: (..., time); result (..., frames).

    >>> audio.transforms.SpectralCentroid(16000)(rand(1, 16000)).shape
    torch.Size([1, 81])
    """

    def __init__(
        self,
        sample_rate: int,
        n_fft: int = 400,
        win_length: int | None = None,
        hop_length: int | None = None,
        pad: int = 0,
        window_fn: WindowFunction = hann_window,
        wkwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(n_fft, win_length, hop_length, window_fn, wkwargs)
        self.sample_rate = sample_rate
        self.pad = pad

    def forward(self, waveform: Tensor) -> Tensor:
        return F.spectral_centroid(
            waveform, self.sample_rate, self.pad, self.window, self.n_fft, self.hop_length,
            self.win_length,
        )  # fmt: skip
