"""The trained recogniser of spoken digits; `python -m edutorch.zoo.spoken_digits` trains it anew.

The sounds are made by eSpeak NG (extra `speech`): 16 voices for training, 4 others for the word
error. The weights are fitted to those sounds; nothing of eSpeak NG's own data is in them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..audio.datasets import SpokenDigits
from ..audio.functional import edit_distance, resample
from ..audio.models import DigitRecognizer
from ..audio.transforms import FrequencyMasking
from ..autograd import no_grad
from ..core.tensor import Tensor
from ..nn.functional import ctc_loss
from ..ops import tensor
from ..optim import AdamW, Optimizer
from ..optim.lr_scheduler import OneCycleLR
from ..random import manual_seed
from ..serialization.safetensors_file import parse_file
from .weights_file import save_half

SEED = 0
STEPS = 700
BATCH = 16
SPEEDS = ((17, 20), (9, 10), (19, 20), (1, 1), (21, 20), (11, 10), (23, 20))
"""Sample rates between which sequences are resampled: other throats, pitches and speeds."""

WEIGHTS = Path(__file__).parent / "weights" / "spoken_digits.safetensors"
WORD_ERROR = 0.0246
"""That of these weights on 200 sequences of the 4 voices that were not trained on."""


class Sequences(NamedTuple):
    """Waveforms (batch, time), and the words that are said in each."""

    waveforms: Tensor
    words: list[list[str]]


def speak_sequences(
    digits: SpokenDigits,
    batch: int,
    random: np.random.Generator,
    longest: int = 5,
    vary: bool = True,
) -> Sequences:
    """Join recordings of one voice to sequences, with pauses and noise.

    Args:
        batch: so many sequences, each of 1 to `longest` digits.
        vary: whether to vary the speed.
    """
    by_voice: dict[str, list[int]] = {}
    for index, item in enumerate(digits.items):
        by_voice.setdefault(item[3], []).append(index)
    spoken, words = [], []
    for _ in range(batch):
        voice = by_voice[digits.voices[random.integers(len(digits.voices))]]
        chosen = [
            digits[voice[i]]
            for i in random.integers(0, len(voice), random.integers(1, longest + 1))
        ]
        words.append([word for _, _, word, *_ in chosen])
        pieces = [np.zeros(random.integers(500, 5000))]
        for waveform, *_ in chosen:
            pieces += [waveform[0].numpy(), np.zeros(random.integers(0, 5000))]
        samples = np.concatenate(pieces) * random.uniform(0.3, 1.0)
        if vary:
            speed = SPEEDS[random.integers(len(SPEEDS))]
            samples = resample(tensor(samples).float(), *speed).numpy()
        spoken.append(samples)
    length = max(map(len, spoken)) + 2000
    # Silence is noise, too, before and behind the words: so no lengths are needed.
    noise = 10 ** random.uniform(-4, -2, (batch, 1)) * random.standard_normal((batch, length))
    for row, samples in zip(noise, spoken, strict=True):
        row[: len(samples)] += samples
    return Sequences(tensor(noise.astype(np.float32)), words)


def train(steps: int = STEPS, seed: int = SEED) -> DigitRecognizer:
    """Train a recogniser on the 16 voices, in some minutes on two cores."""
    manual_seed(seed)
    random = np.random.default_rng(seed)
    digits = SpokenDigits("training")
    model = DigitRecognizer()
    optimizer = AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    for step in range(steps):
        waveforms, words = speak_sequences(digits, BATCH, random)
        loss = train_step(model, optimizer, waveforms, words)
        schedule.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss:.3f}")
    return model.eval()


def train_step(
    model: DigitRecognizer, optimizer: Optimizer, waveforms: Tensor, words: list[list[str]]
) -> float:
    """Take one step, with a random band of frequencies masked; return the loss."""
    with no_grad():
        features = FrequencyMasking(8, iid_masks=True)(model.features(waveforms))
    log_probs = model.score(features)
    targets = [model.tokens.index(word) for sequence in words for word in sequence]
    loss = ctc_loss(
        log_probs.transpose(0, 1), tensor(targets), (log_probs.shape[1],) * len(words),
        tuple(map(len, words)), zero_infinity=True,
    )  # fmt: skip
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def word_error(model: DigitRecognizer, digits: SpokenDigits, sequences: int = 200) -> float:
    """Return the word error rate: edits per word, of sequences of 1 to 8 digits."""
    random = np.random.default_rng(1)
    edits = total = 0
    for _ in range(sequences):
        waveforms, words = speak_sequences(digits, 1, random, longest=8, vary=False)
        edits += edit_distance(model.transcribe(waveforms), words[0])
        total += len(words[0])
    return edits / total


def save_weights(model: DigitRecognizer, file: Path) -> None:
    """Write the weights as 16-bit floats; what is computed by a formula is left out."""
    state = model.state_dict()
    save_half({name: value for name, value in state.items() if not name.startswith("mel.")}, file)


def load_spoken_digits() -> DigitRecognizer:
    """Return the trained recogniser.

    >>> from edutorch.zoo.spoken_digits import load_spoken_digits
    >>> load_spoken_digits().transcribe(zeros(22050))
    []
    """
    model = DigitRecognizer()
    arrays, _ = parse_file(WEIGHTS.read_bytes(), str(WEIGHTS))
    state = {name: tensor(array.astype(np.float32)) for name, array in arrays.items()}
    model.load_state_dict(model.state_dict() | state)
    return model.eval()


def main() -> None:
    """Train, measure and write the weights."""
    model = train(*map(int, sys.argv[1:]))
    save_weights(model, WEIGHTS)
    model = load_spoken_digits()
    print(f"word error {word_error(model, SpokenDigits('testing')):.2%}")
    print(f"on the voices of training {word_error(model, SpokenDigits('training')):.2%}")


if __name__ == "__main__":
    main()
