"""Compiles exported C++ programs, and calls them through their C interface."""

from __future__ import annotations

import ctypes
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
"""A warning is an error here."""

COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)]
"""The compilers of this machine."""

SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]


def compile_program(
    folder: Path, *, compiler: str = "g++", flags: tuple[str, ...] | list[str] = ("-O3",)
) -> tuple[Path, float]:
    """Compile main.cpp; return the program, and the seconds of a processor that it took."""
    target = folder / f"main_{compiler[0]}"
    before = child_seconds()
    compile_file([compiler, *FLAGS, *flags, str(folder / "main.cpp"), "-o", str(target)])
    return target, child_seconds() - before


def child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compile_file(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def run_program(program: Path, folder: Path, count: int = 1) -> str:
    """Run a program on its example; return what it prints."""
    done = subprocess.run(
        [str(program), str(folder), str(count)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:4000]
    return done.stdout


def largest_difference(printed: str) -> float:
    """Return the largest difference from Python that a program has printed."""
    lines = [line for line in printed.splitlines() if "differs from Python by" in line]
    assert lines, printed
    return max(float(line.split()[-1]) for line in lines)


class Array(ctypes.Structure):
    """An array of the C interface."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("rank", ctypes.c_int64), ("shape", ctypes.c_int64 * 8),
    ]  # fmt: skip


class Library:
    """A program as a shared library.

    Args:
        folder: the exported program.
        path: the library; compiled here if None.
    """

    def __init__(self, folder: Path, name: str, path: Path | None = None) -> None:
        if path is None:
            path = folder / f"lib{name}.so"
            compile_file(
                ["g++", *FLAGS, "-O2", "-shared", "-fPIC", str(folder / f"{name}_c.cpp"), "-o",
                 str(path)]
            )  # fmt: skip
        self.name, self.library = name, ctypes.CDLL(str(path))
        self.function("load").restype = ctypes.c_void_p
        self.function("error").restype = ctypes.c_char_p
        self.function("free").argtypes = [ctypes.c_void_p]
        self.program = self.function("load")(str(folder / "weights.safetensors").encode())
        assert self.program, self.error()

    def function(self, name: str) -> Any:
        return getattr(self.library, f"{self.name}_{name}")

    def error(self) -> str:
        return self.function("error")().decode()

    def __call__(self, arrays: list[np.ndarray], dtypes: list[np.dtype]) -> list[np.ndarray]:
        """Run the program; raise ValueError with its message if an input does not fit."""
        held = [np.ascontiguousarray(array) for array in arrays]
        inputs = (Array * len(held))()
        for entry, array in zip(inputs, held, strict=True):
            entry.data, entry.rank = array.ctypes.data, array.ndim
            entry.shape[: array.ndim] = array.shape
        outputs = (Array * len(dtypes))()
        if self.function("run")(ctypes.c_void_p(self.program), inputs, outputs):
            raise ValueError(self.error())
        results = []
        for output, dtype in zip(outputs, dtypes, strict=True):
            shape = tuple(output.shape[: output.rank])
            count = int(np.prod(shape)) * dtype.itemsize
            results.append(
                np.frombuffer(ctypes.string_at(output.data, count), dtype).reshape(shape)
            )
        return results

    def close(self) -> None:
        self.function("free")(self.program)
