"""Every kernel, asked with arrays that are not its own: it declines, or its result is right."""

from __future__ import annotations

import copy

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs numba: the extra `fast`")

import edutorch
from edutorch import nn
from edutorch.backends.kernel_registry import GeneratedSlot, slots
from edutorch.kernels.cpu.gemm_microkernel import gemm_address
from edutorch.nn import functional as F
from tests.kernels.test_parallel import LAYERS, sequence

MORE = {
    "rms_norm with a weight": lambda x: F.rms_norm(x, (50,), x.detach()[0, 0, 0]),
    "layer_norm with weights": lambda x: nn.LayerNorm(50)(x),
    "batch_norm with weights": lambda x: nn.BatchNorm2d(6)(x),
    "group_norm with weights": lambda x: nn.GroupNorm(2, 6)(x),
    "products": lambda x: x @ x.transpose(2, 3), "var": lambda x: x.var((2, 3)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "rnn in a loop": lambda x: nn.LSTMCell(50, 50)(x.reshape(-1, 50))[0],
    "gru in a loop": lambda x: nn.GRUCell(50, 50)(x.reshape(-1, 50)),
    "embedding": lambda x: F.embedding(edutorch.arange(4000) % 24, x.reshape(24, -1)),
    "both": sequence(nn.GRU),
}  # fmt: skip


def all_results(result):
    return result if isinstance(result, tuple | list) else (result,)


def calls_of(function, monkeypatch):
    """Run forward and backward; return each call of a kernel: (slot, arguments, result)."""
    x = edutorch.randn(4, 6, 50, 50, requires_grad=True)
    (function(x) ** 2).sum().backward()  # makes the kernels
    calls = []

    def recorder(slot, run):
        def recorded(*args):
            kept = copy.deepcopy(args)
            result = run(*args)
            if result is not None:
                calls.append((slot.name, run, kept, copy.deepcopy(result)))
            return result

        return recorded

    with monkeypatch.context() as patch:
        for slot in slots():
            if slot.run is not None:
                patch.setattr(slot, "run", recorder(slot, slot.run))
        (function(x) ** 2).sum().backward()
    return {name: (run, args, result) for name, run, args, result in calls}


def is_float(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.size > 1


FORWARD_BY_NUMPY = ("sum", "mean of channels", "amax", "add")
"""Of these shapes no kernel is wanted."""

VARIANTS = {
    "with gaps": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "by columns": np.asfortranarray,
    "backwards": lambda x: np.flip(np.ascontiguousarray(np.flip(x))),
    "of another type": lambda x: x.astype(np.float64),
    "of half the digits": lambda x: x.astype(np.float16),
}


USED = {
    "max_pool": "max_pool max_pool/input",
    "avg_pool": "avg_pool avg_pool_grad",
    **{name: f"{kernel} {kernel}/input" for name, kernel in {
        "relu": "relu", "tanh": "tanh", "exp": "exp", "sigmoid": "sigmoid", "silu": "silu_forward",
        "gelu": "gelu", "elu": "elu_forward", "leaky_relu": "leaky_relu_forward",
        "softplus": "softplus", "hardtanh": "hardtanh_forward"}.items()},
    "erf": "erf erf/input", "log": "log",
    **{name: f"{kernel} {kernel}/joint_vjp" for name, kernel in {
        "rms_norm": "fused_rms_norm", "rms_norm with a weight": "fused_rms_norm",
        "layer_norm": "native_layer_norm", "layer_norm with weights": "native_layer_norm",
        "batch_norm": "native_batch_norm", "batch_norm with weights": "native_batch_norm",
        "group_norm": "native_group_norm", "group_norm with weights": "native_group_norm"}.items()},
    **{name: f"{kernel} {kernel}/input" for name, kernel in {
        "softmax": "softmax", "softmax of rows": "softmax", "log_softmax": "log_softmax"}.items()},
    "var": "var", "embedding": "sum index_select/input",
    "rnn in a loop": "add lstm_gates lstm_gates/joint_vjp",
    "gru in a loop": "sum gru_gates gru_gates/joint_vjp",
}  # fmt: skip
"""The kernels of a function, but for those that depend on the processor and on NumPy's BLAS."""
WITH_BLAS = {
    "rnn": "rnn_sequence rnn_sequence/joint_vjp",
    "lstm": "lstm_sequence lstm_sequence/joint_vjp",
    "gru": "gru_sequence gru_sequence/joint_vjp",
    "attention": "attention_forward attention_forward/joint_vjp",
}


MOVES = {
    "clone", "COPY", "FILL", "flip", "gather", "index_select", "repeat", "reshape", "roll",
    "TAKE_AT", "TAKE_MASKED", "PUT_MASKED",
}  # fmt: skip
"""Kernels that move or set elements and compute nothing."""


def by_numpy() -> set[str]:
    """Return the kernels that leave arrays of this size to NumPy."""
    return {place.name for place in slots() if place.min_size > 60_000}


def are_from_formulas() -> set[str]:
    """Return the kernels that are written from formulas: they compute with 16-bit floats, too."""
    return {place.name for place in slots() if isinstance(place, GeneratedSlot)}


@pytest.mark.parametrize("name", [*USED, *WITH_BLAS])
def test_a_kernel_takes_what_is_its_own(name, monkeypatch):
    if name in WITH_BLAS and gemm_address(np.dtype("float32")) is None:
        pytest.skip("NumPy's BLAS is one that cannot be called")
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    used = calls_of({**LAYERS, **MORE}[name], monkeypatch)
    assert set({**USED, **WITH_BLAS}[name].split()) - by_numpy() <= set(used)


@pytest.mark.parametrize("name", [*LAYERS, *MORE])
def test_arrays_that_are_not_its_own(name, monkeypatch):
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    calls = calls_of({**LAYERS, **MORE}[name], monkeypatch)
    expected = {**USED, **WITH_BLAS}.get(name, "").split()
    assert calls or name in FORWARD_BY_NUMPY or by_numpy() >= set(expected), "no kernel was used"
    for kernel, (run, args, expected) in calls.items():
        for variant, change in VARIANTS.items():
            for position, arg in enumerate(args):
                if not is_float(arg):
                    continue
                arguments = list(copy.deepcopy(args))
                arguments[position] = change(arguments[position])
                result = run(*arguments)
                if result is None:
                    continue
                digits = 2e-2 if variant == "of half the digits" else 1e-4
                for one, other in zip(all_results(result), all_results(expected), strict=True):
                    if isinstance(other, np.ndarray):
                        scale = np.abs(other).max(initial=1)
                        np.testing.assert_allclose(
                            one, other, rtol=digits, atol=digits * scale,
                            err_msg=f"{kernel}, argument {position} {variant}",
                        )  # fmt: skip


@pytest.mark.parametrize("name", [*LAYERS, *MORE])
def test_arrays_of_other_types_are_left_to_the_definition(name, monkeypatch):
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    for kernel, (run, args, _) in calls_of({**LAYERS, **MORE}[name], monkeypatch).items():
        for dtype in (np.int64,) if kernel in are_from_formulas() else (np.float16, np.int64):
            arguments = [x.astype(dtype) if is_float(x) else x for x in copy.deepcopy(args)]
            result = run(*arguments)
            # What only moves elements takes them of any dtype, and keeps it.
            assert result is None or (kernel in MOVES and result.dtype == dtype), kernel


@pytest.mark.parametrize(
    "layer_class", [nn.RNNCell, nn.LSTMCell, nn.GRUCell, nn.RNN, nn.LSTM, nn.GRU]
)
def test_a_gradient_whose_elements_lie_apart(layer_class, monkeypatch):
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    layer = layer_class(50, 50)
    shape = (600, 50) if "Cell" in layer_class.__name__ else (20, 30, 50)
    g = edutorch.randn(*shape[:-1], 100)[..., ::2]
    gradients = []
    for gradient in (g, g.clone(memory_format=edutorch.contiguous_format)):
        x = edutorch.linspace(-1, 1, 30_000).reshape(shape).requires_grad_()
        y = layer(x)
        (y[0] if isinstance(y, tuple) else y).backward(gradient)
        gradients.append(x.grad)
    assert edutorch.equal(*gradients)
