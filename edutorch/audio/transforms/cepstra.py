"""Cepstral coefficients: a short description of the shape of a spectrum, not of its pitch.

The cosine transform of the logarithms of a spectrum separates what varies slowly over the
frequencies (the resonances of the mouth: which vowel it is) from what varies quickly (the overtones
of the voice). The first coefficients are kept.
"""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...errors import InvalidValueError
from ...nn.modules import Module
from ...ops import log, matmul
from .. import functional as F
from .levels import AmplitudeToDB
from .spectrograms import MelSpectrogram, Spectrogram

__all__ = ["LFCC", "MFCC"]


def _check_dct_type(name: str, dct_type: int) -> None:
    """Raise ValueError for another cosine transform than the second."""
    if dct_type != 2:
        raise InvalidValueError(name, f"DCT type not supported: {dct_type}", hint="use dct_type=2")


def _in_decibels(bands: Tensor, use_log: bool, to_decibels: Module) -> Tensor:
    return log(bands + 1e-6) if use_log else to_decibels(bands)


class MFCC(Module):
    """Mel-frequency cepstral coefficients: the cosine transform of the decibels of mel bands.

    Args:
        sample_rate: in Hz.
        n_mfcc: the number of coefficients.
        dct_type: 2, the only one there is.
        norm: "ortho" or None: see `functional.create_dct`.
        log_mels: natural logarithms instead of decibels.
        melkwargs: the arguments of `MelSpectrogram`.

    Shape: (..., time); result (..., n_mfcc, frames).

    Raises: ValueError: more coefficients than bands, another DCT.

    >>> audio.transforms.MFCC(n_mfcc=13)(rand(1, 16000)).shape
    torch.Size([1, 13, 81])
    """

    dct_mat: Tensor

    def __init__(
        self,
        sample_rate: int = 16000,
        n_mfcc: int = 40,
        dct_type: int = 2,
        norm: str | None = "ortho",
        log_mels: bool = False,
        melkwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        _check_dct_type("MFCC", dct_type)
        self.n_mfcc = n_mfcc
        self.log_mels = log_mels
        self.amplitude_to_DB = AmplitudeToDB("power", 80.0)
        self.MelSpectrogram = MelSpectrogram(sample_rate=sample_rate, **(melkwargs or {}))
        if n_mfcc > self.MelSpectrogram.n_mels:
            raise InvalidValueError(
                "MFCC", "Cannot select more MFCC coefficients than # mel bins",
                {"n_mfcc": n_mfcc, "n_mels": self.MelSpectrogram.n_mels},
            )  # fmt: skip
        self.register_buffer("dct_mat", F.create_dct(n_mfcc, self.MelSpectrogram.n_mels, norm))

    def forward(self, waveform: Tensor) -> Tensor:
        bands = _in_decibels(self.MelSpectrogram(waveform), self.log_mels, self.amplitude_to_DB)
        return matmul(bands.transpose(-1, -2), self.dct_mat).transpose(-1, -2)


class LFCC(Module):
    """Linear-frequency cepstral coefficients: as `MFCC`, with bands evenly spaced in Hz.

    Args: as for `MFCC`, and
        n_filter: the number of bands.
        f_min, f_max: their range in Hz; by default up to sample_rate // 2.
        speckwargs: the arguments of `Spectrogram`.

    Shape: (..., time); result (..., n_lfcc, frames).

    Raises: ValueError: more coefficients than frequencies, another DCT.

    >>> audio.transforms.LFCC(n_lfcc=13)(rand(1, 16000)).shape
    torch.Size([1, 13, 81])
    """

    dct_mat: Tensor
    filter_mat: Tensor

    def __init__(
        self,
        sample_rate: int = 16000,
        n_filter: int = 128,
        f_min: float = 0.0,
        f_max: float | None = None,
        n_lfcc: int = 40,
        dct_type: int = 2,
        norm: str | None = "ortho",
        log_lf: bool = False,
        speckwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        _check_dct_type("LFCC", dct_type)
        self.log_lf = log_lf
        self.amplitude_to_DB = AmplitudeToDB("power", 80.0)
        self.Spectrogram = Spectrogram(**(speckwargs or {}))
        n_fft = self.Spectrogram.n_fft
        if n_lfcc > n_fft:
            raise InvalidValueError(
                "LFCC", "Cannot select more LFCC coefficients than # fft bins",
                {"n_lfcc": n_lfcc, "n_fft": n_fft},
            )  # fmt: skip
        f_max = float(sample_rate // 2) if f_max is None else f_max
        filters = F.linear_fbanks(n_fft // 2 + 1, f_min, f_max, n_filter, sample_rate)
        self.register_buffer("filter_mat", filters)
        self.register_buffer("dct_mat", F.create_dct(n_lfcc, n_filter, norm))

    def forward(self, waveform: Tensor) -> Tensor:
        bands = matmul(self.Spectrogram(waveform).transpose(-1, -2), self.filter_mat)
        # The floor of the decibels is that of all channels: time and bands may change places.
        bands = _in_decibels(bands, self.log_lf, self.amplitude_to_DB)
        return matmul(bands, self.dct_mat).transpose(-1, -2)
