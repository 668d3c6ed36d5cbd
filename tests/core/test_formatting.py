"""A tensor prints exactly as PyTorch prints it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import edutorch
from edutorch.core import formatting
from edutorch.core.formatting import printoptions, set_printoptions, tensor_text, visible_part
from tests.oracle import require_torch
from tests.trials import tried


@pytest.fixture(autouse=True)
def _usual_options():
    yield
    set_printoptions(profile="default")


def text(array: np.ndarray, **how: object) -> str:
    how.setdefault("dtype_name", array.dtype.name)
    return tensor_text(visible_part(array), shape=array.shape, **how)


# Recorded from PyTorch 2.13, so that they are tested where it is not installed.
GOLDEN = [
    (np.float32(8.0), "tensor(8.)"),
    (np.array([0.1269, 0.6931, 2.1269], "f4"), "tensor([0.1269, 0.6931, 2.1269])"),
    (np.array([[1, 2], [3, 40]]), "tensor([[ 1,  2],\n        [ 3, 40]])"),
    (np.array([True, False]), "tensor([ True, False])"),
    (np.array([0.0, np.nan, -np.inf], "f4"), "tensor([0., nan, -inf])"),
    (np.array([1.5, np.nan, -np.inf], "f4"), "tensor([1.5000,    nan,   -inf])"),
    (np.array([1, 1e-5], "f4"), "tensor([1.0000e+00, 1.0000e-05])"),
    (np.array([1 + 2j, 3.5 - 4j], "c8"), "tensor([1.0000+2.j, 3.5000-4.j])"),
    (np.zeros((0, 3), "f4"), "tensor([], size=(0, 3))"),
    (np.zeros(0, "i8"), "tensor([], dtype=torch.int64)"),
    (np.ones(2, "f2"), "tensor([1., 1.], dtype=torch.float16)"),
    (np.arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
    (
        np.zeros((7, 300), "f4"),
        "tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        ...,\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.],\n"
        "        [0., 0., 0.,  ..., 0., 0., 0.]])",
    ),
]


@pytest.mark.parametrize(("array", "expected"), GOLDEN)
def test_golden(array, expected):
    assert text(np.asarray(array)) == expected


def test_suffixes():
    one = np.ones(1, "f4")
    assert text(one, grad_fn_name="MulBackward0") == "tensor([1.], grad_fn=<MulBackward0>)"
    assert text(one, requires_grad=True) == "tensor([1.], requires_grad=True)"
    assert text(one, device_name="cuda:0") == "tensor([1.], device='cuda:0')"
    assert (
        text(one.astype("f8"), device_name="cuda:1", requires_grad=True)
        == "tensor([1.], device='cuda:1', dtype=torch.float64, requires_grad=True)"
    )
    assert text(one, default_dtype_name="float64") == "tensor([1.], dtype=torch.float32)"
    assert text(one.astype("f8"), default_dtype_name="float64") == "tensor([1.])"
    assert text(one.astype("c16"), default_dtype_name="float64") == "tensor([1.+0.j])"


def test_options_are_checked_and_restored():
    before = formatting.get_printoptions()
    with pytest.raises(ValueError, match="profile is one of"):
        set_printoptions(profile="long")
    with pytest.raises(ValueError, match="edgeitems is at least 1, got 0"):
        set_printoptions(edgeitems=0)
    with printoptions(precision=1, sci_mode=True):
        assert text(np.array([math.pi])) == "tensor([3.1e+00], dtype=torch.float64)"
    assert formatting.get_printoptions() == before


def test_only_the_corners_of_a_large_tensor_are_needed():
    assert visible_part(np.zeros((1000, 4, 1000))).shape == (6, 4, 6)
    assert visible_part(np.zeros((10, 10, 10))).shape == (10, 10, 10)
    huge = np.broadcast_to(np.float32(1), (10**6, 10**6))
    assert text(huge).count("1.") == 36


# ---------------------------------------------------------------- against PyTorch

SHAPES = [(), (1,), (3,), (5, 4), (2, 3, 4), (2, 1, 2, 3), (0,), (0, 3), (2, 0), (40,), (3, 25)]
LARGE = [(1001,), (4, 400), (20, 60), (2, 3, 300), (9, 2, 80), (8, 8, 8, 8)]


def random_elements(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Elements of one of the kinds that choose between the print formats."""
    character = random.integers(9)
    drawn = np.asarray(random.standard_normal(shape))
    if character == 1:
        drawn = drawn * 10.0 ** random.integers(-20, 21)
    elif character == 2:
        drawn = drawn * 10.0 ** random.integers(-20, 21, shape)
    elif character == 3:
        drawn = np.round(drawn * 10.0 ** random.integers(0, 12))
    elif character == 4:
        drawn = np.round(drawn * 10.0 ** random.integers(0, 4, shape))
    elif character == 5:
        drawn = drawn * 10.0 ** random.integers(-4, 1, shape)
    elif character == 6:
        drawn = np.abs(drawn) * 10.0 ** random.integers(1, 9)
    elif character == 7:
        drawn = np.where(random.random(shape) < 0.5, 0.0, drawn)
    elif character == 8:
        drawn = np.zeros(shape)
    odd = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape)
    share = random.choice([0.0, 0.0, 0.2, 1.0])
    return np.asarray(np.where(random.random(shape) < share, odd, drawn))


def as_both(array: np.ndarray, dtype_name: str, torch):
    """The same elements as a torch tensor, and as a NumPy array of the same dtype."""
    import ml_dtypes

    dtype = ml_dtypes.bfloat16 if dtype_name == "bfloat16" else np.dtype(dtype_name)
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
    bits = cast.view(np.int16) if dtype_name == "bfloat16" else cast
    theirs = torch.from_numpy(np.array(bits))
    return cast, theirs.view(torch.bfloat16) if dtype_name == "bfloat16" else theirs


@tried("seed", range(25))
@pytest.mark.parametrize("dtype_name", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.oracle
def test_floats_like_pytorch(dtype_name, seed):
    torch = require_torch()
    random = np.random.default_rng(seed)
    for shape in SHAPES + LARGE:
        ours, theirs = as_both(random_elements(random, shape), dtype_name, torch)
        assert text(ours, dtype_name=dtype_name) == repr(theirs)


@pytest.mark.oracle
@tried("seed", range(10))
@pytest.mark.parametrize("dtype_name", ["complex64", "complex128"])
def test_complex_like_pytorch(dtype_name, seed):
    torch = require_torch()
    random = np.random.default_rng(seed)
    for shape in SHAPES + LARGE:
        both_parts = np.empty(shape, "complex128")
        both_parts.real = random_elements(random, shape)
        both_parts.imag = random_elements(random, shape)
        ours, theirs = as_both(both_parts, dtype_name, torch)
        assert text(ours) == repr(theirs)


@pytest.mark.oracle
@tried("seed", range(5))
@pytest.mark.parametrize("dtype_name", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_integers_like_pytorch(dtype_name, seed):
    torch = require_torch()
    random = np.random.default_rng(seed)
    for shape in SHAPES + LARGE:
        sizes = 10.0 ** random.integers(0, 19)
        drawn = np.asarray(random.standard_normal(shape) * sizes)
        low, high = (-(2**63), 2**63 - 1024)
        ours, theirs = as_both(np.clip(drawn, low, high).astype("i8"), dtype_name, torch)
        assert text(ours) == repr(theirs)


@pytest.mark.oracle
@tried("seed", range(8))
@pytest.mark.parametrize(
    "options",
    [
        {"precision": 2}, {"precision": 0}, {"precision": 9}, {"sci_mode": True},
        {"sci_mode": False}, {"linewidth": 30}, {"linewidth": 200}, {"edgeitems": 1},
        {"threshold": 10}, {"threshold": 20, "edgeitems": 5}, {"profile": "short"},
        {"profile": "full"}, {"profile": "short", "precision": 7, "sci_mode": True},
    ],
    ids=str,
)  # fmt: skip
def test_options_like_pytorch(options, seed):
    torch = require_torch()
    random = np.random.default_rng(seed)
    set_printoptions(**options)
    torch.set_printoptions(**options)
    try:
        for shape in [*SHAPES, (30, 40)]:
            ours, theirs = as_both(random_elements(random, shape), "float32", torch)
            assert text(ours) == repr(theirs)
    finally:
        torch.set_printoptions(profile="default")


@pytest.mark.oracle
@tried("count", range(1, 60))
def test_suffixes_wrap_like_pytorch(count):
    torch = require_torch()
    ours, theirs = as_both(np.arange(count) / 4, "float64", torch)
    theirs.requires_grad_()
    assert text(ours, requires_grad=True) == repr(theirs)
    assert text(ours * 2, grad_fn_name="MulBackward0") == repr(theirs * 2)


LIMITS = [
    (1e-4,), (0.99e-4,), (1.01e-4,), (0.5, 1e-4), (1e-4, 0.09), (0.99e-4, 0.09), (1e8,), (1.1e8,),
    (100000001.0,), (1e6, 1e8), (0.5, 500.0), (0.5, 500.5), (1.0, 1000.0), (1.0, 1001.0),
    (3.0, 3000.0), (0.0, 1e-4), (0.0, 1e-5), (float("inf"), 1e-5), (float("nan"), 1e9),
]  # fmt: skip
"""Near the magnitudes from which on elements are printed with an exponent."""


@pytest.mark.oracle
@pytest.mark.parametrize("dtype_name", ["float32", "float64"])
@pytest.mark.parametrize("elements", LIMITS)
def test_exponents_begin_where_pytorchs_do(elements, dtype_name, torch):
    for sign in (1, -1):
        ours, theirs = (
            lib.tensor([sign * element for element in elements], dtype=getattr(lib, dtype_name))
            for lib in (edutorch, torch)
        )
        assert repr(ours) == repr(theirs)


@pytest.mark.oracle
@pytest.mark.parametrize(
    "shape", [(), (0,), (0, 3), (3, 0, 2), (1001,), (2000,), (1001, 2), (2, 30, 40)]
)
def test_tensors_are_summarized_by_their_whole_shape(shape, torch):
    for settings in ({}, {"requires_grad": True}):
        assert repr(edutorch.ones(shape, **settings)) == repr(torch.ones(shape, **settings))
