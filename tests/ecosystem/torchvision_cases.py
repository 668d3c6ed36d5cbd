"""Models of torchvision, one of each family, with an input: on PyTorch and on edutorch.

    .venv/bin/python -m tests.ecosystem.oracle -m tests.ecosystem.torchvision_cases

What is in the golden file already is kept: remove a line to compute it anew.
"""

from __future__ import annotations

from typing import Any

import torch
import torchvision

from tests.ecosystem.summaries import add_to_golden, draw_input, summarize_model

CASES: dict[str, tuple[int, ...]] = {
    "alexnet": (2, 3, 64, 64),
    "convnext_tiny": (1, 3, 64, 64),
    "deeplabv3_mobilenet_v3_large": (1, 3, 64, 64),
    "densenet121": (2, 3, 64, 64),
    "efficientnet_b0": (2, 3, 64, 64),
    "efficientnet_v2_s": (1, 3, 64, 64),
    "fcn_resnet50": (1, 3, 48, 48),
    "googlenet": (2, 3, 64, 64),
    "inception_v3": (1, 3, 96, 96),
    "lraspp_mobilenet_v3_large": (1, 3, 64, 64),
    "mnasnet0_5": (2, 3, 64, 64),
    "mobilenet_v2": (2, 3, 64, 64),
    "mobilenet_v3_small": (2, 3, 64, 64),
    "r3d_18": (1, 3, 4, 32, 32),
    "raft_small": (1, 3, 128, 128),
    "regnet_y_400mf": (2, 3, 64, 64),
    "resnet18": (2, 3, 64, 64),
    "resnext50_32x4d": (1, 3, 64, 64),
    "shufflenet_v2_x0_5": (2, 3, 64, 64),
    "squeezenet1_1": (2, 3, 64, 64),
    "swin_t": (1, 3, 64, 64),
    "swin_v2_t": (1, 3, 64, 64),
    # Detectors, as far as their proposals: what follows is in `test_torchvision_detection.py`.
    "fasterrcnn_mobilenet_v3_large_320_fpn": (1, 3, 64, 64),
    "fcos_resnet50_fpn": (1, 3, 64, 64),
    "retinanet_resnet50_fpn": (1, 3, 64, 64),
    "ssdlite320_mobilenet_v3_large": (1, 3, 320, 320),
}
"""The shape of the input of each model."""

LARGE: dict[str, tuple[int, ...]] = {
    "maxvit_t": (1, 3, 224, 224),
    "s3d": (1, 3, 16, 224, 224),
    "swin3d_t": (1, 3, 4, 64, 64),
    "vit_b_16": (1, 3, 224, 224),
}
"""The same for models that take long."""

FACTORS = dict.fromkeys(
    (
        "deeplabv3_mobilenet_v3_large", "efficientnet_v2_s", "lraspp_mobilenet_v3_large",
        "maxvit_t", "raft_small", "s3d", "fasterrcnn_mobilenet_v3_large_320_fpn",
        "ssdlite320_mobilenet_v3_large",
    ),
    0.5,
)  # fmt: skip
"""With larger weights, PyTorch itself differs between float32 and float64 by more than we allow."""

DETECTORS = ("rcnn", "retina", "ssd", "fcos")
GRADIENTS = 12


def build(name: str) -> Any:
    """Return a model without weights: those are drawn by name."""
    settings: dict[str, Any] = {"weights": None}
    if any(part in name for part in ("deeplab", "fcn_", "lraspp", *DETECTORS)):
        settings["weights_backbone"] = None
    if name in ("googlenet", "inception_v3"):
        settings["init_weights"] = False
    return torchvision.models.get_model(name, **settings)


def output_of(name: str, model: Any) -> Any:
    """Return the output of a model as one tensor."""
    shape = {**CASES, **LARGE}[name]
    images = draw_input(shape)
    if any(part in name for part in DETECTORS):
        features = list(model.backbone(images).values())
        parts = model.rpn.head(features) if "rcnn" in name else model.head(features)
        parts = parts.values() if isinstance(parts, dict) else [*parts[0], *parts[1]]
        return torch.cat([part.flatten() for part in parts])
    output = model(images, draw_input(shape, seed=1)) if name == "raft_small" else model(images)
    if isinstance(output, dict):
        return output["out"]
    return output[-1] if isinstance(output, list | tuple) else output


def train(name: str) -> dict[str, Any]:
    """Return what a model computes: its output, some gradients, its output after a step."""
    return summarize_model(
        build(name), lambda model: output_of(name, model), FACTORS.get(name, 1.0), GRADIENTS
    )


if __name__ == "__main__":
    add_to_golden("torchvision", [*CASES, *LARGE], train)
