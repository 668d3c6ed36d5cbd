"""The cache of generated kernels, which are compiled in the background, once for each source.

The source is written to a file of its own, named by the hash of its text and of what it depends on.
numba caches the compiled kernel next to that file, so that the next process only loads it.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
from collections.abc import Callable
from pathlib import Path

from ..errors import warn
from ..kernels.disk_cache import import_source
from ..kernels.formulas import function_text
from ..utils.process import compiler
from .kernel_layout import KernelText

__all__ = ["Kernel", "is_available", "kernel_for", "wait_for_all"]

HEAD = '''\
"""A kernel that edutorch.compile has written; see `print(compiled.code)`."""

import math
from math import inf, nan

import numpy as np
from numba import njit
from numpy import float32, float64, int64

'''
MODULES = {
    "exp": "vector_math", "exp_nonpositive": "vector_math", "log": "vector_math",
    "tanh": "vector_math", "erf": "vector_math", "total": "row_reduce", "row_max": "row_reduce",
    "expm1_nonpositive": "vector_math", "log1p_small": "vector_math", "use_wide_vectors": "jit",
    "claim_range": "work_queue",
}  # fmt: skip
FORMULAS = {
    "gelu": ("gelu", "none"), "gelu_slope": ("gelu/input", "none"),
    "gelu_tanh": ("gelu", "tanh"), "gelu_tanh_slope": ("gelu/input", "tanh"),
}  # fmt: skip
"""Functions that are written into the file: the op or the rule, and its setting `approximate`."""

FORMULA_IMPORTS = """\
from numba.extending import register_jitable

from edutorch.kernels.cpu.scalar_functions import *
from edutorch.kernels.cpu.vector_math import *
"""
BUILT_IN = {"inf", "nan", "math", "float32", "float64", "int64", "bool"}
OPTIONS = 'cache=True, nogil=True, error_model="numpy"'


class Kernel:
    """A generated kernel.

    Attributes:
        run: the compiled function; None until it is ready.
        failed: why it cannot be compiled.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.run: Callable[..., None] | None = None
        self.failed: str | None = None
        self.done = threading.Event()
        self.listeners: list[Callable[[Kernel], None]] = []

    def add_listener(self, listener: Callable[[Kernel], None]) -> None:
        """Call `listener` when compilation has ended, perhaps at once."""
        with _lock:
            if not self.done.is_set():
                self.listeners.append(listener)
                return
        listener(self)

    def make(self) -> None:
        """Compile the kernel, or load it from the cache."""
        if self.done.is_set():
            return
        try:
            if compiler.broken:
                raise RuntimeError("this process was forked while a compiler was at work")
            self.run = import_source(self.source, toolchain_bytes()).kernel
        except (ImportError, OSError, RuntimeError, TypeError, ValueError, LookupError) as error:
            self.failed = f"{type(error).__name__}: {error}".splitlines()[0]
            warn(f"compile: a kernel cannot be made ({self.failed}): slower, the same results")
        except Exception as error:
            if not type(error).__module__.startswith(("numba", "llvmlite")):
                raise
            self.failed = f"{type(error).__name__}: {error}".splitlines()[0]
            warn(f"compile: a kernel cannot be compiled ({self.failed}): slower, the same results")
        finally:
            with _lock:
                self.done.set()
                listeners, self.listeners = self.listeners, []
            for listener in listeners:
                listener(self)


def is_available() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


@functools.cache
def toolchain_bytes() -> bytes:
    """Return what a compiled kernel depends on besides its own source, as bytes to hash."""
    import llvmlite
    import numba

    from ..kernels.cpu import row_reduce, scalar_functions, vector_math, work_queue

    files = (scalar_functions, work_queue, vector_math, row_reduce)
    texts = [Path(str(file.__file__)).read_bytes() for file in files]
    return b"".join([numba.__version__.encode(), llvmlite.__version__.encode(), *texts])


def file_text(text: KernelText) -> str:
    """Return the complete source of a kernel's file."""
    imports: dict[str, list[str]] = {}
    formulas = sorted(text.needs & FORMULAS.keys())
    for name in sorted(text.needs - BUILT_IN - FORMULAS.keys()):
        imports.setdefault(MODULES.get(name, "scalar_functions"), []).append(name)
    lines = [
        f"from edutorch.kernels.cpu.{module} import {', '.join(names)}\n"
        for module, names in sorted(imports.items())
    ]
    for name in formulas:
        key, approximate = FORMULAS[name]
        lines.append("\n\n" + function_text(name, key, approximate=approximate))
    head = HEAD + FORMULA_IMPORTS * bool(formulas) + "".join(lines) + ("\n" if lines else "")
    return f"{head}\n@njit({text.signature!r}, {OPTIONS})\n{text.anonymous_body}"


_kernels: dict[str, Kernel] = {}
_lock = threading.Lock()


def kernel_for(text: KernelText, wait: bool = False) -> Kernel:
    """Return the kernel of a source; the same one for the same source.

    Args:
        wait: compile it now. Otherwise a background thread does.
    """
    source = file_text(text)
    with _lock:
        kernel = _kernels.get(source)
        is_new = kernel is None
        if kernel is None:
            kernel = _kernels[source] = Kernel(source)
    if wait:
        if is_new:
            kernel.make()
        kernel.done.wait()
    elif is_new:
        compiler.submit(kernel.make)
    return kernel


def wait_for_all() -> None:
    """Wait until every requested kernel is compiled."""
    compiler.hurry()  # a forked process has no thread of its own yet, too
    for kernel in list(_kernels.values()):
        kernel.done.wait()
