"""The real torchvision's transforms beside ours, both on edutorch: one seed, the same images."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

torchvision = pytest.importorskip("torchvision", reason="needs the second environment")

import edutorch  # noqa: E402
from edutorch.vision import transforms  # noqa: E402
from tests.vision import transform_cases  # noqa: E402

if torchvision.torch is not edutorch:
    pytest.skip(
        "torchvision runs on PyTorch here: pytest -p edutorch.alias", allow_module_level=True
    )


def pixels_after(seed: int, call: Any, library: Any, image: Any) -> np.ndarray[Any, Any]:
    """Return what a call makes of an image, after the seed was set."""
    edutorch.manual_seed(seed)
    random.seed(seed)
    return np.asarray(call(library, library.functional, image)).astype(np.float64)


@pytest.mark.parametrize("form", ["pil", "tensor"])
def test_one_seed_makes_the_same_images(form):
    from PIL import Image

    picture = transform_cases.pixels(24, 31)
    tensor = edutorch.from_numpy(picture.transpose(2, 0, 1).copy())
    image = tensor if form == "tensor" else Image.fromarray(picture)
    calls = transform_cases.random_ones()
    if form == "tensor":
        calls |= transform_cases.of_tensors()
    wrong = {}
    for name, call in calls.items():
        for seed in range(10, 15):
            theirs = pixels_after(seed, call, torchvision.transforms, image)
            ours = pixels_after(seed, call, transforms, image)
            if theirs.shape != ours.shape or np.abs(theirs - ours).max() > 1:
                wrong[name, seed] = (ours.shape, theirs.shape)
    assert not wrong
