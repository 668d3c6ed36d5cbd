"""The kernels on rows, on fibers: against their definitions in float64, and without races."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from edutorch.kernels import report
from edutorch.kernels.gpu import norms, one_hot, reductions, softmax
from edutorch.kernels.gpu.module import use_launcher
from tests.gpu.fibers import FiberLauncher, check_addresses, has_compiler
from tests.gpu.row_checks import CHECKS, DTYPES, row_modules
from tests.gpu.text_checks import check_one_hot

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")

LAUNCHER = FiberLauncher(row_modules())


@pytest.fixture(autouse=True)
def fibers() -> Iterator[None]:
    """Kernels run on the CPU."""
    with use_launcher(LAUNCHER):
        yield


@pytest.mark.parametrize("file", CHECKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_compute_what_their_definitions_do(file: str, dtype: str) -> None:
    CHECKS[file](dtype)


def test_one_hot_vectors() -> None:
    check_one_hot("int64")
    assert "ONE_HOT" in report("cuda")
    run = one_hot.one_hot()
    assert run(np.zeros(3, np.int32), 4) is None
    assert run(np.zeros(0, np.int64), 4) is None


def test_infinities_and_nan_are_those_of_the_definition() -> None:
    x = np.array([[np.nan, 1, 2], [-np.inf, 0, 1], [-np.inf] * 3, [np.inf, 0, 1]], "f")
    with np.errstate(invalid="ignore"):
        shifted = np.exp(x - x.max(1, keepdims=True))
        expected = shifted / shifted.sum(1, keepdims=True)
    result = softmax.softmax()(x, -1, None)
    assert np.allclose(result, expected, equal_nan=True)
    assert np.array_equal(reductions.amax()(x, 1, False), x.max(1), equal_nan=True)


def test_what_no_kernel_does_is_left_to_the_definition() -> None:
    x, empty = np.ones((2, 3), "f"), np.ones((2, 0), "f")
    assert softmax.softmax()(x, 0, None) is None
    assert softmax.softmax()(empty, 1, None) is None
    assert softmax.softmax()(x.astype("i"), 1, None) is None
    assert reductions.sum()(np.ones((2, 3, 4), "f"), 1, False, None) is None
    assert reductions.var()(np.ones((2, 1), "f"), 1, False, 1) is None
    assert norms.native_layer_norm()(x, np.ones(3, "d"), None, 1, 1e-5) is None


@pytest.mark.slow
@pytest.mark.parametrize("file", CHECKS)
def test_no_address_is_out_of_bounds(file: str) -> None:
    launcher = FiberLauncher(row_modules(), orders=(0,))
    launcher.record = []
    with use_launcher(launcher):
        CHECKS[file]("float32", sizes=(1, 33, 1023))
    assert launcher.record
    check_addresses(launcher.record)
