"""`edutorch doctor` says which MPI there is, with which options, and on which hosts."""

from __future__ import annotations

import socket

import pytest

from edutorch.cli import doctor
from edutorch.distributed.run import mpirun
from edutorch.errors import missing_extra


def lines() -> dict[str, doctor.Finding]:
    return {finding.name: finding for finding in doctor._distributed()}


def test_which_mpi():
    findings = lines()
    mpi = mpirun.find_mpi()
    assert (
        findings["MPI"].ok and findings["MPI"].detail == f"{mpi.name} {mpi.version} ({mpi.command})"
    )
    options = findings["its options"].detail
    assert "--bind-to none" in options if mpi.name == "Open MPI" else options == "none are needed"


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({}, f"{socket.gethostname()} alone"),
        ({"PET_NNODES": "1:3"}, "node 0 of 1:3, which meet at 127.0.0.1:29500"),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"}, "Slurm's job 7: n[1-2]"),
        ({"PBS_JOBID": "8", "PBS_NODEFILE": "/var/8"}, "PBS's job 8: /var/8"),
    ],
)
def test_which_hosts(variables, sentence):
    assert mpirun.hosts(variables) == sentence


def test_without_mpi(monkeypatch):
    def absent():
        raise missing_extra("dist", "distributed.run", "there is no mpiexec")

    monkeypatch.setattr(mpirun, "find_mpi", absent)
    findings = lines()
    assert (findings["MPI"].ok, findings["MPI"].todo) == (
        None, 'pip install "edutorch[dist]"  for processes that train together'
    )  # fmt: skip
    assert findings["MPI"].detail == "there is no mpiexec"
    assert "its options" not in findings and findings["hosts"].ok
