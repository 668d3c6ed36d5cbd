"""Object tracking: where is the thing of the first picture in the pictures after it?

A digit moves over a noisy background, past two others. One small network embeds the digit of the
first picture (the template) and a window around its last position; the correlation of the two is
highest where the digit is now.

Paper: Bertinetto et al., Fully-convolutional siamese networks for object tracking, 2016,
    https://arxiv.org/abs/1606.09549.

    python -m edutorch run docs/applications/tracking.py
"""

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

DIGIT, WINDOW, CANVAS = 8, 24, 64
OFFSETS = (WINDOW - DIGIT) // 2  # a digit is at most so far from the middle of its window
FRAMES = 30


class Siamese(nn.Module):
    """Scores of each offset of a template in a window.

    Shape: (batch, 8, 8), (batch, 24, 24) → (batch, 17, 17).
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)
        )
        self.scale = nn.Parameter(torch.tensor(0.05))

    def forward(self, template: torch.Tensor, window: torch.Tensor) -> torch.Tensor:
        kernel, features = self.embed(template[:, None]), self.embed(window[:, None])
        # Each window is correlated with its own template: the batch becomes groups.
        scores = F.conv2d(features.flatten(0, 1)[None], kernel, groups=len(kernel))
        return self.scale * scores[0]


def make_video(images: torch.Tensor, frames: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return pictures (frames, 64, 64), and the top left corner of the first digit in each."""
    video = 0.6 * torch.rand(frames, CANVAS, CANVAS)
    chosen = images[torch.randint(len(images), (3,))]
    position = torch.randint(8, CANVAS - DIGIT - 8, (3, 2)).float()
    velocity = torch.randn(3, 2) * 2
    corners = []
    for frame in video:
        velocity = (velocity + torch.randn(3, 2) * 0.7).clamp(-4, 4)
        # It bounces off the walls.
        outside = (position + velocity < 0) | (position + velocity > CANVAS - DIGIT)
        velocity = torch.where(outside, -velocity, velocity)
        position = position + velocity
        # The digit to be followed is drawn last.
        for image, (y, x) in zip(
            chosen.flip(0), position.round().long().flip(0).tolist(), strict=True
        ):
            part = frame[y : y + DIGIT, x : x + DIGIT]
            part.copy_(torch.maximum(part, image))
        corners.append(position[0].round().long())
    return video, torch.stack(corners)


def cut_window(frame: torch.Tensor, corner: torch.Tensor) -> torch.Tensor:
    """Return the 24 × 24 pixels around a corner; zeros outside of the picture."""
    y, x = corner.tolist()
    return F.pad(frame, (OFFSETS,) * 4)[y : y + WINDOW, x : x + WINDOW]


def make_batch(images: torch.Tensor, videos: int = 16) -> tuple[torch.Tensor, ...]:
    """Return templates, windows, and the number of the offset at which the digit is."""
    templates, windows, targets = [], [], []
    for _ in range(videos):
        video, corners = make_video(images, 6)
        template = video[0][corners[0][0] :, corners[0][1] :][:DIGIT, :DIGIT]
        for frame, corner in zip(video[1:], corners[1:], strict=True):
            offset = torch.randint(-5, 6, (2,))
            guess = (corner + offset).clamp(0, CANVAS - DIGIT)
            row, column = (corner - guess + OFFSETS).tolist()
            templates.append(template)
            windows.append(cut_window(frame, guess))
            targets.append(row * (2 * OFFSETS + 1) + column)
    return torch.stack(templates), torch.stack(windows), torch.tensor(targets)


def train(images: torch.Tensor, steps: int) -> nn.Module:
    """Return a network that has learnt to find a digit near its last position."""
    model = Siamese()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        templates, windows, targets = make_batch(images)
        loss = F.cross_entropy(model(templates, windows).flatten(1), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@torch.no_grad()
def track(model: nn.Module, video: torch.Tensor, corner: torch.Tensor) -> torch.Tensor:
    """Return the corner in each picture, where only that in the first one is known."""
    template = video[0][corner[0] :, corner[1] :][None, :DIGIT, :DIGIT]
    corners = [corner]
    for frame in video[1:]:
        scores = model(template, cut_window(frame, corners[-1])[None])[0]
        best = int(scores.argmax())
        offset = torch.tensor(divmod(best, 2 * OFFSETS + 1)) - OFFSETS
        corners.append((corners[-1] + offset).clamp(0, CANVAS - DIGIT))
    return torch.stack(corners)


def overlap(corners: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Return the IoU of squares of 8 × 8 pixels."""
    common = (DIGIT - (corners - truth).abs()).clamp(min=0).prod(1)
    return common / (2 * DIGIT**2 - common)


def main() -> None:
    torch.manual_seed(0)
    images = torch.tensor(load_digits().images, dtype=torch.float32) / 16
    model = train(images[:1438], steps=250)
    followed = []
    for _ in range(40):
        video, truth = make_video(images[1438:], FRAMES)
        followed.append((overlap(track(model, video, truth[0]), truth) >= 0.5).float().mean())
    share = torch.stack(followed).mean().item()
    print(f"tracking: IoU of 0.5 or more in {share:.1%} of the pictures of 40 videos")


if __name__ == "__main__":
    main()
