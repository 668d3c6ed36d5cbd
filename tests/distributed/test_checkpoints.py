"""Checkpoints of several ranks: other world sizes, ranks that are killed, schedulers."""

import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from tests.distributed.launch import PROGRAMS, ROOT, check_ranks, require_mpi


def check_reshard(folder, before, after):
    check_ranks("checkpoints.py", "save", str(folder), ranks=before)
    for ranks in after:
        assert "agree" in check_ranks("checkpoints.py", "load", str(folder), ranks=ranks)


def test_saved_by_two_ranks_and_loaded_by_three(tmp_path):
    check_reshard(tmp_path, 2, [3])


@pytest.mark.slow
def test_saved_by_four_ranks_and_loaded_by_fewer(tmp_path):
    check_reshard(tmp_path, 4, [1, 2, 3])


def check_kills(folder, kills, seed):
    """Kill a rank so many times; after each of them the old or the new checkpoint loads."""
    place = folder / f"run{seed}" / "checkpoint"
    place.mkdir(parents=True)
    check_ranks(
        "killed_while_saving.py", str(place), str(kills), str(seed),
        options=("--max-restarts", str(kills)), timeout=60 + 30 * kills,
    )  # fmt: skip
    log = (place.parent / "log").read_text().splitlines()
    assert len(log) == kills, log
    leftover = [p.name for p in place.iterdir() if p.name.startswith("__")]
    assert 2 <= len(leftover) <= 6, leftover


def test_a_rank_is_killed_while_it_saves(tmp_path):
    check_kills(tmp_path, 4, 0)


@pytest.mark.slow
def test_a_rank_is_killed_at_forty_moments(tmp_path):
    for seed in range(1, 5):
        check_kills(tmp_path, 10, seed)


def test_killed_once_told_to_leave_once_and_the_losses_are_right(tmp_path):
    require_mpi()
    command = [
        sys.executable, "-m", "edutorch.distributed.run", "--nproc-per-node", "2",
        "--max-restarts", "1", str(PROGRAMS / "resumed.py"), str(tmp_path),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "EDUTORCH_KERNELS": "off"}
    job = subprocess.Popen(
        [*command, "1000"], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert job.stdout is not None
    lines = []
    for line in job.stdout:
        lines.append(line.strip())
        if line.startswith("waits for SIGTERM"):
            job.send_signal(signal.SIGTERM)
    _, said = job.communicate(timeout=60)
    assert job.returncode == 0, said
    assert lines == ["goes on from 0", "goes on from 6", "waits for SIGTERM"], (lines, said)
    assert "was killed by signal 9" in said
    saved = max(int(path.name.removeprefix("step")) for path in tmp_path.iterdir())
    assert saved >= 10
    printed = check_ranks("resumed.py", str(tmp_path), str(saved + 4))
    assert printed.splitlines() == [f"goes on from {saved}", f"the right losses: {saved + 4}"]


def check_other_sharding(folder, before, after):
    check_ranks("other_sharding.py", "save", str(folder), ranks=before)
    for ranks in after:
        assert "in all ways" in check_ranks("other_sharding.py", "load", str(folder), ranks=ranks)


def test_ddp_fsdp_and_tensor_parallel_load_each_other(tmp_path):
    check_other_sharding(tmp_path, 2, [3])


@pytest.mark.slow
def test_ddp_fsdp_and_tensor_parallel_load_each_other_at_fewer_ranks(tmp_path):
    check_other_sharding(tmp_path, 4, [1, 2, 3])


@pytest.mark.slow
def test_a_scheduler_ends_a_job_on_two_computers(tmp_path):
    """Two host names on one computer; SIGTERM goes to the launchers of both."""
    require_mpi()
    if not hasattr(os, "getuid") or os.getuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare, for a second host name")
    secret, folder = tmp_path / "secret", tmp_path / "runs"
    secret.write_text("a secret of this test, which nobody else knows")
    secret.chmod(0o600)
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    name_and_run = (
        "import os, socket, sys; socket.sethostname(sys.argv[1]); "
        "os.execv(sys.argv[2], sys.argv[2:])"
    )
    jobs = [
        subprocess.Popen(
            [
                "unshare", "-u", sys.executable, "-c", name_and_run, f"edutorch-node{node}",
                sys.executable, "-m", "edutorch.distributed.run", "--nnodes", "2", "--node-rank",
                str(node), "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port",
                str(port), "--rdzv-secret-file", str(secret), str(PROGRAMS / "resumed.py"),
                str(folder), "1000", "unharmed",
            ],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "EDUTORCH_KERNELS": "off"},
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for node in range(2)
    ]  # fmt: skip
    assert jobs[0].stdout is not None
    for line in jobs[0].stdout:
        if line.startswith("waits for SIGTERM"):
            for job in reversed(jobs):
                job.send_signal(signal.SIGTERM)  # unshare and the name are replaced by the launcher
            break
    said = [job.communicate(timeout=60) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], said
    assert max(int(path.name.removeprefix("step")) for path in folder.iterdir()) >= 10
