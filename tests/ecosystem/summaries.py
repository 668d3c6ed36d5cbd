"""What a model computes, in a few numbers: short enough for a golden file, and comparable.

    summary = summarize_training(model, lambda: model(x).square().mean())

The same lines run on PyTorch and on edutorch. The weights are drawn by name (`weights.py`); the
summary holds 16 elements of each output, and of each gradient its norm and one projection.
"""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tests.ecosystem.weights import draw_values, is_floating, weights_by_name

GOLDEN = Path(__file__).parent / "golden"
ELEMENTS = 16


def array_of(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().cpu().double().numpy())


def summarize(tensor: Any) -> dict[str, Any]:
    """Return the shape of a tensor, its largest element, and elements spread over it."""
    array = array_of(tensor)
    flat = array.reshape(-1)
    positions = np.linspace(0, flat.size - 1, min(ELEMENTS, flat.size)).astype(int)
    return {
        "shape": list(array.shape),
        "largest": round_figure(np.abs(flat).max(initial=0)),
        "elements": [round_figure(flat[position], 8) for position in positions],
    }


def summarize_gradients(model: Any) -> dict[str, list[float]]:
    """Return of each parameter's gradient its norm, and its projection on a direction."""
    return {
        name: project(name, array_of(parameter.grad))
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def project(name: str, gradient: np.ndarray) -> list[float]:
    direction = draw_values(f"direction of {name}", gradient.shape, 0).astype(np.float64)
    direction /= np.linalg.norm(direction) or 1
    return [
        round_figure(float(np.linalg.norm(gradient))),
        round_figure(float((gradient * direction).sum())),
    ]


def summarize_training(
    model: Any,
    loss_of: Callable[[Any], tuple[Any, Any]],
    lr: float = 0.01,
    gain: float = 2**0.5,
) -> dict[str, Any]:
    """Return what a model with weights drawn by name computes, before and after one step of SGD.

    Args:
        loss_of: of the model: its output, and the loss that is derived.
        gain: of the weights: see `weights_by_name`.
    """
    model.load_state_dict(weights_by_name(model.state_dict(), gain=gain))
    model.eval()
    output, loss = loss_of(model)
    loss.backward()
    gradients = summarize_gradients(model)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.data.sub_(lr * parameter.grad / (1 + parameter.grad.norm()))
    return {
        "output": summarize(output),
        "gradients": gradients,
        "after a step": summarize(loss_of(model)[0]),
    }


def draw_input(shape: Sequence[int], seed: int = 0) -> Any:
    """Return a tensor of the library `torch`, whichever that is, with normal elements."""
    import torch

    return torch.from_numpy(np.random.default_rng(seed).standard_normal(tuple(shape), np.float32))


def summarize_model(
    model: Any, output_of: Callable[[Any], Any], factor: float, gradients: int
) -> dict[str, Any]:
    """Return what `summarize_training` does for the output of a model, with some gradients.

    Args:
        output_of: of the model: its output.
        factor: of all weights with two axes or more: less than 1 where activations grow.
        gradients: of so many parameters, from the first to the last.
    """

    def scale_weights(model: Any, keys: object) -> None:
        for value in model.state_dict().values():
            if value.is_floating_point() and value.ndim > 1:
                value.mul_(factor)

    def loss_of(model: Any) -> tuple[Any, Any]:
        output = output_of(model)
        return output, (output * draw_input(output.shape, seed=2)).mean()

    model.register_load_state_dict_post_hook(scale_weights)
    result = summarize_training(model, loss_of)
    names = list(result["gradients"])
    chosen = np.linspace(0, len(names) - 1, min(gradients, len(names))).astype(int)
    result["gradients"] = {names[i]: result["gradients"][names[i]] for i in chosen}
    return result


@contextmanager
def no_initialization() -> Iterator[None]:
    """Let `torch.nn.init` leave new weights as they are: others are drawn, and drawing is slow."""
    from torch.nn import init

    names = ("uniform_", "normal_", "trunc_normal_", "kaiming_", "xavier_")
    originals = {name: function for name, function in vars(init).items() if name.startswith(names)}
    vars(init).update(dict.fromkeys(originals, lambda tensor, *args, **kwargs: tensor))
    try:
        yield
    finally:
        vars(init).update(originals)


def draw_weights(model: Any, factor: float = 1.0) -> None:
    """Draw a model's weights as `summarize_model` does, with no second copy of all in memory."""
    import torch

    with torch.no_grad():
        for name, value in model.state_dict().items():
            if is_floating(value):
                value.copy_(torch.from_numpy(draw_values(name, tuple(value.shape))))
                if value.ndim > 1:
                    value.mul_(factor)


def round_figure(value: float, digits: int = 7) -> float:
    return float(f"{float(value):.{digits}g}")


def distance(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    """Return the largest difference of two summaries of a tensor, over the largest element."""
    assert list(ours["shape"]) == list(theirs["shape"]), (ours["shape"], theirs["shape"])
    difference = np.abs(np.subtract(ours["elements"], theirs["elements"])).max(initial=0)
    return float(difference / (theirs["largest"] or 1))


def gradient_distance(
    ours: Mapping[str, list[float]], theirs: Mapping[str, list[float]]
) -> tuple[float, str]:
    """Return the largest relative difference among the gradients, and the parameter's name.

    A gradient that should be 0, as that of a bias in front of a normalization, is compared with
    the largest one.
    """
    assert list(ours) == list(theirs), sorted({*ours} ^ {*theirs})
    largest = max((norm for norm, _ in theirs.values()), default=1.0)
    return max(
        (math.dist(ours[name], pair) / max(pair[0], 1e-3 * largest), name)
        for name, pair in theirs.items()
    )


def read_golden(name: str) -> dict[str, Any]:
    """Return a golden file: what the oracle computed, by case."""
    return json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))


def write_golden(name: str, values: Mapping[str, Any]) -> None:
    """Write a golden file, one line for each case."""
    GOLDEN.mkdir(exist_ok=True)
    lines = (f"{json.dumps(case)}: {json.dumps(value)}" for case, value in values.items())
    (GOLDEN / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def add_to_golden(
    name: str, cases: Sequence[str], compute: Callable[[str], dict[str, Any]]
) -> None:
    """Compute the cases that a golden file does not hold yet, and drop those that are gone.

    A case that fails does not stop those after it.
    """
    present = read_golden(name) if (GOLDEN / f"{name}.json").exists() else {}
    values: dict[str, Any] = {}
    failed = []
    for case in cases:
        try:
            values[case] = present.get(case) or compute(case)
        except Exception:  # noqa: BLE001 (whatever it is, it is printed)
            traceback.print_exc()
            failed.append(case)
        write_golden(name, {**present, **values})
    write_golden(name, values)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")
