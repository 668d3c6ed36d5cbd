"""A step, and a whole sequence, by one kernel: what the definition computes, forward and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

import edutorch
from edutorch import nn
from edutorch.backends import reference_only
from edutorch.backends.blas import blas
from edutorch.backends.kernel_registry import slot_of
from edutorch.core.fast.lazy_gradients import as_array
from edutorch.kernels import make
from edutorch.kernels.cpu import lstm_cell, rnn_cell, rnn_sequence
from edutorch.kernels.cpu.gemm_microkernel import TILES_ARE_FASTER
from edutorch.nn.functional import rnn

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
TYPES = st.sampled_from([np.float32, np.float64])
SIZES = st.sampled_from([1, 2, 7, 31, 32, 33, 70])
STEPS = [f"{network}_gates{part}" for network in ("lstm", "gru") for part in ("", "_joint_vjp")]
CELLS = ["lstm_cell_forward", "lstm_cell_forward_joint_vjp"]
SEQUENCES = [f"{network}_sequence{part}" for network in GATES for part in ("", "_joint_vjp")]
needs_tiles = pytest.mark.skipif(not TILES_ARE_FASTER, reason="by BLAS, as its parts")
needs_blas = pytest.mark.skipif(blas() is None, reason="NumPy's BLAS cannot be called")


@pytest.fixture(scope="module")
def kernels():
    made = {name: getattr(rnn_cell, name)() for name in STEPS}
    made |= {name: getattr(lstm_cell, name)() for name in CELLS}
    return made | {name: getattr(rnn_sequence, name)() for name in SEQUENCES}


def random_arrays(seed, dtype, *shapes):
    generator = np.random.default_rng(seed)
    return [generator.normal(size=shape).astype(dtype) for shape in shapes]


def close(result, exact, dtype):
    """Compare results, one or several, with those of the definition in float64."""
    result, exact = (
        tensors if isinstance(tensors, tuple) else (tensors,) for tensors in (result, exact)
    )
    for one, other in zip(result, exact, strict=True):
        assert one.dtype == dtype and one.shape == other.shape
        tolerance = (2e-5 if dtype == np.float32 else 1e-13) * max(1, abs(other).max())
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


def double(arrays):
    return [
        np.asarray(array, float) if isinstance(array, np.ndarray) else array for array in arrays
    ]


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 5), k=SIZES, dtype=TYPES, seed=st.integers(0, 99))
def test_a_step(kernels, n, k, dtype, seed):
    x, c, g = random_arrays(seed, dtype, (n, 4 * k), (n, k), (2, n, k))
    close(kernels["lstm_gates"](x, c), defined("lstm_gates", x, c), dtype)
    back = rnn.lstm_gates_backward(*double((g, x, c)))
    close(kernels["lstm_gates_joint_vjp"](g, x, c), back, dtype)
    x, hidden, h, g = random_arrays(seed, dtype, (n, 3 * k), (n, 3 * k), (n, k), (n, k))
    close(kernels["gru_gates"](x, hidden, h), defined("gru_gates", x, hidden, h), dtype)
    back = rnn.gru_gates_backward(*double((g, x, hidden, h)))
    close(kernels["gru_gates_joint_vjp"](g, x, hidden, h), back, dtype)


@needs_tiles
@settings(max_examples=10, deadline=None)
@given(n=st.sampled_from([6, 13, 40, 530]), k=st.sampled_from([50, 128]), dtype=TYPES,
       gaps=st.booleans(), seed=st.integers(0, 99))  # fmt: skip
def test_a_cell(kernels, n, k, dtype, gaps, seed):
    """Its input is often a step of a longer sequence: rows with gaps."""
    x, h, c, w_ih, w_hh, b_ih, b_hh, g = random_arrays(
        seed, dtype, (n, 2, 80), (n, k), (n, k), (4 * k, 80), (4 * k, k), 4 * k, 4 * k, (2, n, k)
    )
    x = x[:, 1] if gaps else x[:, 0].copy()
    operands = x, h, c, w_ih / 9, w_hh / 9, b_ih, b_hh
    y, gates = kernels["lstm_cell_forward"](*operands)
    expected, expected_gates = defined("lstm_cell_forward", *operands)
    close(y, expected, dtype)
    close(gates, expected_gates, dtype)
    back = kernels["lstm_cell_forward_joint_vjp"](g, gates, *operands)
    with reference_only():
        exact = list(rnn.lstm_cell_backward(*double((g, gates, *operands))))
    exact[-2:] = [exact[-1].sum(0)] * 2
    close(tuple(as_array(gradient) for gradient in back), tuple(exact), dtype)


def defined(name, *arguments):
    with reference_only():
        return getattr(rnn, name).op.forward(np, *double(arguments))


@needs_blas
@settings(max_examples=20, deadline=None)
@given(
    network=st.sampled_from(list(GATES)), times=st.integers(1, 4), n=st.integers(1, 14), k=SIZES,
    dtype=TYPES, reverse=st.booleans(), other=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
def test_a_sequence(kernels, network, times, n, k, dtype, reverse, other, seed):
    rows = GATES[network] * k
    x, h, c, weight, bias = random_arrays(
        seed, dtype, (times, n, rows), (n, k), (n, k), (rows, k), rows
    )
    weight /= k**0.5
    weight = np.asfortranarray(weight) if other else weight
    setting = {"lstm": (), "gru": (), "rnn": ("relu" if other else "tanh",)}[network]
    arguments_by_network = {
        "lstm": (x, h, c, weight),
        "gru": (x, h, weight, None if other else bias),
    }
    arguments = (*arguments_by_network.get(network, (x, h, weight)), *setting, reverse)
    name = f"{network}_sequence"
    result, exact = kernels[name](*arguments), defined(name, *arguments)
    close(result, exact, dtype)
    y, *gates = result if network == "lstm" else (result,)
    (g,) = random_arrays(seed + 1, dtype, y.shape)
    arguments = arguments[1:] if network == "rnn" else arguments  # its rule does without x
    back = getattr(rnn, f"{name}_backward")
    with reference_only():
        exact = back(*double((g, y, *gates, *arguments)))
    close(kernels[f"{name}_joint_vjp"](g, y, *gates, *arguments), exact, dtype)


def test_what_a_kernel_leaves_to_the_definition(kernels):
    x, c = random_arrays(0, np.float32, (2, 12), (2, 3))
    assert kernels["lstm_gates"](x.astype(np.float16), c.astype(np.float16)) is None
    assert kernels["lstm_gates"](x, c.astype(float)) is None
    assert kernels["lstm_gates"](x[:, ::2], c) is None
    x, h, weight = random_arrays(0, np.float32, (2, 0, 3), (0, 3), (3, 3))
    assert kernels["rnn_sequence"](x, h, weight) is None


def test_what_is_not_a_number_stays_in_its_sample(kernels):
    x, h, weight = random_arrays(0, np.float64, (3, 4, 3), (4, 3), (3, 3))
    x[1, 2, 0] = np.nan
    if blas() is not None:
        y = kernels["rnn_sequence"](x, h, weight)
        assert np.isnan(y[1, 2, 0]) and np.isnan(y[2, 2]).all()
        assert np.isfinite(np.delete(y, 2, axis=1)).all()
    x, c = random_arrays(0, np.float32, (1, 16), (1, 4))
    x[0, :4] = np.nan, np.inf, -np.inf, 1000
    y = kernels["lstm_gates"](x, c)
    np.testing.assert_allclose(y, defined("lstm_gates", x, c), rtol=1e-5)


def trained(layer, x):
    """Return what a layer gives, and all gradients."""
    x = x.detach().requires_grad_()
    y, last = layer(x)
    last = last if isinstance(last, tuple) else (last,)
    gradients = edutorch.autograd.grad(
        sum((tensors * tensors.cos()).sum() for tensors in (y, *last)), [x, *layer.parameters()]
    )
    return [tensors.detach().numpy() for tensors in (y, *last, *gradients)]


@pytest.mark.parametrize("network", ["LSTM", "GRU", "RNN"])
def test_a_layer_with_and_without_kernels(network, monkeypatch):
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    edutorch.manual_seed(0)
    layer = getattr(nn, network)(5, 40, 2, bidirectional=True).double()
    x = edutorch.randn(7, 6, 5, dtype=edutorch.float64)
    fast = trained(layer, x)
    for part in ("", "/joint_vjp"):
        assert slot_of(f"{network.lower()}_sequence{part}").run is not None
    with reference_only():
        exact = trained(layer, x)
    for one, other in zip(fast, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_several_threads_give_the_same(kernels, monkeypatch):
    x, h, weight = random_arrays(0, np.float32, (3, 30, 210), (30, 70), (210, 70))
    monkeypatch.setattr(edutorch.settings.State, "threads", 1)
    one = kernels["gru_sequence"](x, h, weight / 8)
    monkeypatch.setattr(edutorch.settings.State, "threads", 3)
    monkeypatch.setattr("edutorch.kernels.cpu.parallel.MIN_WORK_PER_THREAD", 1)
    monkeypatch.setattr("edutorch.kernels.cpu.parallel.MIN_PARALLEL", 2)
    close(kernels["gru_sequence"](x, h, weight / 8), one, np.float32)


@pytest.mark.parametrize("name", [*STEPS, *CELLS, *SEQUENCES])
def test_the_table_knows_them(name):
    slot = slot_of(name.replace("_joint_vjp", "/joint_vjp"))
    make(slot)
    assert slot.run is not None
