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
from . import cupy_memory, kernel_registry, simulated_cards
from .cards import CardRandom, Cards
from .cuda_problems import (
    card_problem,
    driver_version_problem,
    import_problem,
    package_problem,
)  # fmt: skip
from .cupy_corrections import CorrectedNamespace, scatter_add
from .numpy import Array, Backend
from .pending_checks import raise_pending
from .philox_device import DeviceRandom
from .platform import IS_WINDOWS

_DRIVER = "nvcuda.dll" if IS_WINDOWS else "libcuda.so.1"
_HINT = (
    'a "cuda" device needs an NVIDIA GPU with its driver, and pip install "edutorch[cuda]"; '
    'without them use device="cpu", or let simulated cards answer for it: '
    "python -m edutorch run --cuda-as-cpu SCRIPT (EDUTORCH_CUDA_AS_CPU=1)"
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
    if status:
        return f"the NVIDIA driver does not start (CUDA error {status})"
    version = ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    return driver_version_problem(version.value)


def problems() -> list[str]:
    """Return the reasons why "cuda" does not work here, as far as they can be checked cheaply."""
    if simulated_cards():
        return []
    if importlib.util.find_spec("cupy") is None:
        return ["CuPy is not installed", *filter(None, [driver_problem()])]
    return [problem for problem in (driver_problem(), package_problem()) if problem]


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
        raise DeviceError("cuda", import_problem(error), hint=_HINT) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
        cards = [cupy.cuda.runtime.getDeviceProperties(index) for index in range(count)]
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError("cuda", f"CuPy cannot use the GPU ({error})", hint=_HINT) from error
    for card in cards:
        problem = card_problem(card["name"].decode(), (card["major"], card["minor"]))
        if problem is not None:
            raise DeviceError("cuda", problem)
    return cupy


class CupyBackend(Backend):
    """A GPU.

    Args:
        index: its number.
        cards: all of them, between which the current one is switched.

    Raises: DeviceError: CuPy is not installed, or there is no GPU.
    """

    name = "cuda"
    is_accelerator = True
    checks_access = False
    kernels = "cuda"
    half_products = frozenset(
        {"linear", "mm", "matmul", "bmm", "attention_forward", "conv2d", "conv_nd",
         "conv_transpose_nd", "conv_weight_grad"}
    )  # fmt: skip
    checks_later = True

    def __init__(self, index: int, cards: Cards) -> None:
        kernel_registry.activate(self.kernels)
        self.index, self.cards = index, cards
        self.xp = CorrectedNamespace(import_cupy())
        self.array_type = self.xp.ndarray
        self.card_memory = cupy_memory.shared(self.xp.library)
        # A singular matrix is an error here as on the CPU (in this thread: CuPy's setting is
        # one per thread, and without it the elements are NaN).
        importlib.import_module("cupyx").seterr(linalg="raise")

    def run_op(self, op: Any, inputs: dict[str, Any], settings: dict[str, Any]) -> Any:
        return self.on_card(super().run_op, op, inputs, settings)

    def from_numpy(self, array: np.ndarray) -> Array:
        return self.xp.asarray(array, blocking=True)

    def to_numpy(self, array: Array) -> np.ndarray:
        raise_pending(self)
        return array.get()

    def upload(self, array: np.ndarray) -> Array:
        # From pinned memory, CuPy copies in the current stream, and keeps the memory until then.
        return self.xp.asarray(array, blocking=False)

    def pin(self, array: np.ndarray) -> np.ndarray:
        return self.card_memory.pin(array)

    def is_pinned(self, array: np.ndarray) -> bool:
        return self.card_memory.is_pinned(array)

    def scatter_add(self, target: Array, index: Any, values: Array) -> None:
        values_given = (target, index, values)
        if kernel_registry.run_on_device(self.kernels, "ADD_AT", target.size, values_given) is None:
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

    def generator(self, seed: int) -> CardRandom:
        return CardRandom(self.on_card(DeviceRandom, self.xp, seed), self)

    def is_capturing(self) -> bool:
        return self.xp.cuda.get_current_stream().is_capturing()

    def synchronize(self) -> None:
        self.xp.cuda.runtime.deviceSynchronize()
        raise_pending(self)


class Gpus(Cards):
    """The GPUs of this machine. CUDA keeps the current one of each thread itself."""

    def __init__(self) -> None:
        cupy = import_cupy()
        super().__init__("cuda", cupy.cuda.runtime.getDeviceCount(), CupyBackend, "GPU")
        self.runtime, self.array_type = cupy.cuda.runtime, cupy.ndarray

    def current_index(self) -> int:
        return self.runtime.getDevice()

    def select(self, index: int) -> None:
        self.check(index)
        self.runtime.setDevice(index)

    def index_of(self, array: Array) -> int:
        return array.device.id


def make_cards() -> Cards:
    """Return the GPUs of this machine.

    Raises: DeviceError: CuPy is not installed, or there is no GPU.
    """
    return Gpus()
