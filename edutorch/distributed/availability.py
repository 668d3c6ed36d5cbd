"""What there is: backends for devices, the default timeout, and how much is checked."""

from __future__ import annotations

import enum
import os
from datetime import timedelta
from typing import Any

from .. import backends
from ..backends.device import device
from ..errors import InvalidValueError

__all__ = [
    "DebugLevel", "default_pg_timeout", "get_debug_level", "get_default_backend_for_device",
    "is_available", "is_backend_available", "is_gloo_available", "is_mpi_available",
    "is_nccl_available", "is_ucc_available", "is_xccl_available", "set_debug_level",
    "set_debug_level_from_env", "supports_complex",
]  # fmt: skip

default_pg_timeout = timedelta(minutes=30)
"""How long one collective may take, by default."""


def is_available() -> bool:
    """Whether there can be process groups: the extra `dist` is installed.

    >>> distributed.is_available() in (True, False)
    True
    """
    return is_mpi_available()


def is_mpi_available() -> bool:
    """Whether the extra `dist` is installed."""
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


is_gloo_available = is_mpi_available


def is_nccl_available() -> bool:
    """Whether NCCL can be used: there is a GPU."""
    return not backends.is_unavailable("cuda")


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
