"""edutorch.fft against PyTorch: values, dtypes, derivatives of both orders, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import edutorch
from edutorch.autograd import gradcheck
from edutorch.errors import DimError, DTypeError, ShapeError, ValueRangeError
from tests.oracle import require_torch
from tests.slopes import second_derivatives_agree
from tests.trials import tried

GENERATOR = np.random.default_rng(0)
REAL = GENERATOR.normal(size=(3, 4, 5))
COMPLEX = REAL + 1j * GENERATOR.normal(size=(3, 4, 5))

OF_COMPLEX = ("fft", "ifft", "irfft", "hfft")
OF_REAL = ("rfft", "ihfft")
NORMS = (None, "forward", "ortho")
TRANSFORMS = [base + end for base in (*OF_COMPLEX, *OF_REAL) for end in ("", "2", "n")]
each_transform = pytest.mark.parametrize("name", TRANSFORMS)


def numbers_for(name, dtype="float64"):
    complex_too = name.rstrip("2n") in OF_COMPLEX
    array = COMPLEX if complex_too else REAL
    single = {True: np.complex64, False: np.float32}[complex_too]
    return array.astype(single) if dtype == "float32" else array


def settings_for(name):
    """Return the arguments a transform is tried with."""
    if name[-1] not in "2n":
        sizes, axes = (None, 1, 2, 4, 7), (-1, 0)
        return [{"n": n, "dim": dim, "norm": norm} for n, dim, norm in
            itertools.product(sizes, axes, NORMS)]  # fmt: skip
    axes = [(-2, -1), (2, 0)] + ([None, (0, 1, 2), 1] if name[-1] == "n" else [])
    combinations = [{"dim": dim, "norm": norm} for dim, norm in itertools.product(axes, NORMS)]
    combinations += [{"s": (3, 6)}, {"s": (2, -1), "norm": "forward"}, {"s": (5, 4), "dim": (0, 2)}]
    return combinations + ([{"s": 3}, {"s": (2, 2, 3)}] if name[-1] == "n" else [])


@pytest.mark.oracle
@each_transform
def test_numbers_and_gradients_are_pytorchs(name, device):
    torch = require_torch()
    for settings in settings_for(name):
        start = numbers_for(name)
        theirs = torch.tensor(start, requires_grad=True)
        ours = edutorch.tensor(start, requires_grad=True)
        expected = getattr(torch.fft, name)(theirs, **settings)
        result = getattr(edutorch.fft, name)(ours, **settings)
        assert str(result.dtype) == str(expected.dtype)
        np.testing.assert_allclose(
            result.numpy(force=True),
            expected.numpy(force=True),
            1e-10,
            1e-10,
            err_msg=str(settings),
        )
        (expected.abs() ** 3).sum().backward()
        (result.abs() ** 3).sum().backward()
        np.testing.assert_allclose(
            ours.grad.numpy(force=True),
            theirs.grad.numpy(force=True),
            1e-8,
            1e-8,
            err_msg=str(settings),
        )


@each_transform
def test_both_derivatives_are_those_of_the_numbers(name):
    start = numbers_for(name)[:2, :3, :3]
    transform = getattr(edutorch.fft, name)
    for settings in ({}, {"norm": "ortho", "dim": -2 if name[-1] not in "2n" else (-1, -3)}):
        x = edutorch.tensor(start, requires_grad=True)
        assert gradcheck(lambda x, settings=settings: transform(x, **settings) ** 2, x)
        assert second_derivatives_agree(
            lambda x, settings=settings: transform(x, **settings) ** 2, x
        )


@pytest.mark.oracle
@each_transform
@tried("dtype", ["float32", "float64", "int64", "uint8", "bool"])
def test_types_are_pytorchs(name, dtype, device):
    torch = require_torch()
    array = numbers_for(name, dtype)
    array = array if "float" in dtype else array.real
    theirs = torch.tensor(array)
    theirs = theirs if theirs.is_complex() else theirs.to(getattr(torch, dtype))
    ours = edutorch.tensor(theirs.numpy())
    expected = getattr(torch.fft, name)(theirs)
    result = getattr(edutorch.fft, name)(ours)
    assert str(result.dtype) == str(expected.dtype)
    np.testing.assert_allclose(result.numpy(force=True), expected.numpy(force=True), 1e-4, 1e-4)


@pytest.mark.oracle
@pytest.mark.parametrize("name", [n for n in TRANSFORMS if n.rstrip("2n") in OF_COMPLEX])
def test_real_numbers_are_complex_ones_too(name):
    torch = require_torch()
    theirs, ours = torch.tensor(REAL, requires_grad=True), edutorch.tensor(REAL, requires_grad=True)
    (getattr(torch.fft, name)(theirs).abs() ** 3).sum().backward()
    (getattr(edutorch.fft, name)(ours).abs() ** 3).sum().backward()
    assert ours.grad.dtype is edutorch.float64
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(force=True), 1e-8, 1e-8)


def test_a_transform_of_a_transposed_tensor():
    x = edutorch.tensor(COMPLEX).permute(2, 0, 1)
    np.testing.assert_allclose(edutorch.fft.fft(x).numpy(), np.fft.fft(COMPLEX.transpose(2, 0, 1)))


def test_no_signals_have_no_spectra():
    assert edutorch.fft.fft(edutorch.ones(0, 3)).shape == (0, 3)
    assert edutorch.fft.irfft(edutorch.ones(0, 3)).shape == (0, 4)


def test_no_axes_are_no_transform():
    x = edutorch.tensor([1.0, 2.0])
    for y in (edutorch.fft.fftn(x, dim=()), edutorch.fft.fftn(x.sum())):
        assert y.dtype is edutorch.complex64 and y.data_ptr() != x.data_ptr()


@each_transform
def test_out_gets_the_result(name, device):
    x = edutorch.tensor(numbers_for(name))
    expected = getattr(edutorch.fft, name)(x)
    out = edutorch.empty(0, dtype=expected.dtype)
    assert getattr(edutorch.fft, name)(x, out=out) is out
    assert edutorch.equal(out, expected)


def test_the_energy_is_the_same_in_both_worlds():
    x = edutorch.tensor(REAL)
    assert (edutorch.fft.fftn(x, norm="ortho").abs() ** 2).sum().item() == pytest.approx(
        (x**2).sum().item()
    )


# Frequencies and their order ---------------------------------------------------------------------


@pytest.mark.oracle
@tried("n", range(7))
@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_are_pytorchs(name, n, device):
    torch = require_torch()
    for d in (1.0, 0.25):
        expected = getattr(torch.fft, name)(n, d)
        result = getattr(edutorch.fft, name)(n, d)
        assert str(result.dtype) == str(expected.dtype)
        np.testing.assert_allclose(result.numpy(force=True), expected.numpy(force=True), 1e-6)
    double = getattr(edutorch.fft, name)(n + 1, dtype=edutorch.float64, requires_grad=True)
    assert double.dtype is edutorch.float64 and double.requires_grad


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
@pytest.mark.parametrize("dim", [None, 0, -1, (1, 2), (0, 1, 2)])
def test_shifts_are_pytorchs(name, dim, device):
    torch = require_torch()
    expected = getattr(torch.fft, name)(torch.tensor(REAL), dim)
    x = edutorch.tensor(REAL, requires_grad=True)
    result = getattr(edutorch.fft, name)(x, dim)
    np.testing.assert_array_equal(result.numpy(force=True), expected.numpy(force=True))
    (result**2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(force=True), 2 * REAL)


# What is refused ---------------------------------------------------------------------------------


@each_transform
def test_mistakes_are_explained(name):
    transform = getattr(edutorch.fft, name)
    x = edutorch.ones(4, 4)
    several = name[-1] in "2n"
    key = "s" if several else "n"
    with pytest.raises(ShapeError, match=rf"fft.{name}: Invalid number of data points \(0\)"):
        transform(x, **{key: (0, 2) if several else 0})
    with pytest.raises(ShapeError, match=r"\(-2\)[\s\S]*hint"):
        transform(x, **{key: (-2, 2) if several else -2})
    with pytest.raises(ValueRangeError, match=r'Invalid normalization mode: "no"[\s\S]*ortho'):
        transform(x, norm="no")
    with pytest.raises(DimError, match="Dimension out of range"):
        transform(x, dim=(0, 5) if several else 5)
    with pytest.raises(TypeError):
        transform(x, **{key: 2.5})
    for dtype in (edutorch.float16, edutorch.bfloat16):
        with pytest.raises(DTypeError, match="Unsupported dtype"):
            transform(x.to(dtype))
    if name.rstrip("2n") in OF_REAL:
        with pytest.raises(DTypeError, match=r"expects a real input tensor[\s\S]*fft.fft"):
            transform(x.to(edutorch.complex64))
    if several:
        with pytest.raises(ShapeError, match="dims must be unique"):
            transform(x, dim=(0, 0))
        with pytest.raises(ShapeError, match="same length"):
            transform(x, s=(2,), dim=(0, 1))
    else:
        with pytest.raises(DimError, match="no dimensions"):
            transform(edutorch.tensor(1.0))
        with pytest.raises(ShapeError, match=r"data points \(-1\)"):
            transform(x, n=-1)


def test_other_mistakes():
    with pytest.raises(ShapeError, match="at least one axis"):
        edutorch.fft.rfftn(edutorch.tensor(1.0))
    with pytest.raises(ShapeError, match="at least one axis"):
        edutorch.fft.irfftn(edutorch.ones(2), dim=())
    with pytest.raises(ShapeError, match="Got shape with 3 values"):
        edutorch.fft.fftn(edutorch.ones(2, 2), s=(1, 2, 3))
    with pytest.raises(ShapeError, match=r"\(0\)"):
        edutorch.fft.irfft(edutorch.ones(3, 1))
    with pytest.raises(DTypeError, match="floating"):
        edutorch.fft.fftfreq(3, dtype=edutorch.int64)
    with pytest.raises(ShapeError, match="negative"):
        edutorch.fft.rfftfreq(-1)
    with pytest.raises(ShapeError, match="needs an axis"):
        edutorch.fft.fftshift(edutorch.tensor(1.0))
    with pytest.raises(DTypeError, match="out"):
        edutorch.fft.fft(edutorch.ones(2), out=edutorch.ones(2))
