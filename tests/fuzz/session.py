"""A run of the fuzzer: one worker process at a time, replaced when it hangs or crashes."""

from __future__ import annotations

import math
import mmap
import multiprocessing
import resource
import signal
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .calls import Call
from .judge import Finding
from .minimise import minimise
from .targets import Target
from .worker import CPU_SECONDS_PER_CALL, Journal, guard, serve

WALL_SECONDS_PER_BLOCK = 300
"""A worker that is silent for so long waits for something that does not come."""

MEMORY = 24 << 30
TRIALS_OF_A_HANG = 14


@dataclass
class Report:
    """What a run came to."""

    findings: list[Finding] = field(default_factory=list)
    valid: Counter[str] = field(default_factory=Counter)
    cpu_seconds: float = 0.0
    blocks: int = 0
    torch_died: list[Call] = field(default_factory=list)

    @property
    def valid_per_minute(self) -> float:
        return 60 * self.valid.total() / max(self.cpu_seconds, 1e-9)


class Session:
    """Runs workers in processes forked from this one, which itself computes nothing."""

    def __init__(self, libraries: tuple[Any, Any], targets: list[Target], seed: int) -> None:
        self.libraries, self.targets, self.seed = libraries, targets, seed
        self.context = multiprocessing.get_context("fork")
        self.report = Report()
        self.known: set[tuple[str, str]] = set()

    def run(self, cpu_seconds: float, tell: Any = None, blocks: float = math.inf) -> Report:
        """Make calls until so much processor time is spent, or so many blocks of them are made.

        A number of blocks gives the same calls on any machine.
        """
        self.blocks, block = blocks, 0
        while self.goes_on(cpu_seconds):
            block = self.run_worker(block, cpu_seconds, tell)
        return self.report

    def goes_on(self, cpu_seconds: float) -> bool:
        return self.report.cpu_seconds < cpu_seconds and self.report.blocks < self.blocks

    def run_worker(self, start: int, cpu_seconds: float, tell: Any) -> int:
        """Run a worker until it dies or time is up; return the block to go on with."""
        memory = mmap.mmap(-1, 1 << 20)
        here, there = self.context.Pipe()
        process = self.context.Process(target=limited, args=(
            there, memory, self.libraries, self.targets, self.seed, start, set(self.known),
        ), daemon=True)  # fmt: skip
        process.start()
        there.close()
        block, before, spent = start, self.report.cpu_seconds, 0.0
        while True:
            try:
                if not here.poll(WALL_SECONDS_PER_BLOCK):
                    process.kill()
                block, findings, valid, spent = here.recv()
            except (EOFError, ConnectionResetError):
                self.report.cpu_seconds = before + spent + CPU_SECONDS_PER_CALL
                return self.report_death(process, Journal(memory), tell)
            self.report.valid += valid
            self.report.blocks += 1
            self.report.cpu_seconds = before + spent
            self.add(findings, tell)
            going_on = self.goes_on(cpu_seconds)
            here.send(going_on)
            if not going_on:
                process.join()
                return block

    def add(self, findings: list[Finding], tell: Any) -> None:
        for finding in findings:
            if finding.key not in self.known:
                self.known.add(finding.key)
                self.report.findings.append(finding)
                if tell:
                    tell(finding)

    def report_death(self, process: Any, journal: Journal, tell: Any) -> int:
        """Find out what a worker died of; return the block after the one it was at."""
        process.join()
        block, call, library = journal.read()
        if call is None:
            raise RuntimeError(f"the worker died before its first call: {process.exitcode}")
        if library == "PyTorch":
            self.report.torch_died.append(call)
            return block + 1
        death = kind_of_death(process.exitcode)
        if (call.path, death) not in self.known:
            smaller = minimise(call, lambda c: self.dies(c, death), TRIALS_OF_A_HANG)
            self.add([Finding(smaller, death, "the process was ended")], tell)
        return block + 1

    def dies(self, call: Call, death: str) -> bool:
        """Whether edutorch dies of a call in the same way, in a process of its own."""
        process = self.context.Process(target=only, args=(call, self.libraries[0]), daemon=True)
        process.start()
        process.join(WALL_SECONDS_PER_BLOCK)
        if process.is_alive():
            process.kill()
            process.join()
        self.report.cpu_seconds += CPU_SECONDS_PER_CALL / 4 if process.exitcode else 0
        return bool(process.exitcode) and kind_of_death(process.exitcode) == death


def kind_of_death(exitcode: int | None) -> str:
    hung = exitcode in (-signal.SIGPROF, -signal.SIGKILL)
    return "hang" if hung else f"crash ({exitcode})"


def limited(*args: Any) -> None:
    """Serve with a limit on memory: what wants more gets a MemoryError and not the machine's."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    serve(*args)


def only(call: Call, library: Any) -> None:
    """Make one call, for a quarter of the time a call has."""
    from .calls import run_call

    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    guard(CPU_SECONDS_PER_CALL / 4)
    run_call(call, library)
