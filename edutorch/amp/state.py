"""The autocast state of the current thread, and PyTorch's functions that read and set it.

Each thread (and each asyncio task) has its own state and starts with autocast off. `autocast`
is the usual way to change it.
"""

from __future__ import annotations

import warnings
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from .. import backends, dtypes
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
    **{name: dtypes.float16 if device.has_gpu_rules else dtypes.bfloat16
       for name, device in backends.DEVICES.items()},
    "xpu": dtypes.float16, "mps": dtypes.float16, "xla": dtypes.bfloat16,
    "ipu": dtypes.float16, "hpu": dtypes.bfloat16, "mtia": dtypes.bfloat16,
    "maia": dtypes.bfloat16,
}  # fmt: skip
"""The default 16-bit dtype of each device for which PyTorch has autocast."""

AVAILABLE = tuple(backends.DEVICES)
"""The devices of edutorch."""


@dataclass(frozen=True, slots=True)
class State:
    """The autocast state of a thread.

    Attributes:
        enabled: the devices for which autocast is on.
        lower_dtypes: the 16-bit dtypes that differ from the default ones, by device.
        cache: the converted weights (see `casting.py`).
    """

    enabled: frozenset[str] = frozenset()
    lower_dtypes: dict[str, dtypes.dtype] = field(default_factory=dict)
    cache_enabled: bool = True
    nesting: int = 0
    cache: dict[Any, Any] = field(default_factory=dict)


_STATE: ContextVar[State | None] = ContextVar("edutorch_autocast", default=None)


def state() -> State:
    """Return the state of this thread."""
    value = _STATE.get()
    if value is None:
        value = State()
        _STATE.set(value)
    return value


def update_state(**changes: Any) -> None:
    """Change the state of this thread, and the mode that the ops read."""
    new = replace(state(), **changes)
    _STATE.set(new)
    casting = None
    if new.enabled:
        lower_dtypes = {
            name: new.lower_dtypes.get(name, DEFAULT_DTYPES[name]) for name in new.enabled
        }
        casting = ArgumentCaster(lower_dtypes, new.cache if new.cache_enabled else None)
    switch(current(), autocast=casting)


def device_name(function: str, device_type: Any) -> str:
    """Return the device type of a string: "cuda" for "cuda:0".

    Raises: ArgumentError: not a string. DeviceError: a device without autocast.
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
    """A device type is not a string. (PyTorch raises a ValueError.)"""


def check_dtype(function: str, dtype: Any) -> dtypes.dtype:
    if not isinstance(dtype, dtypes.dtype):
        raise ArgumentError(
            function, f"dtype has to be a dtype, not {type(dtype).__name__}",
            {"dtype": repr(dtype)}, "pass torch.bfloat16 or torch.float16",
        )  # fmt: skip
    return dtype


# Reading and setting the state ---------------------------------------------------------------


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on in this thread for this device type.

    >>> is_autocast_enabled("cpu")
    False
    """
    return device_name("is_autocast_enabled", device_type) in state().enabled


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off in this thread, until it is switched again.

    Args:
        device_type: the device of the tensors; "cuda" if left out.

    >>> set_autocast_enabled("cpu", True)
    >>> is_autocast_enabled("cpu")
    True
    >>> set_autocast_enabled("cpu", False)
    """
    device, is_on = (
        (backends.ACCELERATOR, device_type) if enabled is None else (device_type, enabled)
    )
    if not isinstance(is_on, bool):
        raise ArgumentError(
            "set_autocast_enabled", f"enabled has to be a bool, not {type(is_on).__name__}",
            {"enabled": repr(is_on)},
        )  # fmt: skip
    name = device_name("set_autocast_enabled", device)
    update_state(enabled=state().enabled | {name} if is_on else state().enabled - {name})


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """Return the 16-bit dtype of autocast for this device type.

    >>> get_autocast_dtype("cpu"), get_autocast_dtype("cuda")
    (torch.bfloat16, torch.float16)
    """
    name = device_name("get_autocast_dtype", device_type)
    return state().lower_dtypes.get(name, DEFAULT_DTYPES[name])


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Set the 16-bit dtype of autocast for this device type.

    >>> set_autocast_dtype("cpu", float16)
    >>> with autocast("cpu"):
    ...     (ones(2, 2) @ ones(2, 2)).dtype
    torch.float16
    >>> set_autocast_dtype("cpu", bfloat16)
    """
    name = device_name("set_autocast_dtype", device_type)
    update_state(
        lower_dtypes={**state().lower_dtypes, name: check_dtype("set_autocast_dtype", dtype)}
    )


# The cache of converted weights ----------------------------------------------------------------


def is_autocast_cache_enabled() -> bool:
    """Whether autocast converts each weight only once per region.

    >>> is_autocast_cache_enabled()
    True
    """
    return state().cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether autocast caches converted weights until the outermost region ends.

    >>> set_autocast_cache_enabled(True)
    """
    update_state(cache_enabled=bool(enabled))


def clear_autocast_cache() -> None:
    """Clear the cache of converted weights.

    >>> clear_autocast_cache()
    """
    state().cache.clear()


def autocast_increment_nesting() -> int:
    """Increment the nesting level, and return it.

    >>> autocast_increment_nesting(), autocast_decrement_nesting()
    (1, 0)
    """
    update_state(nesting=state().nesting + 1)
    return state().nesting


def autocast_decrement_nesting() -> int:
    """Decrement the nesting level, and return it.

    >>> autocast_increment_nesting(), autocast_decrement_nesting()
    (1, 0)
    """
    update_state(nesting=state().nesting - 1)
    return state().nesting


# Older names -------------------------------------------------------------------------------------


def warn_deprecated(old: str, new: str) -> None:
    warnings.warn(f"{old} is deprecated. Please use {new} instead.", DeprecationWarning, 3)


def is_autocast_cpu_enabled() -> bool:
    """Deprecated form of `is_autocast_enabled("cpu")`."""
    warn_deprecated("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Deprecated form of `set_autocast_enabled("cpu", enabled)`."""
    warn_deprecated("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtypes.dtype:
    """Deprecated form of `get_autocast_dtype("cpu")`."""
    warn_deprecated("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtypes.dtype) -> None:
    """Deprecated form of `set_autocast_dtype("cpu", dtype)`."""
    warn_deprecated("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtypes.dtype:
    """Deprecated form of `get_autocast_dtype("cuda")`."""
    warn_deprecated("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtypes.dtype) -> None:
    """Deprecated form of `set_autocast_dtype("cuda", dtype)`."""
    warn_deprecated("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)
