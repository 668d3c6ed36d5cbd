"""The CUDA backend: NVIDIA GPUs through CuPy. Imported only when a "cuda" device is used.

What can be checked without CuPy (is it installed, is there a driver, does the driver
see a GPU) is checked first, so that the error names what is missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import DeviceError
from .cupy_corrections import CorrectedNamespace, scatter_add
from .numpy import MANTISSA_BITS, Array, Backend, generator_dtype
from .pending_checks import raise_pending
from .platform import IS_WINDOWS

_DRIVER = "nvcuda.dll" if IS_WINDOWS else "libcuda.so.1"
_HINT = (
    'a "cuda" device needs an NVIDIA GPU with its driver, and pip install "edutorch[cuda]"; '
    'without them use device="cpu"'
)


@functools.cache
def driver_problem() -> str | None:
    """Return why no GPU can be reached through the driver, None if one can."""
    try:
        driver = ctypes.CDLL(_DRIVER)
    except OSError:
        return f"no NVIDIA driver is installed ({_DRIVER} was not found)"
    status = driver.cuInit(0)
    count = ctypes.c_int(0)
    if status == 0:
        status = driver.cuDeviceGetCount(ctypes.byref(count))
    no_device = 100
    if status == no_device or (status == 0 and count.value == 0):
        return "the NVIDIA driver sees no GPU"
    return f"the NVIDIA driver does not start (CUDA error {status})" if status else None


def problems() -> list[str]:
    """Return the reasons why "cuda" does not work here, as far as they can be checked cheaply."""
    missing = [] if importlib.util.find_spec("cupy") else ["CuPy is not installed"]
    driver = driver_problem()
    return missing + ([driver] if driver else [])


def import_cupy() -> Any:
    """Import CuPy.

    Raises: DeviceError: it is missing or broken, or there is no GPU to use it on.
    """
    reasons = problems()
    if reasons:
        raise DeviceError("cuda", "; ".join(reasons), hint=_HINT)
    try:
        cupy: Any = importlib.import_module("cupy")
    except ImportError as error:
        raise DeviceError("cuda", f"CuPy cannot be imported ({error})", hint=_HINT) from error
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError("cuda", f"CuPy cannot use the GPU ({error})", hint=_HINT) from error
    return cupy


class CupyRandom:
    """Random arrays from cuRAND's counter-based Philox generator, on the GPU.

    The same seed gives the same samples on each run, but not those of the CPU.
    CuPy's Generator has neither `normal` nor `permutation`: the first is
    `standard_normal` under another name, the second sorts random numbers.
    """

    def __init__(self, cupy: Any, seed: int) -> None:
        self._cupy = cupy
        self._seed = seed
        self._generator = cupy.random.Generator(cupy.random.Philox4x3210(seed))

    def uniform(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Uniform samples in [0, 1)."""
        drawn = self._generator.random(shape, dtype=generator_dtype(dtype))
        bits = MANTISSA_BITS.get(dtype.name)
        if bits:  # rounding up in the shorter dtype would give 1
            drawn = self._cupy.floor(drawn * 2**bits) / 2**bits
        return drawn.astype(dtype, copy=False)

    def normal(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Samples from the standard normal distribution."""
        drawn = self._generator.standard_normal(shape, dtype=generator_dtype(dtype))
        return drawn.astype(dtype, copy=False)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Array:
        """Integers in [low, high), as int64."""
        drawn = self._generator.integers(low, high, size=shape, dtype=np.int64)
        return drawn.astype(np.int64, copy=False)

    def permutation(self, n: int) -> Array:
        """The integers 0 … n-1 in random order."""
        keys = self._generator.random((n,), dtype=np.float64)
        return self._cupy.argsort(keys).astype(np.int64, copy=False)

    def get_state(self) -> dict[str, Any]:
        """Everything needed to continue from here (some megabytes, on the host)."""
        return {"seed": self._seed, "state": self._generator.bit_generator._state.get()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state that `get_state` returned on a GPU of the same model.

        Raises: ValueError: the state is from another GPU model.
        """
        state_array = self._generator.bit_generator._state
        if state["state"].shape != state_array.shape:
            raise ValueError("cuda: this state of the random generator is of another kind of GPU")
        self._seed = state["seed"]
        state_array.set(state["state"])


class CupyBackend(Backend):
    """The current CUDA device.

    Raises: DeviceError: CuPy is not installed, or there is no GPU.
    """

    name = "cuda"
    is_accelerator = True
    checks_access = False
    checks_later = True

    def __init__(self) -> None:
        self.xp = CorrectedNamespace(import_cupy())
        self.array_type = self.xp.ndarray
        # A singular matrix is an error here as on the CPU (in this thread: CuPy's setting is
        # one per thread, and without it the elements are NaN).
        importlib.import_module("cupyx").seterr(linalg="raise")

    def from_numpy(self, array: np.ndarray) -> Array:
        return self.xp.asarray(array, blocking=True)

    def to_numpy(self, array: Array) -> np.ndarray:
        raise_pending(self)
        return array.get()

    def scatter_add(self, target: Array, index: Any, values: Array) -> None:
        scatter_add(self.xp, target, index, values)

    def as_strided(
        self, array: Array, shape: Sequence[int], strides: Sequence[int], offset: int
    ) -> Array:
        self.remember_size(array)
        memory = array.data + offset
        return self.xp.ndarray(tuple(shape), array.dtype, memory, tuple(strides))

    def storage(self, array: Array) -> tuple[int, int]:
        memory = array.data.mem  # CuPy rounds its size up to a multiple of 512
        whole = array if array.base is None else array.base
        return memory.ptr, getattr(memory, "storage_bytes", whole.nbytes)

    def remember_size(self, array: Array) -> None:
        """Store the size of a storage in its memory, before a view is made that has no `base`."""
        with contextlib.suppress(AttributeError):  # memory of another allocator than CuPy's pool
            array.data.mem.storage_bytes = self.storage(array)[1]

    def memory(self, array: Array) -> Array:
        self.remember_size(array)
        start = self.xp.cuda.MemoryPointer(array.data.mem, 0)
        return self.xp.ndarray((self.storage(array)[1],), np.uint8, start)

    def shares_memory(self, view: Array, of: Array) -> bool:
        return view.data.mem is of.data.mem  # a view made by `as_strided` has no `base` there

    def address(self, array: Array) -> int:
        return array.data.ptr

    def generator(self, seed: int) -> CupyRandom:
        return CupyRandom(self.xp, seed)

    def synchronize(self) -> None:
        self.xp.cuda.runtime.deviceSynchronize()
        raise_pending(self)
