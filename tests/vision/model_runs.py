"""What models are asked in tests, on edutorch and on PyTorch: keys, outputs, gradients.

    python -m tests.ecosystem.oracle tests/vision/model_runs.py

writes the answers of the real torchvision on PyTorch into `golden/vision/models.json`. What is in
the file already stays: remove a line to compute it anew. A model gets weights that are drawn from
the names of its parameters, so only what came out is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.ecosystem.weights import weights_by_name

GOLDEN = Path(__file__).parents[1] / "golden" / "vision" / "models.json"
SAMPLES, PARAMETERS = 12, 6
"""How many elements of an output, and how many parameters' gradients are compared."""


class Run(NamedTuple):
    """One model on one batch; `build` makes it from the package `models`."""

    build: Callable[[Any], Any]
    shape: tuple[int, ...] = (2, 3, 64, 64)
    train: bool = False
    gain: float = 2**0.5


def by_name(name: str, **config: Any) -> Callable[[Any], Any]:
    if name.startswith(("fcn", "deeplab")):
        config |= {"weights_backbone": None, "aux_loss": True}
    return lambda models: models.get_model(name, **config)


def tiny_vit(models: Any) -> Any:
    return models.VisionTransformer(
        32, 8, 2, 4, hidden_dim=32, mlp_dim=64, num_classes=10, representation_size=24
    )


def tiny_convnext(models: Any) -> Any:
    config = models.convnext.CNBlockConfig
    return models.ConvNeXt([config(16, 32, 2), config(32, None, 2)], 0.0, 0.5, num_classes=10)


def tiny_densenet(models: Any, **config: Any) -> Any:
    return models.DenseNet(8, (2, 3, 2, 2), 16, num_classes=10, **config)


def tiny_resnext(models: Any) -> Any:
    return models.ResNet(
        models.resnet.Bottleneck, [1, 2, 1, 1], num_classes=10, groups=8, width_per_group=4,
        replace_stride_with_dilation=[False, True, True],
    )  # fmt: skip


QUICK = {
    "resnet18": Run(by_name("resnet18", num_classes=10)),
    "resnet18 training": Run(by_name("resnet18", num_classes=10), (4, 3, 64, 64), train=True),
    "tiny resnext": Run(tiny_resnext),
    "tiny densenet": Run(tiny_densenet),
    "tiny densenet training": Run(
        partial(tiny_densenet, memory_efficient=True), (4, 3, 64, 64), True
    ),
    "mobilenet_v2": Run(by_name("mobilenet_v2", num_classes=10)),
    "mobilenet_v3_small": Run(by_name("mobilenet_v3_small", num_classes=10)),
    "mobilenet_v3_large reduced": Run(
        by_name("mobilenet_v3_large", reduced_tail=True, dilated=True, width_mult=0.75)
    ),
    "efficientnet_b0": Run(by_name("efficientnet_b0", num_classes=10)),
    "tiny convnext": Run(tiny_convnext),
    "tiny vit": Run(tiny_vit, (2, 3, 32, 32)),
    "deeplabv3_mobilenet_v3_large": Run(
        by_name("deeplabv3_mobilenet_v3_large", num_classes=3), gain=1
    ),
}  # fmt: skip
"""Small models, in every run of the tests."""

WHOLE = {
    name: Run(by_name(name))
    for name in (
        "alexnet", "vgg11", "vgg13_bn", "resnet34", "resnet50", "resnet101", "resnet152",
        "resnext50_32x4d", "wide_resnet50_2", "densenet121", "densenet161", "densenet201",
        "mobilenet_v3_large", "efficientnet_b1", "efficientnet_b4",
        "convnext_tiny", "fcn_resnet50",
        "deeplabv3_resnet50",
    )
} | {
    "efficientnet_v2_s": Run(by_name("efficientnet_v2_s"), gain=1),
    "vit_b_16": Run(by_name("vit_b_16", image_size=64)),
    "vit_b_32": Run(by_name("vit_b_32", image_size=64)),
}  # fmt: skip
"""Whole models, in the slow tests."""

REST = {
    name: Run(by_name(name))
    for name in (
        "vgg11_bn", "vgg13", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn", "resnext101_32x8d",
        "resnext101_64x4d", "wide_resnet101_2", "densenet169", "convnext_small", "convnext_base",
        "convnext_large", "fcn_resnet101", "deeplabv3_resnet101",
    )
} | {
    name: Run(by_name(name), gain=1)
    for name in (
        "efficientnet_b2", "efficientnet_b3", "efficientnet_b5", "efficientnet_b6",
        "efficientnet_b7", "efficientnet_v2_m", "efficientnet_v2_l",
    )
} | {
    name: Run(by_name(name, image_size=size), (1, 3, size, size))
    for name, size in (("vit_l_16", 64), ("vit_l_32", 64))
}  # fmt: skip
"""The other models: `python -m tests.zoo.measure_errors` compares all of them."""


def hash_of_keys(model: Any) -> str:
    """Return a hash of the names and shapes of a `state_dict`, in their order."""
    lines = [f"{name} {tuple(value.shape)}" for name, value in model.state_dict().items()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def run(case: Run, model: Any, seed: int, noise: float = 0) -> dict[str, list[Any]]:
    """Return samples of the outputs, and of the gradients of a few parameters.

    "out": largest output, then samples. A parameter: norm of its gradient g, and Σ g·cos(i).

    Args:
        seed: of the pictures.
        noise: relative change of each pixel.
    """
    model.load_state_dict(weights_by_name(model.state_dict(), gain=case.gain))
    model.train(case.train)
    model.zero_grad()
    generator = np.random.default_rng(seed)
    pixels = generator.standard_normal(case.shape, np.float32)
    if noise:
        pixels = pixels * (1 + noise * np.random.default_rng(1).standard_normal(case.shape))
    output = model(next(model.parameters()).new_tensor(pixels))
    outputs = output if isinstance(output, dict) else {"out": output}
    result: dict[str, list[Any]] = {}
    loss = 0
    for name, tensor in outputs.items():
        values = tensor.detach().numpy()
        chosen = values.reshape(-1)[np.linspace(0, values.size - 1, SAMPLES, dtype=int)]
        result[name] = [digits(number) for number in (np.abs(values).max(), *chosen)]
        direction = generator.standard_normal(values.shape, np.float32) / np.abs(values).max()
        loss = loss + (tensor * tensor.new_tensor(direction)).sum()
    loss.backward()
    parameters = [pair for pair in model.named_parameters() if pair[1].grad is not None]
    for index in np.linspace(0, len(parameters) - 1, PARAMETERS, dtype=int):
        name, parameter = parameters[index]
        gradient = parameter.grad.numpy().astype(np.float64).reshape(-1)
        wave = gradient @ np.cos(np.arange(gradient.size))
        result[name] = [digits(np.linalg.norm(gradient)), digits(wave)]
    return result


def digits(number: Any) -> float:
    """Return a number with the digits that float32 has."""
    return float(f"{float(number):.7g}")


def difference(
    result: dict[str, list[float]], expected: dict[str, list[float]]
) -> dict[str, float]:
    """Return by how much outputs and gradients differ, at most, relative to their sizes."""
    assert list(result) == list(expected)
    largest = {"outputs": 0.0, "gradients": 0.0}
    for name, values in expected.items():
        part = "outputs" if name in ("out", "aux") else "gradients"
        distance = np.abs(np.subtract(result[name], values)).max() / values[0]
        largest[part] = max(largest[part], float(distance))
    return largest


def stable_run(case: Run, model: Any) -> dict[str, Any]:
    """Return a run whose gradients a change as small as rounding does not change.

    A relu whose input is 1e-7 may be on or off: then rounding changes gradients in the third digit,
    and nothing can be compared. Other pictures are taken until there is no such relu.
    """
    for seed in range(20):
        result = run(case, model.float(), seed)
        others = (run(case, model, seed, noise=1e-6), run(case, model.double(), seed))
        if all(max(difference(result, other).values()) < 3e-5 for other in others):
            return {"seed": seed, **result}
    raise AssertionError("rounding errors are large for all pictures: take a smaller gain")


def main() -> None:
    """Write the golden file, with the real torchvision on PyTorch."""
    import torch
    from torchvision import models

    from edutorch.vision.models import list_models

    torch.manual_seed(0)
    golden: dict[str, Any] = {"keys": {}, "runs": {}}
    with torch.device("meta"):
        names = set(models.list_models()) & set(list_models())
        for name in sorted(names):
            golden["keys"][name] = hash_of_keys(by_name(name)(models))
    known = json.loads(GOLDEN.read_text("utf-8"))["runs"]
    for name, case in (QUICK | WHOLE | REST).items():
        golden["runs"][name] = known.get(name) or stable_run(case, case.build(models))
        print(name, golden["runs"][name]["seed"], golden["runs"][name]["out"][:3], flush=True)
        write({**golden, "runs": {**known, **golden["runs"]}})  # some take minutes


def write(golden: dict[str, Any]) -> None:
    lines = [
        f'"{part}": {{\n'
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items())
        + "\n}"
        for part, entries in golden.items()
    ]
    GOLDEN.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
