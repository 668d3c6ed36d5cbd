"""Products by cuBLASLt: each call is checked by a stand-in, which computes by NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import edutorch as torch
from edutorch import backends, dtypes
from edutorch.backends.strict_array import StrictArray
from edutorch.kernels.gpu import matmul
from edutorch.kernels.gpu.matmul import (
    product,
    product_gradient,
    use_bindings,
    weight_gradient,
)
from tests.gpu.recording import recording
from tests.gpu.stand_ins import CublasLt, cublas_lt, gelu, gelu_slope

TYPES = {
    "float64": (np.float64, 1e-12), "float32": (np.float32, 1e-5), "float16": (np.float16, 4e-3),
    "bfloat16": (dtypes.bfloat16.numpy, 3e-2),
}  # fmt: skip


@pytest.fixture
def library() -> Iterator[CublasLt]:
    bindings, library = cublas_lt()
    with recording(), use_bindings(bindings):
        yield library


def array(random: np.random.Generator, shape: tuple[int, ...], dtype: object) -> StrictArray:
    return StrictArray(np.asarray(random.standard_normal(shape)).astype(dtype))


def check(y: StrictArray, expected: np.ndarray, tolerance: float) -> None:
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(
        y._values.astype(np.float64), expected, atol=tolerance * scale, rtol=0
    )


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("layout", ["rows", "left.T", "right.T", "parts", "steps"])
def test_layouts(library: CublasLt, name: str, layout: str) -> None:
    dtype, tolerance = TYPES[name]
    random = np.random.default_rng(0)
    left, right = array(random, (5, 7), dtype), array(random, (7, 3), dtype)
    if layout == "left.T":
        left = array(random, (7, 5), dtype).T
    elif layout == "right.T":
        right = array(random, (3, 7), dtype).T
    elif layout == "parts":  # rows with gaps between them
        left = array(random, (5, 24), dtype)[:, 8:15]
    elif layout == "steps":  # no product reads every second element
        right = array(random, (7, 6), dtype)[:, ::2]
    wide = [factor._values.astype(np.float64) for factor in (left, right)]
    check(product(left, right), wide[0] @ wide[1], tolerance)
    assert library.products == ["DEFAULT"]


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 3), (4, 1, 3), (4, 5, 1), (64, 33, 17)])
def test_sizes(library: CublasLt, shape: tuple[int, int, int]) -> None:
    n, k, m = shape
    random = np.random.default_rng(1)
    left, right = array(random, (n, k), np.float32), array(random, (k, m), np.float32)
    check(product(left, right), left._values @ right._values, 1e-5)


def test_plans_are_cached_by_shape(library: CublasLt) -> None:
    random = np.random.default_rng(2)
    for size in (3, 4, 3, 4, 3):
        left = array(random, (size, 5), np.float32)
        product(left, array(random, (5, 2), np.float32))
    made = [thing for thing in library.made.values() if thing["role"] == "desc"]
    assert len(made) == 2


@pytest.mark.parametrize("shared", [False, True])
def test_batches(library: CublasLt, shared: bool) -> None:
    random = np.random.default_rng(3)
    left, right = array(random, (2, 3, 4, 5), np.float32), array(random, (2, 3, 5, 6), np.float32)
    if shared:  # one matrix for the whole batch, without a copy
        right = backends.get("strict").broadcast_to(right[:1, :1], (2, 3, 5, 6))
    check(product(left, right), left._values @ right._values, 1e-5)
    # Axes in front that have no common stride.
    moved = array(random, (3, 2, 4, 5), np.float32).transpose(1, 0, 2, 3)
    check(product(moved, right), moved._values @ right._values, 1e-5)


def test_bfloat16_batches_as_torch_code_calls_them(library: CublasLt) -> None:
    from edutorch.kernels.gpu.module import use_launcher

    left, right = (torch.randn(3, *shape).bfloat16() for shape in ((4, 5), (5, 6)))
    with use_launcher(lambda *arguments: None):
        y = torch.bmm(left.to("strict"), right.to("strict"))
    assert library.products == ["DEFAULT"]
    assert y.dtype is torch.bfloat16
    expected = torch.bmm(left.float(), right.float())
    assert torch.allclose(y.cpu().float(), expected, atol=0.05)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_bias_and_activation(library: CublasLt, activation: str, name: str) -> None:
    dtype, tolerance = TYPES[name]
    random = np.random.default_rng(4)
    x, w, b = (array(random, shape, dtype) for shape in ((6, 5), (5, 9), (9,)))
    before = x._values.astype(np.float64) @ w._values.astype(np.float64) + b._values.astype(float)
    expected = np.maximum(before, 0) if activation == "relu" else gelu(before)
    check(product(x, w, b, activation), expected, tolerance)
    y, aux = product(x, w, b, activation, aux=True)
    check(y, expected, tolerance)
    g, after = array(random, (6, 4), dtype), array(random, (4, 9), dtype)
    slope = (before > 0) if activation == "relu" else gelu_slope(before)
    wanted = (g._values.astype(float) @ after._values.astype(float)) * slope
    gradient, total = product_gradient(g, after, aux, activation, bias=True)
    check(gradient, wanted, 2 * tolerance)
    check(total, wanted.sum(0), 4 * tolerance)
    upper = activation.upper()
    assert library.products == [f"{upper}_BIAS", f"{upper}_AUX_BIAS", f"D{upper}_BGRAD"]


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_gradients_of_weight_and_bias(library: CublasLt, name: str) -> None:
    dtype, tolerance = TYPES[name]
    random = np.random.default_rng(7)
    g, x = array(random, (6, 4), dtype), array(random, (6, 9), dtype)
    weight, bias = weight_gradient(g, x)
    wide = [factor._values.astype(np.float64) for factor in (g, x)]
    check(weight, wide[0].T @ wide[1], 2 * tolerance)
    check(bias, wide[0].sum(0), 2 * tolerance)
    assert library.products == ["BGRADB"]


def test_epilogues_that_the_library_does_not_have(library: CublasLt) -> None:
    random = np.random.default_rng(8)
    library.refused = {"RELU_BIAS"}
    x, w, b = (array(random, shape, np.float32) for shape in ((6, 5), (5, 9), (9,)))
    assert product(x, w, b, "relu") is None
    assert product(x, w, b) is not None
    wide = [array(random, shape, np.float64) for shape in ((6, 5), (5, 9), (9,))]
    assert product(*wide, "relu") is None  # of float64: products alone
    one = array(random, (6, 1), np.float32)
    assert weight_gradient(array(random, (1, 4), np.float32), one[:1]) is None
    assert product_gradient(one, array(random, (1, 4), np.float32), one, "relu") is None


def test_a_bias_that_is_not_aligned(library: CublasLt) -> None:
    random = np.random.default_rng(9)
    x, w = array(random, (6, 5), np.float32), array(random, (5, 9), np.float32)
    bias = array(random, (10,), np.float32)[1:]
    check(product(x, w, bias), x._values @ w._values + bias._values, 1e-5)


def test_tf32_is_asked_for_only_if_it_is_allowed(library: CublasLt) -> None:
    random = np.random.default_rng(5)
    left, right = array(random, (3, 4), np.float32), array(random, (4, 2), np.float32)
    switches = torch.backends.cuda.matmul
    product(left, right)
    switches.allow_tf32 = True
    try:
        product(left, right)
    finally:
        switches.allow_tf32 = False
    types_ = [thing["compute"].name for thing in library.made.values() if thing["role"] == "desc"]
    assert types_ == ["COMPUTE_32F", "COMPUTE_32F_FAST_TF32"]


def test_what_is_left_to_the_definition(library: CublasLt) -> None:
    random = np.random.default_rng(6)
    integers = StrictArray(np.ones((2, 2), np.int64))
    assert product(integers, integers) is None
    left = array(random, (0, 3), np.float32)
    assert product(left, array(random, (3, 2), np.float32)) is None
    mixed = array(random, (3, 2), np.float64)
    assert product(array(random, (2, 3), np.float32), mixed) is None
    assert library.products == []
    assert matmul.bindings_for(backends.CPU) is not None  # inside of `use_bindings` any device


def test_stand_in_refuses_what_the_package_does_not_have() -> None:
    bindings, _ = cublas_lt()
    with pytest.raises(AttributeError):
        bindings.lt.matmul_create_desc  # noqa: B018
    with pytest.raises(TypeError):
        bindings.lt.matmul_desc_create(68)
    with pytest.raises(ValueError, match="12345 is not a valid"):
        bindings.lt.matmul_desc_create(12345, 0)
    with pytest.raises(AssertionError, match="does not fit"):
        bindings.lt.matrix_layout_create(0, 5, 4, 3)
    desc = bindings.lt.matmul_desc_create(68, 0)
    value, attribute = np.zeros(1, np.int64), bindings.lt.MatmulDescAttribute.TRANSA
    with pytest.raises(AssertionError, match="bytes"):
        bindings.lt.matmul_desc_set_attribute(desc, attribute, value.ctypes.data, 8)
