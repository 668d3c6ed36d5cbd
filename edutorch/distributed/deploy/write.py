"""Which manifests there are, and the files of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from ...utils.deployment import write_files
from .kubernetes import job, pytorchjob, secret
from .slurm import sbatch
from .trainer import MPI_RUNTIME, SECRET, runtime_mpi, runtime_torch, trainjob
from .training_job import TrainingJob

__all__ = ["MANIFESTS", "write_manifest"]

MANIFESTS: dict[str, Callable[[TrainingJob], str]] = {
    "job": job,
    "pytorchjob": pytorchjob,
    "trainjob": trainjob,
    "runtime-torch": runtime_torch,
    "runtime-mpi": runtime_mpi,
    "sbatch": sbatch,
}
"""The text of each kind."""

FILES = {
    "runtime-torch": "edutorch-torch.yaml",
    "runtime-mpi": "edutorch-mpi.yaml",
    "sbatch": "{name}.sbatch",
}


def secret_name(format: str, training: TrainingJob) -> str:
    """Return the Secret of a kind; "": ssh or Slurm bring the nodes together."""
    if format == "trainjob" and training.runtime != MPI_RUNTIME:
        return SECRET
    return training.secret if format in ("job", "pytorchjob") else ""


def write_manifest(format: str, training: TrainingJob, folder: Path) -> list[Path]:
    """Write the files of a kind, and return their paths.

    A Secret that lies there already is kept: it may be the one of the cluster.

    Args:
        format: one of `MANIFESTS`.
        training: what runs.
        folder: where to; it is made if need be.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from edutorch.distributed.deploy import TrainingJob, write_manifest
    >>> with TemporaryDirectory() as folder:
    ...     paths = write_manifest("job", TrainingJob(("train.py",), nodes=2), Path(folder))
    >>> [path.name for path in paths]
    ['train-job.yaml', 'train-rendezvous.yaml']
    """
    return write_files(files(format, training, folder), folder)


def files(format: str, training: TrainingJob, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of a kind's files."""
    name = FILES.get(format, "{name}-{format}.yaml").format(name=training.name, format=format)
    yield name, MANIFESTS[format](training)
    needed = secret_name(format, training)
    if needed and not os.path.exists(folder / f"{needed}.yaml"):
        yield f"{needed}.yaml", secret(needed)
