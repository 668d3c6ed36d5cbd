"""`import torchaudio` means `edutorch.audio` where the real one is not installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from tests.house import ROOT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torchaudio") is not None, reason="the real torchaudio is installed"
)

PROGRAM = """
import torch
import torchaudio
import torchaudio.functional as F
import torchaudio.transforms as T
from torchaudio.datasets import SPEECHCOMMANDS
from torchaudio.models.decoder import ctc_decoder

torchaudio.save("tone.wav", torch.sin(torch.arange(16000) * 0.3).unsqueeze(0), 16000)
waveform, sample_rate = torchaudio.load("tone.wav")
waveform = T.Resample(sample_rate, 8000)(waveform)
mel = T.MelSpectrogram(8000, n_fft=256, n_mels=20)(waveform)
print(torchaudio.info("tone.wav").sample_rate, tuple(mel.shape), mel.mean(2).argmax().item())
print(torchaudio.__version__)
import edutorch.audio
assert torchaudio is edutorch.audio and F is edutorch.audio.functional
"""


def test_a_program_for_torchaudio_runs(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "edutorch", "run", tmp_path / "program.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["16000 (1, 20, 63) 7", "2.11.0+edutorch"]
