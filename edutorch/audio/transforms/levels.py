"""Loudness and amplitude, as modules: decibels, companding, fading, emphasis."""

from __future__ import annotations

import math

from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeValueError
from ...nn.modules import Module
from ...ops import cat, clamp, linspace, log10, ones, pow, sin
from .. import functional as F

__all__ = [
    "AmplitudeToDB", "Deemphasis", "Fade", "Loudness", "MuLawDecoding", "MuLawEncoding",
    "Preemphasis", "Vol",
]  # fmt: skip


class AmplitudeToDB(Module):
    """The decibels of a spectrogram: see `functional.amplitude_to_DB`; 1 is 0 dB.

    Args:
        stype: "power", or "magnitude".
        top_db: values more than this below the loudest one are raised to that floor.

    Shape: (..., freq, time).

    Raises: ValueError: a negative `top_db`.

    >>> audio.transforms.AmplitudeToDB()(tensor([[1.0, 100.0]]))
    tensor([[ 0.0000, 20.0000]])
    """

    def __init__(self, stype: str = "power", top_db: float | None = None) -> None:
        super().__init__()
        if top_db is not None and top_db < 0:
            raise InvalidValueError(
                "AmplitudeToDB", "top_db must be positive value", {"top_db": top_db}
            )
        self.stype = stype
        self.top_db = top_db
        self.multiplier = 10.0 if stype == "power" else 20.0
        self.amin = 1e-10
        self.ref_value = 1.0
        self.db_multiplier = math.log10(max(self.amin, self.ref_value))

    def forward(self, x: Tensor) -> Tensor:
        return F.amplitude_to_DB(x, self.multiplier, self.amin, self.db_multiplier, self.top_db)


class MuLawEncoding(Module):
    """Quantize samples finely near 0: see `functional.mu_law_encoding`.

    >>> audio.transforms.MuLawEncoding(256)(tensor([-1.0, 0.0, 1.0]))
    tensor([  0, 128, 255])
    """

    def __init__(self, quantization_channels: int = 256) -> None:
        super().__init__()
        self.quantization_channels = quantization_channels

    def forward(self, x: Tensor) -> Tensor:
        return F.mu_law_encoding(x, self.quantization_channels)


class MuLawDecoding(Module):
    """The inverse of `MuLawEncoding`: see `functional.mu_law_decoding`.

    >>> audio.transforms.MuLawDecoding(256)(tensor([0, 255]))
    tensor([-1.,  1.])
    """

    def __init__(self, quantization_channels: int = 256) -> None:
        super().__init__()
        self.quantization_channels = quantization_channels

    def forward(self, x_mu: Tensor) -> Tensor:
        return F.mu_law_decoding(x_mu, self.quantization_channels)


CURVES = {
    "linear": lambda t: t,
    "exponential": lambda t: pow(2, t - 1) * t,
    "logarithmic": lambda t: log10(0.1 + t) + 1,
    "quarter_sine": lambda t: sin(t * math.pi / 2),
    "half_sine": lambda t: sin(t * math.pi - math.pi / 2) / 2 + 0.5,
}
"""The amplitude while a sound fades in, at times from 0 to 1."""


class Fade(Module):
    """Fade a waveform in and out.

    Args:
        fade_in_len, fade_out_len: for so many samples.
        fade_shape: "linear", "exponential", "logarithmic", "quarter_sine" or "half_sine".

    Shape: (..., time).

    Raises: ValueError: an unknown shape, or more samples than the waveform has.

    >>> audio.transforms.Fade(3, 2)(ones(6))
    tensor([0.0000, 0.5000, 1.0000, 1.0000, 1.0000, 0.0000])
    """

    def __init__(
        self, fade_in_len: int = 0, fade_out_len: int = 0, fade_shape: str = "linear"
    ) -> None:
        super().__init__()
        if fade_shape not in CURVES:
            raise InvalidValueError(
                "Fade",
                f"unknown fade_shape {fade_shape!r}",
                hint=f"it is one of {', '.join(CURVES)}",
            )
        self.fade_in_len = fade_in_len
        self.fade_out_len = fade_out_len
        self.fade_shape = fade_shape

    def forward(self, waveform: Tensor) -> Tensor:
        length = waveform.shape[-1]
        if max(self.fade_in_len, self.fade_out_len) > length:
            raise ShapeValueError(
                "Fade", "the waveform is shorter than its fading",
                {"waveform": tuple(waveform.shape), "fade_in_len": self.fade_in_len,
                 "fade_out_len": self.fade_out_len},
            )  # fmt: skip
        fade_in = self._curve(self.fade_in_len, length, waveform)
        return fade_in * self._curve(self.fade_out_len, length, waveform).flip(0) * waveform

    def _curve(self, fading: int, length: int, waveform: Tensor) -> Tensor:
        time = linspace(0, 1, fading, device=waveform.device)
        rest = ones(length - fading, device=waveform.device)
        return cat([CURVES[self.fade_shape](time), rest]).clamp(0, 1)


class Vol(Module):
    """Change the volume; the result is clipped to [-1, 1].

    Args:
        gain: a factor of the amplitude, a factor of the power, or decibels.
        gain_type: "amplitude", "power" or "db".

    Raises: ValueError: a negative factor, or an unknown type.

    >>> audio.transforms.Vol(6.0206, gain_type="db")(tensor([0.25, 0.9]))
    tensor([0.5000, 1.0000])
    """

    def __init__(self, gain: float, gain_type: str = "amplitude") -> None:
        super().__init__()
        if gain_type not in ("amplitude", "power", "db"):
            raise InvalidValueError(
                "Vol", f"unknown gain_type {gain_type!r}", hint="it is amplitude, power or db"
            )
        if gain_type != "db" and gain < 0:
            raise InvalidValueError(
                "Vol", "If gain_type = amplitude or power, gain must be positive.", {"gain": gain}
            )
        self.gain = gain
        self.gain_type = gain_type

    def forward(self, waveform: Tensor) -> Tensor:
        factor = {
            "amplitude": self.gain,
            "power": math.sqrt(max(self.gain, 0.0)),
            "db": 10 ** (self.gain / 20),
        }[self.gain_type]
        return clamp(waveform * factor, -1, 1)


class Loudness(Module):
    """The loudness in LKFS: see `functional.loudness`.

    >>> audio.transforms.Loudness(16000)(sin(arange(16000.0)).unsqueeze(0)).shape
    torch.Size([])
    """

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        self.sample_rate = sample_rate

    def forward(self, waveform: Tensor) -> Tensor:
        return F.loudness(waveform, self.sample_rate)


class Preemphasis(Module):
    """Strengthen high frequencies: see `functional.preemphasis`.

    >>> audio.transforms.Preemphasis(0.5)(tensor([1.0, 1.0]))
    tensor([1.0000, 0.5000])
    """

    def __init__(self, coeff: float = 0.97) -> None:
        super().__init__()
        self.coeff = coeff

    def forward(self, waveform: Tensor) -> Tensor:
        return F.preemphasis(waveform, self.coeff)


class Deemphasis(Module):
    """Undo `Preemphasis`: see `functional.deemphasis`.

    >>> audio.transforms.Deemphasis(0.5)(tensor([1.0, 0.5]))
    tensor([1., 1.])
    """

    def __init__(self, coeff: float = 0.97) -> None:
        super().__init__()
        self.coeff = coeff

    def forward(self, waveform: Tensor) -> Tensor:
        return F.deemphasis(waveform, self.coeff)
