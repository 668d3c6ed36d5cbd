"""Every entry of the table of C++, in a few programs that call many ops each."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as torch
from edutorch import nn
from edutorch.export import Dim, cpp, export
from edutorch.nn import functional as F
from edutorch.utils._pytree import tree_flatten
from tests.export.cpp_programs import COMPILERS, Library

pytestmark = [
    pytest.mark.slow, pytest.mark.skipif("g++" not in COMPILERS, reason="there is no g++"),
]  # fmt: skip


class Calls(nn.Module):
    """Returns what each of some functions computes."""

    def __init__(self, functions):
        super().__init__()
        self.__dict__["functions"] = functions

    def forward(self, *args):
        return tuple(function(*args) for function in self.functions)


def assert_agrees(functions, args, folder, shapes=None):
    """Compile one program of all functions, and compare their results with Python's."""
    module = Calls(functions)
    cpp(export(module, args, dynamic_shapes=shapes), folder, name="calls")
    expected = [leaf.detach().numpy() for leaf in tree_flatten(module(*args))[0]]
    library = Library(folder, "calls")
    inputs = [arg.detach().numpy() for arg in args]
    computed = library(inputs, [array.dtype for array in expected])
    for number, (result, array) in enumerate(zip(computed, expected, strict=True)):
        np.testing.assert_allclose(
            result, array, rtol=2e-5, atol=1e-5, equal_nan=True, err_msg=f"function {number}"
        )
    library.close()


UNARY = (
    "neg abs reciprocal square sqrt rsqrt exp exp2 expm1 log log1p log2 log10 sin cos tan asin "
    "acos atan sinh cosh tanh asinh acosh atanh floor ceil trunc erf erfc lgamma sigmoid relu sign "
    "isnan isinf isfinite logical_not round frac deg2rad softplus silu mish hardswish gelu elu "
    "leaky_relu hardtanh relu6 selu logsigmoid softsign tanhshrink hardsigmoid"
).split()
BINARY = (
    "add sub mul div maximum minimum pow atan2 hypot fmod remainder copysign eq ne lt le gt ge "
    "logical_and logical_or logical_xor floor_divide logaddexp xlogy"
).split()


def named(name):
    return getattr(torch, name, None) or getattr(F, name)


def test_functions_of_one_element(tmp_path):
    x = torch.tensor([-2.5, -0.6, -0.0, 0.0, 0.4, 0.9, 1.7, float("inf"), float("nan")])
    assert_agrees([named(name) for name in UNARY], (x,), tmp_path)


def test_functions_of_two_elements_and_broadcasting(tmp_path):
    x = torch.tensor([[-2.5, -0.6, 0.4], [0.9, 1.7, 3.0]])
    y = torch.tensor([[1.5], [-0.7]])
    functions = [named(name) for name in BINARY]
    functions += [
        lambda x, y: torch.where(x > 0, x, y), lambda x, y: torch.lerp(x, y, 0.3),
        lambda x, y: x.clamp(-1, 1), lambda x, y: x.clamp(min=0.5), lambda x, y: x.clamp(max=y),
        lambda x, y: x.masked_fill(y > 0, 7.0), lambda x, y: x - 2 * y, lambda x, y: 3 - x,
        lambda x, y: torch.sub(x, y, alpha=0.5), lambda x, y: torch.addcmul(x, y, y, value=2),
        lambda x, y: torch.div(x, y, rounding_mode="trunc"), lambda x, y: x**2,
    ]  # fmt: skip
    assert_agrees(functions, (x, y), tmp_path)


def test_integers_bools_and_conversions(tmp_path):
    x, y = torch.tensor([[-7, 3, 0], [5, -2, 9]]), torch.tensor([3, -4, 2])
    assert_agrees([
        lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x // y, lambda x, y: x % y,
        lambda x, y: x / y, lambda x, y: x & y, lambda x, y: x | y, lambda x, y: x ^ y,
        lambda x, y: ~x, lambda x, y: (x > 0) & (y > 0), lambda x, y: (x > 0) + (y > 0),
        lambda x, y: x.float() * 0.5, lambda x, y: x.to(torch.int8), lambda x, y: (x > 0).double(),
        lambda x, y: x + 0.5, lambda x, y: x.sum(), lambda x, y: x.sum(1), lambda x, y: abs(x),
        lambda x, y: x.argmax(1), lambda x, y: (x > 0).sum(), lambda x, y: x > 2.5,
        lambda x, y: x.cumsum(1), lambda x, y: x.prod(), lambda x, y: x.double().mean(),
        lambda x, y: torch.where(x > 0, x, y).to(torch.uint8), lambda x, y: x.bool(),
    ], (x, y), tmp_path)  # fmt: skip


def test_reductions_and_products(tmp_path):
    x, w, v = torch.randn(2, 3, 4, 5), torch.randn(5, 2), torch.randn(5)
    assert_agrees([
        lambda x, w, v: x.sum((0, 2)), lambda x, w, v: x.mean(1, keepdim=True),
        lambda x, w, v: x.amax((1, 3)), lambda x, w, v: x.amin(-1, keepdim=True),
        lambda x, w, v: x.argmin(2), lambda x, w, v: x.argmax(), lambda x, w, v: x.prod(3),
        lambda x, w, v: x.var(1), lambda x, w, v: x.std((0, 1)), lambda x, w, v: x.logsumexp(2),
        lambda x, w, v: x.max(), lambda x, w, v: x.cumsum(2), lambda x, w, v: x @ w,
        lambda x, w, v: x @ v, lambda x, w, v: v @ w, lambda x, w, v: v @ v,
        lambda x, w, v: x[:, :1] @ x.transpose(2, 3), lambda x, w, v: x.norm(dim=1),
        lambda x, w, v: F.softmax(x, 1), lambda x, w, v: F.log_softmax(x, -1),
        lambda x, w, v: F.layer_norm(x, (4, 5)), lambda x, w, v: F.group_norm(x[:, :2], 2),
        lambda x, w, v: F.linear(x, w.t()), lambda x, w, v: F.mse_loss(x, x * 2),
        lambda x, w, v: F.rms_norm(x, (5,)), lambda x, w, v: F.normalize(x, dim=1),
        lambda x, w, v: F.smooth_l1_loss(x, x * 3),
    ], (x, w, v), tmp_path)  # fmt: skip


def test_shapes_and_indices_at_dynamic_sizes(tmp_path):
    x, index = torch.randn(3, 4, 5), torch.tensor([2, 0, 2])
    batch = Dim("batch", min=2, max=9)
    assert_agrees([
        lambda x, i: x.reshape(-1, 20), lambda x, i: x.permute(2, 0, 1), lambda x, i: x.mT,
        lambda x, i: x.unsqueeze(1), lambda x, i: x[:, :1].squeeze(1), lambda x, i: x[1],
        lambda x, i: x[..., -2:], lambda x, i: x[:, 1:4:2], lambda x, i: x[:, None, -1],
        lambda x, i: x[:, :, i], lambda x, i: x.index_select(1, i), lambda x, i: x.flip(1, 2),
        lambda x, i: torch.cat([x, x[:, :2]], 1), lambda x, i: torch.stack([x, 2 * x], 1),
        lambda x, i: x.tril(), lambda x, i: x.triu(1), lambda x, i: F.pad(x, (1, 2, 0, 1), value=3),
        lambda x, i: x[:, :1].expand(-1, 6, -1), lambda x, i: x.narrow(2, 1, 3),
        lambda x, i: torch.zeros(x.size(0), 2) + 1, lambda x, i: torch.arange(x.size(0)) * 2,
        lambda x, i: torch.ones_like(x), lambda x, i: torch.full((2, x.size(0)), 0.5),
        lambda x, i: x.flatten(1), lambda x, i: x.chunk(2, 1)[1],
        lambda x, i: x.split([1, 3], 1)[1],
        lambda x, i: x.gather(2, i.expand(x.size(0), 4, 3)), lambda x, i: x.repeat(1, 2, 1),
        lambda x, i: F.embedding(i, x[0]), lambda x, i: torch.arange(0, 1, 0.25),
    ], (x, index), tmp_path, ({0: batch}, None))  # fmt: skip


def test_windows_over_one_two_and_three_axes(tmp_path):
    x, y = torch.randn(2, 4, 9, 8), torch.randn(2, 4, 11)
    w2, w1 = torch.randn(6, 2, 3, 3), torch.randn(4, 4, 3)
    z, w3 = torch.randn(1, 2, 4, 5, 6), torch.randn(3, 2, 2, 3, 2)
    assert_agrees([
        lambda x, y, z: F.conv2d(x, w2, torch.ones(6), 2, 1, groups=2),
        lambda x, y, z: F.conv2d(x, w2, None, 1, (2, 0), (1, 2), 2),
        lambda x, y, z: F.conv2d(x, w2, None, 1, "same", 1, 2),
        lambda x, y, z: F.conv1d(y, w1, padding=3), lambda x, y, z: F.conv3d(z, w3, stride=2),
        lambda x, y, z: F.conv_transpose2d(x, w2[:4], None, 2, 1, 1, 2),
        lambda x, y, z: F.conv_transpose1d(y, w1, stride=3, dilation=2),
        lambda x, y, z: F.max_pool2d(x, 3, 2, 1),
        lambda x, y, z: F.max_pool2d(x, 2, ceil_mode=True),
        lambda x, y, z: F.max_pool1d(y, 3, 2, dilation=2), lambda x, y, z: F.max_pool3d(z, 2),
        lambda x, y, z: F.avg_pool2d(x, 3, 2, 1), lambda x, y, z: F.avg_pool1d(y, 4, 3),
        lambda x, y, z: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda x, y, z: F.avg_pool2d(x, 2, divisor_override=3),
        lambda x, y, z: F.adaptive_avg_pool2d(x, 1),
        lambda x, y, z: F.adaptive_avg_pool2d(x, (3, 2)),
        lambda x, y, z: F.instance_norm(x), lambda x, y, z: F.interpolate(x, scale_factor=2),
    ], (x, y, z), tmp_path)  # fmt: skip


def test_recurrent_networks_attention_and_losses(tmp_path):
    torch.manual_seed(0)
    rnn, relu = nn.RNN(4, 3), nn.RNN(4, 3, nonlinearity="relu", bidirectional=True)
    gru, lstm = nn.GRU(4, 3, bias=False), nn.LSTM(4, 3)
    classes = torch.tensor([2, 0, 1])
    x = torch.randn(5, 3, 4)
    assert_agrees([
        lambda x, c: rnn(x)[0], lambda x, c: relu(x)[0], lambda x, c: gru(x)[0],
        lambda x, c: lstm(x)[1][1],
        lambda x, c: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x, c: F.cross_entropy(x[0], c), lambda x, c: F.nll_loss(x[0], c, reduction="sum"),
        lambda x, c: F.cross_entropy(x[0], c, torch.tensor([1.0, 2.0, 3.0, 4.0]), ignore_index=0),
        lambda x, c: F.nll_loss(x.permute(1, 2, 0), c[:, None].expand(3, 5)),
        lambda x, c: F.cross_entropy(x[0], c, reduction="none"),
        lambda x, c: F.binary_cross_entropy_with_logits(x, x.sigmoid()),
        lambda x, c: F.batch_norm(x[..., None], torch.zeros(3), torch.ones(3), training=True),
    ], (x, classes), tmp_path)  # fmt: skip
