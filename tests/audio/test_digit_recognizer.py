"""The trained recogniser of spoken digits."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import edutorch
from edutorch.audio.datasets import SpokenDigits
from edutorch.audio.models import DigitRecognizer
from edutorch.zoo import spoken_digits


@pytest.fixture(scope="module")
def digits():
    pytest.importorskip("espeakng_loader", reason="needs the extra `speech`")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return SpokenDigits("testing")


def test_unseen_voices_are_understood(digits):
    model = spoken_digits.load_spoken_digits()
    waveform, _, word, *_ = digits[7]
    assert (word, model.transcribe(waveform)) == ("seven", ["seven"])
    error = spoken_digits.word_error(model, digits)
    assert error == pytest.approx(spoken_digits.WORD_ERROR, abs=0.005)
    assert error <= 0.05


def test_weights_are_small_and_come_back(tmp_path):
    assert spoken_digits.WEIGHTS.stat().st_size < 700_000
    model = DigitRecognizer()
    spoken_digits.save_weights(model, tmp_path / "weights.safetensors")
    assert (tmp_path / "weights.safetensors").stat().st_size < 700_000


def test_it_learns(digits):
    """One batch is learned by heart: the loss falls, and all gradients are there."""
    edutorch.manual_seed(0)
    random = np.random.default_rng(0)
    waveforms, words = spoken_digits.speak_sequences(digits, 4, random, longest=2)
    model = DigitRecognizer(channels=32)
    optimizer = edutorch.optim.Adam(model.parameters(), lr=1e-2)
    losses = [spoken_digits.train_step(model, optimizer, waveforms, words) for _ in range(12)]
    assert losses[-1] < losses[0] / 2
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
