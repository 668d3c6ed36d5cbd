"""Runs programs that others have written for PyTorch, unchanged, on several ranks.

    python -m tests.distributed.other_programs FOLDER [--ranks 2]

FOLDER has clones of pytorch/examples (`examples`) and karpathy/nanoGPT (`nanoGPT`, whose
`data/shakespeare_char/prepare.py` has been run on any text). A program that is not there is
skipped, and said to be. Those that want GPUs get simulated cards. At the end of those that torchrun
starts, the weights of all ranks are compared (`compare_weights.py`).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

COMPARED = Path(__file__).with_name("compare_weights.py").resolve()
TEXT = "data/shakespeare_char/input.txt"
SMALL = "--block_size=64 --batch_size=4 --n_layer=2 --n_head=2 --n_embd=32 --dropout=0.0"
MINGPT = (
    "trainer_config.max_epochs=1 gpt_config.n_layer=2 gpt_config.n_head=2 gpt_config.n_embd=32 "
    "trainer_config.batch_size=16 data_config.truncate=0.01 trainer_config.data_loader_workers=0 "
    "trainer_config.save_every=1 data_config.block_size=32"
)


class Program(NamedTuple):
    """A program and its arguments.

    Attributes:
        folder: below the folder of all; where it runs.
        command: "torchrun" stands for our launcher with the number of ranks.
        says: what it has to print.
    """

    folder: str
    command: str
    says: str


SERIES = "examples/distributed/ddp-tutorial-series"
PROGRAMS = (
    Program("examples/distributed/ddp", "torchrun example.py", "training completed in rank 1"),
    Program(SERIES, "single_gpu.py 2 1", "Epoch 1 | Training checkpoint"),
    Program(SERIES, "multigpu.py 2 1", "Epoch 1 | Training checkpoint"),
    Program(SERIES, "torchrun multigpu_torchrun.py 2 1", "Epoch 1 | Training snapshot"),
    Program(
        "examples/distributed/tensor_parallelism", "torchrun tensor_parallel_example.py",
        "Tensor Parallel training completed",
    ),
    Program(
        "examples/distributed/tensor_parallelism", "torchrun sequence_parallel_example.py",
        "Sequence Parallel training completed",
    ),
    Program(
        "examples/distributed/tensor_parallelism", "torchrun fsdp_tp_example.py",
        "2D training successfully completed",
    ),
    Program("examples/distributed/FSDP2", "torchrun example.py", "(output): Linear"),
    Program("examples/distributed/FSDP2", "torchrun example.py", "(output): Linear"),  # loads
    Program(
        "examples/distributed/FSDP2",
        "torchrun example.py --dcp-api --mixed-precision --explicit-prefetching",
        "(output): Linear",
    ),
    Program(
        "examples/distributed/minGPT-ddp/mingpt",
        f"torchrun main.py data_config.path={{folder}}/nanoGPT/{TEXT} {MINGPT}", "Eval Loss",
    ),
    Program(
        "nanoGPT",
        f"torchrun train.py config/train_shakespeare_char.py --compile=False {SMALL} --max_iters=6 "
        "--eval_interval=3 --eval_iters=1 --log_interval=1 --gradient_accumulation_steps=4",
        "iter 6: loss",
    ),
)  # fmt: skip


def run(program: Program, folder: Path, ranks: int, limit: float) -> str:
    """Run one program. Returns "ok" or what was wrong."""
    where = folder / program.folder
    if not where.is_dir():
        return "skipped: it is not there"
    words = program.command.format(folder=folder.resolve()).split()
    if words[0] == "torchrun":
        words[:1] = ["torchrun", "--standalone", "--nproc-per-node", str(ranks), str(COMPARED)]
    command = [sys.executable, "-m", "edutorch", "run", "--cuda-as-cpu", str(ranks), *words]
    try:
        done = subprocess.run(
            command, cwd=where, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not finished after {limit:g} s"
    printed = done.stdout + done.stderr
    compared = re.search(r"weights: .*", printed)
    if "Unable to locate sufficient" in printed:
        return "skipped: it wants more ranks"
    if done.returncode or program.says not in printed or (words[0] == "torchrun" and not compared):
        return f"FAILED ({done.returncode}): " + (done.stderr or done.stdout)[-600:]
    return f"ok, {compared[0]}" if compared else "ok"


def main() -> int:
    """Run all programs, and print a table."""
    reader = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    reader.add_argument("folder", type=Path)
    reader.add_argument("--ranks", type=int, default=2)
    reader.add_argument("--limit", type=float, default=300.0, help="seconds for each")
    options = reader.parse_args()
    failed = 0
    print(f"| program, {options.ranks} ranks | seconds | |\n|---|---:|---|")
    for program in PROGRAMS:
        start = time.perf_counter()
        outcome = run(program, options.folder, options.ranks, options.limit)
        failed += outcome[0] not in "os"
        seconds = time.perf_counter() - start
        name = " ".join(program.command.split()[:3])
        print(
            f"| {program.folder.rpartition('/')[2]}: {name} | {seconds:.0f} | {outcome} |",
            flush=True,
        )
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
