"""Every model of torchvision, with an input: on PyTorch and on edutorch.

    .venv/bin/python -m tests.ecosystem.oracle -m tests.ecosystem.torchvision_cases

One of each family is trained for a step; of the others the output is compared. What is in the
golden file already is kept: remove a line to compute it anew.
"""

from __future__ import annotations

from typing import Any

import torch
import torchvision

from tests.ecosystem.summaries import (
    add_to_golden,
    distance,
    draw_input,
    draw_weights,
    no_initialization,
    round_figure,
    summarize,
    summarize_model,
)

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

OUTPUT_SHAPES: dict[str, tuple[int, ...]] = {
    "mc3_18": (1, 3, 4, 32, 32),
    "mvit_v1_b": (1, 3, 16, 224, 224),
    "mvit_v2_s": (1, 3, 16, 224, 224),
    "quantized_inception_v3": (1, 3, 96, 96),
    "r2plus1d_18": (1, 3, 4, 32, 32),
    "raft_large": (1, 3, 128, 128),
    "ssd300_vgg16": (1, 3, 300, 300),
    "swin3d_b": (1, 3, 4, 64, 64),
    "swin3d_s": (1, 3, 4, 64, 64),
    "vit_b_32": (1, 3, 224, 224),
    "vit_h_14": (1, 3, 224, 224),
    "vit_l_16": (1, 3, 224, 224),
    "vit_l_32": (1, 3, 224, 224),
}
"""The shape of the input of models of which only the output is compared, if not the usual one."""

OUTPUTS = {
    name: OUTPUT_SHAPES.get(name, (1, 3, 64, 64))
    for name in torchvision.models.list_models()
    if name not in {**CASES, **LARGE}
}
"""All other models. Quantizable ones are compared before they are quantized."""

FACTORS = {
    **dict.fromkeys(
        (
            "deeplabv3_mobilenet_v3_large", "efficientnet_v2_s", "lraspp_mobilenet_v3_large",
            "maxvit_t", "raft_large", "raft_small", "s3d",
            "fasterrcnn_mobilenet_v3_large_320_fpn", "ssdlite320_mobilenet_v3_large",
        ),
        0.5,
    ),
    **dict.fromkeys(
        (
            "efficientnet_v2_l", "efficientnet_v2_m", "regnet_y_128gf", "regnet_y_16gf",
            "regnet_y_1_6gf", "regnet_y_32gf", "regnet_y_3_2gf",
        ),
        0.7,
    ),
    "fasterrcnn_mobilenet_v3_large_fpn": 0.8,
    **dict.fromkeys((f"efficientnet_b{i}" for i in range(4, 8)), 0.9),
}  # fmt: skip
"""With larger weights, PyTorch itself differs between float32 and float64 by more than we allow.

With smaller ones, the biases are all that is left, and the output says nothing about the input.
"""

DETECTORS = ("rcnn", "retina", "ssd", "fcos")
GRADIENTS = 12


def build(name: str) -> Any:
    """Return a model without weights: those are drawn by name."""
    settings: dict[str, Any] = {"weights": None}
    if any(part in name for part in ("deeplab", "fcn_", "lraspp", *DETECTORS)):
        settings["weights_backbone"] = None
    if name.removeprefix("quantized_") in ("googlenet", "inception_v3"):
        settings["init_weights"] = False
    return torchvision.models.get_model(name, **settings)


def output_of(name: str, model: Any, seed: int = 0) -> Any:
    """Return the output of a model, for an input drawn with `seed`, as one tensor."""
    shape = {**CASES, **LARGE, **OUTPUTS}[name]
    dtype = next(model.parameters()).dtype
    images = draw_input(shape, seed).to(dtype)
    if any(part in name for part in DETECTORS):
        features = list(model.backbone(images).values())
        if name.startswith(("maskrcnn", "keypointrcnn")):
            return output_of_head(model.roi_heads, features[0][:, :, :14, :14])
        parts = model.rpn.head(features) if "rcnn" in name else model.head(features)
        parts = parts.values() if isinstance(parts, dict) else [*parts[0], *parts[1]]
        return torch.cat([part.flatten() for part in parts])
    second = [draw_input(shape, seed + 1).to(dtype)] if name.startswith("raft") else []
    output = model(images, *second)
    if isinstance(output, dict):
        return output["out"]
    return output[-1] if isinstance(output, list | tuple) else output


def output_of_head(heads: Any, features: Any) -> Any:
    """Return what the head for masks or keypoints makes of the features of a box."""
    if heads.has_mask():
        return heads.mask_predictor(heads.mask_head(features))
    return heads.keypoint_predictor(heads.keypoint_head(features))


def train(name: str) -> dict[str, Any]:
    """Return what a model computes: its output, some gradients, its output after a step."""
    return summarize_model(
        build(name), lambda model: output_of(name, model), FACTORS.get(name, 1.0), GRADIENTS
    )


def build_with_weights(name: str) -> Any:
    with no_initialization():
        model = build(name).eval()
    draw_weights(model, FACTORS.get(name, 1.0))
    return model


def run(name: str) -> dict[str, Any]:
    """Return the output of a model."""
    with torch.no_grad():
        return summarize(output_of(name, build_with_weights(name)))


def compute(name: str) -> dict[str, Any]:
    """Return what the golden file keeps.

    Beside an output alone: how far it is from PyTorch's own in float64 (`rounding`), and from that
    of another input (`change`), which tells whether the input matters.
    """
    if name in {**CASES, **LARGE}:
        return train(name)
    model = build_with_weights(name)
    with torch.no_grad():
        output = summarize(output_of(name, model))
        figures = {"change": summarize(output_of(name, model, seed=10))}
        if not name.startswith("raft"):  # refused in float64
            figures["rounding"] = summarize(output_of(name, model.double()))
    return {
        "output": output,
        **{key: round_figure(distance(value, output), 2) for key, value in figures.items()},
    }


if __name__ == "__main__":
    add_to_golden("torchvision", [*CASES, *LARGE, *OUTPUTS], compute)
