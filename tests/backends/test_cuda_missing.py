"""Without CuPy or a GPU, `device="cuda"` raises an error that names what is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from edutorch import backends
from edutorch.backends import cupy as cupy_backend
from edutorch.errors import DeviceError

HINT = (
    '\n  hint: a "cuda" device needs an NVIDIA GPU with its driver, '
    'and pip install "edutorch[cuda]"; without them use device="cpu", or let simulated cards '
    "answer for it: python -m edutorch run --cuda-as-cpu SCRIPT (EDUTORCH_CUDA_AS_CPU=1)"
)


@pytest.fixture
def machine(monkeypatch):
    """A machine with or without CuPy, and with or without a driver problem."""

    def pretend(cupy_installed: bool, driver: str | None) -> None:
        monkeypatch.setattr(
            cupy_backend.importlib.util,
            "find_spec",
            lambda name: object() if cupy_installed else None,
        )
        monkeypatch.setattr(cupy_backend, "driver_problem", lambda: driver)
        monkeypatch.delitem(backends._CARDS, "cuda", raising=False)

    return pretend


@pytest.mark.parametrize(
    ("cupy_installed", "driver", "reason"),
    [
        (False, None, "CuPy is not installed"),
        (True, "the NVIDIA driver sees no GPU", "the NVIDIA driver sees no GPU"),
        (
            False,
            "no NVIDIA driver is installed (libcuda.so.1 was not found)",
            "CuPy is not installed; no NVIDIA driver is installed (libcuda.so.1 was not found)",
        ),
    ],
)
def test_the_error_names_the_reason_and_the_extra(machine, cupy_installed, driver, reason):
    machine(cupy_installed, driver)
    with pytest.raises(DeviceError) as caught:
        backends.get("cuda")
    assert str(caught.value) == f"cuda: {reason}{HINT}"
    assert isinstance(caught.value, RuntimeError)  # what code written for PyTorch catches
    assert cupy_backend.problems()


def test_a_cupy_that_cannot_be_imported(machine, monkeypatch):
    machine(True, None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match=r"cuda: CuPy cannot be imported \(.*cupy.*\)"):
        backends.get("cuda")


def test_unknown_devices():
    with pytest.raises(DeviceError, match="there is no device 'gpu'"):
        backends.get("gpu")


class Driver:
    """A stand-in for the driver's library, with the functions that are called."""

    def __init__(self, starts: int, count: int, version: int = 13000) -> None:
        self.starts, self.count, self.version = starts, count, version

    def cuInit(self, flags: int) -> int:
        return self.starts

    def cuDriverGetVersion(self, pointer) -> int:
        pointer._obj.value = self.version
        return 0

    def cuDeviceGetCount(self, pointer) -> int:
        pointer._obj.value = self.count
        return 0


@pytest.mark.parametrize(
    ("driver", "problem"),
    [
        (Driver(0, 2), None),
        (Driver(0, 0), "the NVIDIA driver sees no GPU"),
        (Driver(100, 0), "the NVIDIA driver sees no GPU"),
        (Driver(999, 0), "the NVIDIA driver does not start (CUDA error 999)"),
    ],
)
def test_what_the_driver_says(monkeypatch, driver, problem):
    monkeypatch.setattr(cupy_backend.ctypes, "CDLL", lambda name: driver)
    assert cupy_backend.driver_problem.__wrapped__() == problem


def test_no_driver(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(cupy_backend.ctypes, "CDLL", missing)
    assert "no NVIDIA driver is installed" in cupy_backend.driver_problem.__wrapped__()


def test_asking_is_cheap():
    """`is_available` answers without importing CuPy."""
    code = (
        "import sys, edutorch.cuda; answer = edutorch.cuda.is_available(); "
        "assert answer in (True, False); assert 'cupy' not in sys.modules; "
        "assert edutorch.cuda.device_count() >= answer"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
