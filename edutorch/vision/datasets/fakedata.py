"""Pictures of noise: data for a program that is to be tried before its data is there."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...errors import DimError
from ...random import get_rng_state, manual_seed, set_rng_state
from ..transforms.functional import to_pil_image
from .vision import Transform, VisionDataset


class FakeData(VisionDataset):
    """Random pictures with random classes; a picture is the same whenever it is asked for.

    Args:
        size: how many pictures.
        image_size: channels, height and width.
        num_classes: how many classes.
        random_offset: another number makes other pictures.

    Raises: DimError: there is no picture of this number.

    >>> picture, label = FakeData(image_size=(3, 8, 16))[0]
    >>> picture.size, 0 <= label < 10
    ((16, 8), True)
    """

    def __init__(
        self, size: int = 1000, image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10, transform: Transform | None = None,
        target_transform: Transform | None = None, random_offset: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(transform=transform, target_transform=target_transform)
        self.size, self.num_classes = size, num_classes
        self.image_size, self.random_offset = image_size, random_offset

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return a PIL image and the number of its class, after the transforms."""
        if index >= len(self):
            raise DimError("FakeData", f"index {index} out of range", {"size": self.size})
        state = get_rng_state()
        manual_seed(index + self.random_offset)
        pixels = ops.randn(*self.image_size)
        target = int(ops.randint(0, self.num_classes, size=(1,)).item())
        set_rng_state(state)
        return self.change(to_pil_image(pixels), target)


__all__ = ["FakeData"]
