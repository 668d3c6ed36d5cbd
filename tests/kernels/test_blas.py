"""NumPy's BLAS, called from compiled code by its address."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

from edutorch.backends.blas import Blas, blas

numba = pytest.importorskip("numba", reason="needs numba: the extra `fast`")
cpu_blas = pytest.importorskip("edutorch.kernels.cpu.gemm_microkernel")

pytestmark = pytest.mark.skipif(blas() is None, reason="NumPy's BLAS is one that cannot be called")


@numba.njit
def by_gemm(at, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    cpu_blas.gemm(at, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)


@numba.njit
def by_sgemm(at, m, n, k, a, lda, b, ldb, c, ldc):
    cpu_blas.sgemm(at, False, False, m, n, k, 1.0, a, lda, b, ldb, 0.0, c, ldc)


def rows(array):
    """How many numbers lie from one row to the next."""
    return array.strides[0] // array.itemsize


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_the_product_that_numpy_computes(dtype, trans_a, trans_b):
    generator = np.random.default_rng(0)
    a, b, c = (generator.normal(size=size).astype(dtype) for size in [(5, 7), (7, 3), (5, 3)])
    expected = 2 * (a @ b) + 0.5 * c
    a = np.ascontiguousarray(a.T) if trans_a else a
    b = np.ascontiguousarray(b.T) if trans_b else b
    by_gemm(
        cpu_blas.gemm_address(dtype), bool(trans_a), bool(trans_b), 5, 3, 7,
        2.0, a, rows(a), b, rows(b), 0.5, c, rows(c),
    )  # fmt: skip
    assert np.allclose(c, expected, rtol=1e-5 if dtype == np.float32 else 1e-13)


def test_parts_of_larger_matrices():
    generator = np.random.default_rng(0)
    large_a, large_b = (generator.normal(size=(9, 11)).astype(np.float32) for _ in "ab")
    large_c = np.full((9, 11), 3.0, np.float32)
    a, b, c = large_a[2:7, 1:8], large_b[1:8, 4:7], large_c[3:8, 2:5]
    by_gemm(
        cpu_blas.gemm_address(np.dtype("float32")), False, False, 5, 3, 7,
        1.0, a, rows(a), b, rows(b), 0.0, c, rows(c),
    )  # fmt: skip
    assert np.allclose(c, a @ b, rtol=1e-5)
    large_c[3:8, 2:5] = 3.0
    assert (large_c == 3).all(), "numbers beside the result were written"


def test_addresses_instead_of_arrays():
    a, b, c = np.float32([[1, 2], [3, 4]]), np.float32([[5, 6], [7, 8]]), np.empty((2, 2), "f4")
    by_sgemm(cpu_blas.gemm_addresses().sgemm, 2, 2, 2, *(
        argument for x in (a, b, c) for argument in (x.ctypes.data, 2)
    ))  # fmt: skip
    assert c.tolist() == [[19, 22], [43, 50]]


def test_what_a_result_holds_is_not_read_with_beta_0():
    a, c = np.ones((2, 2)), np.full((2, 2), np.nan)
    by_gemm(cpu_blas.gemm_addresses().dgemm, False, False, 2, 2, 2, 1.0, a, 2, a, 2, 0.0, c, 2)
    assert c.tolist() == [[2, 2], [2, 2]]


def test_other_kinds_of_numbers_have_no_address_and_do_not_compile():
    assert cpu_blas.gemm_address(np.dtype("int64")) is None
    whole = np.ones((2, 2), int)
    with pytest.raises(numba.TypingError):
        by_gemm(0, False, False, 2, 2, 2, 1.0, whole, 2, whole, 2, 0.0, whole, 2)


def test_without_such_a_library_there_is_no_address(monkeypatch):
    monkeypatch.setattr(cpu_blas, "blas", lambda: None)
    assert cpu_blas.gemm_addresses() is None
    assert cpu_blas.gemm_address(np.dtype("float32")) is None


def test_threads_can_be_told_and_asked():
    library = blas()
    if library.get_num_threads() is None:
        pytest.skip("this library does not say how many threads it uses")
    before = library.get_num_threads()
    library.set_num_threads(1)
    assert library.get_num_threads() == 1
    library.set_num_threads(before)
    assert library.get_num_threads() == before


def test_a_library_of_another_kind_is_left_alone():
    class Other:
        def __getitem__(self, name):
            return ctypes.CFUNCTYPE(None)(lambda: None)

    library = Blas(Other(), "", "")
    assert (library.name, library.get_num_threads(), library.core()) == ("other", None, None)
    library.set_num_threads(3)


PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from kernel import double
from edutorch.kernels.cpu.gemm_microkernel import gemm_addresses
a = np.ones((3, 3))
double(gemm_addresses().dgemm, a)
print(int(a[0, 0]), sum(double.stats.cache_hits.values()), sum(double.stats.cache_misses.values()))
"""

KERNEL = """
import numpy as np
from numba import njit
from edutorch.kernels.cpu.gemm_microkernel import gemm
@njit("void(int64, float64[:, ::1])", cache=True)
def double(at, c):
    eye = np.eye(3)
    gemm(at, False, False, 3, 3, 3, 1.0, eye, 3, eye, 3, 1.0, c, 3)
"""


def test_a_second_process_loads_the_kernel_from_the_disk(tmp_path):
    (tmp_path / "kernel.py").write_text(KERNEL)
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(folder=str(tmp_path))],
            capture_output=True, text=True, check=True,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        ).stdout.split()
        for _ in range(2)
    ]  # fmt: skip
    assert outputs == [["2", "0", "1"], ["2", "1", "0"]]
