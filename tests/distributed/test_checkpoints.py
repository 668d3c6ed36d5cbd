"""Checkpoints of several ranks: other world sizes, ranks that are killed, schedulers."""

import os
import signal
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
    pytest.importorskip("edutorch.distributed.fsdp", reason="needs fully_shard")
    check_ranks("other_sharding.py", "save", str(folder), ranks=before)
    for ranks in after:
        assert "in all ways" in check_ranks("other_sharding.py", "load", str(folder), ranks=ranks)


def test_ddp_fsdp_and_tensor_parallel_load_each_other(tmp_path):
    check_other_sharding(tmp_path, 2, [3])


@pytest.mark.slow
def test_ddp_fsdp_and_tensor_parallel_load_each_other_at_fewer_ranks(tmp_path):
    check_other_sharding(tmp_path, 4, [1, 2, 3])
