"""Kernels on large arrays whose memory is not in the order of their elements."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs numba: the extra `fast`")

import edutorch as torch
from edutorch.nn import functional as F

FUNCTIONS = {
    "relu": F.relu, "tanh": torch.tanh, "exp": torch.exp, "sigmoid": torch.sigmoid,
    "softmax": lambda x: F.softmax(x, 1), "log_softmax": lambda x: F.log_softmax(x, 1),
    "softmax of rows": lambda x: F.softmax(x, -1), "silu": F.silu, "gelu": F.gelu, "elu": F.elu,
    "leaky_relu": F.leaky_relu, "softplus": F.softplus, "hardtanh": F.hardtanh,
    "erf": torch.erf, "log": lambda x: torch.log(x * x + 1), "sum": lambda x: x.sum((2, 3)),
    "mean of channels": lambda x: x.mean(1), "amax": lambda x: x.amax(1),
    "add": lambda x: x + x.flip(1), "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: F.group_norm(x, 3),
}  # fmt: skip

LAYOUTS = {
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    "every second row": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_layout_changes_no_number(name, layout):
    """60,000 elements: enough for each kernel to take them instead of NumPy."""
    values = np.random.default_rng(0).standard_normal((4, 6, 50, 50)).astype("float32")
    plain = torch.tensor(values, requires_grad=True)
    other = torch.tensor(values)
    other = LAYOUTS[layout](other).detach().requires_grad_()
    assert other.stride() != plain.stride()
    results = [FUNCTIONS[name](x) for x in (plain, other)]
    weights = torch.randn(results[0].shape)
    gradients = [torch.autograd.grad((y * weights).sum(), x)[0]
                 for x, y in zip((plain, other), results, strict=True)]  # fmt: skip
    for ours, theirs in (results, gradients):
        np.testing.assert_allclose(
            theirs.detach().numpy(), ours.detach().numpy(), rtol=1e-4, atol=1e-5
        )
