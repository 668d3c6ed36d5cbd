"""Runs the cells of lessons again and again, as students do: `make test-long PART=course`.

    EDUTORCH_COURSE=03,11 python -m tests.lessons.reruns

In one kernel for each lesson: all cells from the top, each twice in a row; the slowest cell is
interrupted in the middle; then all cells once from the bottom to the top; then from the top until
each has run EDUTORCH_RERUNS times (20). A lesson fails if its kernel grows by more than 64 MiB
in these last runs, or if a cell raises an error without a hint.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.lessons.metadata import NOTEBOOKS, read, source, stems

TIMES = 20
GROWTH = 64  # MiB
HANG = 400  # seconds for one cell
SHORTEST_INTERRUPT = 0.5  # a cell that is faster is not interrupted

NO_NETWORK = """
import socket

def connect(self, address, connect=socket.socket.connect):
    if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"a lesson needs no network, but asks for {address}")
    return connect(self, address)

socket.socket.connect = connect
del socket, connect
"""

MEMORY = r"""
import gc as _gc, re as _re
_gc.collect()
print(int(_re.search(r"VmRSS:\s+(\d+) kB", open("/proc/self/status").read())[1]) // 1024)
"""


@dataclass
class Report:
    """What happened to one lesson.

    Attributes:
        first: MiB of its kernel when each cell had run twice.
        before, after: MiB before and after the runs from the top again.
        problems: the errors without a hint, each once.
    """

    stem: str
    runs: int = 0
    seconds: float = 0.0
    first: int = 0
    before: int = 0
    after: int = 0
    problems: dict[str, None] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return not self.problems and self.after - self.before <= GROWTH

    def __str__(self) -> str:
        return (
            f"| {self.stem} | {self.runs} | {self.seconds:.0f} "
            f"| {self.first} | {self.before} | {self.after} "
            f"| {self.after - self.before:+} | {'; '.join(self.problems) or '–'} |"
        )


HEAD = (
    "| lesson | runs of cells | seconds | MiB after 2 | after 3 | at the end | growth | errors |\n"
    "|:--|:--|:--|:--|:--|:--|:--|:--|"
)


class Kernel:
    """A kernel of this very Python that runs cells one after the other."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager, self.client = manager, client

    def run(self, code: str, interrupt_after: float | None = None) -> tuple[str, str]:
        """Run a cell; return what it printed, and its error as "Name: message"."""
        printed: list[str] = []
        error = ""

        def hear(message: dict[str, Any]) -> None:
            nonlocal error
            content = message["content"]
            if message["msg_type"] == "stream":
                printed.append(content["text"])
            elif message["msg_type"] == "error":
                error = f"{content['ename']}: {content['evalue']}"

        timer = threading.Timer(interrupt_after or 0, self.manager.interrupt_kernel)
        if interrupt_after is not None:
            timer.start()
        try:
            self.client.execute_interactive(
                code, timeout=HANG, output_hook=hear, allow_stdin=False, stop_on_error=False
            )
        except TimeoutError:
            self.manager.interrupt_kernel()
            error = f"TimeoutError: no answer within {HANG} s"
        finally:
            timer.cancel()
        return "".join(printed), error

    def memory(self) -> int:
        """Return how many MiB of memory the kernel has."""
        return int(self.run(MEMORY)[0])


@contextmanager
def new_kernel() -> Iterator[Kernel]:
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(
        kernel_name="python3", cwd=str(NOTEBOOKS), stderr=None,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def cells_of(stem: str) -> list[str]:
    """Return the code of a lesson's cells; live views do not wait for eyes."""
    codes = [source(cell) for cell in read(stem)["cells"] if cell["cell_type"] == "code"]
    return [re.sub(r"steps_per_second=\d+", "steps_per_second=10_000", code) for code in codes]


def is_explained(error: str) -> bool:
    """Whether an error says what to do about it."""
    return "hint:" in error


def rerun(stem: str, times: int = TIMES) -> Report:
    """Run all cells of a lesson so many times; return what happened."""
    report, began = Report(stem), time.monotonic()
    codes = list(enumerate(cells_of(stem)))
    durations: dict[int, float] = {}

    def run_all(kernel: Kernel, order: Iterable[tuple[int, str]], how: str) -> None:
        for index, code in order:
            start = time.monotonic()
            _, error = kernel.run(code)
            durations[index] = time.monotonic() - start
            report.runs += 1
            if error and not is_explained(error):
                report.problems[f"code cell {index} {how}: {error.splitlines()[0]}"] = None

    with new_kernel() as kernel:
        kernel.run(NO_NETWORK)
        run_all(kernel, [cell for cell in codes for _ in range(2)], "twice in a row")
        report.first = kernel.memory()
        slowest = max(durations, key=durations.__getitem__)
        if durations[slowest] > SHORTEST_INTERRUPT:
            _, error = kernel.run(codes[slowest][1], interrupt_after=durations[slowest] / 2)
            if error and not error.startswith("KeyboardInterrupt"):
                report.problems[f"code cell {slowest} interrupted: {error}"] = None
            run_all(kernel, codes[slowest:], "after an interrupt")
        run_all(kernel, reversed(codes), "from the bottom to the top")
        report.before = kernel.memory()
        for _ in range(times - 3):
            run_all(kernel, codes, "from the top again")
        report.after = kernel.memory()
    report.seconds = time.monotonic() - began
    return report


def chosen(text: str) -> list[str]:
    """Return the lessons that a list of numbers names, all for "".

    Raises: SystemExit: there is no such lesson.
    """
    known = stems()
    wanted = re.findall(r"\w+", text)
    unknown = [number for number in wanted if number not in [stem[:2] for stem in known]]
    if unknown:
        raise SystemExit(f"EDUTORCH_COURSE: there is no lesson {', '.join(unknown)}")
    return [stem for stem in known if not wanted or stem[:2] in wanted]


def main() -> int:
    """Run the chosen lessons; return 0 if all are good."""
    reports = []
    print(HEAD)
    for stem in chosen(os.environ.get("EDUTORCH_COURSE", "")):
        reports.append(rerun(stem, int(os.environ.get("EDUTORCH_RERUNS", TIMES))))
        print(reports[-1], flush=True)
    return int(not all(report.is_good for report in reports))


if __name__ == "__main__":
    sys.exit(main())
