"""Calls of `audio.functional` and `audio.transforms`, made with torchaudio and with edutorch.

A case takes the library's tensors and its `audio` package. The inputs are drawn by NumPy, so both
libraries have the same; the first one requires grad where the case is differentiated.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

GOLDEN = Path(__file__).parents[1] / "golden" / "audio.json"
SAMPLES = 6


class Case(NamedTuple):
    """A call, the name of its first input, and whether it is differentiated by that."""

    call: Callable[[Any, Any, Any], Any]
    input: str = "waveform"
    differentiated: bool = True
    tolerance: float = 1e-5


def inputs() -> dict[str, np.ndarray]:
    """Return what the cases are called with."""
    random = np.random.default_rng(0)
    spectra = random.standard_normal((2, 201, 12)) + 1j * random.standard_normal((2, 201, 12))
    tone = np.sin(np.arange(4000) * 0.3) * 0.5
    return {
        "waveform": (tone + 0.1 * random.standard_normal((2, 4000))).astype(np.float32),
        "double": random.standard_normal((1, 400)),
        "short": (0.1 * random.standard_normal((2, 60))).astype(np.float32),
        "powers": np.abs(random.standard_normal((2, 201, 12)) ** 2).astype(np.float32),
        "spectra": spectra.astype(np.complex64),
        "codes": random.integers(0, 256, (2, 50)),
    }


def functional(name: str, *args: Any, **named: Any) -> Callable[[Any, Any, Any], Any]:
    return lambda torch, audio, x: getattr(audio.functional, name)(x, *args, **named)


def transform(name: str, *args: Any, **named: Any) -> Callable[[Any, Any, Any], Any]:
    return lambda torch, audio, x: getattr(audio.transforms, name)(*args, **named)(x)


def framed(name: str, *args: Any, **named: Any) -> Callable[[Any, Any, Any], Any]:
    """Return a call of a function that wants a window first."""
    return lambda torch, audio, x: getattr(audio.functional, name)(
        x, *[torch.hann_window(400) if arg == "window" else arg for arg in args], **named
    )


def lfilter(torch: Any, audio: Any, x: Any) -> Any:
    a, b = torch.tensor([[2.0, -1.6, 0.6], [1.0, -0.8, 0.3]]), torch.tensor([[0.6, 0.4, 0.2]] * 2)
    return audio.functional.lfilter(x, a, b)


def add_noise(torch: Any, audio: Any, x: Any) -> Any:
    return audio.functional.add_noise(x, x.flip(1), torch.tensor([3.0, 10.0]))


SOUND = {"norm": "slaney", "mel_scale": "slaney", "power": 1.0, "n_mels": 80}
FIXED = {"n_fft": 512, "n_mels": 64, "hop_length": 160}
MEL = {
    f"melscale {scale} {norm}": (scale, norm)
    for scale in ("htk", "slaney")
    for norm in (None, "slaney")
}

CASES = {
    "spectrogram": Case(framed("spectrogram", 0, "window", 400, 200, 400, 2.0, False)),
    "spectrogram normed": Case(framed("spectrogram", 3, "window", 512, 100, 400, 1.0, True)),
    "spectrogram complex": Case(
        framed("spectrogram", 0, "window", 512, 99, 400, None, "frame_length"), differentiated=False
    ),
    "spectrogram uncentred": Case(
        framed("spectrogram", 0, "window", 400, 200, 400, 3.0, False, center=False, onesided=False)
    ),
    "inverse_spectrogram": Case(
        framed("inverse_spectrogram", 2000, 0, "window", 400, 200, 400, True), "spectra", False
    ),
    "griffinlim": Case(
        framed("griffinlim", "window", 400, 200, 400, 2.0, 4, 0.99, 2200, False),
        "powers", False, 1e-4,
    ),
    "phase_vocoder": Case(transform("TimeStretch", fixed_rate=1.3), "spectra", False, 1e-3),
    "pitch_shift": Case(functional("pitch_shift", 8000, 4), "waveform", False, 1e-3),
    "SpectralCentroid": Case(transform("SpectralCentroid", 8000)),
    **{
        name: Case(
            lambda torch, audio, x, scale=scale, norm=norm: audio.functional.melscale_fbanks(
                201, 20.0, 7600.0, 40, 16000, norm, scale
            ),
            differentiated=False,
        )
        for name, (scale, norm) in MEL.items()
    },
    "MelSpectrogram": Case(transform("MelSpectrogram")),
    "MelSpectrogram slaney": Case(
        transform("MelSpectrogram", 22050, 1024, None, 256, 20.0, 8000.0, **SOUND)
    ),
    "InverseMelScale": Case(
        lambda torch, audio, x: audio.transforms.InverseMelScale(201, 40)(x[:, :40]),
        "powers", False, 1e-4,
    ),
    "MFCC": Case(transform("MFCC")),
    "MFCC log": Case(transform("MFCC", 16000, 13, log_mels=True, norm=None, melkwargs=FIXED)),
    "LFCC": Case(transform("LFCC")),
    "AmplitudeToDB": Case(transform("AmplitudeToDB", "magnitude", 30.0), "powers"),
    "mu_law_encoding": Case(functional("mu_law_encoding", 256), differentiated=False),
    "mu_law_decoding": Case(functional("mu_law_decoding", 256), "codes", False),
    "contrast": Case(functional("contrast", 60.0)),
    "dcshift": Case(functional("dcshift", 0.6), "short"),
    "dcshift limited": Case(functional("dcshift", -0.6, 0.05), "waveform", False),
    "loudness": Case(functional("loudness", 4000), differentiated=False),
    "lfilter": Case(lfilter, "short", False),
    "deemphasis": Case(functional("deemphasis"), "short", False),
    "preemphasis": Case(functional("preemphasis")),
    "lowpass": Case(functional("lowpass_biquad", 8000, 900.0), "short", False),
    "highpass": Case(functional("highpass_biquad", 8000, 900.0), "short", False),
    "bandpass": Case(functional("bandpass_biquad", 8000, 900.0), "short", False),
    "bandpass skirt": Case(functional("bandpass_biquad", 8000, 900.0, 0.5, True), "short", False),
    "bandreject": Case(functional("bandreject_biquad", 8000, 900.0), "short", False),
    "allpass": Case(functional("allpass_biquad", 8000, 900.0), "short", False),
    "band": Case(functional("band_biquad", 8000, 900.0), "short", False),
    "band noise": Case(functional("band_biquad", 8000, 900.0, 0.5, True), "short", False),
    "bass": Case(functional("bass_biquad", 8000, 6.0), "short", False),
    "treble": Case(functional("treble_biquad", 8000, -6.0), "short", False),
    "equalizer": Case(functional("equalizer_biquad", 8000, 900.0, 6.0), "short", False),
    "riaa": Case(functional("riaa_biquad", 44100), "short", False),
    "deemph": Case(functional("deemph_biquad", 48000), "short", False),
    "resample down": Case(functional("resample", 44100, 16000)),
    "resample up": Case(functional("resample", 8000, 11025)),
    "resample kaiser": Case(
        functional("resample", 16000, 12000, 16, 0.945, "sinc_interp_kaiser"), "double"
    ),
    "Resample": Case(transform("Resample", 16000, 11025)),
    "convolve": Case(
        lambda torch, audio, x: audio.functional.convolve(x, x[:, :9], "same"), "short"
    ),
    "fftconvolve": Case(
        lambda torch, audio, x: audio.functional.fftconvolve(x[:, :9], x, "valid"), "short"
    ),
    "add_noise": Case(add_noise),
    "compute_deltas": Case(functional("compute_deltas", 7, "reflect"), "powers"),
    "sliding_window_cmn": Case(functional("sliding_window_cmn", 9, 4), "powers"),
    "sliding_window_cmn centred": Case(
        functional("sliding_window_cmn", 9, 4, True, True), "powers", False, 1e-4
    ),
    "Fade": Case(transform("Fade", 900, 700, "half_sine")),
    "Fade exponential": Case(transform("Fade", 900, 700, "exponential")),
    "Fade logarithmic": Case(transform("Fade", 900, 700, "logarithmic")),
    "Vol": Case(transform("Vol", 3.0, "power")),
}  # fmt: skip


def record(array: np.ndarray, seed: str) -> dict[str, Any]:
    """Return the shape, the largest magnitude, and some elements of a result."""
    flat = array.reshape(-1)
    random = np.random.default_rng(zlib.crc32(seed.encode()))
    values = flat[random.integers(0, flat.size, SAMPLES)]
    if np.iscomplexobj(values):
        values = values.real + values.imag
    return {
        "shape": list(array.shape),
        "largest": float(f"{np.abs(flat).max():.7g}"),
        "values": [float(f"{value:.7g}") for value in values],
    }


def run_case(name: str, torch: Any, audio: Any) -> dict[str, Any]:
    """Return what one library makes of a case, and the gradient of a weighted sum of it."""
    case = CASES[name]
    x = torch.tensor(inputs()[case.input])
    if case.differentiated:
        x.requires_grad_()
    y = case.call(torch, audio, x)
    result = {"dtype": str(y.dtype), "output": record(y.detach().numpy(), name)}
    if case.differentiated:
        weights = np.random.default_rng(1).standard_normal(tuple(y.shape))
        (y * torch.tensor(weights, dtype=y.dtype)).sum().backward()
        result["gradient"] = record(x.grad.numpy(), name)
    return result


def read_golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))
