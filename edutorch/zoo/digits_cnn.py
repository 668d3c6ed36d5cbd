"""A small convolutional network that reads handwritten digits: its training, and its weights.

    python -m edutorch.zoo.digits_cnn             # how many digits of the test set it reads
    python -m edutorch.zoo.digits_cnn --train     # train it again: half a minute

It learns the first 1,437 of scikit-learn's 1,797 digits, of 8 by 8 pixels, shifted by a pixel;
the last 360 are the test set, of which it reads 97.8 %. Seed 0.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from .. import nn
from ..core.tensor import Tensor
from ..datasets import load_digits
from ..modes import no_grad
from ..nn.functional import cross_entropy, pad
from ..ops import randint, randperm, stack
from ..optim import AdamW
from ..optim.lr_scheduler import OneCycleLR
from ..random import manual_seed
from ..serialization import load
from .weights_file import save_half

WEIGHTS = Path(__file__).parent / "weights" / "digits_cnn.safetensors"
ACCURACY = 0.9778
"""The share of the test set that the weights here read."""

SEED = 0
EPOCHS = 40
BATCH = 64
TRAINING = 1437


class DigitsCNN(nn.Sequential):
    """Two convolutions, a pooling, one more convolution, and a linear layer.

    Shape: (batch, 1, 8, 8) of pixels between 0 and 1 → (batch, 10) scores.

    >>> from edutorch.zoo.digits_cnn import DigitsCNN
    >>> DigitsCNN()(zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10),
        )  # fmt: skip


def read_digits() -> tuple[Tensor, Tensor]:
    """Return the pictures (1797, 1, 8, 8), between 0 and 1, and the digits (1797,)."""
    digits = load_digits()
    return digits.images, digits.labels


def shift(images: Tensor) -> Tensor:
    """Return the pictures, each shifted by up to a pixel in both directions."""
    padded = pad(images, (1, 1, 1, 1))
    down, right = randint(0, 3, (2, len(images))).tolist()
    return stack(
        [
            padded[i, :, y : y + 8, x : x + 8]
            for i, (y, x) in enumerate(zip(down, right, strict=True))
        ]
    )


def train(seed: int = SEED, epochs: int = EPOCHS) -> DigitsCNN:
    """Return a network that was trained on the first digits."""
    manual_seed(seed)
    images, labels = read_digits()
    model = DigitsCNN()
    optimizer = AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    steps = TRAINING // BATCH
    schedule = OneCycleLR(optimizer, 5e-3, total_steps=epochs * steps)
    for epoch in range(epochs):
        for rows in randperm(TRAINING)[: steps * BATCH].reshape(steps, BATCH):
            loss = cross_entropy(model(shift(images[rows])), labels[rows], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
    return model.eval()


def measure_accuracy(model: DigitsCNN) -> float:
    """Return the share of the test set that a network reads."""
    images, labels = read_digits()
    with no_grad():
        guesses = model(images[TRAINING:]).argmax(1)
    return (guesses == labels[TRAINING:]).float().mean().item()


def load_digits_cnn(path: str | Path = WEIGHTS) -> DigitsCNN:
    """Return the trained network, in evaluation mode.

    >>> from edutorch.zoo.digits_cnn import load_digits_cnn
    >>> load_digits_cnn().training
    False
    """
    model = DigitsCNN()
    model.load_state_dict({name: value.float() for name, value in load(path).items()}, strict=False)
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description="A network that reads handwritten digits.")
    parser.add_argument("--train", action="store_true", help="train it, and write its weights")
    if parser.parse_args().train:
        save_half(train().state_dict(), WEIGHTS)
    print(f"accuracy on the test set: {100 * measure_accuracy(load_digits_cnn()):.2f} %")


if __name__ == "__main__":
    main()
