"""Products that broadcast, of two dtypes, of one row or number; and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch.errors import EdutorchError
from tests.oracle import require_torch
from tests.trials import tried


def arrays(*shapes, dtype="float64"):
    draw = np.random.default_rng(0)
    operands = [draw.normal(size=shape) for shape in shapes]
    if dtype == "complex128":
        operands = [number + 1j * draw.normal(size=number.shape) for number in operands]
    return operands


def slopes(t, function, operands):
    """The result of a function and the gradients of the sum of its squares."""
    leaves = [t.tensor(number, requires_grad=True) for number in operands]
    y = function(t, *leaves)
    (y * y.conj()).real.sum().backward()
    return [y.detach(), *(leaf.grad for leaf in leaves)]


def compare(function, operands):
    torch = require_torch()
    ours, theirs = (slopes(t, function, operands) for t in (edutorch, torch))
    for mine, expected in zip(ours, theirs, strict=True):
        assert str(mine.dtype) == str(expected.dtype)
        assert tuple(mine.shape) == tuple(expected.shape)
        np.testing.assert_allclose(
            mine.numpy(), expected.resolve_conj().numpy(), rtol=1e-6, atol=1e-9
        )


EQUATIONS = {
    "i->...i": [(3,)], "i->i...": [(3,)], "ij,jk->...ik": [(2, 3), (3, 2)], "i,i->...": [(3,)] * 2,
    "...j->...": [(2, 3)], "...i->": [(2, 3)], "...ij->j": [(2, 2, 3)], "...->...": [()],
    "ij,...j->...i": [(2, 3), (4, 3)], "...,...->...": [(2, 3), (3,)],
    "...i,...i->...i": [(2, 1), (1, 2)], "i...,...j->i...j": [(2, 3), (3, 4)],
    "ij,jk->ik": [(2, 1), (3, 2)], "ij,ij->": [(2, 1), (1, 3)], "...ii->...i": [(2, 3, 3)],
    "...i,i->...": [(2, 2, 3), (3,)], "...i,...i": [(2, 3), (1, 3)], "b...,b->": [(1, 2), (3,)],
}  # fmt: skip


@tried("equation", EQUATIONS)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_einsum_with_an_ellipsis_and_axes_of_size_1(equation, dtype):
    operands = arrays(*EQUATIONS[equation], dtype=dtype)
    compare(lambda t, *x: t.einsum(equation, *x), operands)


PAIRS = [
    ((2, 1), (3, 4), ([1], [0])), ((2, 3), (1, 4), 1), ((2, 3, 1), (3, 2), ([1, 2], [0, 1])),
    ((1, 1), (2, 3), 2), ((2, 3), (3, 2), ([-1, 0], [0, -1])), ((), (), 0), ((2,), (3,), 0),
    ((0, 2), (0, 3), ([0], [0])), ((1, 2), (0, 3), ([0], [0])), ((0, 3), (3, 2), 1),
]  # fmt: skip


@tried("pair", PAIRS)
def test_tensordot_broadcasts(pair):
    first, second, dims = pair
    compare(lambda t, a, b: t.tensordot(a, b, dims), arrays(first, second))
    small = [array.astype("int32") for array in arrays(first, second)]
    ours = edutorch.tensordot(*map(edutorch.tensor, small), dims)
    assert ours.dtype is edutorch.int32


def test_dims_may_be_a_tensor():
    a, b = map(edutorch.tensor, arrays((2, 3), (3, 4)))
    expected = a @ b
    for dims in (edutorch.tensor(1), edutorch.tensor([[1], [0]])):
        assert edutorch.equal(edutorch.tensordot(a, b, dims), expected)


@pytest.mark.parametrize(
    ("first", "second", "dims", "error", "text"),
    [
        ((2, 3), (3, 4), -1, RuntimeError, "dims >= 0"),
        ((2, 3), (3, 4), 3, RuntimeError, "at most as many as both have, got 3"),
        ((2, 3), (3, 4), ([1, 0], [0]), RuntimeError, "should have the same length"),
        ((2, 3), (2, 2), 1, RuntimeError, r"3 \(axis 1 of `a`\) and 2 \(axis 0 of `b`\)"),
        ((2, 2), (2, 2), ([0, 0], [0, 1]), RuntimeError, "same dimension twice"),
        ((2, 2), (2, 2), ([2], [0]), IndexError, "Dimension out of range"),
        ((2, 2), (2, 2), 1.5, RuntimeError, "an int or two lists"),
        ((2, 2), (2, 2), (1, 0), TypeError, r"got \(1, 0\)[\s\S]*hint: dims="),
    ],
)
def test_tensordot_says_which_axes_do_not_fit(first, second, dims, error, text):
    a, b = edutorch.ones(first), edutorch.ones(second)
    with pytest.raises(error, match=f"tensordot: .*{text}") as caught:
        edutorch.tensordot(a, b, dims)
    assert isinstance(caught.value, EdutorchError)


def test_inner_is_named_in_its_own_error():
    with pytest.raises(RuntimeError, match="inner: the last dimension must match"):
        edutorch.inner(edutorch.ones(2, 3), edutorch.ones(1))


@tried("dtypes", [("float32", "float64"), ("float64", "float32"), ("complex64", "float64")])
def test_outer_of_two_dtypes(dtypes):
    operands = [
        array.astype(dtype) for array, dtype in zip(arrays((2,), (3,)), dtypes, strict=True)
    ]
    for function in (
        lambda t, a, b: t.outer(a, b), lambda t, a, b: a.ger(b), lambda t, a, b: t.kron(a, b),
    ):  # fmt: skip
        compare(function, operands)


@tried("dtype", ["float64", "complex128"])
def test_the_covariance_of_one_row_is_a_number(dtype):
    for function in (lambda t, x: t.cov(x), lambda t, x: t.cov(x, correction=0)):
        compare(function, arrays((1, 4), dtype=dtype))
        compare(function, arrays((4,), dtype=dtype))
    operands = arrays((1, 4), dtype=dtype)
    assert edutorch.corrcoef(edutorch.tensor(operands[0])).shape == ()
    assert edutorch.cov(edutorch.zeros(0, 3)).shape == (0, 0)


PARTS = {
    "imag": lambda t, z: z.imag, "real": lambda t, z: z.real, "abs": lambda t, z: z.abs(),
    "angle": lambda t, z: z.angle(), "conj": lambda t, z: z.conj().imag,
    "view_as_real": lambda t, z: t.view_as_real(z)[1] * t.view_as_real(z)[0],
    "sgn": lambda t, z: z.sgn().imag, "index": lambda t, z: t.stack([z, z])[0].imag,
    "complex": lambda t, z: t.complex(z.imag, z.real).imag * z.imag,
    "polar": lambda t, z: t.polar(z.abs(), z.angle()).imag,
    "logdet": lambda t, z: t.logdet(z * t.eye(2, dtype=z.dtype)).imag.sin(),
    "slogdet": lambda t, z: t.linalg.slogdet(z * t.eye(2, dtype=z.dtype)).sign.imag,
    "det": lambda t, z: t.linalg.det(z * t.eye(2, dtype=z.dtype)).imag,
    "prod": lambda t, z: t.stack([z, z * z]).prod().imag,
    "mean": lambda t, z: t.stack([z, z * z]).mean().imag * 2,
    "exp": lambda t, z: z.exp().imag, "pow": lambda t, z: (z**3).imag,
    "norm": lambda t, z: t.linalg.vector_norm(z.reshape(1)) * z.imag,
}  # fmt: skip


@tried("name", PARTS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_complex_number_without_axes_has_gradients(name, dtype):
    """NumPy makes scalars of 0-d results, and Python's complex numbers of some scalars."""
    operands = [np.array([1 + 2j, 0.5 - 3j], dtype)]
    torch = require_torch()

    def function(t, z):
        return PARTS[name](t, z.sum()) * 3

    gradients, expected = (slopes(t, function, operands)[1] for t in (edutorch, torch))
    np.testing.assert_allclose(gradients.numpy(), expected.resolve_conj().numpy(), rtol=2e-4)
