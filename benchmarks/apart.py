"""PyTorch in a process of its own, which takes its turn when it is asked to.

Within one process the rivals share more than the machine: PyTorch's threads go on turning round
for a while after its step is over, and so take from ours; ours tell the C library to keep freed
memory, and so spare PyTorch what its users pay. Between its turns the other process sleeps.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import time
from functools import cache
from typing import Any

from .timing import Work, sample
from .workloads import CHAIN_WORKLOADS, LARGE_PRODUCT, WORKLOADS, Workload, same

PRODUCT = "product"
KNOWN = {**WORKLOADS, **CHAIN_WORKLOADS, PRODUCT: LARGE_PRODUCT}
EAGER, CHANNELS_LAST, COMPILED = "PyTorch", "channels last", "torch.compile"
COMPILED_STEP = "whole steps by torch.compile"
COUNT = 0
"""Asked for so many runs, the other process counts the operations of one (see `floors.py`)."""

SETTLING = 0.02
"""Seconds until the other process is quiet: PyTorch's threads turn round for 9 ms after a step."""


def build(torch: Any, workload: Workload, way: str) -> Work:
    """Return PyTorch's step of a workload, in one of its ways."""
    if way == CHANNELS_LAST:
        return workload.build(torch, lambda tensor: tensor.to(memory_format=torch.channels_last))
    if way == COMPILED:
        return workload.build(
            torch,
            lambda subject: (
                torch.compile(subject) if isinstance(subject, torch.nn.Module) else subject
            ),
        )
    if way == COMPILED_STEP:
        return torch.compile(workload.build(torch, same))
    return workload.build(torch, same)


class Apart:
    """The step of a workload, as if it were here: `contest` takes samples of it."""

    def __init__(self, key: str, way: str) -> None:
        self.key, self.way = key, way

    def __call__(self) -> float:
        return self.sample(1)

    def operations(self) -> float:
        """Return how many operations PyTorch counts in the products of one run."""
        return self.sample(COUNT)

    def sample(self, number: int) -> float:
        """Let the other process run it that often, and return the seconds it took."""
        connection = other_process()
        connection.send((self.key, self.way, number))
        return connection.recv()


@cache
def other_process() -> Any:
    """Start the process, which ends with this one."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
    context.Process(target=serve, args=(theirs, threads), daemon=True).start()
    theirs.close()
    return ours


def serve(connection: Any, threads: int) -> None:
    """Answer with the seconds that each sample took; a new workload takes the place of the last."""
    torch = importlib.import_module("torch")
    if threads:
        torch.set_num_threads(threads)
    built: dict[tuple[str, str], Work] = {}
    while True:
        try:
            key, way, number = connection.recv()
        except EOFError:
            return
        if (key, way) not in built:
            if key != PRODUCT:
                built = {known: step for known, step in built.items() if known[0] in (key, PRODUCT)}
            built[key, way] = build(torch, KNOWN[key], way)
            gc.freeze()
        step = built[key, way]
        answer = sample(step, number) if number != COUNT else counted(step)
        time.sleep(SETTLING)
        connection.send(answer)


def counted(step: Work) -> float:
    """Count the operations of the products in one run, as PyTorch does."""
    counter = importlib.import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    step()
    with counter:
        step()
    return float(counter.get_total_flops())
