"""Which MPI there is, and the command that starts processes by it."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..errors import missing_mpi

__all__ = ["Mpi", "find_mpi", "hosts"]


class Mpi(NamedTuple):
    """A program that starts processes: `mpirun` of Open MPI, or MPICH's `mpiexec`.

    Attributes:
        name: "Open MPI" or "MPICH".
        version: as it prints it.
        command: its path.
        options: what a shared computer needs.
    """

    name: str
    version: str
    command: str
    options: tuple[str, ...]

    def command_line(self, processes: int, program: list[str]) -> list[str]:
        """Return the command that starts a program so many times on this computer."""
        return [self.command, *self.options, "-n", str(processes), *program]


# Open MPI binds ranks to cores and waits busily: on a computer that others use as well, a message
# of a kilobyte then took 12 to 24 ms in place of 6 µs.
OPEN_MPI_OPTIONS = (
    "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "--mca", "mpi_yield_when_idle", "1",
)  # fmt: skip


@functools.cache
def find_mpi() -> Mpi:
    """Return the MPI of this Python's environment, else that of the PATH.

    Raises: MissingExtraError: there is none.
    """
    folder = Path(sys.executable).parent
    for candidate in (folder / "mpiexec", folder / "mpirun", shutil.which("mpiexec")):
        if candidate and os.path.exists(candidate):
            return describe(str(candidate))
    raise missing_mpi("distributed.run", FileNotFoundError("there is no mpiexec"))


def describe(command: str) -> Mpi:
    """Return what an `mpiexec` says of itself."""
    told = subprocess.run(
        [command, "--version"], capture_output=True, text=True, timeout=60, check=False
    ).stdout
    if "HYDRA" in told or "mpich" in told.lower():
        version = next((line.split()[-1] for line in told.splitlines() if "Version" in line), "")
        return Mpi("MPICH", version, command, ())
    root = ("--allow-run-as-root",) if hasattr(os, "getuid") and os.getuid() == 0 else ()
    version = told.partition("\n")[0].rpartition(" ")[2]
    return Mpi("Open MPI", version, command, root + OPEN_MPI_OPTIONS)


SCHEDULERS = {
    "Slurm": ("SLURM_JOB_ID", "SLURM_JOB_NODELIST"),
    "PBS": ("PBS_JOBID", "PBS_NODEFILE"),
}
"""By which variables a job of a scheduler is known, and its hosts."""


def hosts(environment: Mapping[str, str] | None = None) -> str:
    """Return, as a sentence, on which hosts a training that is started here would run.

    >>> from edutorch.distributed.run.mpirun import hosts
    >>> hosts({"PET_NNODES": "4", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "node0"})
    'node 1 of 4, which meet at node0:29500'
    """
    variables = os.environ if environment is None else environment
    if variables.get("PET_NNODES", "1") not in ("1", "1:1"):
        place = f"node {variables.get('PET_NODE_RANK', '0')} of {variables['PET_NNODES']}"
        address = variables.get("PET_MASTER_ADDR", "127.0.0.1")
        return f"{place}, which meet at {address}:{variables.get('PET_MASTER_PORT', '29500')}"
    for name, (job, nodes) in SCHEDULERS.items():
        if job in variables:
            return f"{name}'s job {variables[job]}: {variables.get(nodes, 'unknown')}"
    return f"{socket.gethostname()} alone"
