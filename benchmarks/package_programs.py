"""Programs with packages (transformers, torchvision, …), timed by `packages.py` on request.

It writes "ready", then for each line on its input that names a program the seconds of one run. The
same lines run on PyTorch and on edutorch under the name `torch`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import nn


def generate() -> Callable[[], object]:
    """GPT-2 small with random weights writes 64 tokens, with its cache."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config()).eval()
    prompt = torch.arange(16)[None]
    settings = {"max_new_tokens": 64, "min_new_tokens": 64, "do_sample": False, "pad_token_id": 0}
    return lambda: model.generate(prompt, attention_mask=torch.ones_like(prompt), **settings)


def training_step(model: nn.Module, pictures: torch.Tensor) -> Callable[[], object]:
    """A step of SGD on a batch of pictures."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    classes = torch.arange(len(pictures)) % 10

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures), classes).backward()
        optimizer.step()

    return step


def resnet18() -> Callable[[], object]:
    import torchvision

    return training_step(torchvision.models.resnet18(num_classes=10), torch.randn(64, 3, 32, 32))


def vit_tiny() -> Callable[[], object]:
    import timm

    model = timm.create_model("vit_tiny_patch16_224", num_classes=10, img_size=96)
    return training_step(model, torch.randn(8, 3, 96, 96))


def mel_spectrogram() -> Callable[[], object]:
    """The mel spectrograms of eight sounds of four seconds."""
    import torchaudio

    sounds = torch.randn(8, 64_000)
    transform = torchaudio.transforms.MelSpectrogram(16_000, n_fft=400, n_mels=64)
    return lambda: transform(sounds)


WARM_UP = 3.0
"""Seconds before the first measurement, in which all that is done only once is done."""

PROGRAMS = {
    "transformers: GPT-2 small, generate 64 tokens": generate,
    "torchvision: ResNet-18, 64 × 3 × 32 × 32, a training step": resnet18,
    "timm: ViT tiny, 8 × 3 × 96 × 96, a training step": vit_tiny,
    "torchaudio: MelSpectrogram, 8 × 64,000": mel_spectrogram,
}


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]))
    made: dict[str, Callable[[], object]] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        if name not in made:
            made.clear()
            made[name] = PROGRAMS[name]()
            start = time.perf_counter()
            while time.perf_counter() < start + WARM_UP:
                made[name]()
        start = time.perf_counter()
        made[name]()
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
