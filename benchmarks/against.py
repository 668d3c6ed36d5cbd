"""Two commits, side by side: `python -m benchmarks --against COMMIT [--only KEY …]`.

Each commit has a process of its own, in a checkout of its own; both run the boards of this
checkout (`overhead`, `train`, `chains`, and `calls` where it is asked for). They take turns, five
rounds for each row, and of each turn the quickest tenth counts: a machine that is shared changes
its pace by half within a second. What moved by more than 8 % is measured a second time: a row that
moved twice is worth a look.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from .apart import COUNT
from .timing import Result, Work, contest, geometric_mean, sample

ROOT = Path(__file__).resolve().parent.parent
BEFORE, NOW = "before", "now"
ROUNDS = 5
PARTS = 10  # of a sample, whose quickest counts
MOVED = 0.08
"""A row that took so much more or less of the time is said to have moved."""

SLOWER = 0.1
"""A row that takes so much more of the time, in two runs of three, fails `--check`."""

CHECKED_ROUNDS = 3

SECONDS = {"overhead": 0.05, "train": 0.3, "chains": 0.3, "calls": 0.01}
"""How long a sample of a row takes, by its board."""


def rows(only: list[str] | None = None) -> list[str]:
    """Return the rows of the boards, "board/row"; `only` names boards, rows or workloads.

    Those of `calls` are many: they are taken where `only` asks for them.
    """
    from . import calls
    from .overhead import CASES, SIZES
    from .workloads import CHAIN_WORKLOADS, WORKLOADS

    names = [
        f"overhead/{case.name}/{size}/{direction}"
        for size in SIZES
        for case in CASES
        for direction in ("forward", "backward")
    ]
    names += [f"train/{key}" for key in WORKLOADS] + [f"chains/{key}" for key in CHAIN_WORKLOADS]
    if not only:
        return names
    names += calls.rows()
    chosen = [name for name in names if name in only or set(name.split("/")) & set(only)]
    unknown = [key for key in only if not any(key in (n, *n.split("/")) for n in names)]
    if unknown:
        raise SystemExit(f"--only: no board and no row is called {', '.join(unknown)}")
    return chosen


def work_of(row: str, library: str = "edutorch") -> Work:
    """Return what a row times, in the checkout that this process has imported."""
    if row.startswith("calls/"):
        from . import calls

        return calls.work_of(import_module(library), row)
    import edutorch

    from .overhead import CASES, prepare
    from .workloads import CHAIN_WORKLOADS, WORKLOADS, same

    board, name, *rest = row.split("/")
    if board == "overhead":
        case = next(case for case in CASES if case.name == name)
        return prepare(edutorch, case, int(rest[0]))[rest[1]]
    workloads = WORKLOADS if board == "train" else CHAIN_WORKLOADS
    return workloads[name].build(edutorch, same)


# The processes -----------------------------------------------------------------------


class Checkout:
    """A process that has imported one checkout, and times its rows when it is asked to.

    Args:
        library: "torch" has PyTorch in its place.
        runs: "quickest" counts the quickest tenth of a sample's runs, "all" counts all of them.
    """

    def __init__(self, folder: Path, library: str = "edutorch", runs: str = "quickest") -> None:
        self.library = library
        command = [sys.executable, "-m", "benchmarks.against", library, runs]
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": str(folder)},
        )  # fmt: skip

    def ask(self, row: str, number: int) -> float:
        """Return the seconds that so many runs of a row took."""
        return float(self.answer(row, number))

    def amounts(self, row: str) -> tuple[float, float]:
        """Return the bytes that a row of the board `calls` moves, and its operations."""
        moved, operations = self.answer(row, COUNT).split()
        return float(moved), float(operations)

    def answer(self, row: str, number: int) -> str:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([row, number]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process of one checkout ended in {row}: see its words above")
        return answer

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


class Remote:
    """A row in a checkout, as `contest` takes it."""

    def __init__(self, checkout: Any, row: str) -> None:
        self.checkout, self.row = checkout, row

    def __call__(self) -> float:
        return self.sample(1)

    def sample(self, number: int) -> float:
        return self.checkout.ask(self.row, number)


def serve(library: str = "edutorch", runs: str = "quickest") -> None:
    """Answer each line [row, number] with the seconds that it took."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a workload or a kernel prints is no answer
    time = quickest if runs == "quickest" else sample
    row, work, cores = "", None, cores_of_process()
    for line in sys.stdin:
        wanted, number = json.loads(line)
        if wanted != row:
            choose_cores(wanted, cores)
            prepare_kernels(wanted.partition("/")[0])
            row, work = wanted, work_of(wanted, library)
            gc.freeze()
        assert work is not None
        if number == COUNT:
            from .calls import amounts

            print(*amounts(import_module(library), row), file=answers, flush=True)
        else:
            print(time(work, number), file=answers, flush=True)


@cache
def prepare_kernels(board: str) -> None:
    """Have no sample run a definition whose kernel is being compiled."""
    if board == "calls":
        # Those that its calls take: the first run waits for them.
        os.environ.setdefault("EDUTORCH_KERNELS", "wait")
    elif board != "overhead":
        from .report import ready

        ready()


def cores_of_process() -> set[int]:
    """Return the cores that this process may use; none where the system does not tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def choose_cores(row: str, cores: set[int]) -> None:
    """Keep the rows of one op to one core, the same for both checkouts: cores differ in speed."""
    if cores:
        os.sched_setaffinity(0, {max(cores)} if row.startswith("overhead/") else cores)


def quickest(work: Work, number: int) -> float:
    """Return the seconds of so many runs, at the pace of the quickest tenth of them.

    The work is the same each time: what takes longer is the machine's doing.
    """
    gc.collect()
    work()  # caches and branch predictors were the rival's
    runs = max(1, number // PARTS)
    best = float("inf")
    for _ in range(max(1, number // runs)):
        start = perf_counter()
        for _ in range(runs):
            work()
        best = min(best, perf_counter() - start)
    return best / runs * number


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """Check a commit out into a temporary folder, with the boards of this checkout."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory(prefix="edutorch-") as parent:
        folder = Path(parent) / "before"
        done = subprocess.run(
            [*git, "add", "--detach", str(folder), commit], capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"--against {commit}: {done.stderr.strip().splitlines()[-1]}")
        try:
            shutil.rmtree(folder / "benchmarks", ignore_errors=True)
            shutil.copytree(ROOT / "benchmarks", folder / "benchmarks")
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)


# The comparison ----------------------------------------------------------------------


def measure(row: str, before: Any, now: Any, rounds: int) -> Result:
    """Let two checkouts run a row in turns."""
    rivals: dict[str, Work] = {BEFORE: Remote(before, row), NOW: Remote(now, row)}
    return contest(rivals, rounds, SECONDS[row.partition("/")[0]])


def has_moved(result: Result) -> bool:
    ratio = result.ratio(NOW, BEFORE)
    return max(ratio, 1 / ratio) > 1 + MOVED


def compare(chosen: list[str], before: Any, now: Any, rounds: int = ROUNDS) -> str:
    """Measure rows in two checkouts and return the report."""
    results = {}
    for row in chosen:
        results[row] = measure(row, before, now, rounds)
        print(f"{row}: {results[row].ratio(NOW, BEFORE):.3f}", flush=True)
    moved = {row: result for row, result in results.items() if has_moved(result)}
    again = {row: measure(row, before, now, rounds) for row in moved}
    return written(results, again)


def check(chosen: list[str], before: Any, now: Any, rounds: int = CHECKED_ROUNDS) -> list[str]:
    """Return the rows that take over a tenth longer in two runs of three, with their ratios."""
    ratios: dict[str, list[float]] = {row: [] for row in chosen}

    def is_slower(ratio: float) -> bool:
        return ratio > 1 + SLOWER

    for turn in range(3):
        # The third run decides where the first two disagree.
        undecided = [row for row in chosen if sum(map(is_slower, ratios[row])) == 1]
        for row in chosen if turn < 2 else undecided:
            ratios[row].append(measure(row, before, now, rounds).ratio(NOW, BEFORE))
            if is_slower(ratios[row][-1]):
                print(f"run {turn + 1}: {row}: {ratios[row][-1]:.2f}", flush=True)
    return [
        f"{row}: {', '.join(f'{ratio:.2f}' for ratio in of_row)}"
        for row, of_row in ratios.items()
        if sum(map(is_slower, of_row)) >= 2
    ]


def written(results: dict[str, Result], again: dict[str, Result]) -> str:
    """Return the geometric means, and the rows that moved, with the second measurement."""
    from .report import table

    lines = [["all", str(len(results)), mean_ratio(list(results.values()))]]
    for board in SECONDS:
        of_board = [result for row, result in results.items() if row.startswith(f"{board}/")]
        if of_board:
            lines.append([board, str(len(of_board)), mean_ratio(of_board)])
    parts = [table(["board", "rows", "now / before"], lines)]
    if not again:
        return "\n\n".join([*parts, f"No row moved by more than {MOVED:.0%}."])
    moved = [
        [row, microseconds(results[row], BEFORE), microseconds(results[row], NOW),
         f"{results[row].ratio(NOW, BEFORE):.2f}", f"{second.ratio(NOW, BEFORE):.2f}",
         "twice" if has_moved(second) else "once"]
        for row, second in sorted(again.items(), key=lambda item: -item[1].ratio(NOW, BEFORE))
    ]  # fmt: skip
    head = ["moved", "before, µs", "now, µs", "now / before", "measured again", "moved"]
    return "\n\n".join([*parts, f"Rows that moved by more than {MOVED:.0%}:", table(head, moved)])


def mean_ratio(results: list[Result]) -> str:
    return f"{geometric_mean([result.ratio(NOW, BEFORE) for result in results]):.3f}"


def microseconds(result: Result, name: str) -> str:
    return f"{result.median(name) * 1e6:.1f}"


def run(options: argparse.Namespace) -> str:
    """Compare this checkout with a commit and return the report.

    Raises: SystemExit: with `--check`, some rows are slower.
    """
    chosen = rows(options.only or (["calls"] if options.check else None))
    with ExitStack() as stack:
        checkouts = []
        for folder in (stack.enter_context(worktree(options.against)), ROOT):
            checkouts.append(Checkout(folder))
            stack.callback(checkouts[-1].close)
        if options.check:
            slower = check(chosen, *checkouts)
            if slower:
                raise SystemExit("\n".join([f"{len(slower)} rows are slower:", *slower]))
            return f"No row of {len(chosen)} is slower by over {SLOWER:.0%} in two runs of three."
        return compare(chosen, *checkouts, rounds=3 if options.quick else ROUNDS)


if __name__ == "__main__":
    serve(*sys.argv[1:])
