"""NumPy's BLAS library, accessed by its C functions.

NumPy bundles a BLAS library and does not export its address. But a shared library resolves the
functions of the libraries it was linked with, so NumPy's own compiled part gives access to them.

Its threads and those of the kernels must not work at the same time: on a busy machine, two pools
that wait for each other take seconds for what one thread does in milliseconds. So as soon as
kernels are used, the library is limited to one thread, and large products are divided by the
kernels' own pool (`kernels/cpu/matmul.py`). NumPy products of the program itself then have one
thread too; `with backends.blas.all_threads():` restores all of them inside the block.
"""

from __future__ import annotations

import atexit
import ctypes
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from typing import Any

import numpy

from .platform import HAS_THREADS

__all__ = [
    "Blas", "LONG", "LONG_SIDE", "all_threads", "blas", "interruptible", "limit_threads",
    "one_thread", "release_threads", "use_threads",
]  # fmt: skip

NAMES = (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", ""))
"""Prefixes and suffixes of the C names in different builds: NumPy's wheels use the first pair."""


class Blas:
    """A library that multiplies matrices.

    Attributes:
        sgemm, dgemm: the addresses of its product of matrices, of float32 and of float64.
        name: "openblas", "mkl", or "other", whose threads cannot be counted or set.
        suffix: behind its C names: "64_" if its integers have 64 bits.
    """

    def __init__(self, library: ctypes.CDLL, prefix: str, suffix: str) -> None:
        self._library, self._prefix, self.suffix = library, prefix, suffix
        self.sgemm = address_of(library[f"{prefix}cblas_sgemm{suffix}"])
        self.dgemm = address_of(library[f"{prefix}cblas_dgemm{suffix}"])
        self._threads = self.function("openblas_get_num_threads")
        self._set_threads = self.function("openblas_set_num_threads")
        self.name = "openblas" if self._set_threads else "other"
        if hasattr(library, "MKL_Set_Num_Threads"):
            self.name = "mkl"
            self._threads = library.MKL_Get_Max_Threads
            self._set_threads = library.MKL_Set_Num_Threads

    def function(self, name: str) -> Any:
        """Return a C function of the library, None if it has none of this name."""
        return getattr(self._library, f"{self._prefix}{name}{self.suffix}", None)

    def get_num_threads(self) -> int | None:
        """Return the number of threads of one product; None if unknown."""
        return self._threads() if self._threads is not None else None

    def set_num_threads(self, count: int) -> None:
        """Set the number of threads of one product, if the library supports it."""
        if self._set_threads is not None:
            self._set_threads(ctypes.c_int(count))

    def core(self) -> str | None:
        """Return the CPU whose kernels OpenBLAS chose ("Haswell", "SkylakeX"); else None."""
        function = self.function("openblas_get_corename")
        return self._text(function) if function is not None else None

    def version(self) -> str | None:
        """Return the version string of OpenBLAS ("OpenBLAS 0.3.31 …"); else None."""
        function = self.function("openblas_get_config")
        return self._text(function) if function is not None else None

    @staticmethod
    def _text(function: Any) -> str:
        function.restype = ctypes.c_char_p
        return function().decode()


@cache
def blas() -> Blas | None:
    """Return NumPy's library of matrix products; None if it is none that can be called."""
    if struct.calcsize("P") != 8 or sys.byteorder != "little":
        return None  # how numbers are passed is known for the others: see kernels/cpu/
    for library in candidates():
        for prefix, suffix in NAMES:
            if hasattr(library, f"{prefix}cblas_sgemm{suffix}"):
                return Blas(library, prefix, suffix)
    return None


# Threads --------------------------------------------------------------------------------


class ThreadSetting:
    """The number of threads while the library is not limited to one."""

    threads: int | None = None
    is_limited = False


def limit_threads() -> None:
    """Limit the library to the calling thread."""
    library = blas()
    if ThreadSetting.is_limited or library is None:
        return
    if ThreadSetting.threads is None:
        ThreadSetting.threads = library.get_num_threads()
    ThreadSetting.is_limited = True
    library.set_num_threads(1)


def release_threads() -> None:
    """Restore the library's number of threads."""
    library = blas()
    if ThreadSetting.is_limited and library is not None:
        ThreadSetting.is_limited = False
        library.set_num_threads(ThreadSetting.threads or 1)


def use_threads(count: int) -> None:
    """Set the number of threads of one product, for when the library is not limited to one."""
    library = blas()
    ThreadSetting.threads = count
    if library is not None:
        library.set_num_threads(1 if ThreadSetting.is_limited else count)


@contextmanager
def all_threads() -> Iterator[None]:
    """Let NumPy's own products use all threads inside the block, though kernels are in use.

    >>> import numpy
    >>> with backends.blas.all_threads():
    ...     numpy.ones((2, 2)) @ numpy.ones((2, 2))
    array([[2., 2.],
           [2., 2.]])
    """
    held = ThreadSetting.is_limited
    release_threads()
    try:
        yield
    finally:
        if held:
            limit_threads()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the library to one thread inside the block.

    >>> with backends.blas.one_thread():
    ...     pass
    """
    held = ThreadSetting.is_limited
    limit_threads()
    try:
        yield
    finally:
        if not held:
            release_threads()


# Finding the library --------------------------------------------------------------------


def candidates() -> Iterator[ctypes.CDLL]:
    """Yield the candidate libraries: NumPy's compiled part, then those it bundles."""
    compiled = sys.modules["numpy"]._core._multiarray_umath.__file__  # type: ignore[attr-defined]
    yield ctypes.CDLL(compiled)  # loaded already: this only increases its reference count
    for path in sorted(Path(numpy.__file__).parent.with_name("numpy.libs").glob("*blas*")):
        yield ctypes.CDLL(str(path))  # Windows does not search what a library was linked with


def address_of(function: Any) -> int:
    """Return the address of a C function."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


# Long calls that Ctrl-C can interrupt ---------------------------------------------------------

# Python handles a signal between two instructions of the main thread, and none while that is inside
# LAPACK or BLAS. So long computations run in a helper thread, and the main thread waits for it in
# Python. An interrupt is then raised there; the result of the helper is dropped when it is done.
# (Until then it keeps its inputs in memory and its cores busy.)

LONG = 2_000_000_000
"""So many multiplications may take a second on a slow machine; on a fast one they take 20 ms,
of which the helper thread is a hundredth."""

LONG_SIDE = 250_000
"""A factor of such a product has more elements, unless the result alone needs gigabytes."""

EXIT_LIMIT = 20.0
"""Seconds to wait at exit for a dropped call, while its libraries must stay loaded."""


_running: set[Thread] = set()


@atexit.register
def wait_for_dropped() -> None:
    """Wait until dropped calls have returned."""
    for thread in tuple(_running):
        thread.join(EXIT_LIMIT)


def interruptible(function: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Call a long-running function such that Ctrl-C is raised here at once.

    The function must return new arrays: one that writes into an array of the caller would continue
    after an interrupt. In threads other than the main one, which receive no signals, it is called
    directly.
    """
    if not HAS_THREADS or current_thread() is not main_thread():
        return function(*arguments, **settings)
    done, outcome = Event(), []
    context = copy_context()  # with NumPy's settings for floating-point errors

    def compute() -> None:
        try:
            outcome.append((context.run(function, *arguments, **settings), None))
        except BaseException as error:  # noqa: BLE001  (passed on)
            outcome.append((None, error))
        finally:
            done.set()
            _running.discard(current_thread())

    thread = Thread(target=compute, name="edutorch long call", daemon=True)
    _running.add(thread)
    thread.start()
    while not done.wait(0.1):  # on Windows signals are handled between two waits
        pass
    result, error = outcome[0]
    if error is not None:
        raise error
    return result
