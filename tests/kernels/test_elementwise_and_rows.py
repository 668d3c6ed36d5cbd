"""Kernels of activations, softmax, norms and reductions equal their definitions, on any shape."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

pytest.importorskip("numba", reason="needs numba: the extra `fast`")

import edutorch as torch
from edutorch.backends import reference_only
from edutorch.backends.kernel_registry import declarations, slot_of
from edutorch.core.registry import REGISTRY
from edutorch.kernels import make
from edutorch.kernels.cpu import (
    batch_norm,
    elementwise,
    nll,
    norms,
    reductions,
    scalar_functions,
    softmax,
)
from edutorch.nn import functional as F

SETTINGS = {
    "softplus": (1.0, 20.0), "gelu": ("none",), "softmax": (-1, None), "log_softmax": (-1, None),
    "leaky_relu_forward": (0.2,), "elu_forward": (1.5,), "hardtanh_forward": (-1, 0.5),
}  # fmt: skip
CURVES = [
    "exp", "log", "erf", "tanh", "sigmoid", "relu", "silu_forward", "softplus", "gelu",
    "leaky_relu_forward", "elu_forward", "hardtanh_forward",
]  # fmt: skip
BY_RESULT = {"exp", "tanh", "sigmoid", "relu"}
FORMATS = some.sampled_from([np.float32, np.float64])
_made = {}


def kernel(module, name):
    """Make a kernel."""
    module = batch_norm if "batch_norm" in name else module
    if name not in _made:
        if module is elementwise:
            _made[name] = elementwise.formula_kernel(name)
        else:  # one maker may make several kernels
            _made[name] = (getattr(module, name, None) or slot_of(name).maker)()
    return _made[name]


def array(shape, dtype, seed=0, scale=2.0):
    return np.asarray(np.random.default_rng(seed).normal(size=shape) * scale, dtype)


def close(result, expected, dtype, digits=16):
    """Compare with what the definition finds for the same numbers in float64."""
    assert result.dtype == dtype
    assert result.shape == expected.shape
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    tolerance = digits * np.finfo(dtype).eps
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance * scale)


# Functions of one number -------------------------------------------------------------------


def curve(name, x, *others):
    dtype = x.dtype
    y = kernel(elementwise, name)(x, *others)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        close(y, np.asarray(REGISTRY[name].forward(np, wide, *others)), dtype)
    g = array(x.shape, dtype, 1)
    saved = y if name in BY_RESULT else x
    slope = kernel(elementwise, f"{name}/input")(g, saved, *others)
    rule = REGISTRY[name].rules["input"].function
    close(slope, np.asarray(rule(g.astype(float), saved.astype(float), *others)), dtype)


@pytest.mark.parametrize("name", CURVES)
@settings(max_examples=6, deadline=None)
@given(dtype=FORMATS, shape=some.lists(some.integers(0, 40), min_size=0, max_size=3))
def test_curves(name, dtype, shape):
    x = array(shape, dtype)
    curve(name, np.asarray(abs(x) + dtype(0.1) if name == "log" else x), *SETTINGS.get(name, ()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_other_form_of_gelu(dtype):
    curve("gelu", array((7, 33), dtype), "tanh")


@pytest.mark.parametrize("name", CURVES)
def test_what_is_not_finite_is_as_in_the_definition(name):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -3e38, 90.0, -90.0], np.float32)
    others = SETTINGS.get(name, ())
    with np.errstate(all="ignore"):
        expected = REGISTRY[name].forward(np, x, *others)
        np.testing.assert_allclose(
            kernel(elementwise, name)(x, *others), expected, rtol=1e-5, atol=1e-37
        )


def test_limits_that_are_infinite():
    x, g = np.array([-3, 0, 3], np.float32), np.array([1, np.inf, 2], np.float32)
    limits = -np.inf, 1.0
    np.testing.assert_array_equal(kernel(elementwise, "hardtanh_forward")(x, *limits), [-3, 0, 1])
    np.testing.assert_array_equal(
        kernel(elementwise, "hardtanh_forward/input")(g, x, *limits), [1, g[1], 0]
    )


def test_a_case_that_is_not_its_own_is_left_to_the_definition():
    run, slope = kernel(elementwise, "gelu"), kernel(elementwise, "gelu/input")
    x = array((6, 8), np.float32)
    assert run(x.astype(np.float16), "none") is None
    assert run(x, "sigmoid") is None
    assert slope(x.astype(np.float64), x, "none") is None
    assert slope(x[:2], x, "none") is None
    assert kernel(softmax, "softmax")(x, 2, None) is None
    assert kernel(norms, "native_layer_norm")(x, x[0, :7], None, 1, 1e-5) is None


def test_a_gradient_that_is_one_number_for_all():
    x = array((6, 8), np.float32)
    g = np.broadcast_to(np.float32(0.5), x.shape)
    slope = kernel(elementwise, "gelu/input")
    np.testing.assert_array_equal(slope(g, x, "none"), slope(g.copy(), x, "none"))


# Softmax -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@settings(max_examples=12, deadline=None)
@given(
    dtype=FORMATS,
    shape=some.lists(some.integers(1, 70), min_size=1, max_size=3),
    axis=some.integers(0, 2),
)
def test_softmax(name, dtype, shape, axis):
    dim = axis % len(shape) - len(shape)
    x, g = array(shape, dtype, scale=9.0), array(shape, dtype, 1)
    y = kernel(softmax, name)(x, dim, None)
    close(y, REGISTRY[name].forward(np, x.astype(float), dim), dtype)
    back = kernel(softmax, f"{name}_input")(g, y, dim)
    rule = REGISTRY[name].rules["input"].function
    close(back, rule(g.astype(float), y.astype(float), dim), dtype, digits=64)


@settings(max_examples=12, deadline=None)
@given(
    FORMATS, some.integers(1, 3), some.integers(1, 1100), some.integers(1, 40), some.booleans(),
    some.sampled_from([1, (1, 2), (0, 1), None]),
)  # fmt: skip
def test_logsumexp(dtype, outer, n, inner, has_infinite, dim):
    x, op = array((outer, n, inner), dtype, scale=9.0), REGISTRY["logsumexp"]
    if has_infinite:
        x[0, 0, 0], x[-1, :, -1], x[0, -1, 0] = np.inf, -np.inf, np.nan
    y = kernel(softmax, "logsumexp")(x, dim, True)
    with np.errstate(all="ignore"):
        dims = dim if dim is not None else (0, 1, 2)
        exact = op.forward(np, x.astype(float), dims, True)
        close(y, exact, dtype, digits=8)
        g = array(y.shape, dtype, 1)
        slope = op.rules["input"].function(g.astype(float), y.astype(float), x.astype(float))
    result = kernel(softmax, "logsumexp_input")(g, y, x)
    assert (result is None) == (x.size < 512)
    if result is not None:
        close(result, np.asarray(slope), dtype, digits=64)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nll_loss(dtype, reduction):
    run, op = kernel(nll, "nll_loss"), REGISTRY["nll_loss"]
    x, target = array((40, 7), dtype), np.arange(40) % 7
    x[3, 3], target[5] = -np.inf, -100
    named = {"ignore_index": -100, "reduction": reduction}
    for first in (4, 0):  # without the infinite one, and with it
        values, classes = x[first:], target[first:]
        exact = op.forward(np, values.astype(float), classes, **named)
        close(np.asarray(run(values, classes, None, -100, reduction)), exact, dtype, digits=4)
    assert run(x, target + 1, None, -100, reduction) is None  # a class that does not exist
    assert run(x, np.full(40, -100), None, -100, reduction) is None
    assert run(x, target, x[0], -100, reduction) is None
    assert run(x, target, None, -100, "none") is None


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_with_what_is_not_finite(name, dim):
    x = array((12, 12), np.float32)
    x[0, 3], x[5, 5], x[8, 8], x[10, 2] = -np.inf, np.nan, np.inf, -np.nan
    x[6, :] = x[:, 6] = -np.inf
    with np.errstate(all="ignore"):
        expected = REGISTRY[name].forward(np, x, dim)
    np.testing.assert_allclose(kernel(softmax, name)(x, dim, None), expected, rtol=1e-5)


def test_a_long_row_loses_no_digits():
    x = array((2, 300_000), np.float32)
    exact = REGISTRY["softmax"].forward(np, x.astype(float), 1)
    by_definition = np.abs(REGISTRY["softmax"].forward(np, x, 1) / exact - 1).max()
    by_kernel = np.abs(kernel(softmax, "softmax")(x, 1, None) / exact - 1).max()
    assert by_kernel <= max(by_definition, 4e-7)


# Norms -------------------------------------------------------------------------------------


def norm(name, x, weight, bias, *settings, digits=64):
    dtype, op = x.dtype, REGISTRY[name]
    g = array(x.shape, dtype, 1)
    wide = [operand if operand is None else operand.astype(float) for operand in (x, weight, bias)]
    result = kernel(norms, name)(x, weight, bias, *settings)
    expected = op.forward(np, *wide, *settings)
    result += tuple(kernel(norms, f"{name}_joint_vjp")(g, x, weight, bias, *settings))
    expected += tuple(op.joint_vjp(g.astype(float), *wide, *settings))
    for one, other in zip(result, expected, strict=True):
        if other is None:
            assert one is None
        else:
            close(one, np.asarray(other), dtype, digits)


PRESENT = some.booleans()


@settings(max_examples=15, deadline=None)
@given(FORMATS, some.integers(1, 90), some.integers(2, 60), some.integers(1, 3), PRESENT, PRESENT)
def test_layer_norm(dtype, rows, n, m, scaled, shifted):
    weight = array((n, m), dtype, 2) if scaled else None
    bias = array((n, m), dtype, 3) if shifted else None
    with_tuple("native_layer_norm", array((rows, n, m), dtype), weight, bias, 2, 1e-3)


@pytest.mark.parametrize("centred", [True, False])
def test_a_long_row_without_weights_next_to_what_is_not_finite(centred):
    x, g = array((5, 2500), np.float32) + np.float32(30), array((5, 2500), np.float32, 1)
    x[1, 7], x[2, 2400], g[3, 9] = np.nan, np.inf, np.nan
    name = "native_layer_norm_joint_vjp" if centred else "fused_rms_norm_joint_vjp"
    arguments = (x, None, None, 1, 1e-5) if centred else (x, None, 1, 1e-5)
    back, *others = kernel(norms, name)(g, *arguments)
    assert all(other is None for other in others)
    with np.errstate(all="ignore"):
        wide = (g.astype(float), x.astype(float), *arguments[1:])
        expected = REGISTRY[name.removesuffix("_joint_vjp")].joint_vjp(*wide)[0]
    assert np.isfinite(expected[[0, 4]]).all()
    close(back, expected, np.float32, digits=64)


@settings(max_examples=8, deadline=None)
@given(FORMATS, some.integers(1, 40), some.integers(2, 60), PRESENT)
def test_rms_norm(dtype, rows, n, scaled):
    x, g = array((rows, n), dtype), array((rows, n), dtype, 1)
    weight = array(n, dtype, 2) if scaled else None
    wide = [operand if operand is None else operand.astype(float) for operand in (x, weight)]
    op = REGISTRY["fused_rms_norm"]
    close(
        kernel(norms, "fused_rms_norm")(x, weight, 1, 1e-3), op.forward(np, *wide, 1, 1e-3), dtype
    )
    result = kernel(norms, "fused_rms_norm_joint_vjp")(g, x, weight, 1, 1e-3)
    expected = op.joint_vjp(g.astype(float), *wide, 1, 1e-3)
    assert (result[1] is None) == (weight is None)
    for one, other in zip(result, expected, strict=True):
        if other is not None:
            close(one, other, dtype, digits=64)


@settings(max_examples=10, deadline=None)
@given(FORMATS, some.integers(1, 5), some.integers(1, 9), some.integers(8, 40), PRESENT, PRESENT)
def test_batch_norm(dtype, n, c, size, scaled, shifted):
    weight = array(c, dtype, 2) if scaled else None
    bias = array(c, dtype, 3) if shifted else None
    norm("native_batch_norm", array((n, c, size), dtype), weight, bias, 1e-3)


@settings(max_examples=10, deadline=None)
@given(FORMATS, some.integers(2, 40), some.integers(1, 300), PRESENT)
def test_batch_norm_of_columns(dtype, n, c, scaled):
    weight = array(c, dtype, 2) if scaled else None
    norm("native_batch_norm", array((n, c), dtype), weight, array(c, dtype, 3), 1e-3)


@settings(max_examples=10, deadline=None)
@given(FORMATS, some.integers(1, 5), some.integers(1, 4), some.integers(1, 3), PRESENT, PRESENT)
def test_group_norm(dtype, n, groups, channels_per_group, scaled, shifted):
    c = groups * channels_per_group
    weight = array(c, dtype, 2) if scaled else None
    bias = array(c, dtype, 3) if shifted else None
    with_tuple("native_group_norm", array((n, c, 3, 4), dtype), weight, bias, groups, 1e-3)


def with_tuple(name, x, *settings):
    """The same for a forward with one result."""
    forward, run = REGISTRY[name].forward, kernel(norms, name)
    _made[name] = lambda *arguments: (run(*arguments),)
    REGISTRY[name].forward = lambda *arguments: (forward(*arguments),)
    try:
        norm(name, x, *settings)
    finally:
        _made[name], REGISTRY[name].forward = run, forward


@pytest.mark.parametrize(("name", "exact"), [("largest", np.max), ("smallest", np.min)])
def test_extremes_of_a_row_read_it_only(name, exact, monkeypatch):
    """In Python: what `compile` puts into its kernels are the same lines."""
    for choice in ("maximum", "minimum"):
        monkeypatch.setattr(scalar_functions, choice, getattr(scalar_functions, choice).py_func)
    for size in (1, 2, 63, 64, 127, 128, 129, 200, 256):
        row = array((size,), np.float32)
        for at in {0, size // 2, size - 1}:
            marked = row.copy()
            marked[at] = np.nan
            for values in (row, marked, -abs(row), abs(row)):
                before = values.copy()
                np.testing.assert_equal(
                    getattr(scalar_functions, name).py_func(values), exact(values)
                )
                np.testing.assert_array_equal(values, before)


def test_the_threads_do_not_change_the_sums():
    x, g = array((3000, 64), np.float32), array((3000, 64), np.float32, 1)
    back = kernel(norms, "native_layer_norm_joint_vjp")
    threads = torch.get_num_threads()
    results = []
    try:
        for thread_count in (1, 2, 3):
            torch.set_num_threads(thread_count)
            results.append(back(g, x, x[0], x[1], 1, 1e-5))
    finally:
        torch.set_num_threads(threads)
    for one, *others in zip(*results, strict=True):
        assert all((one == other).all() for other in others)


# Reductions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean", "var", "amax", "amin", "vector_norm"])
@settings(max_examples=12, deadline=None)
@given(
    dtype=FORMATS,
    shape=some.lists(some.integers(1, 40), min_size=1, max_size=3),
    last=some.integers(0, 3),
    keepdim=some.booleans(),
)
def test_reductions(name, dtype, shape, last, keepdim):
    x = array(shape, dtype) + dtype(5)
    kept = max(len(shape) - last, 0)
    dim = tuple(range(kept, len(shape))) or None
    dim = dim[0] if dim is not None and len(dim) == 1 else dim
    if name == "vector_norm":
        result = kernel(reductions, name)(x, 2, dim, keepdim)
        if result is not None:
            exact = REGISTRY[name].forward(np, x.astype(float), 2, dim, keepdim)
            close(result, np.asarray(exact), dtype, digits=8)
        return
    others = {"sum": (None,), "mean": (None,), "var": (0,)}.get(name, ())
    named = {"correction": 0} if name == "var" else {}
    result = kernel(reductions, name)(x, dim, keepdim, *others)
    if result is None:
        assert name in ("sum", "mean") and x.size < reductions.MIN_REORDERED  # added in groups
        return
    expected = REGISTRY[name].forward(np, x.astype(float), dim, keepdim, **named)
    close(result, np.asarray(expected), dtype, digits=8)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin"])
@settings(max_examples=6, deadline=None)
@given(FORMATS, some.integers(1, 3), some.integers(1, 9), some.integers(32, 300), some.booleans())
def test_reductions_of_columns(name, dtype, outer, n, inner, keepdim):
    x = array((outer, n, inner), dtype)
    others = (None,) if name in ("sum", "mean") else ()
    for values, dim in ((x, 1), (x.reshape(-1, inner), 0), (x, (0, 1))):
        result = kernel(reductions, name)(values, dim, keepdim, *others)
        expected = REGISTRY[name].forward(np, values.astype(float), dim, keepdim)
        close(result, np.asarray(expected), dtype, digits=8)


@settings(max_examples=30, deadline=None)
@given(
    shape=some.lists(some.integers(1, 24), min_size=1, max_size=3), dtype=FORMATS,
    keepdim=some.booleans(), special=some.sampled_from([0.0, -0.0, np.inf, np.nan]),
    data=some.data(),
)  # fmt: skip
def test_small_sums_are_those_of_numpy_to_the_last_bit(shape, dtype, keepdim, special, data):
    x = array(shape, dtype)
    x[x > 1] = special
    dim = data.draw(some.sampled_from([None, *range(x.ndim)]))
    for name in ("sum", "mean"):
        result = kernel(reductions, name)(x, dim, keepdim, None)
        expected = np.asarray(REGISTRY[name].forward(np, x, dim, keepdim))
        np.testing.assert_array_equal(result, expected, strict=True)
        assert (np.signbit(result) == np.signbit(expected))[~np.isnan(expected)].all()


def test_reductions_with_what_is_not_finite():
    x = array((40, 40), np.float32)
    x[0, 1], x[1, 1], x[2, 1], x[2, 5], x[3, 0] = np.inf, np.nan, np.inf, -np.inf, -np.nan
    for name, dim in product(("sum", "amax", "amin"), (0, 1)):
        others = (None,) if name == "sum" else ()
        result = kernel(reductions, name)(x, dim, False, *others)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(
                result, REGISTRY[name].forward(np, x, dim), rtol=1e-5, atol=1e-6
            )


def test_an_extreme_of_many_chunks_is_that_of_all():
    x = array(5 * reductions.CHUNK + 7, np.float32)
    assert kernel(reductions, "amax")(x, None, False) == x.max()
    x[-1] = np.nan
    assert np.isnan(kernel(reductions, "amin")(x, None, False))


def test_few_columns_and_axes_with_others_between_are_left_to_the_definition():
    x = array((40, 50, 10), np.float32)
    assert kernel(reductions, "sum")(x, (0, 2), False, None) is None
    assert kernel(reductions, "sum")(x, 1, False, None) is None
    assert kernel(reductions, "var")(x, 2, False, 10) is None
    assert kernel(reductions, "sum")(x[:, :, :0], 2, False, None) is None


def test_a_long_sum_by_pieces_is_nearly_exact():
    x = np.abs(array(1_000_003, np.float32))
    exact = x.astype(float)
    assert kernel(reductions, "sum")(x, None, False, None) == np.float32(exact.sum())
    assert kernel(reductions, "var")(x, None, False, 1) == pytest.approx(
        exact.var(ddof=1), rel=2e-7
    )


# In use --------------------------------------------------------------------------------------


def learned():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(32, 8, 8, 8, generator=generator, requires_grad=True)
    weight = torch.randn(8, generator=generator, requires_grad=True)
    y = F.batch_norm(x, None, None, weight, weight, training=True)
    y = F.gelu(F.group_norm(F.silu(y), 4, weight, weight))
    y = F.layer_norm(y * x, (8, 8)).reshape(32, -1) + F.softplus(x).reshape(32, -1)
    loss = F.cross_entropy(y, torch.arange(32)) + (F.softmax(y, 0) ** 2).sum()
    loss.backward()
    return loss.item(), x.grad.numpy(), weight.grad.numpy()


def test_in_use_forward_and_backward_are_those_of_the_definitions():
    for key, row in declarations().items():
        if row.file in ("elementwise", "softmax", "norms", "batch_norm", "reductions"):
            place = slot_of(key)
            if place.run is None:
                make(place)
    fast = learned()
    with reference_only():
        slow = learned()
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5 * np.abs(other).max())


def test_names_in_the_graph_are_those_of_pytorch():
    x = torch.randn(4, 6, requires_grad=True)
    assert F.layer_norm(x, (6,)).grad_fn.name() == "NativeLayerNormBackward0"
    assert F.batch_norm(x, None, None, training=True).grad_fn.name() == "NativeBatchNormBackward0"
    assert F.rms_norm(x, (6,)).grad_fn.name() == "FusedRmsNormBackward0"
    assert F.group_norm(x, 2).grad_fn.name() == "NativeGroupNormBackward0"
