"""Kernels on large arrays whose memory is not in the order of their elements."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs numba: the extra `fast`")

import edutorch as torch
from edutorch import nn
from edutorch.backends import reference_only
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


def one_column(layer):
    """Return the gradient behind a layer of the sum over an axis of length 1: it is read-only."""
    x = (torch.arange(8192.0).reshape(8192, 1) / 8192).requires_grad_()
    (layer(x * 2).mean(1) ** 3).sum().backward()
    return x.grad.numpy()


@pytest.mark.parametrize(
    "layer",
    [
        F.relu, F.gelu, F.silu, F.elu, torch.sigmoid, torch.tanh, torch.exp, F.hardswish,
        lambda x: F.softmax(x, 0), lambda x: F.layer_norm(x.T, (8192,)).T,
        lambda x: F.batch_norm(x, None, None, training=True),
        lambda x: F.batch_norm(x.view(-1, 1, 1, 1), None, None, training=True).view(-1, 1),
    ],
)  # fmt: skip
def test_a_read_only_gradient_fits_a_kernel(layer):
    result = one_column(layer)
    with reference_only():
        expected = one_column(layer)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("cell", [nn.RNN, nn.LSTM, nn.GRU])
def test_a_read_only_gradient_fits_recurrent_kernels(cell):
    torch.manual_seed(0)
    model, x = cell(3, 1, batch_first=True), torch.randn(64, 20, 3)

    def gradient():
        model.zero_grad()
        (model(x)[0].mean(2) ** 2).sum().backward()
        return model.weight_hh_l0.grad.numpy().copy()

    result = gradient()
    with reference_only():
        expected = gradient()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
