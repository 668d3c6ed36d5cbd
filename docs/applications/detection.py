"""Object detection: which digits are in a picture, and where?

A network looks at the picture once and says for each of 8 × 8 cells whether the middle of a digit
is in it, which digit, and the box around it. Of boxes that overlap, non-maximum suppression keeps
the best.

Paper: Redmon et al., You only look once, 2016, https://arxiv.org/abs/1506.02640.

    python -m edutorch run docs/applications/detection.py
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torchvision.ops import batched_nms, box_iou

CANVAS, CELL = 64, 8
CELLS = CANVAS // CELL


def block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Return a convolution, a normalisation and a ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class Detector(nn.Module):
    """Scores and boxes of each cell.

    Shape: (batch, 1, 64, 64) → (batch, 15, 8, 8): whether there is a digit, the four numbers of its
        box, the scores of the ten classes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(block(1, 16, 2), block(16, 32, 2), block(32, 64, 2))
        self.head = nn.Sequential(block(64, 96, 1), nn.Conv2d(96, 15, 1))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(pictures))


def paste_digits(images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return a picture (64, 64) with up to four digits, their boxes (n, 4) and their classes."""
    picture = 0.2 * torch.rand(CANVAS, CANVAS)
    boxes: list[list[int]] = []
    classes = []
    for n in torch.randint(len(images), (int(torch.randint(1, 5, ())),)).tolist():
        size = int(torch.randint(14, 25, ()))
        x, y = torch.randint(0, CANVAS - size, (2,)).tolist()
        box = [x, y, x + size, y + size]
        if boxes and box_iou(torch.tensor([box]).float(), torch.tensor(boxes).float()).max() > 0.05:
            continue
        digit = F.interpolate(images[n][None, None], size=(size, size), mode="bilinear")[0, 0]
        part = picture[y : y + size, x : x + size]
        part.copy_(torch.maximum(part, digit))
        boxes.append(box)
        classes.append(int(labels[n]))
    return picture, torch.tensor(boxes).float(), torch.tensor(classes)


def make_batch(images: torch.Tensor, labels: torch.Tensor, count: int) -> tuple[torch.Tensor, ...]:
    """Return pictures, and the cells (8, 8, 6) of each: is there a digit, its box, its class."""
    pictures, cells = [], torch.zeros(count, CELLS, CELLS, 6)
    for cell in cells:
        picture, boxes, classes = paste_digits(images, labels)
        pictures.append(picture)
        for (x1, y1, x2, y2), label in zip(boxes.tolist(), classes.tolist(), strict=True):
            column, row = int((x1 + x2) / 2 / CELL), int((y1 + y2) / 2 / CELL)
            cell[row, column] = torch.tensor([1, x1, y1, x2, y2, label])
    return torch.stack(pictures)[:, None], cells


def to_boxes(output: torch.Tensor) -> torch.Tensor:
    """Return the boxes (…, 8, 8, 4): the output says how far they reach from a cell's middle."""
    middles = (torch.arange(CELLS) + 0.5) * CELL
    y, x = torch.meshgrid(middles, middles, indexing="ij")
    distances = output[:, 1:5].movedim(1, -1).exp() * CELL
    return torch.stack([x, y, x, y], -1) + distances * torch.tensor([-1.0, -1.0, 1.0, 1.0])


def detection_loss(output: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """Return the sum of three losses: is there a digit, where does its box end, which one is it?"""
    there = cells[..., 0] > 0
    # For each digit, not for each cell: nearly all cells are empty.
    objectness = F.binary_cross_entropy_with_logits(output[:, 0], cells[..., 0], reduction="sum")
    boxes = F.smooth_l1_loss(to_boxes(output)[there], cells[..., 1:5][there])
    scores = output[:, 5:].movedim(1, -1)[there]
    classes = F.cross_entropy(scores, cells[..., 5][there].long())
    return objectness / there.sum() + 0.2 * boxes + classes


@torch.no_grad()
def detect(model: nn.Module, picture: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the boxes (n, 4) and the classes (n) of the digits in a picture."""
    output = model(picture[None, None])
    scores, classes = output[0, 0].sigmoid().flatten(), output[0, 5:].argmax(0).flatten()
    boxes = to_boxes(output)[0].flatten(0, 1)
    sure = scores > 0.4
    boxes, scores, classes = boxes[sure], scores[sure], classes[sure]
    # A digit is one thing: its boxes suppress each other whatever their classes.
    kept = batched_nms(boxes, scores, torch.zeros_like(classes), iou_threshold=0.3)
    return boxes[kept], classes[kept]


def count_matches(
    boxes: torch.Tensor, classes: torch.Tensor, true_boxes: torch.Tensor, labels: torch.Tensor
) -> int:
    """Return how many digits were detected: the right class, and an IoU of at least 0.5."""
    if len(boxes) == 0:
        return 0
    matches = (box_iou(true_boxes, boxes) >= 0.5) & (labels[:, None] == classes)
    return int(matches.any(1).sum())


def main() -> None:
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    model, steps = Detector(), 500
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    for _ in range(steps):
        pictures, cells = make_batch(images[:1438], labels[:1438], 32)
        loss = detection_loss(model(pictures), cells)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    right = detected = present = 0
    for _ in range(200):
        picture, true_boxes, true_labels = paste_digits(images[1438:], labels[1438:])
        boxes, classes = detect(model, picture)
        right += count_matches(boxes, classes, true_boxes, true_labels)
        detected, present = detected + len(boxes), present + len(true_boxes)
    print(f"detection: F1 {2 * right / (detected + present):.3f} on 200 pictures of unseen digits")


if __name__ == "__main__":
    main()
