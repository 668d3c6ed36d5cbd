"""How processes are started: the launcher by all its names, `multiprocessing.spawn`, notebooks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

from tests.distributed.launch import PROGRAMS, ROOT, check_ranks, require_mpi

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "EDUTORCH_KERNELS": "off"}


def run(*arguments: str, folder: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m edutorch run` with these arguments."""
    require_mpi()
    return subprocess.run(
        [sys.executable, "-m", "edutorch", "run", *arguments], capture_output=True, text=True,
        timeout=120, cwd=folder, env={**ENVIRONMENT, **more},
    )  # fmt: skip


def test_spawn_starts_processes_that_train_together(tmp_path):
    done = run(str(PROGRAMS / "spawned.py"), str(tmp_path))
    assert done.stdout.endswith("all as it should be\n"), done.stdout + done.stderr


@pytest.mark.parametrize("backend", ["nccl", pytest.param("None", marks=pytest.mark.slow)])
def test_collectives_and_ddp_on_simulated_cards(backend):
    printed = check_ranks("on_cards.py", backend, EDUTORCH_CUDA_AS_CPU="2")
    assert printed == "all as it should be\n"


SNIPPET = (PROGRAMS / "data_parallel.txt").read_text()
"""The example of data parallel training in the fifth description of the library, as it is printed:
the page has lost the indentation of the function's body."""

AS_SPAWNED = """
def begin(rank, world_size):
    train(rank, world_size)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}, {dist.get_backend()}\\n", end="")

if __name__ == "__main__":
    torch.multiprocessing.spawn(begin, args=(2,), nprocs=2)
"""
AS_LAUNCHED = """
import os
train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
print(f"rank {dist.get_rank()} of {dist.get_world_size()}, {dist.get_backend()}\\n", end="")
"""


def snippet() -> str:
    """The snippet with the body of its function indented, otherwise unedited."""
    head, define, body = SNIPPET.partition("def train(rank, world_size):\n")
    return head + define + "".join(f"    {line}\n" for line in body.splitlines())


@pytest.mark.parametrize("start", ["spawn", "torchrun"])
def test_the_descriptions_snippet_runs_on_two_ranks(start, tmp_path):
    is_launched = start == "torchrun"
    program = tmp_path / "snippet.py"
    program.write_text(snippet() + (AS_LAUNCHED if is_launched else AS_SPAWNED))
    options = ("torchrun", "--nproc-per-node", "2") if is_launched else ()
    done = run("--cuda-as-cpu", "2", *options, str(program))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["rank 0 of 2, nccl", "rank 1 of 2, nccl"]


TRAIN = """
import argparse, os, sys
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local-rank", "--local_rank", type=int)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    if options.words == ["fail"]:
        raise ValueError("no data")
    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        print(options.local_rank, os.environ["LOCAL_RANK"], dist.get_world_size(), options.words)
    dist.destroy_process_group()

main()
"""

WAYS = {
    "the command": (["torchrun"], "None 1 2 ['x']\n"),
    "the module": (["-m", "torch.distributed.run"], "None 1 2 ['x']\n"),
    "the older module": (["-m", "torch.distributed.launch"], "1 1 2 ['x']\n"),
    "its variables": (["-m", "torch.distributed.launch", "--use-env"], "None 1 2 ['x']\n"),
    "a program": (["starter.py"], "None 1 2 ['x']\n"),
}


FAST = ("a program", "the older module")


@pytest.mark.parametrize(
    "way", [way if way in FAST else pytest.param(way, marks=pytest.mark.slow) for way in WAYS]
)
def test_torchrun_by_all_its_names(way, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "starter.py").write_text(
        "import subprocess, sys\n"
        "sys.exit(subprocess.run(['torchrun', *sys.argv[1:]]).returncode)"
    )  # fmt: skip
    words, expected = WAYS[way]
    done = run(*words, "--nproc-per-node", "2", "train.py", "x", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_record_writes_the_error_into_a_file(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    done = run("train.py", "fail", folder=tmp_path, TORCHELASTIC_ERROR_FILE=str(tmp_path / "e"))
    assert done.returncode == 1
    assert "ValueError: no data" in done.stderr
    assert '"message": "ValueError: no data", "extraInfo"' in (tmp_path / "e").read_text()


STARTS = """
import os
import torch.distributed as dist

def said(expected, **arguments):
    try:
        dist.init_process_group(**{"backend": "gloo", **arguments})
    except Exception as error:
        assert expected in f"{type(error).__name__}: {error}", error
    else:
        raise AssertionError(f"{arguments} is accepted")

one = {"rank": 0, "world_size": 1}
said("environment variables RANK and WORLD_SIZE expected, but not set")
said("hint: this process was started alone. Start several by `torchrun --nproc-per-node N SCRIPT`")
said("environment variable WORLD_SIZE expected, but not set", rank=0)
said("this process was started alone, but world_size is 2", rank=0, world_size=2)
said("multiprocessing.spawn(fn, nprocs=2)", rank=0, world_size=2)
said("unknown init_method 'udp://x:1'", init_method="udp://x:1", **one)
said("has no host or no port", init_method="tcp://localhost", **one)
said("has no host or no port", init_method="tcp://localhost:port", **one)
said("has no path", init_method="file://", **one)
said("rank in init_method", init_method="tcp://localhost:1?rank=1", **one)
said("rank is from 0 to world_size - 1", rank=3, world_size=2)
said("TypeError: init_process_group: store is a Store, not int", store=1, **one)
said("with store=, rank and world_size must be given", store=dist.HashStore())
said("give init_method or store, not both", store=dist.HashStore(), init_method="env://", **one)
said("timeout is a datetime.timedelta, not int", timeout=30, **one)
said("'nccl' needs a GPU, and there is none here", backend="nccl", **one)
said("hint: use backend='gloo'", backend="nccl", **one)
said("unknown backend ucc", backend="ucc", **one)

store = dist.HashStore()
for arguments in (
    {"backend": "gloo"}, {"init_method": "tcp://127.0.0.1:29500"}, {"store": store},
    {"init_method": f"file://{os.getcwd()}/shared"}, {"backend": "cpu:gloo,cuda:nccl"},
):
    dist.init_process_group(**arguments, **one)
    assert dist.get_world_size() == 1
    dist.destroy_process_group()
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29500?rank=0&world_size=1")
dist.destroy_process_group()
os.environ.update(RANK="0", WORLD_SIZE="1")
dist.init_process_group()
print(dist.get_backend())
"""


def test_one_process_alone(tmp_path):
    (tmp_path / "starts.py").write_text(STARTS)
    done = run("starts.py", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "undefined\n"), done.stderr


CELLS = (
    """
    from edutorch import distributed, nn, ones
    FACTOR = 3.0
    class Net(nn.Linear):
        pass
    def train(steps):
        distributed.init_process_group()
        rank, size = distributed.get_rank(), distributed.get_world_size()
        x = ones(2) * (rank + 1) * FACTOR
        distributed.all_reduce(x)
        model = nn.parallel.DistributedDataParallel(Net(2, 1))
        if steps > 5:
            raise ValueError("too many steps")
        print(f"rank {rank} of {size}: {x.tolist()}", flush=True)
    """,
    "distributed.notebook_launcher(train, (5,), nprocs=2)",
    """
    try:
        distributed.notebook_launcher(train, (9,), nprocs=2)
    except Exception as error:
        print(type(error).__name__, error)
    """,
    "distributed.notebook_launcher(train, (5,), num_processes=1)",
)


def test_a_cell_of_a_notebook_trains_in_two_processes(monkeypatch):
    from textwrap import dedent

    require_mpi()
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cells = [nbformat.v4.new_code_cell(dedent(text)) for text in CELLS]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    printed = ["".join(out.get("text", "") for out in cell.outputs) for cell in book.cells]
    assert sorted(printed[1].split("\n"))[-2:] == [
        "rank 0 of 2: [9.0, 9.0]", "rank 1 of 2: [9.0, 9.0]",
    ]  # fmt: skip
    assert "ProcessRaisedException" in printed[2]
    assert "ValueError: too many steps" in printed[2]
    assert printed[3] == "rank 0 of 1: [3.0, 3.0]\n"
