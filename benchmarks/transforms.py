"""Pipelines of transforms on PIL images and tensors, against the real torchvision on PyTorch.

torchvision is that of the second environment (tests/ecosystem); both run in this process.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from . import report, timing

IMAGES = 20
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
GOAL = 1.0


def pictures(height: int, width: int, channels: int) -> list[np.ndarray[Any, Any]]:
    """Return pictures of slopes: height × width × channels, uint8."""
    y, x, c = np.ogrid[:height, :width, :channels]
    pixels = [(x * (1 + n) + y * (c + 1) + 7 * n) % 256 for n in range(IMAGES)]
    return [array.astype(np.uint8) for array in pixels]


def pipelines(T: Any) -> dict[str, tuple[tuple[int, int, int], Callable[[Any], Any]]]:
    """Return the size of the images and the transforms of each row, for either library."""
    return {
        "28 × 28 grey: ToTensor, Normalize": (
            (28, 28, 1), T.Compose([T.ToTensor(), T.Normalize((0.1307,), (0.3081,))]),
        ),
        "32 × 32: RandomCrop, flip, ToTensor, Normalize": (
            (32, 32, 3),
            T.Compose([
                T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(),
                T.Normalize(MEAN, STD),
            ]),
        ),
        "480 × 640: RandomResizedCrop, flip, ToTensor, Normalize": (
            (480, 640, 3),
            T.Compose([
                T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),
                T.Normalize(MEAN, STD),
            ]),
        ),
        "480 × 640: Resize, CenterCrop, ToTensor, Normalize": (
            (480, 640, 3),
            T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(), T.Normalize(MEAN, STD)]),
        ),
    }  # fmt: skip


def work(pipeline: tuple[tuple[int, int, int], Callable[[Any], Any]]) -> timing.Work:
    """Return what one measurement does: each image goes through the transforms."""
    from PIL import Image

    size, transform = pipeline
    images = [
        Image.fromarray(array[..., 0] if size[2] == 1 else array) for array in pictures(*size)
    ]

    def run() -> None:
        for image in images:
            transform(image)

    return run


def run(options: argparse.Namespace) -> str:
    """Time each row with both libraries and return the table."""
    from edutorch.vision import transforms as ours
    from tests.ecosystem import oracle

    oracle.install()
    import torch
    from torchvision import transforms as theirs

    torch.set_num_threads(options.threads)
    rows = []
    mine, others = pipelines(ours), pipelines(theirs)
    for name in mine:
        rivals = {"edutorch": work(mine[name]), "torchvision": work(others[name])}
        result = timing.contest(rivals, options.rounds, 0.1)
        microseconds = [f"{result.median(rival) * 1e6 / IMAGES:.0f}" for rival in rivals]
        rows.append(
            [name, *microseconds, f"{result.ratio('edutorch', 'torchvision'):.2f}", f"{GOAL}"]
        )
    return report.table(["pipeline", "edutorch, µs", "torchvision, µs", "ratio", "goal"], rows)
