"""What every test can ask for: a device, the oracle, the same random numbers."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import edutorch
from tests.devices import device  # noqa: F401  (a fixture for all)
from tests.oracle import require_torch

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and every test of Ctrl-C would wait in vain.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _same_start() -> None:
    """Each test starts with the same random numbers, whichever ran before it."""
    edutorch.manual_seed(0)


@pytest.fixture
def warnings_are_errors() -> Iterator[None]:
    """1/0 is inf and no warning, in every op."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"edutorch\.")
        for said_by_pytorch in ("var.*degrees of freedom", "Casting complex", "ComplexHalf"):
            warnings.filterwarnings("ignore", said_by_pytorch)
        yield


@pytest.fixture
def torch() -> Any:
    """PyTorch, the oracle."""
    return require_torch()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` need one: elsewhere they are skipped, and never count as passed."""
    if edutorch.cuda.is_available():
        return
    no_gpu = pytest.mark.skip(reason="needs an NVIDIA GPU and the extra `cuda`")
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(no_gpu)
