"""Writes what the real torchvision draws to tests/golden/vision.

python -m tests.ecosystem.oracle tests/vision/golden_utils.py
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "golden" / "vision" / "utils.json"


def saved(torch: Any, utils: Any, images: Any) -> Any:
    """Return the pixels of the file that `save_image` writes."""
    from PIL import Image

    file = io.BytesIO()
    utils.save_image(images, file, format="png", nrow=2)
    return torch.from_numpy(np.array(Image.open(file)))


def answers(torch: Any, utils: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Return the results of each function of `utils`, by name."""
    random = np.random.RandomState(0)
    images = torch.from_numpy(random.rand(5, 3, 4, 3).astype(np.float32))
    grey = torch.from_numpy(random.rand(3, 1, 4, 3).astype(np.float32) * 3 - 1)
    y, x = np.mgrid[:20, :26]
    picture = np.stack([10 * x, 12 * y, 5 * x + 5 * y]).astype(np.uint8)
    image, floats = torch.from_numpy(picture), torch.from_numpy(picture / np.float32(255))
    boxes = torch.from_numpy(np.array([[2.0, 3, 12, 15], [7, 5, 23, 18]]))
    masks = torch.from_numpy(np.stack([x > y, x + y < 20]))
    points = torch.from_numpy(np.array([[[3, 4], [12, 9], [20, 15]], [[8, 3], [9, 15], [22, 4]]]))
    visible = torch.from_numpy(np.array([[True, True, False], [True, True, True]]))
    grid, draw_boxes = utils.make_grid, utils.draw_bounding_boxes
    draw_masks, draw_points = utils.draw_segmentation_masks, utils.draw_keypoints
    results = {
        "grid": grid(images, nrow=2, padding=1, pad_value=0.5),
        "grid_normalized": grid(grey, normalize=True),
        "grid_each": grid(grey, normalize=True, scale_each=True),
        "grid_range": grid(grey, normalize=True, value_range=(-0.5, 0.5)),
        "grid_list": grid([images[0], images[1]]),
        "saved": saved(torch, utils, images),
        "boxes": draw_boxes(image, boxes),
        "boxes_colours": draw_boxes(image, boxes, colors=["red", (0, 3, 200)], width=3),
        "boxes_filled": draw_boxes(image, boxes, colors="#00ff00", fill=True),
        "boxes_floats": draw_boxes(floats, boxes, colors="white"),
        "boxes_grey": draw_boxes(image[:1], boxes, colors="yellow"),
        "masks": draw_masks(image, masks),
        "masks_colours": draw_masks(image, masks, 0.3, ["red", "blue"]),
        "masks_floats": draw_masks(floats, masks[0], 0.3, "blue"),
        "points": draw_points(image, points),
        "points_lines": draw_points(image, points, [(0, 1), (1, 2)], "blue", 3, 2),
        "points_visible": draw_points(image, points, [(0, 2)], "red", visibility=visible),
        "flow": utils.flow_to_image(images[:, :2] - 0.5),
    }
    return {name: np.asarray(result) for name, result in results.items()}


def main() -> None:
    import torch
    from torchvision import utils

    from tests.vision.golden_transforms import pack

    packed = {name: pack(result) for name, result in answers(torch, utils).items()}
    FILE.write_text(json.dumps(packed, indent=0) + "\n")
    print(FILE, FILE.stat().st_size)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
