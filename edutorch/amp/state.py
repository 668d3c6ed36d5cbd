"""What of autocast is switched on in this thread, and PyTorch's functions that say and set it.

Each thread (and each asyncio task) has a state of its own and starts with autocast off.
`autocast` is the usual way to change it; the functions here are what it does.
"""

from __future__ import annotations

import warnings
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from .. import dtypes
from ..errors import ArgumentError, DeviceError
from ..modes import current, switch
from .casting import ArgumentCaster

__all__ = [
    "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
    "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype",
    "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled",
    "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled",
    "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype",
]  # fmt: skip

DEFAULT_DTYPES = {
    "cpu": dtypes.bfloat16, "cuda": dtypes.float16, "strict": dtypes.float16,
    "xpu": dtypes.float16, "mps": dtypes.float16, "xla": dtypes.bfloat16,
    "ipu": dtypes.float16, "hpu": dtypes.bfloat16, "mtia": dtypes.bfloat16,
    "maia": dtypes.bfloat16,
}  # fmt: skip
"""The 16-bit type of each device that PyTorch knows autocast for."""

AVAILABLE = ("cpu", "cuda", "strict")
"""Of these devices ours can be one. (`strict` stands in for a GPU in the tests.)"""


@dataclass(frozen=True, slots=True)
class State:
    """`enabled`: devices for which autocast is on; `kinds`: 16-bit types that differ from the
    usual ones; `kept`: converted weights (see `casting.py`)."""

    enabled: frozenset[str] = frozenset()
    lower_dtypes: dict[str, dtypes.dtype] = field(default_factory=dict)
    cache_enabled: bool = True
    nesting: int = 0
    cache: dict[Any, Any] = field(default_factory=dict)


_STATE: ContextVar[State | None] = ContextVar("edutorch_autocast", default=None)


def state() -> State:
    """Return the state of this thread."""
    found = _STATE.get()
    if found is None:
        found = State()
        _STATE.set(found)
    return found


def update_state(**changes: Any) -> None:
    """Put another state in force in this thread, also for the ops."""
    new = replace(state(), **changes)
    _STATE.set(new)
    casting = None
    if new.enabled:
        kinds = {name: new.lower_dtypes.get(name, DEFAULT_DTYPES[name]) for name in new.enabled}
        casting = ArgumentCaster(kinds, new.cache if new.cache_enabled else None)
    switch(current(), autocast=casting)


def device_name(function: str, device_type: Any) -> str:
    """Return the name of a device: "cuda" for "cuda:0".

    Raises: ArgumentError: no text. DeviceError: a device that there is no autocast for.
    """
    if not isinstance(device_type, str):
        raise WrongDeviceType(
            function, f"expected `device_type` of type `str`, got {type(device_type).__name__}",
            {"device_type": repr(device_type)}, 'pass its name: "cpu", or tensor.device.type',
        )  # fmt: skip
    name = device_type.partition(":")[0]
    if name not in DEFAULT_DTYPES:
        raise DeviceError(
            function, f"there is no autocast for the device {device_type!r}",
            hint='the devices are "cpu" and "cuda"',
        )  # fmt: skip
    return name


class WrongDeviceType(ArgumentError, ValueError):
    """A device is given as something else than its name. (PyTorch raises a ValueError.)"""


def check_dtype(function: str, dtype: Any) -> dtypes.dtype:
    if not isinstance(dtype, dtypes.dtype):
        raise ArgumentError(
            function, f"dtype has to be a dtype, not {type(dtype).__name__}",
            {"dtype": repr(dtype)}, "pass torch.bfloat16 or torch.float16",
        )  # fmt: skip
    return dtype


# What is on ----------------------------------------------------------------------------------


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Say whether autocast is on in this thread, for tensors on this kind of device.

    >>> is_autocast_enabled("cpu")
    False
    """
    return device_name("is_autocast_enabled", device_type) in state().enabled


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off in this thread. `autocast` undoes it by itself, this does not.

    Args:
        device_type: for tensors on which device; may be left out, and is then "cuda".

    >>> set_autocast_enabled("cpu", True)
    >>> is_autocast_enabled("cpu")
    True
    >>> set_autocast_enabled("cpu", False)
    """
    device, on = ("cuda", device_type) if enabled is None else (device_type, enabled)
    if not isinstance(on, bool):
        raise ArgumentError(
            "set_autocast_enabled", f"enabled has to be a bool, not {type(on).__name__}",
            {"enabled": repr(on)},
        )  # fmt: skip
    name = device_name("set_autocast_enabled", device)
    update_state(enabled=state().enabled | {name} if on else state().enabled - {name})


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """Return the type in which autocast lets products compute on this kind of device.

    >>> get_autocast_dtype("cpu"), get_autocast_dtype("cuda")
    (torch.bfloat16, torch.float16)
    """
    name = device_name("get_autocast_dtype", device_type)
    return state().lower_dtypes.get(name, DEFAULT_DTYPES[name])


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Say in which type autocast lets products compute on this kind of device.

    >>> set_autocast_dtype("cpu", float16)
    >>> with autocast("cpu"):
    ...     (ones(2, 2) @ ones(2, 2)).dtype
    torch.float16
    >>> set_autocast_dtype("cpu", bfloat16)
    """
    name = device_name("set_autocast_dtype", device_type)
    update_state(kinds={**state().lower_dtypes, name: check_dtype("set_autocast_dtype", dtype)})


# Weights that are kept converted ---------------------------------------------------------------


def is_autocast_cache_enabled() -> bool:
    """Say whether autocast converts each weight only once in a region.

    >>> is_autocast_cache_enabled()
    True
    """
    return state().cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether autocast keeps converted weights until the outermost region ends.

    >>> set_autocast_cache_enabled(True)
    """
    update_state(cache_enabled=bool(enabled))


def clear_autocast_cache() -> None:
    """Forget the weights that autocast has converted.

    >>> clear_autocast_cache()
    """
    state().cache.clear()


def autocast_increment_nesting() -> int:
    """Note that a region begins; return how many there are now.

    >>> autocast_increment_nesting(), autocast_decrement_nesting()
    (1, 0)
    """
    update_state(nesting=state().nesting + 1)
    return state().nesting


def autocast_decrement_nesting() -> int:
    """Note that a region ends; return how many are left.

    >>> autocast_increment_nesting(), autocast_decrement_nesting()
    (1, 0)
    """
    update_state(nesting=state().nesting - 1)
    return state().nesting


# Older names -------------------------------------------------------------------------------------


def warn_deprecated(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated. Please use {new} instead.", DeprecationWarning, 3)


def is_autocast_cpu_enabled() -> bool:
    """The old form of `is_autocast_enabled("cpu")`."""
    warn_deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """The old form of `set_autocast_enabled("cpu", enabled)`."""
    warn_deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtypes.dtype:
    """The old form of `get_autocast_dtype("cpu")`."""
    warn_deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtypes.dtype) -> None:
    """The old form of `set_autocast_dtype("cpu", dtype)`."""
    warn_deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtypes.dtype:
    """The old form of `get_autocast_dtype("cuda")`."""
    warn_deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtypes.dtype) -> None:
    """The old form of `set_autocast_dtype("cuda", dtype)`."""
    warn_deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)
