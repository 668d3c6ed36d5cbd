"""Models learn: ResNet-18 reads digits, U-Net finds nuclei. A minute or two: slow tests."""

from __future__ import annotations

import time

import pytest

import edutorch
from edutorch import nn
from edutorch.datasets import load_digits, load_nuclei
from edutorch.optim import AdamW
from edutorch.optim.lr_scheduler import OneCycleLR
from edutorch.vision import models

pytestmark = pytest.mark.slow


def small_resnet18(num_classes):
    """ResNet-18 as it is built for small pictures: its stem keeps their size."""
    model = models.resnet18(num_classes=num_classes)
    model.conv1 = nn.Conv2d(1, 64, kernel_size=3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def fit(model, images, targets, augment, *, epochs, batch, lr):
    """Train with cross-entropy: of classes, or of each pixel."""
    optimizer = AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    steps = epochs * (len(images) // batch)
    schedule = OneCycleLR(optimizer, max_lr=lr, total_steps=steps)
    for _ in range(epochs):
        for chosen in edutorch.randperm(len(images)).split(batch)[: len(images) // batch]:
            inputs, labels = augment(images[chosen], targets[chosen])
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def predict(model, images):
    """Return the class with the highest score: of each picture, or of each pixel."""
    model.eval()
    with edutorch.no_grad():
        return edutorch.cat([model(part).argmax(1) for part in images.split(128)])


def shift(images, labels):
    """Move the pictures of a batch to the side by at most one pixel: the margins are empty."""
    return images.roll(int(edutorch.randint(-1, 2, ())), 3), labels


def test_resnet18_reads_digits():
    edutorch.manual_seed(0)
    images, labels = load_digits()
    images = nn.functional.interpolate(images, scale_factor=2, mode="bilinear")
    order = edutorch.randperm(len(images))
    train, test = order[360:], order[:360]
    model, start = small_resnet18(10), time.perf_counter()
    fit(model, images[train], labels[train], shift, epochs=4, batch=32, lr=2e-3)
    correct = (predict(model, images[test]) == labels[test]).float().mean().item()
    print(f"\nResNet-18 on digits: {correct:.2%} in {time.perf_counter() - start:.0f} s")
    assert correct >= 0.97  # one of 360 digits is 0.28 %, and rounding in threads decides over some


def crops(image, mask, size=64, step=16):
    """Return overlapping square parts of a picture, and of its mask."""
    images, masks = (
        whole.unfold(0, size, step).unfold(1, size, step).reshape(-1, size, size)
        for whole in (image, mask)
    )
    return images[:, None], masks


def flip(images, masks):
    """Mirror and turn a batch at random."""
    if edutorch.rand(()) < 0.5:
        images, masks = images.flip(-1), masks.flip(-1)
    turns = int(edutorch.randint(4, ()))
    return images.rot90(turns, (-2, -1)), masks.rot90(turns, (-2, -1))


def test_unet_finds_nuclei():
    """It learns from three quarters of a microscope's picture, and is asked for the fourth."""
    edutorch.manual_seed(0)
    image, nuclei = load_nuclei()
    mask = (nuclei > 0).long()
    images, masks = crops(image[:, :384], mask[:, :384])
    model, start = models.UNet(1, 2, features=(8, 16, 32, 64)), time.perf_counter()
    fit(model, images, masks, flip, epochs=3, batch=16, lr=4e-3)
    answer, truth = predict(model, image[None, None, :, 384:])[0] > 0, mask[:, 384:] > 0
    iou = ((answer & truth).sum() / (answer | truth).sum()).item()
    print(f"\nU-Net on nuclei: IoU {iou:.3f} in {time.perf_counter() - start:.0f} s")
    assert iou >= 0.85
