"""Audio features: what of a sound tells words apart, whoever says them?

The mel-frequency cepstral coefficients describe the shape of a spectrum without its pitch. Their
course over a word is cut to 12 frames, and a linear layer learns which of ten digits it is, from
16 voices; the test is 4 others. The same from the waveform's samples shows what features are for.
The recordings come from eSpeak NG: pip install "edutorch[speech]".

Paper: Davis and Mermelstein, Comparison of parametric representations for monosyllabic word
    recognition, 1980, https://doi.org/10.1109/TASSP.1980.1163420.

    python -m edutorch run docs/applications/audio_features.py
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from edutorch.audio.datasets import SpokenDigits
from edutorch.audio.transforms import MFCC

SAMPLE_RATE, FRAMES = 22050, 12

to_cepstra = MFCC(SAMPLE_RATE, n_mfcc=13, melkwargs={"n_fft": 512, "hop_length": 220, "n_mels": 40})


def cepstra(waveform: torch.Tensor) -> torch.Tensor:
    """Return 13 coefficients of 12 parts of a waveform (1, time), and how they change."""
    coefficients = F.adaptive_avg_pool1d(to_cepstra(waveform), FRAMES)[0]
    return torch.cat([coefficients, coefficients.diff(dim=1)], 1).flatten()


def samples(waveform: torch.Tensor) -> torch.Tensor:
    """Return as many numbers of the waveform itself."""
    return F.adaptive_avg_pool1d(waveform, 13 * (2 * FRAMES - 1))[0]


def load(subset: str, feature: Callable) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the features (recordings, 299), and the digits."""
    digits = SpokenDigits(subset)
    inputs = torch.stack([feature(waveform) for waveform, *_ in digits])
    return inputs, torch.tensor([digits.classes.index(word) for _, _, word, *_ in digits])


def accuracy(feature: Callable, steps: int = 300) -> float:
    """Train a linear layer on a feature, and return its accuracy on voices that it never heard."""
    inputs, labels = load("training", feature)
    mean, scale = inputs.mean(0), inputs.std(0)
    model = nn.Linear(inputs.shape[1], 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.3)
    for _ in range(steps):
        loss = F.cross_entropy(model((inputs - mean) / scale), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    inputs, labels = load("testing", feature)
    with torch.no_grad():
        answers = model((inputs - mean) / scale).argmax(1)
    return (answers == labels).float().mean().item()


def main() -> None:
    torch.manual_seed(0)
    right, by_samples = accuracy(cepstra), accuracy(samples)
    print(f"audio features: {right:.1%} of 160 words in new voices; by samples, {by_samples:.1%}")


if __name__ == "__main__":
    main()
