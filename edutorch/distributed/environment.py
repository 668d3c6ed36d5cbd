"""What a launcher tells its processes, by the variables of torchrun, mpirun or srun."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..errors import EdutorchError

__all__ = ["Placement", "placement"]

# Per variable of torchrun, those of Open MPI, MPICH (and Intel MPI) and Slurm.
OTHERS = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
    "LOCAL_RANK": ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"),
    "LOCAL_WORLD_SIZE": ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"),
}


class MissingVariableError(EdutorchError, ValueError):
    """An environment variable that a launcher would have set is missing."""


class Placement(NamedTuple):
    """Where a process stands among the processes of its job."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int


def read_int(name: str, environment: Mapping[str, str] = os.environ) -> int | None:
    """Return a variable, or its twin of another launcher, or None.

    Raises: MissingVariableError: it is not a number.
    """
    for variable in (name, *OTHERS.get(name, ())):
        text = environment.get(variable)
        if text:
            try:
                return int(text)
            except ValueError:
                raise MissingVariableError(
                    "distributed", f"the environment variable {variable} is not a number: {text!r}"
                ) from None
    return None


def placement(environment: Mapping[str, str] | None = None) -> Placement | None:
    """Return where this process stands, or None if no launcher has started it.

    >>> from edutorch.distributed.environment import placement
    >>> placement({"RANK": "1", "WORLD_SIZE": "4"})
    Placement(rank=1, world_size=4, local_rank=1, local_world_size=4)
    """
    variables = os.environ if environment is None else environment
    rank, size = read_int("RANK", variables), read_int("WORLD_SIZE", variables)
    if rank is None or size is None:
        return None
    local_rank = read_int("LOCAL_RANK", variables)
    local_size = read_int("LOCAL_WORLD_SIZE", variables)
    return Placement(
        rank, size, rank if local_rank is None else local_rank,
        size if local_size is None else local_size,
    )  # fmt: skip


def missing_variables(names: Sequence[str]) -> MissingVariableError:
    """Return PyTorch's error for variables that are not there, with how to start a program."""
    plural = "" if len(names) == 1 else "s"
    return MissingVariableError(
        "init_process_group",
        "Error initializing torch.distributed using env:// rendezvous: "
        f"environment variable{plural} {' and '.join(names)} expected, but not set",
        hint="this process was started alone. Start several by `torchrun --nproc-per-node N "
        "SCRIPT` (python -m edutorch.distributed.run), or from a program by "
        "multiprocessing.spawn(fn, nprocs=N); for one process pass rank=0, world_size=1",
    )  # fmt: skip
