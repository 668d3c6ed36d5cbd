"""Steps of optimizers, from ONNX's domain for training."""

from __future__ import annotations

from ..table import onnx_op
from ..values import Outputs, Value, number, torch

DOMAIN = "ai.onnx.preview.training"


def grouped(tensors: tuple[Value, ...], count: int) -> list[tuple[Value, ...]]:
    """Return tensors in groups: all parameters, all gradients, all states."""
    size = len(tensors) // count
    return [tensors[i * size : (i + 1) * size] for i in range(count)]


def collected(updates: list[tuple[Value, ...]]) -> tuple[Value, ...]:
    """Return the results of all parameters, then the states of all."""
    return tuple(value for column in zip(*updates, strict=True) for value in column)


@onnx_op(f"{DOMAIN}.Adagrad")
def adagrad(
    R: Value, T: Value, *tensors: Value, decay_factor: float = 0.0, epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> Outputs:  # fmt: skip
    """A step of Adagrad."""
    rate = R / (1 + T * decay_factor)
    updates = []
    for X, G, H in zip(*grouped(tensors, 3), strict=True):
        gradient = X * norm_coefficient + G
        total = H + gradient * gradient
        updates.append((X - rate * gradient / (torch.sqrt(total) + epsilon), total))
    return collected(updates)


@onnx_op(f"{DOMAIN}.Momentum")
def momentum_(
    R: Value, T: Value, *tensors: Value, alpha: float, beta: float, mode: str,
    norm_coefficient: float,
) -> Outputs:  # fmt: skip
    """A step along a running average of gradients."""
    adjusted = beta if number(T) > 0 else 1.0
    updates = []
    for X, G, V in zip(*grouped(tensors, 3), strict=True):
        gradient = X * norm_coefficient + G
        average = V * alpha + gradient * adjusted
        step = gradient + average * alpha if mode == "nesterov" else average
        updates.append((X - R * step, average))
    return collected(updates)


@onnx_op(f"{DOMAIN}.Adam")
def adam(
    R: Value, T: Value, *tensors: Value, alpha: float = 0.9, beta: float = 0.999,
    epsilon: float = 1e-6, norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> Outputs:  # fmt: skip
    """A step of Adam."""
    step = number(T)
    rate = R * (1 - beta**step) ** 0.5 / (1 - alpha**step) if step > 0 else R
    updates = []
    for X, G, V, H in zip(*grouped(tensors, 4), strict=True):
        gradient = X * norm_coefficient + G
        mean = V * alpha + gradient * (1 - alpha)
        square = H * beta + gradient * gradient * (1 - beta)
        moved = X - rate * mean / (torch.sqrt(square) + epsilon)
        updates.append((moved * (1 - norm_coefficient_post), mean, square))
    return collected(updates)
