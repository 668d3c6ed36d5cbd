"""What the functions of edutorch.linalg return and refuse, against PyTorch, case by case."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import edutorch
from edutorch.errors import DTypeError, LinAlgError, ShapeError
from tests.oracle import require_torch
from tests.trials import tried


def compare(function, absolute=False):
    """Both refuse, or both return the same names, types, shapes and numbers."""
    torch = require_torch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's about old names
        try:
            expected = function(torch)
        except (RuntimeError, NotImplementedError, ValueError):
            with pytest.raises((RuntimeError, NotImplementedError, ValueError)):
                function(edutorch)
            return
        result = function(edutorch)
    if hasattr(result, "_fields"):
        assert type(result).__name__ == type(expected).__name__
    several = isinstance(result, tuple)
    pairs = zip(result, expected, strict=True) if several else [(result, expected)]
    for ours, theirs in pairs:
        assert str(ours.dtype) == str(theirs.dtype)
        assert tuple(ours.shape) == tuple(theirs.shape)
        x, y = ours.cpu().numpy(), theirs.resolve_conj().numpy()
        x, y = (abs(x), abs(y)) if absolute else (x, y)
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


SHAPES = [(4, 4), (2, 5, 5), (1, 1), (2, 0, 0), (0, 3, 3)]
shapes = tried("shape", SHAPES)
types = tried("dtype", ["float64", "complex128", "float32", "complex64"])


def some(t, shape, dtype, hermitian=None):
    draw = np.random.default_rng(len(shape) + shape[-1]).normal
    x = draw(size=shape) + (1j * draw(size=shape) if "complex" in dtype else 0)
    x = x + 3 * np.eye(shape[-1])
    if hermitian is not None:
        turned = np.swapaxes(x, -1, -2)
        x = x + (turned.conj() if hermitian else turned)
    return t.tensor(x, dtype=getattr(t, dtype))


OF_ONE = [
    "inv", "det", "slogdet", "svdvals", "lu_factor", "lu_factor_ex", "lu", "inv_ex", "matrix_exp",
    "pinv", "matrix_rank", "cond",
]  # fmt: skip


@types
@shapes
@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_one_matrix(name, shape, dtype, device):
    compare(lambda t: getattr(t.linalg, name)(some(t, shape, dtype)))


@types
@shapes
@pytest.mark.parametrize("name", ["qr", "svd", "eigh"])
def test_factors_whose_phases_are_open(name, shape, dtype):
    compare(lambda t: getattr(t.linalg, name)(some(t, shape, dtype, True)), absolute=True)


@types
@shapes
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl(hermitian, shape, dtype, device):
    def factors(t):
        x = some(t, shape, dtype, hermitian) - 5 * t.eye(shape[-1], dtype=getattr(t, dtype))
        return t.linalg.ldl_factor_ex(x, hermitian=hermitian)

    def lower(t):
        LD, pivots, info = factors(t)
        return LD.tril(), pivots, info

    compare(lower)
    compare(
        lambda t: t.linalg.ldl_solve(*factors(t)[:2], some(t, shape, dtype), hermitian=hermitian)
    )


@types
@shapes
def test_reflectors(shape, dtype, device):
    compare(lambda t: t.geqrf(some(t, shape, dtype)))
    compare(lambda t: t.orgqr(*t.geqrf(some(t, shape, dtype))))


@types
@shapes
def test_solving(shape, dtype, device):
    compare(lambda t: t.linalg.solve(some(t, shape, dtype), some(t, shape, dtype)))
    compare(lambda t: t.linalg.solve_ex(some(t, shape, dtype), some(t, shape, dtype)))
    compare(lambda t: t.linalg.matrix_power(some(t, shape, dtype), 0))


def ones(t):
    return t.ones(2, 2)


def diagonal(t):
    return t.diag(t.tensor([1.0, 0.1, 0.01]))


def tall(t):
    return t.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])


def matrix_of(t):
    return t.tensor([[1.0, 2.0, 4.0], [3.0, 1.0, 5.0]])


def weights(t):
    return t.tensor([0.5, 0.3, 0.2])


RESULTS = {
    "inv_ex": lambda t: t.linalg.inv_ex(ones(t))[1],
    "solve_ex": lambda t: t.linalg.solve_ex(ones(t), ones(t))[1],
    "cholesky_ex": lambda t: t.linalg.cholesky_ex(t.tensor([[1.0, 2.0], [2.0, 1.0]]))[1],
    "cholesky_ex checked": lambda t: t.linalg.cholesky_ex(-t.eye(2), check_errors=True),
    "cond fro": lambda t: t.linalg.cond(t.zeros(2, 2), "fro"),
    "cond not square": lambda t: t.linalg.cond(t.zeros(2, 3), "fro"),
    "cond 3": lambda t: t.linalg.cond(ones(t), 3),
    "rank tol": lambda t: t.linalg.matrix_rank(t.eye(3), 1.5),
    "rank atol": lambda t: t.linalg.matrix_rank(diagonal(t), atol=0.05),
    "rank rtol": lambda t: t.linalg.matrix_rank(t.ones(2, 1, 1), rtol=t.tensor([0.1, 2.0])),
    "rank hermitian": lambda t: t.linalg.matrix_rank(ones(t).tril(), hermitian=True),
    "pinv rcond": lambda t: t.linalg.pinv(diagonal(t), 0.05),
    "pinv atol": lambda t: t.linalg.pinv(diagonal(t), atol=t.tensor(0.05)),
    "pinverse": lambda t: t.pinverse(diagonal(t)),
    "vander batch": lambda t: t.linalg.vander(t.tensor([[1, 2], [3, 4]])),
    "vander 1": lambda t: t.linalg.vander(t.tensor([1, 2]), N=1),
    "old vander 0": lambda t: t.vander(t.tensor([1, 2, 3]), 0),
    "old vander 4": lambda t: t.vander(t.tensor([1.0, 2.0]), 4, True),
    "vecdot int": lambda t: t.linalg.vecdot(t.tensor([1, 2]), t.tensor([1, 2])),
    "vdot int": lambda t: t.vdot(t.tensor([1, 2]), t.tensor([1, 2])),
    "cov both": lambda t: t.cov(
        matrix_of(t), fweights=t.tensor([1, 2, 1]), aweights=weights(t)
    ),
    "cov aweights": lambda t: t.cov(matrix_of(t), aweights=weights(t), correction=0),
    "cov int": lambda t: t.cov(t.tensor([[1, 2], [3, 5]])),
    "cov of one": lambda t: t.cov(t.tensor([1.0])),
    "cov 0-d": lambda t: t.cov(t.tensor(1.0), correction=0),
    "cov empty": lambda t: t.cov(t.zeros(2, 0)),
    "cov 3-d": lambda t: t.cov(t.ones(2, 2, 2)),
    "corrcoef vector": lambda t: t.corrcoef(t.tensor([1.0, 2.0])),
    "lstsq": lambda t: t.linalg.lstsq(tall(t), t.eye(3)),
    "lstsq gels": lambda t: t.linalg.lstsq(tall(t), t.eye(3), driver="gels"),
    "lstsq gelss": lambda t: t.linalg.lstsq(tall(t), t.eye(3), driver="gelss"),
    "lstsq driver": lambda t: t.linalg.lstsq(ones(t), ones(t), driver="x"),
    "block_diag": lambda t: t.block_diag(t.ones(2), t.tensor(3), t.ones(2, 2, dtype=t.int32)),
    "block_diag of none": lambda t: t.block_diag(),
    "block_diag 3-d": lambda t: t.block_diag(t.ones(1, 1, 1)),
    "svd without U and V": lambda t: t.svd(matrix_of(t), compute_uv=False).S,
    "qr complete": lambda t: t.qr(tall(t), some=False).R.abs(),
    "lu": lambda t: t.lu(t.tensor([[1.0, 2.0], [3.0, 4.0]])),
    "lu infos": lambda t: tuple(t.lu(ones(t), get_infos=True)),
    "lu_unpack": lambda t: t.lu_unpack(*t.lu(tall(t)), unpack_data=False),
    "lu without pivots": lambda t: t.linalg.lu_factor(ones(t), pivot=False),
    "lu singular": lambda t: t.linalg.lu_factor(ones(t)),
    "lu_solve": lambda t: t.lu_solve(ones(t), *(t.eye(2) * 2).lu()),
    "lobpcg": lambda t: t.lobpcg(t.diag(t.arange(1.0, 10.0)), 2, largest=False)[0],
    "symeig": lambda t: t.symeig(ones(t)),
    "solve": lambda t: t.solve(ones(t), ones(t)),
    "lstsq method": lambda t: ones(t).lstsq(ones(t)),
    "renorm vector": lambda t: t.renorm(t.ones(3), 2, 0, 1),
    "renorm negative": lambda t: t.renorm(ones(t), 2, 0, -1),
    "H of a vector": lambda t: t.ones(2).H,
    "H of a batch": lambda t: t.ones(1, 2, 3).H,
    "adjoint of a vector": lambda t: t.ones(2).adjoint(),
    "inv half": lambda t: t.linalg.inv(ones(t).half()),
    "inverse int": lambda t: t.inverse(ones(t).long()),
    "eigh UPLO": lambda t: t.linalg.eigh(ones(t), "X"),
    "svd driver": lambda t: t.linalg.svd(ones(t), driver="gesvd"),
    "matrix_norm 3": lambda t: t.linalg.matrix_norm(ones(t), 3),
    "matrix_norm int": lambda t: t.linalg.matrix_norm(ones(t).long()),
    "matrix_norm dtype": lambda t: t.linalg.matrix_norm(ones(t), dtype=t.float64),
    "vector_norm dtype": lambda t: t.linalg.vector_norm(ones(t), dtype=t.float64),
    "vector_norm complex": lambda t: t.linalg.vector_norm(ones(t), dtype=t.complex128),
    "vector_norm int": lambda t: t.linalg.vector_norm(ones(t).long()),
    "vector_norm empty": lambda t: t.linalg.vector_norm(t.ones(0), float("inf")),
    "cross": lambda t: t.linalg.cross(t.ones(3), t.ones(2, 3)),
    "eig nan": lambda t: t.linalg.eig(t.full((2, 2), float("nan"))),
    "cdist complex": lambda t: t.cdist(ones(t) + 0j, ones(t) + 0j),
    "matrix_exp int": lambda t: t.matrix_exp(ones(t).int()),
    "matrix_exp large": lambda t: t.matrix_exp(matrix_of(t).T @ matrix_of(t) / 9),
    "tensorsolve": lambda t: t.linalg.tensorsolve(t.ones(2, 3), t.ones(4)),
    "tensorsolve dims": lambda t: t.linalg.tensorsolve(t.eye(6).reshape(2, 6, 3), t.ones(6), (0,)),
    "tensorinv": lambda t: t.linalg.tensorinv(t.ones(2, 3), ind=0),
    "householder_product": lambda t: t.linalg.householder_product(t.ones(2, 3), t.ones(2)),
    "slogdet of 0": lambda t: t.linalg.slogdet(t.zeros(2, 2)),
    "slogdet of complex 0": lambda t: t.linalg.slogdet(t.zeros(2, 2, dtype=t.complex64)),
    "logdet negative": lambda t: t.logdet(-t.eye(3)),
    "logdet of 0": lambda t: t.logdet(t.zeros(2, 2)),
    "outer": lambda t: t.outer(t.tensor([1, 2]), t.tensor([1.5, 2.0])),
    "multi_dot of one": lambda t: t.linalg.multi_dot([ones(t)]),
    "chain_matmul of one": lambda t: t.chain_matmul(ones(t)),
    "frobenius_norm": lambda t: t.frobenius_norm(t.ones(2, 3), 1),
    "addr_": lambda t: ones(t).addr_(t.ones(2), t.ones(2)),
    "addbmm_": lambda t: ones(t).addbmm_(t.ones(3, 2, 2), t.ones(3, 2, 2)),
    "addmm_": lambda t: ones(t).addmm_(ones(t), ones(t), beta=0.5),
    "addmv_": lambda t: t.ones(2).addmv_(ones(t), t.ones(2)),
    "baddbmm_": lambda t: t.ones(1, 2, 2).baddbmm_(t.ones(1, 2, 2), t.ones(1, 2, 2)),
    "renorm of integers": lambda t: t.renorm(ones(t).long(), 2, 0, 1.0),
    "renorm of bytes": lambda t: t.renorm(ones(t).byte(), 2, 0, 1.0),
    "renorm_ of bool": lambda t: ones(t).bool().renorm_(2, 0, 1.0),
    "renorm_": lambda t: ones(t).renorm_(2, 0, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_results_and_refusals(name):
    compare(RESULTS[name])


def test_every_name_of_linalg_is_there():
    torch = require_torch()
    theirs = {name for name in dir(torch.linalg) if name[0] != "_"} - {"common_notes"}
    assert theirs <= set(dir(edutorch.linalg))


OUT = {
    "inv": 1, "det": 1, "cholesky": 1, "svdvals": 1, "pinv": 1, "matrix_norm": 1, "norm": 1,
    "vector_norm": 1, "eigh": 2, "qr": 2, "svd": 3, "slogdet": 2, "lu": 3, "cond": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", OUT)
def test_results_are_written_into_out(name):
    function, matrix = getattr(edutorch.linalg, name), 2 * edutorch.eye(3)
    expected = function(matrix)
    outputs = tuple(edutorch.empty(0) for _ in range(OUT[name]))
    result = function(matrix, out=outputs if len(outputs) > 1 else outputs[0])
    for place, value in zip(outputs, expected if len(outputs) > 1 else [expected], strict=True):
        assert edutorch.equal(place, value)
    assert type(result) is type(expected)


def test_eigenvectors_of_another_matrix_b():
    A, B = edutorch.diag(edutorch.tensor([1.0, 4.0, 9.0])), edutorch.diag(edutorch.ones(3) * 2)
    w, v = edutorch.lobpcg(A, 2, B)
    assert edutorch.allclose(w, edutorch.tensor([4.5, 2.0]))
    assert edutorch.allclose(A @ v, B @ v * w, atol=1e-5)


def test_named_results_print_as_pytorchs():
    torch = require_torch()
    for name in ("slogdet", "eigh", "qr", "svd", "lu_factor", "inv_ex", "cholesky_ex", "lstsq"):
        inputs = (2,) if name == "lstsq" else (1,)
        ours = getattr(edutorch.linalg, name)(*(edutorch.eye(2) for _ in range(*inputs)))
        theirs = getattr(torch.linalg, name)(*(torch.eye(2) for _ in range(*inputs)))
        assert repr(ours).replace("-0.", "0.") == repr(theirs).replace("-0.", "0.")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: edutorch.linalg.cholesky(edutorch.stack([edutorch.eye(2), -edutorch.eye(2)])),
         LinAlgError, r"\(Batch element 1\): .* \(the leading minor of order 1 is not"),
        (lambda: edutorch.linalg.lu_factor(edutorch.zeros(2, 2)), LinAlgError, r"U\[1,1\] is zero"),
        (lambda: edutorch.linalg.ldl_factor(edutorch.zeros(2, 2)), LinAlgError,
         r"D\[1,1\] is zero"),
        (lambda: edutorch.linalg.eig(edutorch.full((2, 2), float("inf"))), LinAlgError,
         "should not contain infs or NaNs"),
        (lambda: edutorch.linalg.solve_triangular(edutorch.eye(2), edutorch.ones(3, 1), upper=True),
         ShapeError, "must have A's size, 2"),
        (lambda: edutorch.lu_solve(edutorch.ones(2, 1), edutorch.eye(2), edutorch.tensor([1, 2])),
         DTypeError, "must be of dtype int32"),
        (lambda: edutorch.cov(edutorch.ones(2, 3), fweights=edutorch.tensor([1, 2])), ShapeError,
         "`fweights` to have one number per observation"),
        (lambda: edutorch.eig(edutorch.eye(2)), RuntimeError, r"removed[\s\S]*torch.linalg.eig"),
    ],
)  # fmt: skip
def test_refusals_say_why(call, error, text):
    with pytest.raises(error, match=text):
        call()
