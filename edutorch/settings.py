"""Settings of the whole process, by PyTorch's names. Those that cannot change anything here
are kept and reported, so that scripts which set them run."""

from __future__ import annotations

import os
import warnings
from typing import Any

from . import dtypes
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
    """What was set."""

    threads: int | None = None
    interop_threads: int | None = None
    deterministic = False
    warn_only = False
    warn_always = False


# Threads -----------------------------------------------------------------------------------------

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""The environment variables by which the libraries of matrix products are told."""


def get_num_threads() -> int:
    """Return how many threads one op may use.

    >>> get_num_threads() >= 1
    True
    """
    if State.threads is None:
        State.threads = default_num_threads()
    return State.threads


def default_num_threads() -> int:
    """Return what the environment says, else how many processors this process may use."""
    told = [os.environ[name] for name in THREAD_VARIABLES if os.environ.get(name, "").isdigit()]
    if told and int(told[0]) > 0:
        return int(told[0])
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def set_num_threads(int: int) -> None:
    """Let one op use at most so many threads: kernels and products of matrices alike.

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
    """Return how many ops may run side by side in PyTorch's compiled code; a number that is kept.

    >>> get_num_interop_threads() >= 1
    True
    """
    return State.interop_threads or os.cpu_count() or 1


def set_num_interop_threads(int: int) -> None:
    """Keep a number for `get_num_interop_threads`: ops run one after the other here.

    Raises: ValueError: less than 1.

    >>> set_num_interop_threads(2)
    """
    if int < 1:
        raise ValueError(f"set_num_interop_threads expects a positive integer, got {int}")
    State.interop_threads = int


# The same numbers each time -----------------------------------------------------------------------


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for the same numbers on each run. On the CPU every op gives them anyway.

    >>> use_deterministic_algorithms(False)
    """
    State.deterministic, State.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Say whether the same numbers were asked for.

    >>> are_deterministic_algorithms_enabled()
    False
    """
    return State.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Say whether an op without such numbers shall only warn.

    >>> is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return State.deterministic and State.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same as `use_deterministic_algorithms`: "default" (0), "warn" (1) or "error" (2).

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
    """Return 0, 1 or 2: see `set_deterministic_debug_mode`.

    >>> get_deterministic_debug_mode()
    0
    """
    return State.deterministic * (1 if State.warn_only else 2)


# Precision ---------------------------------------------------------------------------------------


def set_float32_matmul_precision(precision: str) -> None:
    """Say how exact products of float32 matrices must be: "highest", "high" or "medium".

    They are computed in float32 in any case.

    >>> set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"precision must be highest, high or medium, got {precision!r}")
    matmul.precision = precision


def get_float32_matmul_precision() -> str:
    """Return what `set_float32_matmul_precision` was told.

    >>> get_float32_matmul_precision()
    'highest'
    """
    return matmul.precision


def set_flush_denormal(mode: bool) -> bool:
    """Ask for the tiniest numbers to become 0; False says that this cannot be switched on here.

    >>> set_flush_denormal(True)
    False
    """
    return not mode


def set_default_tensor_type(t: Any) -> None:
    """Choose the default dtype and device by a type's name, as `"torch.DoubleTensor"`.

    `set_default_dtype` and `set_default_device` say it more clearly.

    Raises: TypeError: no such floating type.

    >>> set_default_tensor_type("torch.FloatTensor")
    """
    text = t if isinstance(t, str) else getattr(t, "__name__", str(t))
    *path, class_name = text.split(".")
    dtype_by_name = {"FloatTensor": dtypes.float32, "DoubleTensor": dtypes.float64,
             "HalfTensor": dtypes.float16, "BFloat16Tensor": dtypes.bfloat16}  # fmt: skip
    if class_name not in dtype_by_name:
        raise TypeError(f"set_default_tensor_type: only floating types can be it, got {t!r}")
    dtypes.set_default_dtype(dtype_by_name[class_name])
    set_default_device("cuda" if "cuda" in path else "cpu")


# Warnings, and questions about things ------------------------------------------------------------


def set_warn_always(b: bool, /) -> None:
    """Let warnings that are given once be given each time.

    >>> set_warn_always(False)
    """
    if b and not State.warn_always:
        warnings.filterwarnings("always", module=r"edutorch(\..*)?")
    State.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """Say whether each warning is given each time.

    >>> is_warn_always_enabled()
    False
    """
    return State.warn_always


def typename(obj: Any, /) -> str:
    """Return the full name of a thing's type; of a tensor, that of its numbers' type.

    >>> typename(tensor([1.0])), typename([1])
    ('torch.FloatTensor', 'list')
    """
    if hasattr(obj, "_array"):
        return obj.type()
    cls = obj if isinstance(obj, type) or hasattr(obj, "__qualname__") else type(obj)
    module = getattr(cls, "__module__", None)
    short = module in (None, "builtins", "__main__")
    return cls.__qualname__ if short else f"{module}.{cls.__qualname__}"


def is_storage(obj: Any, /) -> bool:
    """Say whether it is the memory behind a tensor (`x.storage()`).

    >>> is_storage(tensor([1.0]))
    False
    """
    return type(obj).__name__ in ("TypedStorage", "UntypedStorage")


def compiled_with_cxx11_abi() -> bool:
    """Say whether it was compiled with C++11's names: nothing here is compiled.

    >>> compiled_with_cxx11_abi()
    False
    """
    return False


def is_vulkan_available() -> bool:
    """Say whether Vulkan could compute: never here.

    >>> is_vulkan_available()
    False
    """
    return False
