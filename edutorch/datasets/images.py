"""Pictures: digits, faces, photographs, cells under a microscope."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.tensor import Tensor
from ..ops.from_data import tensor
from .packages import data_folder, file_of, require_package


class Images(NamedTuple):
    """Pictures of one size, and what is on them.

    Attributes:
        images: N × 1 × height × width, float32 from 0 (black) to 1 (white).
        labels: the number of each picture's class, int64.
    """

    images: Tensor
    labels: Tensor


def load_digits() -> Images:
    """Return 1,797 handwritten digits of 8 × 8 pixels.

    From scikit-learn (BSD-3).

    >>> images, labels = load_digits()
    >>> images.shape, labels[:5]
    (torch.Size([1797, 1, 8, 8]), tensor([0, 1, 2, 3, 4]))
    """
    file = file_of("sklearn", "datasets/data/digits.csv.gz", "datasets.load_digits", extra="lab")
    rows = np.loadtxt(file, np.float32, delimiter=",")  # 64 pixels from 0 to 16, and the digit
    pictures = rows[:, :64].reshape(-1, 1, 8, 8) / 16
    return Images(tensor(pictures), tensor(rows[:, 64].astype(np.int64)))


def load_faces() -> Images:
    """Return 200 grey patches of 25 × 25 pixels: 100 faces (1), and 100 parts of photographs (0).

    From scikit-image (BSD-3), which took them from "Labeled Faces in the Wild".

    >>> images, labels = load_faces()
    >>> images.shape, labels.sum()
    (torch.Size([200, 1, 25, 25]), tensor(100))
    """
    patches = np.load(file_of("skimage", "data/lfw_subset.npy", "datasets.load_faces"))
    labels = np.repeat([1, 0], 100)  # so they stand in the file
    return Images(tensor(patches.astype(np.float32)[:, None]), tensor(labels))


def load_photo(name: str) -> Tensor:
    """Return a photograph: channels × height × width, float32 from 0 to 1.

    Args:
        name: "astronaut", "camera", "chelsea" (a cat), "coffee", "coins", "brick", "grass",
            "gravel", "moon", "page", "retina", "rocket" and others that scikit-image contains;
            "china" and "flower" from scikit-learn.

    From scikit-image (BSD-3; the photographs are in the public domain or CC0) and scikit-learn
    (CC BY 2.0: "china" by danielbuechele, "flower" by vultilion).

    Raises: ValueError: there is none of this name.

    >>> load_photo("chelsea").shape
    torch.Size([3, 300, 451])
    """
    purpose = "datasets.load_photo"
    if name in ("china", "flower"):
        file_of("sklearn", "datasets/images/README.txt", purpose, extra="lab")  # a copy needs it
        file = file_of("sklearn", f"datasets/images/{name}.jpg", purpose, extra="lab")
    else:
        folder = data_folder("skimage", purpose) / "data"
        names = {file.stem: file.name for file in sorted(folder.glob("*.[pj][np]g"))}
        if name not in names:
            raise ValueError(
                f"{purpose}: there is no photo {name!r}\n  hint: there are {', '.join(names)}"
            )
        file = file_of("skimage", f"data/{names[name]}", purpose)
    pixels = read_pixels(file, purpose)
    pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)[:3]
    return tensor(pixels.astype(np.float32) / 255)


def load_nuclei() -> tuple[Tensor, Tensor]:
    """Return a microscope's image of cell nuclei, and the nucleus that each pixel belongs to.

    Both are 512 × 512: the image float32 from 0 to 1, the masks int64, 0 for the background and
    another number for each of the 125 nuclei, drawn by hand. From stardist (BSD-3).

    >>> image, masks = load_nuclei()
    >>> image.shape, masks.unique().numel() - 1
    (torch.Size([512, 512]), 125)
    """
    purpose = "datasets.load_nuclei"
    image, masks = (
        read_pixels(file_of("stardist", f"data/images/{name}2d.tif", purpose), purpose)
        for name in ("img", "mask")
    )
    image = image.astype(np.float32)
    low, high = np.percentile(image, [0.1, 99.9])
    scaled = ((image - low) / (high - low)).clip(0, 1)
    return tensor(scaled.astype(np.float32)), tensor(masks.astype(np.int64))


def read_pixels(file: Any, purpose: str) -> np.ndarray[Any, Any]:
    require_package("PIL", purpose)
    from PIL import Image

    with Image.open(file) as picture:
        return np.array(picture)
