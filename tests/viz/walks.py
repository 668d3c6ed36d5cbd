"""What the tests of walks share."""

from __future__ import annotations

import threading
import time

import edutorch as torch
import edutorch.nn.functional as F
from edutorch import nn


def leaf(value):
    return torch.tensor(value, requires_grad=True)


def simple():
    x, w = leaf(3.0), leaf(-2.0)
    y = x * w
    return x, w, y, y + x**2


def walk_threads():
    return [item for item in threading.enumerate() if item.name == "edutorch-walk"]


def gone(count=0):
    """Wait until no more than `count` walks stand anywhere."""
    deadline = time.monotonic() + 20
    while len(walk_threads()) > count and time.monotonic() < deadline:
        time.sleep(0.01)
    return len(walk_threads()) <= count


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise ValueError("this one cannot")


def cnn():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)
    )
    return model, F.cross_entropy(model(torch.randn(2, 1, 8, 8)), torch.tensor([0, 2]))
