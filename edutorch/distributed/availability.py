"""What there is: backends for devices, the default timeout, and how much is checked."""

from __future__ import annotations

import enum
import os
from datetime import timedelta
from typing import Any

from .. import backends
from ..backends.device import device
from ..errors import InvalidValueError
from .process_group import (
    DEFAULT_TIMEOUT,
    GroupMember,
    get_backend,
    is_mpi_available,
    is_nccl_available,
)

__all__ = [
    "DebugLevel", "default_pg_timeout", "get_backend_config", "get_debug_level",
    "get_default_backend_for_device", "is_backend_available", "is_ucc_available",
    "is_xccl_available", "set_debug_level", "set_debug_level_from_env", "supports_complex",
]  # fmt: skip

default_pg_timeout: timedelta = DEFAULT_TIMEOUT


def get_default_backend_for_device(device_: Any) -> str:
    """Return the backend that is chosen for tensors of a device.

    >>> distributed.get_default_backend_for_device("cpu")
    'gloo'
    """
    return "nccl" if backends.DEVICES[device(device_).type].is_accelerator else "gloo"


def is_backend_available(backend: str) -> bool:
    """Whether a backend can be used here: "gloo", "mpi", "nccl".

    >>> distributed.is_backend_available("ucc")
    False
    """
    name = backend.lower()
    return is_mpi_available() if name in ("gloo", "mpi") else name == "nccl" and is_nccl_available()


def is_ucc_available() -> bool:
    """Return False: there is no such backend."""
    return False


def is_xccl_available() -> bool:
    """Return False: there is no such backend."""
    return False


def get_backend_config(group: Any = None) -> str:
    """Return which backend moves the tensors of which device, such as "cpu:gloo,cuda:nccl"."""
    name = get_backend(group or GroupMember.WORLD)
    if ":" in name:
        return name
    return "cpu:gloo,cuda:nccl" if name == "undefined" else f"cpu:{name},cuda:{name}"


def supports_complex(reduceOp: Any) -> bool:
    """Whether complex numbers can be reduced by an operation: they can be added, not compared."""
    return getattr(reduceOp, "name", "") in ("SUM", "AVG", "PREMUL_SUM")


# How much is checked -----------------------------------------------------------------------------


class DebugLevel(enum.Enum):
    """PyTorch's levels. Here calls are always recorded and compared, so they change nothing."""

    OFF, INFO, DETAIL = range(3)


class _Level:
    chosen = DebugLevel.OFF


def set_debug_level(level: DebugLevel) -> None:
    """Set the level that `get_debug_level` returns."""
    _Level.chosen = level


def set_debug_level_from_env() -> None:
    """Set the level that TORCH_DISTRIBUTED_DEBUG names.

    Raises: ValueError: it names none.
    """
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if name not in DebugLevel.__members__:
        raise InvalidValueError(
            "set_debug_level_from_env", f"TORCH_DISTRIBUTED_DEBUG is {name!r}",
            hint="it is OFF, INFO or DETAIL",
        )  # fmt: skip
    set_debug_level(DebugLevel[name])


def get_debug_level() -> DebugLevel:
    """Return the level that was set.

    >>> distributed.get_debug_level().name
    'OFF'
    """
    return _Level.chosen
