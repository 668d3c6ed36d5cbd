"""Linear algebra with NaN, infinity, the largest and smallest values, and Ctrl-C.

LAPACK need not end with an infinity: so each call runs in a subprocess, which is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import edutorch
from edutorch import linalg
from edutorch.backends import blas
from edutorch.errors import EdutorchError, LinAlgError
from edutorch.ops import linalg as products_file
from edutorch.ops import linalg_common as lapack_file
from tests.oracle import require_torch
from tests.trials import tried

CALLS = {
    "cross": lambda t, A: t.linalg.cross(A[:, :1].expand(-1, 3), A[:, -1:].expand(-1, 3)),
    "cond 1": lambda t, A: t.linalg.cond(A, 1),
    "cond fro": lambda t, A: t.linalg.cond(A, "fro"),
    "cond -2": lambda t, A: t.linalg.cond(A, -2),
    "eigh U": lambda t, A: t.linalg.eigh(A.mT, "U"),
    "householder_product": lambda t, A: t.linalg.householder_product(A, A.diagonal()),
    "ldl_solve": lambda t, A: t.linalg.ldl_solve(*t.linalg.ldl_factor(A), A),
    "lstsq": lambda t, A: t.linalg.lstsq(A, A),
    "lstsq gels": lambda t, A: t.linalg.lstsq(A, A, driver="gels"),
    "lstsq gelsd": lambda t, A: t.linalg.lstsq(A, A, driver="gelsd"),
    "lu_solve": lambda t, A: t.linalg.lu_solve(*t.linalg.lu_factor(A), A),
    "matmul": lambda t, A: t.linalg.matmul(A, A),
    "matrix_norm nuc": lambda t, A: t.linalg.matrix_norm(A, "nuc"),
    "matrix_norm 2": lambda t, A: t.linalg.matrix_norm(A, 2),
    "matrix_norm -2": lambda t, A: t.linalg.matrix_norm(A, -2),
    "matrix_norm 1": lambda t, A: t.linalg.matrix_norm(A, 1),
    "matrix_power": lambda t, A: t.linalg.matrix_power(A, 3),
    "matrix_power -2": lambda t, A: t.linalg.matrix_power(A, -2),
    "matrix_rank hermitian": lambda t, A: t.linalg.matrix_rank(A, hermitian=True),
    "multi_dot": lambda t, A: t.linalg.multi_dot([A, A, A]),
    "norm nuc": lambda t, A: t.linalg.norm(A, "nuc"),
    "pinv hermitian": lambda t, A: t.linalg.pinv(A, hermitian=True),
    "qr complete": lambda t, A: t.linalg.qr(A, "complete"),
    "solve": lambda t, A: t.linalg.solve(A, A),
    "solve_ex": lambda t, A: t.linalg.solve_ex(A, A),
    "solve_triangular": lambda t, A: t.linalg.solve_triangular(A, A, upper=True),
    "svd thin": lambda t, A: t.linalg.svd(A, full_matrices=False),
    "tensorinv": lambda t, A: t.linalg.tensorinv(A, ind=1),
    "tensorsolve": lambda t, A: t.linalg.tensorsolve(A, A[:, 0] if A.numel() else A.sum(0)),
    "vander": lambda t, A: t.linalg.vander(A, N=3),
    "vecdot": lambda t, A: t.linalg.vecdot(A, A),
    # under other names, and of other parts of the package
    "svd_lowrank": lambda t, A: t.svd_lowrank(A, 2),
    "pca_lowrank": lambda t, A: t.pca_lowrank(A, min(2, len(A))),
    "lobpcg": lambda t, A: t.lobpcg(A, 1),
    "old svd": lambda t, A: t.svd(A),
    "old pinverse": lambda t, A: t.pinverse(A),
    "old logdet": lambda t, A: t.logdet(A),
    "old norm": lambda t, A: t.norm(A, p="nuc"),
    "old geqrf": lambda t, A: t.geqrf(A),
    "old cholesky_inverse": lambda t, A: t.cholesky_inverse(A),
    "corrcoef": lambda t, A: t.corrcoef(A),
    "cov": lambda t, A: t.cov(A),
    "cdist": lambda t, A: t.cdist(A, A),
}  # fmt: skip
MATRIX_ALONE = {
    name: (lambda t, A, name=name: getattr(t.linalg, name)(A))
    for name in linalg.__all__
    if name != "LinAlgError" and name not in CALLS
}
CALLS |= MATRIX_ALONE

ITERATIVE = (
    "svd", "svd thin", "svdvals", "pinv", "matrix_rank", "cond", "cond -2", "lstsq", "lstsq gels",
    "lstsq gelsd", "matrix_norm nuc", "matrix_norm 2", "matrix_norm -2", "norm nuc", "eigh",
    "eigvalsh", "eigh U", "eig", "eigvals", "svd_lowrank", "pca_lowrank", "lobpcg", "old svd",
    "old pinverse", "old norm", "pinv hermitian", "matrix_rank hermitian",
)  # fmt: skip
"""They may go on for ever, so what is not finite is refused."""

KINDS = ("inf", "-inf", "nan", "all inf", "1e-310", "1e308", "zeros", "rank 1")


def matrix(contents: str, n: int, dtype: str = "float64") -> np.ndarray:
    draw = np.random.default_rng(n)
    A = draw.normal(size=(n, n))
    if contents in ("inf", "-inf", "nan"):
        A[-1, draw.integers(n)] = float(contents)  # in the lower triangle, which all read
    elif contents == "all inf":
        A[:] = np.inf
    elif contents == "1e-310":
        A *= 1e-310 if dtype in ("float64", "complex128") else 1e-40
    elif contents == "1e308":
        A *= (1e308 if dtype in ("float64", "complex128") else 3e38) / abs(A).max()
    elif contents == "zeros":
        A[:] = 0
    elif contents == "rank 1":
        A = np.outer(A[0], A[0])
    return A.astype(dtype)


def answer(name: str, A: np.ndarray) -> str:
    """Call a function, and say what came of it: "a result", or the class of an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            CALLS[name](edutorch, edutorch.tensor(A))
        except Exception as error:  # noqa: BLE001  (it is what the test is about)
            known = isinstance(error, EdutorchError)
            return f"{type(error).__name__}{'' if known else ' unknown'}: {error}"
    return "a result"


def child() -> None:
    """Go through the cases that the parent asks for, a line before and after each."""
    names, contents, sizes, dtypes = json.loads(sys.argv[1])
    for name in names:
        cases = [(content, n, dtype) for n in sizes for content in contents for dtype in dtypes]
        for content, n, dtype in [*cases, ("empty", 0, "float32")]:
            A = matrix(content, n, dtype)
            print(json.dumps([name, content, n, dtype]), flush=True)
            print(answer(name, A).splitlines()[0], flush=True)


def run_child(names, contents, sizes, dtypes, timeout=60):
    """Return the outcome of each case; a case that does not end fails the test."""
    command = [sys.executable, "-c", "from tests.test_linalg_extremes import child; child()"]
    command += [json.dumps([names, contents, sizes, dtypes])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as stopped:
        printed = (stopped.stdout or b"").decode().splitlines()
        pytest.fail(f"killed after {timeout} s, in {printed[-1] if printed else 'nothing'}")
    assert done.returncode == 0, f"{done.stdout[-300:]}\n{done.stderr[-3000:]}"
    lines = done.stdout.splitlines()
    return dict(zip(lines[::2], lines[1::2], strict=True))


def check(outcomes):
    for case, outcome in outcomes.items():
        name, content, _, _ = json.loads(case)
        assert " unknown:" not in outcome, f"{case}: {outcome}"
        if name in ITERATIVE and content in ("inf", "-inf", "nan", "all inf"):
            assert outcome.startswith("LinAlgError"), f"{case}: {outcome}"
            assert "infs or NaNs" in outcome, f"{case}: {outcome}"
        elif name in ITERATIVE and content not in ("1e308", "empty"):
            full_rank = name == "lstsq gels" and content == "rank 1"
            assert outcome == "a result" or full_rank, f"{case}: {outcome}"


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_every_function_ends(name):
    check(run_child([name], KINDS, [1, 2, 5, 60], ["float32", "float64", "complex128"]))


def test_a_sample_of_all_functions_ends():
    outcomes = run_child(list(CALLS), ["inf", "nan", "1e-310", "rank 1"], [2, 5], ["float64"])
    assert len(outcomes) == 9 * len(CALLS)
    check(outcomes)


def test_an_error_names_the_function_that_was_called():
    A = edutorch.full((2, 2), float("nan"))
    for name, title in {
        "svd": "linalg.svd", "svdvals": "linalg.svdvals", "pinv": "linalg.pinv",
        "lstsq": "linalg.lstsq", "matrix_norm nuc": "linalg.matrix_norm", "cond": "linalg.cond",
        "eigvalsh": "linalg.eigvalsh", "eigvals": "linalg.eigvals", "svd_lowrank": "svd_lowrank",
    }.items():  # fmt: skip
        with pytest.raises(LinAlgError, match=rf"^{title}: .* non-finite[\s\S]*hint: x.isfinite"):
            CALLS[name](edutorch, A)


def test_what_is_not_read_may_be_nan():
    A = edutorch.tensor([[2.0, float("nan")], [1.0, 2.0]])
    assert edutorch.allclose(linalg.eigvalsh(A), edutorch.tensor([1.0, 3.0]))
    assert edutorch.allclose(linalg.eigvalsh(A.mT, "U"), edutorch.tensor([1.0, 3.0]))
    assert edutorch.allclose(linalg.cholesky(A)[0, 0], edutorch.tensor(2.0).sqrt())
    assert linalg.matrix_rank(A, hermitian=True) == 2
    with pytest.raises(LinAlgError):
        linalg.eigvalsh(A, "U")


def test_one_bad_matrix_of_a_batch_is_noticed():
    A = edutorch.eye(3).repeat(4, 1, 1)
    A[2, 1, 1] = float("inf")
    for function in (linalg.svd, linalg.eigh, linalg.eig, linalg.pinv):
        with pytest.raises(LinAlgError):
            function(A)
    assert edutorch.vmap(linalg.svdvals)(A[:2]).shape == (2, 3)
    with pytest.raises(LinAlgError):
        edutorch.vmap(linalg.svdvals)(A)


# Of degree k: f(c A) = cᵏ f(A), for c near the ends of the range as well
HOMOGENEOUS = {
    "svdvals": 1, "eigvalsh": 1, "matrix_norm nuc": 1, "matrix_norm 2": 1, "matrix_norm 1": 1,
    "cond": 0, "matrix_rank": 0, "matrix_rank hermitian": 0, "lstsq": 0, "lstsq gelsd": 0,
}  # fmt: skip


@tried("scale", ["float64 1e-300", "float64 1e300", "float32 1e-36", "float32 1e36"])
def test_a_scale_changes_nothing_else(scale):
    dtype, _, factor = scale.partition(" ")
    A, factor = edutorch.tensor(matrix("", 5), dtype=getattr(edutorch, dtype)), float(factor)
    for name, degree in HOMOGENEOUS.items():
        small, large = (CALLS[name](edutorch, matrix_) for matrix_ in (A, A * factor))
        small, large = ((y[0] if isinstance(y, tuple) else y).double() for y in (small, large))
        assert edutorch.allclose(small, large / factor**degree, rtol=1e-4, atol=1e-4), name
    for function in (linalg.qr, edutorch.geqrf, linalg.lu_factor):
        reflected = function is edutorch.geqrf
        first = [edutorch.triu(y.a if reflected else y[function is linalg.qr].double())
                 for y in map(function, (A, A * factor))]  # fmt: skip
        assert edutorch.allclose(first[0].double(), first[1].double() / factor, rtol=1e-4), function
    assert edutorch.allclose(edutorch.geqrf(A).tau, edutorch.geqrf(A * factor).tau, rtol=1e-4)


def test_a_minor_is_found_without_trying_all():
    A = edutorch.eye(40, dtype=edutorch.float64)
    for order in (1, 2, 17, 39, 40):
        B = A.clone()
        B[order - 1, order - 1] = -1.0
        assert linalg.cholesky_ex(B).info == order
    assert linalg.cholesky_ex(A).info == 0


# Second derivatives -------------------------------------------------------------------------------


@tried("scale", [1.0, 1e19, 1e30, 1e-25])
def test_second_derivatives_of_singular_values_at_any_scale(scale):
    A = edutorch.tensor([[4.0, 1.0], [1.0, 3.0]])

    def hessian(A):
        return edutorch.func.hessian(lambda A: linalg.svdvals(A)[0])(A)

    expected = hessian(A.double())
    assert expected.abs().max() > 0.1
    assert edutorch.allclose(hessian(A * scale).double() * scale, expected, rtol=1e-4, atol=1e-6)


@tried("name", ["svdvals", "eigvalsh"])
def test_where_vectors_are_undetermined_a_second_derivative_is_not_a_number(name):
    A = edutorch.eye(3, dtype=edutorch.float64, requires_grad=True)
    y = (getattr(linalg, name)(A) ** 2).sum()
    (slope,) = edutorch.autograd.grad(y, A, create_graph=True)
    assert edutorch.allclose(slope, 2 * A)
    (second,) = edutorch.autograd.grad(slope[0, 1], A)
    assert not second.isfinite().all()  # PyTorch's as well; a number would be wrong
    forward = edutorch.func.hessian(lambda A: (getattr(linalg, name)(A) ** 2).sum())(A.detach())
    assert not forward.isfinite().all()


# Results of the old and of the new functions ------------------------------------------------------


def test_low_rank_decompositions():
    left, right = edutorch.randn(2, 30, 3), edutorch.randn(2, 3, 20)
    A = left @ right
    for B in (A, A.mT, edutorch.complex(A, 2 * A)):
        U, S, V = edutorch.svd_lowrank(B, q=3)
        assert edutorch.allclose((U * S[:, None]) @ V.mH, B, atol=1e-4)
        assert edutorch.allclose(S, linalg.svdvals(B)[:, :3], rtol=1e-4)
        U, S, V = edutorch.pca_lowrank(B, q=3)
        centred = B - B.mean(-2, keepdim=True)
        assert edutorch.allclose((U * S[:, None]) @ V.mH, centred, atol=1e-4)
    shift = edutorch.randn(20)
    assert edutorch.allclose(
        edutorch.svd_lowrank(A + shift, 3, M=shift)[1], linalg.svdvals(A)[:, :3], rtol=1e-3
    )
    edutorch.manual_seed(4)
    first = edutorch.svd_lowrank(A, 2, niter=0)[1]
    edutorch.manual_seed(4)
    assert edutorch.equal(first, edutorch.svd_lowrank(A, 2, niter=0)[1])
    again = edutorch.svd_lowrank(A, 2, niter=8)[1]
    exact = linalg.svdvals(A)[:, :2]
    assert edutorch.allclose(again, exact, rtol=1e-2)
    assert (first - exact).abs().max() > (again - exact).abs().max()
    for q, niter, word in ((21, 2, "q"), (-1, 2, "q"), (2, -1, "niter")):
        with pytest.raises(ValueError, match=f"pca_lowrank: {word} must be"):
            edutorch.pca_lowrank(A, q, niter=niter)


def test_a_cholesky_factor_is_never_nan():
    for A in (edutorch.tensor([[float("nan")]]), edutorch.full((60, 60), float("inf"))):
        with pytest.raises(LinAlgError, match="not positive-definite"):
            linalg.cholesky(A)
        assert linalg.cholesky_ex(A).info > 0


@tried("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_only_gels_wants_full_rank(driver):
    A = edutorch.tensor(matrix("rank 1", 4))
    if driver == "gels":
        with pytest.raises(LinAlgError, match=r"linalg.lstsq: .*full rank"):
            linalg.lstsq(A, A, driver=driver)
    else:
        assert edutorch.allclose(A @ linalg.lstsq(A, A, driver=driver).solution, A)


def test_what_needs_no_gradient_of_its_own_requires_one_as_in_pytorch():
    torch = require_torch()
    for t in (torch, edutorch):
        A = t.tensor([[2.0, 1.0], [0.0, 3.0]], requires_grad=True)
        for y in (
            t.linalg.slogdet(A).sign, t.linalg.matrix_power(A, 0), t.linalg.lstsq(A, A).residuals,
            t.linalg.householder_product(A, t.ones(0)),
        ):  # fmt: skip
            assert y.requires_grad
            y.sum().backward()
            assert A.grad is None or not A.grad.any()


# Ctrl-C -------------------------------------------------------------------------------------------

X = edutorch.tensor(matrix("", 6, "float32")) + 3 * edutorch.eye(6)
LONG_CALLS = {
    "matmul": lambda A: A @ A,
    "matmul of batches": lambda A: A[None] @ A[None, None],
    "mm": lambda A: edutorch.mm(A, A),
    "bmm": lambda A: edutorch.bmm(A[None], A[None]),
    "mv": lambda A: edutorch.mv(A, A[0]),
    "dot": lambda A: edutorch.dot(A[0], A[1]),
    "linear": lambda A: edutorch.nn.functional.linear(A, A, A[0]),
    "integers": lambda A: A.long() @ A.long(),
    "bfloat16": lambda A: A.bfloat16() @ A.bfloat16(),
    "complex": lambda A: A.cfloat() @ A.cfloat(),
    "einsum": lambda A: edutorch.einsum("ij,jk->ik", A, A),
    "einsum of integers": lambda A: edutorch.einsum("ij,jk->ik", A.long(), A.long()),
    "addmm": lambda A: edutorch.addmm(A, A, A),
    "baddbmm": lambda A: edutorch.baddbmm(A[None], A[None], A[None]),
    "tensordot": lambda A: edutorch.tensordot(A, A, 1),
    "svd": lambda A: linalg.svd(A).S,
    "svdvals": linalg.svdvals,
    "pinv": linalg.pinv,
    "matrix_rank": linalg.matrix_rank,
    "eigh": lambda A: linalg.eigh(A + A.mT).eigenvalues,
    "eig": lambda A: linalg.eig(A).eigenvalues.abs().sort().values,
    "qr": lambda A: linalg.qr(A).R.abs(),
    "inv": linalg.inv,
    "solve": lambda A: linalg.solve(A, A[0]),
    "det": linalg.det,
    "slogdet": lambda A: linalg.slogdet(A).logabsdet,
    "cholesky": lambda A: linalg.cholesky(A @ A.mT),
    "lstsq": lambda A: linalg.lstsq(A, A[:, :1]).solution,
    "matrix_exp": edutorch.matrix_exp,
}  # fmt: skip


@tried("name", LONG_CALLS)
def test_what_takes_long_is_computed_by_a_helper(name, monkeypatch):
    with edutorch.backends.reference_only():
        expected = LONG_CALLS[name](X)
    calls = []

    def noted(function, *arguments, **settings):
        calls.append(function)
        return blas.interruptible(function, *arguments, **settings)

    for file in (lapack_file, products_file, sys.modules["edutorch.ops.einsum"]):
        for constant in {"LONG", "LONG_SIDE"} & set(vars(file)):
            monkeypatch.setattr(file, constant, 0)
        monkeypatch.setattr(file, "interruptible", noted)
    with edutorch.no_grad(), edutorch.backends.reference_only():
        result = LONG_CALLS[name](X)
    assert calls
    assert edutorch.equal(result, expected)


def test_short_calls_have_no_helper(monkeypatch):
    def refuse(*_):
        raise AssertionError("a thread for a small matrix")

    for file in (lapack_file, products_file):
        monkeypatch.setattr(file, "interruptible", refuse)
    for call in LONG_CALLS.values():
        call(X)


def test_a_helper_hands_on_errors_and_numpys_settings():
    def divide(x, by):
        return np.array(x) / by

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        blas.interruptible(divide, 1.0, 0.0)
    with np.errstate(divide="ignore"):
        assert blas.interruptible(divide, 1.0, by=0.0) == np.inf


INTERRUPTED = """
import os, signal, threading, time
import edutorch
from edutorch import linalg

A, small = edutorch.randn(3600, 3600), edutorch.randn(1000, 1000)
target = edutorch.zeros(3600, 3600)
calls = [
    lambda: linalg.svd(small), lambda: edutorch.mm(A, A, out=target),
    lambda: target.addmm_(A, A),
]
edutorch.zeros(2) @ edutorch.zeros(2)

def send():
    global sent
    time.sleep(0.1)
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

for number, call in enumerate(calls):
    thread = threading.Thread(target=send)
    try:
        thread.start()
        with edutorch.no_grad():
            call()
        late = True
        thread.join()
    except KeyboardInterrupt:
        late = time.monotonic() - sent > 1
        thread.join()
    assert not late, number
    assert edutorch.is_grad_enabled()
assert not target.any()
print("interrupted")
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_ctrl_c_leaves_a_long_call_at_once():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", INTERRUPTED],
        capture_output=True, text=True, timeout=120, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "interrupted\n", time.monotonic() - start
    assert signal.getsignal(signal.SIGINT) is not None


@pytest.mark.parametrize("name", ["inv", "solve", "cholesky"])
def test_a_failure_is_noticed_where_no_flag_says_it(name, monkeypatch):
    """In a browser tab NumPy returns NaN, and says nothing."""
    monkeypatch.setattr(lapack_file, "IS_BROWSER", True)
    monkeypatch.setattr(np.linalg, name, lambda a, *_: np.full_like(a, np.nan))
    matrices = [-edutorch.ones(2, 2)] * (2 if name == "solve" else 1)
    with pytest.raises(LinAlgError):
        getattr(linalg, name)(*matrices)
    if name != "cholesky":
        results = getattr(linalg, name)(*[matrix * np.nan for matrix in matrices])
        assert results.isnan().all(), "NaN in, NaN out"
