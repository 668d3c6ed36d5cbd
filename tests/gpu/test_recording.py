"""The recording stream has the names and arguments of the installed CuPy."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from tests.gpu import recording


def parameters(function: Any) -> list[str]:
    """Return the names of a function's parameters, from its signature or its docstring."""
    try:
        return [name for name in inspect.signature(function).parameters if name != "self"]
    except ValueError:  # a function of Cython: its docstring begins with the signature
        line = (function.__doc__ or "").splitlines()[0]
        inside = re.search(r"\((.*?)\)", line)
        assert inside is not None, line
        names = [part.partition("=")[0].split()[-1] for part in inside[1].split(",") if part]
        return [name for name in names if name != "self"]


@pytest.mark.parametrize("name", ["Stream", "Event", "Graph", "MemoryPool"])
def test_classes(name: str) -> None:
    cupy = pytest.importorskip("cupy", reason="needs CuPy's wheel: see `make test-gpu`")
    ours, real = getattr(recording.Cuda, name), getattr(cupy.cuda, name)
    for member, function in vars(ours).items():
        if member.startswith("_") or not inspect.isfunction(function):
            continue
        assert hasattr(real, member), f"CuPy's {name} has no {member}"
        assert parameters(function) == parameters(getattr(real, member)), f"{name}.{member}"
    if name == "Stream":
        assert parameters(ours.__init__) == parameters(real.__init__)


def test_functions_and_errors() -> None:
    cupy = pytest.importorskip("cupy", reason="needs CuPy's wheel: see `make test-gpu`")
    assert parameters(recording.Cuda.using_allocator) == parameters(cupy.cuda.using_allocator)
    ours = parameters(recording.Cuda.get_current_stream)
    assert ours == parameters(cupy.cuda.get_current_stream)
    for module, name in (("runtime", "CUDARuntimeError"), ("memory", "OutOfMemoryError")):
        assert issubclass(getattr(getattr(cupy.cuda, module), name), Exception)
    real = parameters(cupy.ndarray.set)
    assert parameters(recording.set_from_host)[1:] == real
    assert cupy.ndarray.__weakrefoffset__, "arrays of CuPy cannot be watched"
