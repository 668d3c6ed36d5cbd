"""The modules of `torchaudio.transforms`: transforms with settings, to be put into a model."""

from .augmentation import (
    AddNoise, ComputeDeltas, Convolve, FFTConvolve, FrequencyMasking, Resample, SlidingWindowCmn,
    SpecAugment, Speed, SpeedPerturbation, TimeMasking,
)  # fmt: skip
from .cepstra import LFCC, MFCC
from .levels import (
    AmplitudeToDB, Deemphasis, Fade, Loudness, MuLawDecoding, MuLawEncoding, Preemphasis, Vol,
)  # fmt: skip
from .spectrograms import (
    GriffinLim, InverseMelScale, InverseSpectrogram, MelScale, MelSpectrogram, PitchShift,
    SpectralCentroid, Spectrogram, TimeStretch,
)  # fmt: skip

__all__ = [
    "LFCC", "MFCC", "AddNoise", "AmplitudeToDB", "ComputeDeltas", "Convolve", "Deemphasis",
    "FFTConvolve", "Fade", "FrequencyMasking", "GriffinLim", "InverseMelScale",
    "InverseSpectrogram", "Loudness", "MelScale", "MelSpectrogram", "MuLawDecoding",
    "MuLawEncoding", "PitchShift", "Preemphasis", "Resample", "SlidingWindowCmn", "SpecAugment",
    "SpectralCentroid", "Spectrogram", "Speed", "SpeedPerturbation", "TimeMasking", "TimeStretch",
    "Vol",
]  # fmt: skip
