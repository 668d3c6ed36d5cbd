"""Products of matrices, cut into parts by the pool of the kernels."""

from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edutorch
from edutorch.backends import reference_only
from edutorch.backends.blas import blas
from edutorch.backends.kernel_registry import slot_of
from edutorch.kernels import kernel_maker
from edutorch.nn.functional import linear

pytest.importorskip("numba", reason="needs numba: the extra `fast`")
products = pytest.importorskip("edutorch.kernels.cpu.matmul")
parts = pytest.importorskip("edutorch.kernels.cpu.parallel")

pytestmark = pytest.mark.skipif(blas() is None, reason="NumPy's BLAS is one that cannot be called")

SHAPES = [(220, 200, 210), (40, 800, 300), (600, 129, 131), (8, 600, 2100)]
NAMES = ["mm", "mm/input", "mm/mat2", "matmul", "matmul/input", "matmul/other",
         "linear", "linear/input", "linear/weight"]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _threads():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edutorch.settings.State, "threads", 3)
        yield


def close(y, exact):
    assert y.dtype in (np.float32, np.float64)
    tolerance = 3e-6 if y.dtype == np.float32 else 1e-13
    assert abs(y - exact).max() <= tolerance * abs(exact).max()


def random_array(*shape, dtype="float64"):
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "k", "columns"), SHAPES)
def test_each_layout(rows, k, columns, dtype):
    lefts = [random_array(rows, k, dtype=dtype), random_array(k, rows, dtype=dtype).T,
             random_array(rows, k + 5, dtype=dtype)[:, 2:-3]]  # fmt: skip
    rights = [random_array(k, columns, dtype=dtype), random_array(columns, k, dtype=dtype).T,
              random_array(columns, 2 * k, dtype=dtype).T[k:]]  # fmt: skip
    for a, b in zip(lefts, rights, strict=True):
        y = products.product()(a, b)
        close(y, a.astype(float) @ b)
        assert y.flags.c_contiguous


@st.composite
def matrices(draw, rows, columns, dtype):
    """A matrix of this shape that lies in memory in one of many ways."""
    step, turned = draw(st.sampled_from([1, 1, 2])), draw(st.booleans())
    before, behind = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    height, width = (columns, rows) if turned else (rows, columns)
    whole = random_array(height, before + width * step + behind, dtype=dtype)
    part = whole[:, before : before + width * step : step]
    return part.T if turned else part


@contextmanager
def by(way):
    """However small a product is, let it be computed by one way of two."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MIN_PRODUCTS_BLAS", "MIN_PRODUCTS_TILED", "MIN_PRODUCTS_TRANSPOSED"):
            patch.setattr(products, name, 0)
        patch.setattr(parts, "MIN_WORK_PER_THREAD", 1)
        patch.setattr(parts, "MIN_PARALLEL", 2)
        patch.setattr(products, "prefers_tiles", lambda *sizes: way == "tiles")
        yield


@pytest.mark.parametrize("way", ["tiles", "BLAS"])
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_shape_and_any_layout(way, data):
    rows, k, columns = (data.draw(st.integers(8, 70)) for _ in "ikj")
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    a, b = data.draw(matrices(rows, k, dtype)), data.draw(matrices(k, columns, dtype))
    bias = random_array(columns, dtype=dtype) if data.draw(st.booleans()) else None
    by_blas = way == "BLAS" or not products.TILES_ARE_FASTER
    with by(way):
        y = products.product()(a, b, bias)
    if y is None:
        assert (
            products.blas_layout(a) is None
            or products.blas_layout(b) is None
            or (by_blas and max(rows, columns) <= products.BLAS_BLOCK)
        )
    else:
        close(y, a.astype(float) @ b + (0 if bias is None else bias))


@pytest.mark.skipif(not products.TILES_ARE_FASTER, reason="tiles are not faster on this processor")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "k", "columns"), [(32, 128, 512), (9, 784, 210), (2, 1300, 700)])
def test_a_few_rows_and_the_weights_of_a_layer(rows, k, columns, dtype):
    x, weight = random_array(rows, k, dtype=dtype), random_array(columns, k, dtype=dtype)
    bias, g = random_array(columns, dtype=dtype), random_array(rows, columns, dtype=dtype)
    close(products.product()(x, weight.T, bias), x.astype(float) @ weight.T + bias)
    with by("tiles"):
        close(products.product()(g, weight), g.astype(float) @ weight)
        close(products.product()(g.T, x), g.T.astype(float) @ x)


def test_numbers_that_lie_askew_are_left_to_numpy():
    a, b = random_array(300, 300), random_array(300, 300)
    askew = np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:].view(float).reshape(300, 300)
    assert products.product()(askew, b) is None and products.product()(b, askew) is None
    assert products.product()(a, b, askew[0]) is None
    a.flags.writeable = b.flags.writeable = False
    close(products.product()(a, b), a @ b)


def test_how_a_product_is_cut():
    assert products.choose_cut(768, 384, 64, 2) == (True, 128)
    assert products.choose_cut(256, 1024, 64, 2) == (False, 16)
    assert products.choose_cut(768, 65, 64, 2) == (True, 128)
    assert products.choose_cut(32, 512, 64, 3) == (False, 8)
    assert products.choose_cut(600, 10, 64, 4) == (True, 100)


def test_a_bias_is_added():
    a, b, bias = random_array(300, 260), random_array(260, 280), random_array(280)
    close(products.product()(a, b, bias), a @ b + bias)


OTHER_CASES = {
    "tiny": lambda: (random_array(20, 30), random_array(30, 40)),
    "small": lambda: (random_array(20, 300), random_array(300, 100)),
    "few rows": lambda: (random_array(3, 3000), random_array(3000, 3000)),
    "one column": lambda: (random_array(4000, 784), random_array(784, 1)),
    "one column, transposed": lambda: (random_array(4000, 784), random_array(1, 784).T),
    "a small result": lambda: (random_array(8, 784), random_array(100, 784).T),
    "gaps": lambda: (random_array(600, 300)[:, ::2], random_array(150, 600)),
    "two types": lambda: (random_array(300, 300, dtype="float32"), random_array(300, 300)),
    "whole numbers": lambda: (
        random_array(300, 300).astype(int),
        random_array(300, 300).astype(int),
    ),
    "no product": lambda: (random_array(300, 300), random_array(200, 300)),
    "repeated": lambda: (np.broadcast_to(random_array(300), (300, 300)), random_array(300, 300)),
}


@pytest.mark.parametrize("name", OTHER_CASES)
def test_other_cases_are_left_to_numpy(name):
    assert products.product()(*OTHER_CASES[name]()) is None


def test_what_is_not_a_number_comes_through():
    a, b = random_array(300, 300), random_array(300, 300)
    a[7, 8], b[8, 9] = np.nan, np.inf
    y = products.product()(a, b)
    assert np.isnan(y[7]).all() and y[6, 9] in (np.inf, -np.inf)
    assert np.isnan(y).sum() == 300


def gradients(function, *shapes, dtype=edutorch.float64):
    inputs = [
        edutorch.tensor(random_array(*shape), dtype=dtype, requires_grad=True) for shape in shapes
    ]
    y = function(*inputs)
    y.backward(edutorch.tensor(random_array(*y.shape), dtype=dtype))
    return [y.detach().numpy(), *(input_.grad.numpy() for input_ in inputs)]


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (edutorch.mm, [(300, 260), (260, 280)]),
        (edutorch.matmul, [(300, 260), (260, 280)]),
        (linear, [(300, 260), (280, 260), (280,)]),
        (linear, [(300, 260), (280, 260)]),
        (linear, [(3, 100, 260), (280, 260), (280,)]),
    ],
    ids=["mm", "matmul", "linear", "without bias", "three axes"],
)
@pytest.mark.parametrize("dtype", [edutorch.float32, edutorch.float64])
def test_ops_and_their_gradients(function, shapes, dtype, monkeypatch):  # fmt: skip
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    fast = gradients(function, *shapes, dtype=dtype)
    with reference_only():
        exact = gradients(function, *shapes)
    for one, other in zip(fast, exact, strict=True):
        close(one, other)


@pytest.mark.parametrize("name", NAMES)
def test_the_table_has_a_kernel_for_it(name):
    slot = slot_of(name)
    assert slot is not None
    assert callable(kernel_maker(slot)())


def test_the_same_numbers_each_time():
    a, b = random_array(700, 500, dtype="float32"), random_array(500, 600, dtype="float32")
    first = products.product()(a, b).tobytes()
    assert all(products.product()(a, b).tobytes() == first for _ in range(3))
