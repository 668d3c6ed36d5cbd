"""What every test can ask for: a device, the oracle, the same random numbers."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import edutorch
from edutorch.backends.platform import HAS_THREADS
from tests import tables
from tests.devices import device  # noqa: F401  (a fixture for all)
from tests.lessons import table
from tests.oracle import require_torch

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and every test of Ctrl-C would wait in vain.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Without bytecode files each of the processes that tests start would compile all of edutorch anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A kernel that is made beside a test would decide by chance which path the test takes, and numba's
# import would take the warnings away that another thread collects.
os.environ.setdefault("EDUTORCH_KERNELS", "wait")
# nbformat's jsonschema takes it where it is there, to check addresses in Unicode, which no notebook
# has: its 38 grammars are built when it is imported, which takes seconds in each worker.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """What collecting makes is there to stay: nothing in it is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Let no garbage collection search the tens of thousands of tests again."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After each file, nor what it has imported: else a sixth of the time went into collections."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


class HangGuard:
    """Shows where a test hangs that takes longer than five minutes.

    pytest's own guard starts and ends a thread for each test, which costs more than
    most tests do. This one is set anew at most every ten seconds.
    """

    def __init__(self) -> None:
        self.file = os.fdopen(os.dup(2), "w")  # the terminal: pytest replaces 2 while tests run
        self.set = float("-inf")

    def pytest_runtest_logstart(self) -> None:
        now = time.monotonic()
        if HAS_THREADS and now - self.set > 10:
            self.set = now
            faulthandler.dump_traceback_later(310, file=self.file)

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()


def pytest_addoption(parser: pytest.Parser) -> None:
    tables.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(HangGuard())
    config.pluginmanager.register(tables)
    config.pluginmanager.register(table)


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
        warnings.filterwarnings("ignore", r"(Div|Mean)Backward0: ")  # the mean of nothing is NaN
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
        if item.get_closest_marker("gpu"):
            item.add_marker(no_gpu)
