"""A worker process, which makes random calls, one block per target, and sends its findings."""

from __future__ import annotations

import pickle
import re
import signal
import time
from collections import Counter
from contextlib import suppress
from multiprocessing.connection import Connection
from random import Random
from typing import Any

from .arguments import Drawer, mutate
from .calls import Call
from .judge import Finding, Verdict, examine
from .minimise import MOST_TRIALS, minimise
from .targets import Target

CALLS_PER_BLOCK = 12
ABOUT_ERRORS = ("unclear error", "refused", "accepted")
MOST_ALIKE = 4
"""So many functions that fail with the same words are listed; the rest is the same fault."""

CPU_SECONDS_PER_CALL = 12
"""A call that computes longer hangs: the kernel ends the process, wherever in C it may be."""


class Journal:
    """What a worker is doing, in memory that its parent can read when it has died."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory

    def write(self, block: int, call: Call | None, library: str) -> None:
        text = pickle.dumps((block, call, library))
        if len(text) + 4 <= len(self.memory):
            self.memory[:4] = len(text).to_bytes(4, "little")
            self.memory[4 : 4 + len(text)] = text

    def read(self) -> tuple[int, Call | None, str]:
        size = int.from_bytes(self.memory[:4], "little")
        return pickle.loads(self.memory[4 : 4 + size]) if size else (0, None, "")


def guard(seconds: float) -> None:
    """Let the kernel end this process after so much computing; 0: not any more."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


class Worker:
    """Works through blocks of calls. Each block depends on the seed and its number only."""

    def __init__(self, libraries: tuple[Any, Any], targets: list[Target], seed: int) -> None:
        self.edutorch, self.torch = libraries
        self.targets, self.seed = targets, seed
        self.known: set[tuple[str, str]] = set()
        self.valid: Counter[str] = Counter()
        self.alike: Counter[str] = Counter()
        self.journal: Journal | None = None
        self.block = 0

    def target_of(self, block: int) -> Target:
        """Return the target of a block: all in turn, in an order of its own in each turn."""
        turn, position = divmod(block, len(self.targets))
        order = list(range(len(self.targets)))
        Random(f"{self.seed}/order/{turn}").shuffle(order)
        return self.targets[order[position]]

    def calls_of(self, block: int) -> Any:
        """Yield the calls of a block; the verdict on each is sent back in."""
        rng, target = Random(f"{self.seed}/{block}"), self.target_of(block)
        corpus: list[Call] = []
        for _ in range(CALLS_PER_BLOCK):
            fresh = not corpus or rng.random() < 0.45
            call = Drawer(rng, target).draw() if fresh else mutate(rng.choice(corpus), rng)
            if (yield call):
                corpus.append(call)

    def run_block(self, block: int) -> list[Finding]:
        """Make the calls of a block and return what is new."""
        self.block = block
        findings = []
        calls = self.calls_of(block)
        took = None
        with suppress(StopIteration):
            while True:
                call = calls.send(took)
                verdict = self.examine(call)
                took = verdict.is_valid
                self.valid[self.target_of(block).path] += verdict.is_valid
                finding = verdict.finding
                if finding and self.is_new(finding):
                    findings.append(self.smaller(finding))
        return findings

    def is_new(self, finding: Finding) -> bool:
        """Whether a finding is neither known nor the same words about one function more."""
        if finding.key in self.known:
            return False
        self.known.add(finding.key)
        if not finding.kind.startswith(ABOUT_ERRORS):
            return True
        words = re.sub(r"[\w.]+: |\d+", "", finding.detail)[:80]
        self.alike[words] += 1
        return self.alike[words] <= MOST_ALIKE

    def examine(self, call: Call) -> Verdict:
        guard(CPU_SECONDS_PER_CALL)
        verdict = examine(call, self.edutorch, self.torch, lambda name: self.announce(call, name))
        guard(0)
        return verdict

    def announce(self, call: Call, library: str) -> None:
        if self.journal:
            self.journal.write(self.block, call, library)

    def smaller(self, finding: Finding) -> Finding:
        """Return a finding with the smallest call that shows the same kind."""
        best = [finding]

        def still_fails(call: Call) -> bool:
            other = self.examine(call).finding
            if other is None or other.kind != finding.kind:
                return False
            best[0] = other
            return True

        about_error = finding.kind.startswith(ABOUT_ERRORS)
        minimise(finding.call, still_fails, MOST_TRIALS // (3 if about_error else 1))
        return best[0]


def serve(
    pipe: Connection, memory: Any, libraries: tuple[Any, Any], targets: list[Target], seed: int,
    start: int, known: set[tuple[str, str]],
) -> None:  # fmt: skip
    """Work until the parent has enough; send (block, findings, valid, cpu) after each block."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    worker = Worker(libraries, targets, seed)
    worker.journal, worker.known = Journal(memory), known
    block = start
    while True:
        findings = worker.run_block(block)
        block += 1
        try:
            pipe.send((block, findings, worker.valid, time.process_time()))
            if not pipe.recv():
                return
        except (EOFError, BrokenPipeError):
            return
        worker.valid.clear()
