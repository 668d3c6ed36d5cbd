"""A batch script for Slurm: a launcher on each node, which MPI's daemons follow."""

from __future__ import annotations

import shlex

from .training_job import TrainingJob

__all__ = ["sbatch"]

SBATCH = """\
#!/bin/bash
# sbatch {name}.sbatch, in a folder that all nodes share
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task={processes}
{gpus}#SBATCH --output=%x-%j.out
set -euo pipefail

# By this the nodes of the job know each other.
export PET_RDZV_SECRET_FILE="$PWD/.rendezvous-$SLURM_JOB_ID"
trap 'rm -f "$PET_RDZV_SECRET_FILE"' EXIT
(umask 077 && python -c 'import secrets; print(secrets.token_hex())' >"$PET_RDZV_SECRET_FILE")

hosts="$(scontrol show hostnames "$SLURM_JOB_NODELIST")"
export PET_MASTER_ADDR="${{hosts%%$'\\n'*}}"
export PET_MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000)) # jobs that share a node do not meet
export PET_NNODES="$SLURM_JOB_NUM_NODES"
export PET_NPROC_PER_NODE={processes}
# Our launcher starts MPI's daemons on the nodes; else mpirun would ask Slurm for it.
export PRTE_MCA_plm=ssh PRTE_MCA_ras=^slurm

# shellcheck disable=SC2016  # SLURM_NODEID differs between the nodes
srun --kill-on-bad-exit=1 bash -c 'PET_NODE_RANK="$SLURM_NODEID" exec "$@"' node \\
    python -m edutorch.distributed.run {program}
"""


def sbatch(job: TrainingJob) -> str:
    """Return a script for `sbatch`. The image is not used: edutorch is installed on the nodes."""
    gpus = f"#SBATCH --gpus-per-node={job.gpus}\n" if job.gpus else ""
    return SBATCH.format(
        name=job.name, nodes=job.nodes, processes=job.processes, gpus=gpus,
        program=shlex.join(job.program),
    )  # fmt: skip
