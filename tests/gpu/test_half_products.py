"""16-bit floats reach the kernels that add up in float32, and gradients stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import edutorch as torch
from edutorch import backends, nn
from edutorch.backends import kernel_registry
from edutorch.backends.cupy import CupyBackend
from edutorch.backends.strict import StrictBackend

KEYS = [
    "linear", "linear/input", "linear/weight", "attention_forward", "attention_forward/joint_vjp",
    "conv2d", "conv_transpose_nd", "conv_weight_grad",
]  # fmt: skip


def gradients() -> list[Any]:
    """Return gradients of layers, of attention and of a product, in bfloat16."""
    torch.manual_seed(0)
    inputs = [torch.randn(*shape).bfloat16().to("strict") for shape in ((5, 4), (1, 2, 3, 4))]
    x, q = (tensor.requires_grad_() for tensor in inputs)
    layer = nn.Linear(4, 3).to("strict").bfloat16()
    layer(x).sum().backward()
    nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
    (x @ x.transpose(0, 1)).sum().backward()
    conv = nn.Conv2d(2, 3, 2).to("strict").bfloat16()
    conv(q).square().sum().backward()
    return [tensor.grad.float().tolist() for tensor in (layer.weight, x, q, conv.weight)]


def test_the_device_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = gradients()
    dtypes: dict[str, str] = {}

    def run_on_device(device: str, key: str, size: int, values: Any) -> None:
        dtypes.setdefault(key, next(v.dtype.name for v in values if hasattr(v, "dtype")))

    monkeypatch.setattr(kernel_registry, "run_on_device", run_on_device)
    monkeypatch.setattr(backends.get("strict"), "kernels", "cuda", raising=False)
    monkeypatch.setattr(StrictBackend, "half_products", CupyBackend.half_products)
    kernel_registry.activate("cuda")
    for got, wanted in zip(gradients(), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2**-7)
    assert {key: dtypes[key] for key in KEYS} == dict.fromkeys(KEYS, "bfloat16")
