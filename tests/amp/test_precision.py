"""16-bit results are rounded once: sums are computed in float32, as in hardware."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch as t

F = t.nn.functional
EPS = {"bfloat16": 2.0**-8, "float16": 2.0**-11}  # half the step between neighbours at 1
R = np.random.default_rng(0)
X, W, B = R.normal(size=(64, 256)), R.normal(size=(32, 256)), R.normal(size=32)
IMAGE, FILTERS = R.normal(size=(2, 8, 9, 9)), R.normal(size=(16, 8, 3, 3))
BATCH, HEADS = R.normal(size=(3, 20, 50)), R.normal(size=(2, 4, 16, 8))

CALLS = {
    "linear": (F.linear, X, W, B),
    "mm": (lambda x, w: x @ w.T, X, W),
    "mv": (t.mv, X, W[0]),
    "bmm": (lambda x: t.bmm(x, x.mT), BATCH),
    "conv2d": (F.conv2d, IMAGE, FILTERS, R.normal(size=16)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1)), IMAGE, FILTERS),
    "attention": (F.scaled_dot_product_attention, HEADS, HEADS, HEADS),
    "softmax": (lambda x: F.softmax(x, -1), X),
    "log_softmax": (lambda x: F.log_softmax(x, -1), X),
    "logsumexp": (lambda x: t.logsumexp(x, 1), X),
    "cumsum": (lambda x: t.cumsum(x, 1), X),
    "layer_norm": (lambda x: F.layer_norm(x, (256,)), X),
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), IMAGE),
    "mean": (lambda x: x.mean(0), X),
    "mse_loss": (lambda x: F.mse_loss(x, -x), X),
    "l1_loss": (lambda x: F.l1_loss(x, -x), X),
}


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("name", CALLS)
def test_one_rounding(name, dtype):
    function, *arrays = CALLS[name]
    operands = [t.tensor(array).to(getattr(t, dtype)) for array in arrays]
    result = function(*operands)
    exact = function(*(operand.double() for operand in operands)).numpy()
    assert str(result.dtype) == f"torch.{dtype}"
    # half a step of the result, plus what float32 loses on the way
    allowed = EPS[dtype] * np.abs(exact) * 1.01 + 2e-5 * max(1.0, np.abs(exact).max())
    assert (np.abs(result.double().numpy() - exact) <= allowed).all()


@pytest.mark.parametrize("dtype", EPS)
def test_gradients_of_a_convolution(dtype):
    """They are convolutions, too."""
    grads = []
    for precision in (dtype, "float64"):
        x, w = (
            t.tensor(a).to(getattr(t, dtype)).to(getattr(t, precision)).requires_grad_()
            for a in (IMAGE, FILTERS)
        )
        F.conv2d(x, w, padding=1).sum().backward()
        grads.append([x.grad.double().numpy(), w.grad.double().numpy()])
    for rounded, exact in zip(*grads, strict=True):
        allowed = EPS[dtype] * np.abs(exact) * 1.01 + 2e-4
        assert (np.abs(rounded - exact) <= allowed).all()


@pytest.mark.parametrize("dtype", EPS)
def test_norms_with_float32_weights_and_averages(dtype):
    """The operands of a norm under autocast: the result has the dtype of the input."""
    x = t.tensor(IMAGE).to(getattr(t, dtype))
    w, averages = t.full((8,), 2.0), (t.zeros(8), t.ones(8))
    for y in (
        F.batch_norm(x, *averages, w, w, True), F.batch_norm(x, *averages, w, w, False),
        F.group_norm(x, 2, w, w), F.instance_norm(x, None, None, w, w),
        F.layer_norm(x.mT, (9, 9), t.ones(9, 9)), F.rms_norm(x, (9,), t.ones(9)),
    ):  # fmt: skip
        assert y.dtype is getattr(t, dtype)
    assert averages[0].dtype is t.float32
