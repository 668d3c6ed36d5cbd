"""A CUDA text, and how its kernels are launched.

    SCALE = CudaModule.from_text("scale", '''
    #include "common.cuh"
    extern "C" __global__ void scale(float *x, float factor, int size) { … }
    ''')
    launch(SCALE, "scale", blocks_for(size, 256), 256, (x, np.float32(2), np.int32(size)))

On a GPU the text is compiled by NVRTC (`nvrtc.py`). The tests set another launcher, which runs the
same text on the CPU, with arrays of NumPy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

__all__ = [
    "LAUNCHES", "CudaModule", "Launcher", "blocks_for", "index_type", "launch", "use_launcher",
]  # fmt: skip

FOLDER = Path(__file__).parent
INCLUDE = re.compile(r'^[ \t]*#include "([\w.]+)"[^\n]*\n', re.MULTILINE)
PRAGMA = re.compile(r"^#pragma once\n", re.MULTILINE)

LAUNCHES: Counter[str] = Counter()
"""How often each kernel has been launched in this process."""

Size = int | tuple[int, ...]
"""The size of a grid or of a block: along x, or along x, y and z."""


class CudaModule(NamedTuple):
    """A CUDA text with one or several kernels.

    Attributes:
        name: for errors, and for the file that keeps it when it is compiled.
        text: all of it: headers of this folder are part of it.
    """

    name: str
    text: str

    @classmethod
    def from_text(cls, name: str, text: str) -> CudaModule:
        """Make a module of a text, with each `#include "….cuh"` of this folder written out.

        Raises: FileNotFoundError: there is no such header.
        """
        return cls(name, inline_includes(text, set()))

    @classmethod
    def from_file(cls, file: str) -> CudaModule:
        """Make a module of a file of this folder, such as "softmax.cu"."""
        text = (FOLDER / file).read_text(encoding="utf-8")
        return cls.from_text(file.partition(".")[0], text)


def inline_includes(text: str, seen: set[str]) -> str:
    """Return a text with its headers in place of their includes, each once."""

    def content(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return ""
        seen.add(name)
        header = (FOLDER / name).read_text(encoding="utf-8")
        return f"// {name}\n{inline_includes(PRAGMA.sub('', header), seen)}\n"

    return INCLUDE.sub(content, text)


class Launcher(Protocol):
    """Runs a kernel. The arguments are arrays of its device, and NumPy's scalars."""

    def __call__(
        self, module: CudaModule, kernel: str, grid: tuple[int, ...], block: tuple[int, ...],
        arguments: Sequence[Any], shared_bytes: int,
    ) -> None: ...  # fmt: skip


def launch(
    module: CudaModule, kernel: str, grid: Size, block: Size, arguments: Sequence[Any],
    shared_bytes: int = 0,
) -> None:  # fmt: skip
    """Launch a kernel on the current stream.

    Args:
        kernel: the name of an `extern "C" __global__` function in the text.
        grid: the number of blocks.
        block: the number of threads of a block.
        arguments: arrays of the device, and NumPy's scalars, whose dtypes are those of C: a
            Python number would leave open which one is meant.
        shared_bytes: the size of `extern __shared__` memory.

    Raises: CudaCompileError: the text does not compile.
    """
    LAUNCHES[kernel] += 1
    _launcher(module, kernel, as_tuple(grid), as_tuple(block), arguments, shared_bytes)


def as_tuple(size: Size) -> tuple[int, ...]:
    """Return a size with all axes that were given."""
    return (size,) if size.__class__ is int else size  # type: ignore[return-value]


def blocks_for(size: int, block: int, elements: int = 1) -> int:
    """Return the number of blocks in which each thread does `elements` of `size`; at least one.

    >>> blocks_for(1000, 256)
    4
    """
    return max(1, -(-size // (block * elements)))


def index_type(*sizes: int) -> Any:
    """Return the dtype for indices below these sizes: int32, which is quicker, or int64.

    >>> index_type(1000)
    <class 'numpy.int32'>
    """
    # Indices of a loop step beyond the end once: a grid's stride is left below the limit.
    return np.int32 if max(sizes, default=0) < 2**31 - 2**24 else np.int64


def launch_on_gpu(
    module: CudaModule, kernel: str, grid: tuple[int, ...], block: tuple[int, ...],
    arguments: Sequence[Any], shared_bytes: int,
) -> None:  # fmt: skip
    """Launch a kernel on the current GPU; it is compiled at its first use."""
    from .nvrtc import function_on_device

    function_on_device(module, kernel)(grid, block, tuple(arguments), shared_mem=shared_bytes)


_launcher: Launcher = launch_on_gpu


@contextmanager
def use_launcher(launcher: Launcher) -> Iterator[None]:
    """Launch kernels by another launcher inside the block, for arrays of the device "strict" too.

    It gets NumPy arrays: the memory of the tensors' own.
    """
    from ...backends import ACCELERATOR, get, kernel_registry

    def launch_on_host(
        module: CudaModule, kernel: str, grid: tuple[int, ...], block: tuple[int, ...],
        arguments: Sequence[Any], shared_bytes: int,
    ) -> None:  # fmt: skip
        values = [getattr(argument, "_values", argument) for argument in arguments]
        launcher(module, kernel, grid, block, values, shared_bytes)

    global _launcher
    before, _launcher = _launcher, launch_on_host
    strict = get("strict")
    kernels_before, strict.kernels = strict.kernels, ACCELERATOR
    kernel_registry.activate(ACCELERATOR)
    try:
        yield
    finally:
        _launcher = before
        strict.kernels = kernels_before
