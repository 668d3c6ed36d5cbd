"""What torchaudio's answers do not show: gradients of filters, random masks, wrong arguments."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import edutorch
from edutorch import audio
from edutorch.audio import functional as F
from edutorch.audio import transforms as T
from edutorch.audio.functional import recursion
from edutorch.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)
A, B = [1.0, -1.5, 0.7], [0.2, 0.3, 0.1]


def tensors(*shapes, grad=True):
    return [edutorch.tensor(RANDOM.standard_normal(shape), requires_grad=grad) for shape in shapes]


# Filters -------------------------------------------------------------------------------


def test_lfilter_is_that_of_scipy():
    signal = pytest.importorskip("scipy.signal", reason="needs the extra `audio`")
    x = RANDOM.standard_normal((3, 200))
    ours = F.lfilter(
        edutorch.tensor(x), edutorch.tensor(A).double() * 2, edutorch.tensor(B).double(), False
    )
    theirs = signal.lfilter(np.float32(B), 2 * np.float32(A), x)
    assert np.abs(ours.numpy() - theirs).max() < 1e-12


def test_the_loop_is_what_scipy_does(monkeypatch):
    x, a = RANDOM.standard_normal((2, 2, 50)), np.array([A, [1.0, 0.5, -0.2]])
    quick = recursion.recursion_values(np, x, a)
    monkeypatch.setitem(sys.modules, "scipy.signal", None)
    assert np.abs(recursion.recursion_values(np, x, a) - quick).max() < 1e-12


def test_gradients_of_filters():
    x, a, b = tensors((1, 2, 5), (2, 3), (2, 3))
    a = (a.detach() * 0.3 + edutorch.tensor([2.0, 0.0, 0.0])).requires_grad_()
    assert gradcheck(lambda x, a, b: F.lfilter(x, a, b, clamp=False), (x, a, b))
    assert gradgradcheck(lambda x, a, b: F.lfilter(x, a, b, clamp=False), (x, a, b))
    (x,) = tensors((2, 9))
    frequency = edutorch.tensor(900.0, dtype=edutorch.float64, requires_grad=True)
    assert gradcheck(lambda x, f: F.lowpass_biquad(x / 9, 8000, f), (x, frequency))


def test_several_filters():
    x = edutorch.tensor(RANDOM.standard_normal((2, 30)).astype(np.float32))
    a, b = edutorch.tensor([A, [1.0, 0.0, 0.0]]), edutorch.tensor([B, [0.5, 0.0, 0.0]])
    filtered = F.lfilter(x, a, b, clamp=False)
    alone = [F.lfilter(x[i], a[i], b[i], clamp=False) for i in range(2)]
    assert edutorch.allclose(filtered, edutorch.stack(alone))
    every = F.lfilter(x, a, b, clamp=False, batching=False)
    assert every.shape == (2, 2, 30)
    assert edutorch.allclose(every[:, 1], x / 2)


def test_short_and_empty_waveforms():
    a, b = edutorch.tensor(A), edutorch.tensor(B)
    assert F.lfilter(edutorch.zeros(2, 0), a, b).shape == (2, 0)
    assert edutorch.allclose(F.lfilter(edutorch.ones(1), a, b), edutorch.tensor([0.2]))
    assert F.resample(edutorch.zeros(2, 0), 2, 3).shape == (2, 0)
    assert F.preemphasis(edutorch.ones(1)).tolist() == [1.0]


# Random masks --------------------------------------------------------------------------


@pytest.mark.parametrize("iid", [False, True])
def test_masks_are_random_and_narrow(iid):
    edutorch.manual_seed(0)
    ones = edutorch.ones(3, 20, 30)
    widths = []
    for _ in range(20):
        masked = (T.TimeMasking(10, iid_masks=iid)(ones, 5.0) == 5.0).all(1)
        assert ((masked.int().diff(dim=1) != 0).sum(1) <= 2).all()  # one stretch
        assert bool((masked == masked[0]).all()) or iid
        widths += masked.sum(1).tolist()
        assert (T.FrequencyMasking(8, iid_masks=iid)(ones) == 0).all(2).sum(1).max() < 8
    assert max(widths) < 10
    assert len(set(widths)) > 5
    assert (T.TimeMasking(30, iid_masks=iid, p=0.1)(ones) == 0).all(1).sum(1).max() <= 3


def test_masks_let_gradients_pass():
    (x,) = tensors((1, 4, 6))
    edutorch.manual_seed(1)
    y = F.mask_along_axis_iid(x, 5, 0.0, 2)
    y.sum().backward()
    assert ((x.grad == 0) == (y == 0)).all()


# Settings that are wrong, each with words of its error -----------------------------------

WAVE, SPECTRUM = edutorch.ones(1, 400), edutorch.ones(1, 201, 5)
WINDOW = edutorch.hann_window(8)
COEFFICIENTS = edutorch.tensor(A)

WRONG = {
    "n_fft must be positive, got -4": lambda: T.Spectrogram(n_fft=-4),
    "hop_length must be positive, got 0": lambda: T.MelSpectrogram(n_fft=400, hop_length=0),
    "the waveform is empty": lambda: T.Spectrogram(n_fft=8)(edutorch.zeros(2, 0)),
    "the waveform is empty ": lambda: T.MFCC()(edutorch.zeros(0)),
    "expected a floating point waveform, but got": lambda: T.Spectrogram(8)(
        edutorch.ones(9, dtype=edutorch.int16)
    ),
    "Invalid normalized parameter: frame": lambda: F.spectrogram(
        WAVE, 0, WINDOW, 8, 4, 8, 2.0, "frame"
    ),
    "normalized must be a bool or a string, got int": lambda: T.Spectrogram(8, normalized=1)(WAVE),
    "Expected `spectrogram` to be complex": lambda: F.inverse_spectrogram(
        SPECTRUM, None, 0, WINDOW, 8, 4, 8, False
    ),
    "momentum must be in": lambda: T.GriffinLim(momentum=1.0),
    "momentum must be in range": lambda: F.griffinlim(
        SPECTRUM, WINDOW, 8, 4, 8, 2.0, 1, -0.1, None, False
    ),
    "rate must be positive, got 0": lambda: F.phase_vocoder(SPECTRUM + 0j, 0, WINDOW),
    "Expected `complex_specgrams` to be complex": lambda: F.phase_vocoder(SPECTRUM, 2.0, WINDOW),
    "must pass a valid rate": lambda: T.TimeStretch()(SPECTRUM + 0j),
    "n_mels must be positive, got 0": lambda: T.MelScale(n_mels=0),
    "n_freqs must be positive, got -1": lambda: F.linear_fbanks(-1, 0.0, 4.0, 3, 8),
    'norm must be one of None or "slaney"': lambda: T.MelScale(norm="area"),
    'mel_scale should be one of "htk" or "slaney"': lambda: T.MelScale(mel_scale="bark"),
    "Require f_min: 9000.0 <= f_max: 8000.0": lambda: T.MelScale(f_min=9000.0),
    "expected 201 frequencies": lambda: T.MelScale()(edutorch.ones(1, 100, 5)),
    "Expected an input with 128 mel bins": lambda: T.InverseMelScale(201)(SPECTRUM),
    "driver must be one of": lambda: T.InverseMelScale(201, driver="qr"),
    "DCT type not supported: 3": lambda: T.MFCC(dct_type=3),
    "Cannot select more MFCC coefficients": lambda: T.MFCC(n_mfcc=200),
    "Cannot select more LFCC coefficients": lambda: T.LFCC(n_lfcc=500),
    'norm must be either "ortho" or None': lambda: F.create_dct(3, 4, "l2"),
    "top_db must be positive": lambda: T.AmplitudeToDB(top_db=-1.0),
    "top_db needs a spectrogram": lambda: F.amplitude_to_DB(
        edutorch.ones(3), 10.0, 1e-9, 0.0, 80.0
    ),
    "enhancement_amount : 0-100": lambda: F.contrast(WAVE, 101.0),
    "quantization_channels must be at least 2, got 1": lambda: F.mu_law_encoding(WAVE, 1),
    "Only up to 5 channels": lambda: F.loudness(edutorch.ones(6, 8000), 8000),
    "a block has 3200 samples": lambda: F.loudness(WAVE, 8000),
    "unknown fade_shape 'round'": lambda: T.Fade(1, 1, "round"),
    "shorter than its fading": lambda: T.Fade(500)(WAVE),
    "unknown gain_type 'loud'": lambda: T.Vol(1.0, "loud"),
    "gain must be positive": lambda: T.Vol(-1.0),
    "Expected coeffs to be the same size": lambda: F.lfilter(WAVE, COEFFICIENTS, COEFFICIENTS[:2]),
    "Expected number of batches": lambda: F.lfilter(
        WAVE, COEFFICIENTS.repeat(2, 1), COEFFICIENTS.repeat(2, 1)
    ),
    r"Expected coeffs \(order \+ 1\)": lambda: F.lfilter(
        WAVE, edutorch.ones(1, 1, 2), edutorch.ones(1, 1, 2)
    ),
    r"a_coeffs\[0\] is 0": lambda: F.lfilter(WAVE, COEFFICIENTS - 1, COEFFICIENTS),
    "sample_rate must be positive, got 0": lambda: F.lowpass_biquad(WAVE, 0, 100.0),
    "Q must be positive, got -1": lambda: F.bass_biquad(WAVE, 8000, 3.0, Q=-1.0),
    "44100": lambda: F.deemph_biquad(WAVE, 8000),
    "44.1k, 48k, 88.2k, or 96k": lambda: F.riaa_biquad(WAVE, 8000),
    "Frequencies must be of integer type": lambda: F.resample(WAVE, 44100, 5512.5),
    "Frequencies must be of integer type, but new_freq": lambda: T.Resample(8000, 0.5),
    "orig_freq must be positive, got 0": lambda: T.Resample(0, 8000),
    "Invalid resampling method: linear": lambda: F.resample(WAVE, 1, 2, resampling_method="linear"),
    "Low pass filter width should be positive": lambda: F.resample(WAVE, 1, 2, 0),
    "rolloff must be positive": lambda: F.resample(WAVE, 1, 2, rolloff=0.0),
    "Expected floating point type": lambda: F.resample(WAVE.long(), 1, 2),
    "the waveform is .*float64, but the kernel .*float32": lambda: T.Resample(1, 2)(WAVE.double()),
    "factor must be positive, got 0": lambda: F.speed(WAVE, 8000, 0.0),
    "there are no factors": lambda: T.SpeedPerturbation(8000, []),
    "Only Frequency and Time masking": lambda: F.mask_along_axis(SPECTRUM, 3, 0.0, 0),
    "at least two dimensions": lambda: F.mask_along_axis(WAVE[0], 3, 0.0, 0),
    "at least three dimensions": lambda: F.mask_along_axis_iid(WAVE, 3, 0.0, 1),
    "p must be between 0.0 and 1.0": lambda: T.TimeMasking(3, p=1.5),
    "Input leading dimensions don't match": lambda: F.add_noise(WAVE, WAVE, edutorch.tensor(3.0)),
    "Length dimensions of waveform and noise": lambda: F.add_noise(
        WAVE, WAVE[:, :3], edutorch.ones(1)
    ),
    "Unrecognized mode value 'half'": lambda: T.Convolve("half"),
    "must be the same dimension": lambda: F.convolve(WAVE, WAVE[0]),
    "are not broadcastable": lambda: F.fftconvolve(edutorch.ones(2, 4), edutorch.ones(3, 4)),
    "a signal is empty": lambda: F.convolve(edutorch.ones(0), edutorch.ones(3)),
    "greater than or equal to 3. Found win_length 2": lambda: F.compute_deltas(SPECTRUM, 2),
    "there are no frames": lambda: F.compute_deltas(edutorch.ones(2, 0)),
    "must be 1D": lambda: F.merge_tokens(WAVE, WAVE),
    "must be the same length": lambda: F.merge_tokens(WAVE[0], WAVE[0, 1:]),
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_settings_are_named(words):
    with pytest.raises((ValueError, TypeError, RuntimeError), match=words.strip()) as caught:
        WRONG[words]()
    assert type(caught.value).__module__ == "edutorch.errors"


def test_too_many_mel_bands_warn():
    with pytest.warns(UserWarning, match=r"all zero values. The value for `n_mels` \(300\)"):
        T.MelSpectrogram(n_mels=300)
    with pytest.warns(UserWarning, match="should be floating point"):
        F.mu_law_encoding(edutorch.tensor([0, 1]), 256)


def test_modules_move_and_are_saved():
    model = T.MFCC(n_mfcc=5, melkwargs={"n_mels": 20})
    names = {"dct_mat", "MelSpectrogram.spectrogram.window", "MelSpectrogram.mel_scale.fb"}
    assert set(model.state_dict()) == names
    assert model.double()(WAVE.double()).dtype == edutorch.float64


def test_all_public_names_are_there():
    assert set(dir(audio)) >= {
        "load",
        "save",
        "info",
        "functional",
        "transforms",
        "datasets",
        "models",
    }
