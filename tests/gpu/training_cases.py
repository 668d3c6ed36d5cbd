"""Optimizers and gradients on the device `strict`: what the fibers run, and what NVRTC compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import edutorch
from edutorch import optim
from edutorch.backends.strict_array import StrictArray
from edutorch.kernels.gpu import gradients
from edutorch.kernels.gpu.module import CudaModule
from tests.gpu.elementwise_cases import collecting

SHAPES = ((3,), (40, 30), (17_000,))
OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD, momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1),
    "SGD, nesterov, decay": lambda p: optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01
    ),
    "SGD, maximize": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, maximize=True),
    "Adam": lambda p: optim.Adam(p, lr=0.01),
    "Adam, amsgrad, decay": lambda p: optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=0.01),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01),
    "AdamW, amsgrad": lambda p: optim.AdamW(p, lr=0.01, amsgrad=True),
}  # fmt: skip


def train(make: Callable[[Any], optim.Optimizer], device: str, dtype: Any, steps: int = 4) -> Any:
    """Do some steps with given gradients; return the parameters, and the optimizer."""
    random = np.random.default_rng(0)
    params = [
        edutorch.tensor(random.standard_normal(shape), dtype=dtype, device=device).requires_grad_()
        for shape in SHAPES
    ]
    optimizer = make(params)
    for _ in range(steps):
        for param in params:
            gradient = random.standard_normal(param.shape)
            param.grad = edutorch.tensor(gradient, dtype=dtype, device=device)
        optimizer.step()
    return params, optimizer


def training_modules() -> list[CudaModule]:
    """Return the texts of all optimizers and of `unscale`, in the dtypes that train."""
    modules: dict[CudaModule, None] = {}
    with collecting(modules):
        for make in OPTIMIZERS.values():
            for dtype in (edutorch.float32, edutorch.bfloat16):
                train(make, "strict", dtype)
        for dtype in (np.float32, np.float64):
            grads = [StrictArray(np.ones(5, dtype))]
            number = StrictArray(np.ones(1, np.float32))
            gradients.unscale(grads, number, number)
    return list(modules)
