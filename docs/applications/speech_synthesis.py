"""Speech synthesis: a spectrogram from letters, and a waveform from the spectrogram.

A network learns from sixteen voices, of which each lacks one digit; then it says with each voice
the digit that it never heard of it. A recogniser that was trained elsewhere writes down what it
hears. The recordings come from eSpeak NG: pip install "edutorch[speech]".

Papers: Wang et al., Tacotron, 2017, https://arxiv.org/abs/1703.10135 (a spectrogram from letters);
    Griffin and Lim, Signal estimation from modified short-time Fourier transform, 1984.

    python -m edutorch run docs/applications/speech_synthesis.py [FOLDER]    writes WAV files there
"""

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from edutorch import audio
from edutorch.audio.datasets import SpokenDigits
from edutorch.zoo.spoken_digits import load_spoken_digits

N_FFT, HOP, FRAMES = 512, 256, 64  # every word is stretched to so many frames
LETTERS = "efghinorstuvwxz"
LONGEST = 5  # letters
FLOOR = 1e-3


class Speaker(nn.Module):
    """Log spectrograms of words, and how many frames they last.

    Shape: letters (batch, 5), voices (batch), takes (batch) → (batch, 257, 64), (batch).
    """

    def __init__(self, voices: int, takes: int, width: int = 128) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(LETTERS) + 1, width)
        self.reader = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)
        self.voices = nn.Embedding(voices, width)
        self.takes = nn.Embedding(takes, width)
        self.positions = nn.Parameter(torch.randn(FRAMES, width) * 0.5)
        self.duration = nn.Linear(width, 1)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.convolutions = nn.Sequential(
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
            nn.Conv1d(width, N_FFT // 2 + 1, 1),
        )  # fmt: skip

    def forward(
        self, letters: torch.Tensor, voices: torch.Tensor, takes: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        read = self.reader(self.letters(letters))[0]
        manner = self.voices(voices) + self.takes(takes)
        # Each frame asks the letters what is to be said at its time.
        queries = self.positions + read.mean(1, keepdim=True)
        spoken = queries + self.attention(queries, read, read)[0] + manner[:, None]
        frames = 40 + 10 * self.duration(read.mean(1) + manner)[:, 0]
        return self.convolutions(spoken.transpose(1, 2)), frames


def spell(word: str) -> list[int]:
    """Return the numbers of the letters; 0 stands for none."""
    return [LETTERS.index(letter) + 1 for letter in word] + [0] * (LONGEST - len(word))


def analyse(waveform: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return the log magnitudes (257, 64) of a waveform (1, time), and its true count of frames."""
    magnitudes = audio.functional.spectrogram(
        waveform, 0, torch.hann_window(N_FFT), N_FFT, HOP, N_FFT, power=1.0, normalized=False
    )
    log = (magnitudes + FLOOR).log()
    return F.interpolate(log, size=FRAMES, mode="linear")[0], log.shape[-1]


def synthesize(log: torch.Tensor, frames: int) -> torch.Tensor:
    """Return a waveform (time) of the log magnitudes (257, 64): their phases are guessed."""
    magnitudes = F.interpolate(log[None], size=frames, mode="linear")[0].exp() - FLOOR
    to_waveform = audio.transforms.GriffinLim(N_FFT, hop_length=HOP, power=1.0)
    return to_waveform(magnitudes.clamp(min=0))


def train(model: nn.Module, inputs: list[torch.Tensor], targets: list[torch.Tensor]) -> None:
    """Fit the spectrograms and the durations, in 25 passes over the recordings."""
    batches = 25 * (len(targets[0]) // 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=batches)
    for _ in range(batches):
        chosen = torch.randint(len(targets[0]), (32,))
        log, frames = model(*[values[chosen] for values in inputs])
        loss = F.l1_loss(log, targets[0][chosen]) + F.l1_loss(frames, targets[1][chosen]) / 50
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def main() -> None:
    torch.manual_seed(0)
    digits = SpokenDigits("training")
    recordings, held_out = [], []
    for waveform, _, word, voice, take in digits:
        number = digits.voices.index(voice)
        if digits.classes.index(word) == number % 10:
            held_out.append((word, number, take))
        else:
            recordings.append((*analyse(waveform), spell(word), number, take))
    logs, frames, *columns = zip(*recordings, strict=True)
    model = Speaker(len(digits.voices), takes=4)
    inputs = [torch.tensor(column) for column in columns]
    train(model, inputs, [torch.stack(logs), torch.tensor(frames).float()])

    model.eval()
    recognizer, right = load_spoken_digits(), 0
    with torch.no_grad():
        words, numbers, takes = zip(*held_out, strict=True)
        letters = torch.tensor([spell(word) for word in words])
        spoken = model(letters, torch.tensor(numbers), torch.tensor(takes))
        for log, length, (word, number, take) in zip(*spoken, held_out, strict=True):
            waveform = synthesize(log, round(length.item()))
            right += recognizer.transcribe(F.pad(waveform, (3000, 3000))) == [word]
            if len(sys.argv) > 1:
                file = Path(sys.argv[1]) / f"{word}_{number}_{take}.wav"
                audio.save(str(file), waveform[None], digits[0][1])
    count = len(held_out)
    print(f"speech synthesis: {right / count:.1%} of {count} words are recognised")


if __name__ == "__main__":
    main()
