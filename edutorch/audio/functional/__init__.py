"""The functions of `torchaudio.functional`: what is done to waveforms and spectrograms."""

from .alignment import TokenSpan, edit_distance, forced_align, merge_tokens
from .augmentation import add_noise, convolve, fftconvolve, mask_along_axis, mask_along_axis_iid
from .features import compute_deltas, sliding_window_cmn
from .filter_banks import create_dct, linear_fbanks, melscale_fbanks
from .filters import (
    allpass_biquad, band_biquad, bandpass_biquad, bandreject_biquad, bass_biquad, biquad,
    deemph_biquad, equalizer_biquad, highpass_biquad, lowpass_biquad, riaa_biquad, treble_biquad,
)  # fmt: skip
from .levels import (
    DB_to_amplitude, amplitude_to_DB, contrast, dcshift, gain, loudness, mu_law_decoding,
    mu_law_encoding,
)  # fmt: skip
from .recursion import deemphasis, filtfilt, lfilter, preemphasis
from .resampling import resample, speed
from .spectrograms import (
    griffinlim, inverse_spectrogram, phase_vocoder, pitch_shift, spectral_centroid, spectrogram,
)  # fmt: skip

__all__ = [
    "DB_to_amplitude", "TokenSpan", "add_noise", "allpass_biquad", "amplitude_to_DB", "band_biquad",
    "bandpass_biquad", "bandreject_biquad", "bass_biquad", "biquad", "compute_deltas", "contrast",
    "convolve", "create_dct", "dcshift", "deemph_biquad", "deemphasis", "edit_distance",
    "equalizer_biquad", "fftconvolve", "filtfilt", "forced_align", "gain", "griffinlim",
    "highpass_biquad", "inverse_spectrogram", "lfilter", "linear_fbanks", "loudness",
    "lowpass_biquad", "mask_along_axis", "mask_along_axis_iid", "melscale_fbanks", "merge_tokens",
    "mu_law_decoding", "mu_law_encoding", "phase_vocoder", "pitch_shift", "preemphasis", "resample",
    "riaa_biquad", "sliding_window_cmn", "spectral_centroid", "spectrogram", "speed",
    "treble_biquad",
]  # fmt: skip
