"""Process-wide settings with PyTorch's names.

Settings without an effect here are stored and returned, so that scripts that use them run.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from . import backends, dtypes
from .backends.blas import use_threads
from .backends.cuda import matmul
from .backends.device import set_default_device

__all__ = [
    "are_deterministic_algorithms_enabled", "compiled_with_cxx11_abi",
    "get_deterministic_debug_mode", "get_float32_matmul_precision", "get_num_interop_threads",
    "get_num_threads", "is_deterministic_algorithms_warn_only_enabled", "is_storage",
    "is_vulkan_available", "is_warn_always_enabled", "set_default_tensor_type",
    "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal",
    "set_num_interop_threads", "set_num_threads", "set_warn_always", "typename",
    "use_deterministic_algorithms",
]  # fmt: skip


class State:
    """The current settings."""

    threads: int | None = None
    interop_threads: int | None = None
    deterministic = False
    warn_only = False
    warn_always = False


# Threads -----------------------------------------------------------------------------------------

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""The environment variables that set the number of threads of BLAS libraries."""


def get_num_threads() -> int:
    """Return the number of threads that an op may use.

    >>> get_num_threads() >= 1
    True
    """
    if State.threads is None:
        State.threads = default_num_threads()
    return State.threads


def default_num_threads() -> int:
    """Return the number in the environment, or else the number of CPUs of this process."""
    counts = [os.environ[name] for name in THREAD_VARIABLES if os.environ.get(name, "").isdigit()]
    if counts and int(counts[0]) > 0:
        return int(counts[0])
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def set_num_threads(int: int) -> None:
    """Set the number of threads that an op may use, in kernels and in BLAS.

    Raises: ValueError: less than 1.

    >>> set_num_threads(get_num_threads())
    """
    if int < 1:
        raise ValueError(f"set_num_threads expects a positive integer, got {int}")
    State.threads = int
    try:  # for further libraries, such as SciPy's own
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        pass
    else:
        threadpool_limits(limits=int)
    use_threads(int)


def get_num_interop_threads() -> int:
    """Return the number of ops that may run concurrently in PyTorch: a stored value.

    >>> get_num_interop_threads() >= 1
    True
    """
    return State.interop_threads or os.cpu_count() or 1


def set_num_interop_threads(int: int) -> None:
    """Store a value for `get_num_interop_threads`: ops are not run concurrently here.

    Raises: ValueError: less than 1.

    >>> set_num_interop_threads(2)
    """
    if int < 1:
        raise ValueError(f"set_num_interop_threads expects a positive integer, got {int}")
    State.interop_threads = int


# Determinism --------------------------------------------------------------------------------------


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Require deterministic results. On the CPU all ops are deterministic anyway.

    >>> use_deterministic_algorithms(False)
    """
    State.deterministic, State.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Return True if deterministic results are required.

    >>> are_deterministic_algorithms_enabled()
    False
    """
    return State.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return True if an op without a deterministic result only warns.

    >>> is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return State.deterministic and State.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set `use_deterministic_algorithms` by level: "default" (0), "warn" (1) or "error" (2).

    >>> set_deterministic_debug_mode("default")
    """
    modes = {"default": 0, "warn": 1, "error": 2}
    if isinstance(debug_mode, str):
        if debug_mode not in modes:
            raise RuntimeError(f"debug_mode must be one of {', '.join(modes)}, got {debug_mode!r}")
        debug_mode = modes[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"debug_mode must be 0, 1 or 2, got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """Return the level 0, 1 or 2: see `set_deterministic_debug_mode`.

    >>> get_deterministic_debug_mode()
    0
    """
    return State.deterministic * (1 if State.warn_only else 2)


# Precision ---------------------------------------------------------------------------------------


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of float32 matrix products: "highest", "high" or "medium".

    On the CPU they are computed in float32 in any case; on a GPU in TensorFloat-32, unless it is
    "highest".

    >>> set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"precision must be highest, high or medium, got {precision!r}")
    matmul.precision = precision


def get_float32_matmul_precision() -> str:
    """Return the value of `set_float32_matmul_precision`.

    >>> get_float32_matmul_precision()
    'highest'
    """
    return matmul.precision


def set_flush_denormal(mode: bool) -> bool:
    """Request flushing of denormal numbers to 0; returns False, since it is not supported here.

    >>> set_flush_denormal(True)
    False
    """
    return not mode


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype and device by a tensor type such as `"torch.DoubleTensor"`.

    `set_default_dtype` and `set_default_device` are the modern functions.

    Raises: TypeError: not a floating-point type.

    >>> set_default_tensor_type("torch.FloatTensor")
    """
    text = t if isinstance(t, str) else getattr(t, "__name__", str(t))
    *path, class_name = text.split(".")
    dtype_by_name = {"FloatTensor": dtypes.float32, "DoubleTensor": dtypes.float64,
             "HalfTensor": dtypes.float16, "BFloat16Tensor": dtypes.bfloat16}  # fmt: skip
    if class_name not in dtype_by_name:
        raise TypeError(f"set_default_tensor_type: only floating types can be it, got {t!r}")
    dtypes.set_default_dtype(dtype_by_name[class_name])
    set_default_device(next((name for name in path if name in backends.DEVICES), None))


# Warnings, and type queries ----------------------------------------------------------------------


def set_warn_always(b: bool, /) -> None:
    """Set whether warnings are shown each time instead of once.

    >>> set_warn_always(False)
    """
    if b and not State.warn_always:
        warnings.filterwarnings("always", module=r"edutorch(\..*)?")
    State.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """Return True if warnings are shown each time.

    >>> is_warn_always_enabled()
    False
    """
    return State.warn_always


def typename(obj: object, /) -> str:
    """Return the qualified name of an object's type; of a tensor, its tensor type.

    >>> typename(tensor([1.0])), typename([1])
    ('torch.FloatTensor', 'list')
    """
    if hasattr(obj, "_array"):
        return obj.type()
    cls = obj if isinstance(obj, type) or hasattr(obj, "__qualname__") else type(obj)
    module = getattr(cls, "__module__", None)
    short = module in (None, "builtins", "__main__")
    return cls.__qualname__ if short else f"{module}.{cls.__qualname__}"


def is_storage(obj: object, /) -> bool:
    """Return True for the storage of a tensor (`x.storage()`).

    >>> is_storage(tensor([1.0]))
    False
    """
    return type(obj).__name__ in ("TypedStorage", "UntypedStorage")


def compiled_with_cxx11_abi() -> bool:
    """Return False: there is no compiled C++ code here.

    >>> compiled_with_cxx11_abi()
    False
    """
    return False


def is_vulkan_available() -> bool:
    """Return False: there is no Vulkan backend here.

    >>> is_vulkan_available()
    False
    """
    return False
