"""The errors of process groups, which PyTorch programs catch as RuntimeError."""

from __future__ import annotations

from ..errors import EdutorchError, missing_extra

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "QueueEmptyError", "DistStoreError",
    "missing_mpi",
]  # fmt: skip


class DistError(EdutorchError, RuntimeError):
    """Something between processes went wrong."""


class DistBackendError(DistError):
    """The library that moves the data has failed, or the processes do not call the same."""


class DistNetworkError(DistError):
    """A process or a host cannot be reached."""


class DistStoreError(DistError):
    """A key of a store is missing, or did not come in time."""


class QueueEmptyError(DistStoreError):
    """A queue of a store is empty."""


def missing_mpi(what: str, error: Exception) -> Exception:
    """Return the error for a machine without MPI, or with a broken one."""
    reason = str(error).partition("\n")[0]
    return missing_extra("dist", what, f"MPI cannot be used ({reason})")
