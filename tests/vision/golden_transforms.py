"""Writes what the real torchvision makes of `transform_cases` to tests/golden/vision.

    python -m tests.ecosystem.oracle tests/vision/golden_transforms.py

Of PIL images only a checksum is kept: both libraries ask Pillow, so the pixels are the same.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "golden" / "vision" / "transforms.json"
SEEDS = (1, 2)


def pack(pixels: Any) -> list[Any]:
    """Return the shape and dtype of an array, and its compressed bytes."""
    array = np.ascontiguousarray(pixels)
    return [
        list(array.shape),
        array.dtype.name,
        base64.b64encode(zlib.compress(array.tobytes(), 9)).decode(),
    ]


def unpack(packed: list[Any]) -> np.ndarray[Any, Any]:
    """Return the array of `pack`."""
    shape, dtype, text = packed
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype).reshape(shape)


def checksum(image: Any) -> str:
    """Return the mode, the size and a checksum of a PIL image."""
    return f"{image.mode} {image.width} {image.height} {zlib.crc32(image.tobytes()):08x}"


def answers(torch: Any, T: Any, F: Any, replace: Any) -> dict[str, Any]:
    """Return each case's result, by "case/image" or "case/image/seed".

    Args:
        replace: lets a library take its random numbers from a stream.
    """
    from PIL import Image

    from tests.vision import transform_cases as cases

    picture = cases.pixels()
    tensor = torch.from_numpy(picture.transpose(2, 0, 1).copy())
    results = {}
    for form, image in (("pil", Image.fromarray(picture)), ("tensor", tensor)):
        write = checksum if form == "pil" else np.asarray
        for name, call in cases.deterministic().items():
            results[f"{name}/{form}"] = write(call(T, F, image))
        calls = cases.random_ones() | (cases.of_tensors() if form == "tensor" else {})
        for name, call in calls.items():
            for seed in SEEDS:
                replace(cases.Draws(torch.from_numpy, seed))
                results[f"{name}/{form}/{seed}"] = write(call(T, F, image))
    return results


def main() -> None:
    import PIL
    import torch
    from torchvision import transforms as T
    from torchvision.transforms import functional as F

    from tests.vision import transform_cases as cases

    results = answers(torch, T, F, lambda draws: cases.replace_draws(torch, torch.Tensor, draws))
    packed = {
        name: value if isinstance(value, str) else pack(value) for name, value in results.items()
    }
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps({"pillow": PIL.__version__, "results": packed}, indent=0) + "\n")
    print(FILE, FILE.stat().st_size)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
