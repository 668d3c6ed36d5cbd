"""Three computers, one of which is lost and comes back: namespaces with names of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.distributed.launch import PROGRAMS, ROOT, check_ranks, require_mpi

NODES = ("edu0", "edu1", "edu2")
NAME_AND_RUN = (
    "import os, socket, sys; socket.sethostname(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
)
STEPS, PAUSE = 150, "0.15"


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def network():
    """Connect three namespaces by a bridge in the first one."""
    require_mpi()
    if not hasattr(os, "getuid") or os.getuid() or not shutil.which("ip"):
        pytest.skip("needs root and iproute2, for network namespaces")
    for node in NODES:
        subprocess.run(["ip", "netns", "del", node], capture_output=True, check=False)
        ip("netns", "add", node)
        ip("-n", node, "link", "set", "lo", "up")
    ip("-n", NODES[0], "link", "add", "bridge0", "type", "bridge")
    ip("-n", NODES[0], "addr", "add", "10.77.0.1/24", "dev", "bridge0")
    ip("-n", NODES[0], "link", "set", "bridge0", "up")
    for number, node in enumerate(NODES[1:], 2):
        end = f"veth{number}"
        ip("link", "add", end, "netns", NODES[0], "type", "veth", "peer", "name", "eth0",
           "netns", node)  # fmt: skip
        ip("-n", NODES[0], "link", "set", end, "master", "bridge0")
        ip("-n", NODES[0], "link", "set", end, "up")
        ip("-n", node, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
        ip("-n", node, "link", "set", "eth0", "up")
    yield
    for node in NODES:
        end_node(node)
        subprocess.run(["ip", "netns", "del", node], capture_output=True, check=False)


def end_node(node: str) -> None:
    """Kill all processes of a namespace, as if the computer had lost its power."""
    for pid in ip("netns", "pids", node).split():
        subprocess.run(["kill", "-9", pid], capture_output=True, check=False)


def start(number: int, secret: Path, folder: Path) -> subprocess.Popen[str]:
    """Start the launcher of one computer."""
    return subprocess.Popen(
        [
            "ip", "netns", "exec", NODES[number], "unshare", "-u", sys.executable, "-c",
            NAME_AND_RUN, f"edutorch-node{number}", sys.executable, "-m",
            "edutorch.distributed.run", "--nnodes", "1:3", "--node-rank", str(number),
            "--nproc-per-node", "1", "--master-addr", "10.77.0.1", "--master-port", "29611",
            "--rdzv-secret-file", str(secret), "--max-restarts", "5",
            str(PROGRAMS / "elastic.py"), str(folder), str(STEPS), PAUSE,
        ],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={
            **os.environ, "PYTHONPATH": str(ROOT), "EDUTORCH_KERNELS": "off",
            "EDUTORCH_NETWORK": "10.77.0.0/24",
        },
    )  # fmt: skip


def log_of(folder: Path) -> list[list[float]]:
    file = folder / "log"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def wait_for(folder: Path, is_wanted, limit: float) -> list[float]:
    """Wait until a line of the log is as asked for."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        for entry in log_of(folder):
            if is_wanted(entry):
                return entry
        time.sleep(0.1)
    raise AssertionError(log_of(folder)[-5:])


@pytest.mark.slow
def test_a_computer_is_lost_and_comes_back(network, tmp_path):
    secret, folder = tmp_path / "secret", tmp_path / "run"
    secret.write_text("a secret of this test, which nobody else knows")
    secret.chmod(0o600)
    folder.mkdir()
    jobs = [start(number, secret, folder) for number in range(3)]
    wait_for(folder, lambda entry: entry[0] >= 20 and entry[1] == 3, 60)
    lost = time.time()
    end_node(NODES[2])
    goes_on = wait_for(folder, lambda entry: entry[1] == 2 and entry[3] > lost, 60)
    print(f"went on with 2 after {goes_on[3] - lost:.1f} s, from step {goes_on[0]}")
    wait_for(folder, lambda entry: entry[1] == 2 and entry[0] >= goes_on[0] + 10, 30)
    jobs[2].wait(10)
    jobs[2] = start(2, secret, folder)
    again = wait_for(folder, lambda entry: entry[1] == 3 and entry[3] > goes_on[3], 60)
    print(f"3 again from step {again[0]}")
    wait_for(folder, lambda entry: entry[1] == 3 and entry[0] >= again[0] + 5, 30)
    ip("-n", NODES[0], "link", "set", "veth2", "down")  # a cable is pulled out for two seconds
    time.sleep(2)
    ip("-n", NODES[0], "link", "set", "veth2", "up")
    said = [job.communicate(timeout=120)[0] for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0, 0], said
    entries = log_of(folder)
    # One process that sees the same batches has the same losses, whatever has happened.
    alone = tmp_path / "alone"
    alone.mkdir()
    check_ranks("elastic.py", str(alone), str(STEPS), "0", ranks=1)
    losses = {step: loss for step, _, loss, _ in log_of(alone)}
    assert {step for step, *_ in entries} == set(range(STEPS))
    assert all(abs(loss - losses[step]) < 1e-4 for step, _, loss, _ in entries)
    assert goes_on[3] - lost < 30
    last = [step for step, _, _, when in entries if when >= again[3]]
    assert last == list(range(int(again[0]), STEPS)), "the cable was no fault"
