"""What is wrong with a machine, in one sentence with what to do."""

import importlib.metadata
import sys
from types import SimpleNamespace

import pytest

from edutorch.backends import cuda_problems
from edutorch.backends import cupy as cupy_backend
from edutorch.errors import DeviceError


@pytest.fixture
def installed(monkeypatch):
    """Pretend that packages are installed."""

    def pretend(*names):
        packages = [SimpleNamespace(metadata={"Name": name}) for name in names]
        monkeypatch.setattr(importlib.metadata, "distributions", lambda: packages)

    return pretend


def test_an_old_driver(installed):
    installed("numpy", "cupy-cuda13x")
    assert cuda_problems.driver_version_problem(13010) is None
    assert cuda_problems.driver_version_problem(12040) == (
        "the NVIDIA driver is too old: it knows CUDA 12.4, and cupy-cuda13x needs 13.0; update it "
        "to 580 or newer, or pip uninstall cupy-cuda13x and pip install cupy-cuda12x"
    )
    assert cuda_problems.driver_version_problem(11080).endswith("update it to 580 or newer")
    installed("cupy-cuda12x")
    assert cuda_problems.driver_version_problem(13010) is None  # new drivers run old programs
    installed("cupy")
    assert cuda_problems.driver_version_problem(11080) is None  # built on this machine


def test_two_cupys(installed):
    installed("cupy-cuda12x", "CuPy-cuda13x")
    assert cuda_problems.package_problem() == (
        "several packages of CuPy are installed (cupy-cuda12x, cupy-cuda13x) and break each other: "
        "pip uninstall cupy-cuda12x cupy-cuda13x, then pip install cupy-cuda13x"
    )
    installed("cupy-cuda13x")
    assert cuda_problems.package_problem() is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("numpy.core.multiarray failed to import", "does not fit the installed NumPy"),
        ("numpy.dtype size changed, may indicate", "does not fit the installed NumPy"),
        ("libcublas.so.13: cannot open shared object file", "a library of CUDA is missing"),
        ("no module named cupy", "CuPy cannot be imported (no module named cupy)"),
    ],
)
def test_a_cupy_that_cannot_be_imported(text, said):
    problem = cuda_problems.import_problem(ImportError(text))
    assert said in problem and text in problem
    assert "pip install" in problem or "cannot be imported" in problem


def test_an_old_card(monkeypatch):
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 1, CUDARuntimeError=OSError,
        getDeviceProperties=lambda index: {"name": b"GTX 1080", "major": 6, "minor": 1},
    )  # fmt: skip
    fake = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(cupy_backend, "problems", lambda: [])
    monkeypatch.setitem(sys.modules, "cupy", fake)
    with pytest.raises(DeviceError) as caught:
        cupy_backend.import_cupy()
    assert str(caught.value) == (
        "cuda: the GTX 1080 is sm_61, and CUDA 13 needs sm_75 or newer: use another GPU, or "
        'device="cpu"'
    )
    runtime.getDeviceProperties = lambda index: {"name": b"T4", "major": 7, "minor": 5}
    assert cupy_backend.import_cupy() is fake


OLD_DRIVER = "the NVIDIA driver is too old: it knows CUDA 12.4, and cupy-cuda13x needs 13.0"


def test_the_device_says_that_its_driver_is_old(installed, monkeypatch):
    def version(pointer):
        pointer._obj.value = 12040
        return 0

    def count(pointer):
        pointer._obj.value = 1
        return 0

    driver = SimpleNamespace(
        cuInit=lambda flags: 0, cuDriverGetVersion=version, cuDeviceGetCount=count
    )
    installed("cupy-cuda13x")
    monkeypatch.setattr(cupy_backend.ctypes, "CDLL", lambda name: driver)
    problem = cupy_backend.driver_problem.__wrapped__()
    assert problem.startswith(OLD_DRIVER)
    monkeypatch.setattr(cupy_backend, "driver_problem", lambda: problem)
    with pytest.raises(DeviceError, match=OLD_DRIVER):
        cupy_backend.import_cupy()


def test_the_device_says_that_two_cupys_are_installed(installed, monkeypatch):
    installed("cupy-cuda12x", "cupy-cuda13x")
    monkeypatch.setattr(cupy_backend, "driver_problem", lambda: None)
    monkeypatch.setattr(cupy_backend.importlib.util, "find_spec", lambda name: name)
    with pytest.raises(DeviceError) as caught:
        cupy_backend.import_cupy()
    assert "pip uninstall cupy-cuda12x cupy-cuda13x, then pip install" in str(caught.value)


def test_the_device_says_that_cupy_and_numpy_do_not_fit(monkeypatch):
    def failing(name):
        raise ImportError("numpy.core.multiarray failed to import")

    monkeypatch.setattr(cupy_backend, "problems", lambda: [])
    monkeypatch.setattr(cupy_backend.importlib, "import_module", failing)
    with pytest.raises(DeviceError) as caught:
        cupy_backend.import_cupy()
    assert str(caught.value).startswith("cuda: CuPy does not fit the installed NumPy (numpy.core")
    assert 'pip install --upgrade "edutorch[cuda]"' in str(caught.value)
