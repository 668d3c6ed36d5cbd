"""Single calls beside PyTorch's, with the time below which no library can do them.

    forward     the call alone; where it has a derivative, on tensors that require a gradient
    backward    the same, and `backward` from ones of the result's shape

Each library has a process of its own (see `apart.py`), and they take turns. The column "floor" is
the larger of two times, as a ratio to PyTorch's: what the call reads and writes at least, at the
speed of the machine's best copy of a matrix of that size, and its products at the speed of a large
one (`floors.py`). A result that shares its input's memory moves nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter, sleep
from types import ModuleType
from typing import Any

from . import call_inputs, call_list, call_list_wide, report
from .against import ROOT, Checkout
from .apart import EAGER, SETTLING
from .call_reasons import REASONS
from .timing import Work, contest
from .workloads import Change, same

US = "edutorch"
SIZES = (32, 512, 2048)
Boards = tuple[ModuleType, ...]
EVERYDAY: Boards = (call_list,)
DIRECTIONS = ("forward", "backward")
SECONDS = 0.004
"""How long a sample takes: a call that takes longer runs once."""

BUDGET = 0.3
"""Seconds after which a row gets no further round, after three of them."""

FOLDER = Path(__file__).with_name("results")
LIMITS = (1.0, 1.05, 1.5, 3.0)
LIMIT = 1.5
"""An everyday call that takes longer beside PyTorch's is to have a reason (`call_reasons.py`)."""

WORST = 60


# The rows ----------------------------------------------------------------------------------------


def expressions(table: dict[str, str]) -> list[str]:
    """Return the calls of a table, in its order."""
    texts = (text for lines in table.values() for text in re.split(r"[;\n]", lines))
    return [text.strip() for text in texts if text.strip()]


WIDE = (*EVERYDAY, call_list_wide)
BOTH = frozenset(call for board in WIDE for call in expressions(board.BOTH))
PICKS = frozenset(expressions({"": call_list.BOTH["indexing"]}))
"""Those that may read a part of their inputs."""


def rows(
    sizes: tuple[int, ...] = SIZES, only: list[str] | None = None, boards: Boards = EVERYDAY
) -> list[str]:
    """Return the rows, "calls/expression/size/direction".

    Args:
        only: expressions, or words in them: "softmax".
        boards: `EVERYDAY`, or `WIDE`, which has the other public functions as well.
    """
    tables = [table for board in boards for table in (board.BOTH, board.FORWARD)]
    return [
        f"calls/{call}/{size}/{direction}"
        for size in sizes
        for table in tables
        for call in expressions(table)
        if not only or {call, *re.findall(r"\w+", call)} & set(only)
        for direction in (DIRECTIONS if call in BOTH else DIRECTIONS[:1])
    ]


def parts(row: str) -> tuple[str, int, str]:
    """Return the expression, the size and the direction of a row."""
    call, size, direction = row.removeprefix("calls/").rsplit("/", 2)
    return call, int(size), direction


# In the process of a library ---------------------------------------------------------------------


def work_of(torch: ModuleType, row: str, change: Change = same) -> Work:
    """Return what a row times.

    Args:
        change: what is done to the call before, as a function of the tensors that it names.
    """
    call, size, direction = parts(row)
    code = compile(call, call, "eval")
    requires_grad = call in BOTH
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "n": size}
    names = sorted(set(code.co_names) & call_inputs.NAMES)
    for name in names:
        scope[name] = call_inputs.tensor(torch, name, size, requires_grad)
    if change is not same:
        arguments = ", ".join(names)
        scope["changed"] = change(eval(f"lambda {arguments}: {call}", dict(scope)))
        call = f"changed({arguments})"
    if direction == "forward":
        return eval(f"lambda: {call}", scope)
    result = eval(code, dict(scope))
    leaves = call_inputs.LEAVES & set(code.co_names)
    start = "".join(f"    {name}.grad = None\n" for name in sorted(leaves))
    scope["gradient"] = torch.ones_like(result.detach())
    exec(f"def both():\n{start}    ({call}).backward(gradient)\n", scope)
    return scope["both"]


def amounts(torch: ModuleType, row: str) -> tuple[float, float]:
    """Return the bytes that a row moves at least, and the operations of its products."""
    call, n, direction = parts(row)
    work = work_of(torch, row)
    counter = import_module("torch.utils.flop_counter").FlopCounterMode(display=False)
    with counter:
        work()
    scope: dict[str, Any] = work.__globals__  # type: ignore[attr-defined]
    named = [scope[name] for name in call_inputs.NAMES & scope.keys()]
    inputs = [torch.as_tensor(value) for value in named if hasattr(value, "dtype")]
    result = eval(call, scope)
    if not isinstance(result, torch.Tensor):
        return 0.0, 0.0
    storage = result.untyped_storage().data_ptr()
    is_view = any(value.untyped_storage().data_ptr() == storage for value in inputs)
    read = sum(
        min(value.nbytes, result.nbytes) if call in PICKS else value.nbytes for value in inputs
    )
    moved = result.nbytes + read if not is_view or "_(" in call else 0
    if direction == "backward":
        moved += result.nbytes + sum(value.nbytes for value in inputs if value.requires_grad)
    operations = counter.get_total_flops() or factorization(call, n, direction)
    return float(moved), float(operations)


def factorization(call: str, size: int, direction: str) -> float:
    """Return the operations of a call of LAPACK's; its backward takes triangular solves alone."""
    n = min(size, call_inputs.LARGEST_SYSTEM)
    forward, backward = FACTORIZATIONS.get(call.partition("(")[0], (0, 0))
    return (forward + (backward if direction == "backward" else 0)) * n**3


FACTORIZATIONS = {
    "torch.linalg.cholesky": (1 / 3, 2),
    "torch.linalg.solve": (8 / 3, 4),
    "torch.linalg.inv": (2, 4),
}
"""Operations forward and backward, divided by the cube of the rows."""


# The two processes -------------------------------------------------------------------------------


class Rival:
    """A row in the process of one library, as `contest` takes it."""

    def __init__(self, process: Checkout, row: str, rests: Rests) -> None:
        self.process, self.row, self.rests = process, row, rests

    def __call__(self) -> float:
        return self.sample(1)

    def sample(self, number: int) -> float:
        self.rests.wait(self.process.library)
        seconds = self.process.ask(self.row, number)
        self.rests.ended(self.process.library)
        return seconds


class Rests:
    """Lets PyTorch's threads come to rest before the other library has its turn."""

    def __init__(self) -> None:
        self.end = 0.0

    def wait(self, library: str) -> None:
        if library == US:
            sleep(max(0.0, self.end + SETTLING - perf_counter()))

    def ended(self, library: str) -> None:
        if library != US:
            self.end = perf_counter()


@dataclass(frozen=True)
class Timed:
    """A row of the board; times in microseconds, the floor as a ratio to PyTorch's time."""

    call: str
    size: int
    direction: str
    edutorch: float
    pytorch: float
    ratio: float
    floor: float


def measure(
    row: str, us: Checkout, them: Checkout, speeds: Speeds, options: argparse.Namespace
) -> Timed:
    rests = Rests()
    rivals: dict[str, Work] = {US: Rival(us, row, rests), EAGER: Rival(them, row, rests)}
    result = contest(rivals, options.rounds, SECONDS, BUDGET)
    ours, theirs, ratio = result.median(US), result.median(EAGER), result.ratio(US, EAGER)
    if options.quickest:
        ours, theirs = (min(result.samples[rival]) for rival in (US, EAGER))
        ratio = ours / theirs
    call, size, direction = parts(row)
    floor = speeds.floor(size, *them.amounts(row)) / theirs
    times = round(ours * 1e6, 2), round(theirs * 1e6, 2)
    return Timed(call, size, direction, *times, round(ratio, 3), round(floor, 3))


class Speeds:
    """The machine's speeds: of copies of a matrix by its size, and of one large product."""

    def __init__(self, us: Checkout, them: Checkout) -> None:
        self.processes = (us, them)
        self.copies: dict[int, float] = {}
        self.product = self.quickest("x @ y", 2048, 1) / (2 * 2048**3)

    def quickest(self, call: str, size: int, number: int) -> float:
        """Return the seconds of the quicker library's quickest run."""
        row = f"calls/{call}/{size}/forward"
        samples = [p.ask(row, number) / number for p in self.processes for _ in range(5)]
        return min(samples)

    def floor(self, size: int, moved: float, operations: float) -> float:
        """Return the seconds that no library can do with less."""
        if size not in self.copies:
            copy = self.quickest("buffer.copy_(y)", size, 1 if size > 1000 else 50)
            self.copies[size] = copy / (2 * 4 * size**2)
        return max(moved * self.copies[size], operations * self.product)


def run(options: argparse.Namespace) -> str:
    """Measure the rows and return the report."""
    boards = EVERYDAY if options.everyday else WIDE
    chosen = rows(tuple(options.sizes), options.only, boards)
    if not chosen:
        raise SystemExit(f"--only: no call has the word {' or '.join(options.only)}")
    start = perf_counter()
    with ExitStack() as stack:
        runs = "quickest" if options.quickest else "all"
        us, them = (Checkout(ROOT, library, runs) for library in (US, "torch"))
        stack.callback(us.close)
        stack.callback(them.close)
        speeds = Speeds(us, them)
        timed = []
        for row in chosen:
            timed.append(measure(row, us, them, speeds, options))
            if options.only:
                print(line_of(timed[-1]), flush=True)
    text = written(timed) + f"\n\n{len(timed)} rows in {(perf_counter() - start) / 60:.1f} minutes"
    if options.keep:
        keep(timed, f"{report.conditions(options.threads)}\n\n{text}")
    return text


# The report --------------------------------------------------------------------------------------


def written(timed: list[Timed]) -> str:
    """Return the table of the sizes, and the rows that take longest beside PyTorch's time."""
    everyday = set(rows())
    chosen = [row for row in timed if f"calls/{row.call}/{row.size}/{row.direction}" in everyday]
    tables = [summary(chosen)] if chosen else []
    if len(chosen) < len(timed):
        tables += ["The wider board, with these:", summary(timed)]
    if above := [row for row in chosen if row.ratio > LIMIT]:
        tables += [f"Everyday calls above {LIMIT:g}, and why:", reasons(above)]
    worst = sorted(timed, key=lambda row: -row.ratio)[:WORST]
    head = [*HEAD, "edutorch, µs", "PyTorch, µs", "ratio", "floor"]
    lines = [
        [*named(row), f"{row.edutorch:.1f}", f"{row.pytorch:.1f}", f"{row.ratio:.2f}",
         f"{row.floor:.2f}"]
        for row in worst
    ]  # fmt: skip
    return "\n\n".join([*tables, "The largest ratios:", report.table(head, lines)])


HEAD = ["call", "size", "direction"]


def named(row: Timed) -> list[str]:
    return [f"`{row.call}`", f"{row.size}", row.direction]


def reasons(above: list[Timed]) -> str:
    """Return the table of the rows above the limit, and the reason for each call."""
    rows = sorted(above, key=lambda row: (row.call, row.size))
    lines = [[*named(row), f"{row.ratio:.2f}", f"{row.floor:.2f}"] for row in rows]
    calls = dict.fromkeys(row.call for row in rows)
    why = [f"- `{call}`: {REASONS.get(call, 'no reason is known')}." for call in calls]
    return report.table([*HEAD, "ratio", "floor"], lines) + "\n\n" + "\n".join(why)


def summary(timed: list[Timed]) -> str:
    """Return the table of the sizes: how many rows keep to each limit."""
    lines = []
    for size in sorted({row.size for row in timed}):
        ratios = [row.ratio for row in timed if row.size == size]
        shares = [sum(ratio <= limit for ratio in ratios) / len(ratios) for limit in LIMITS]
        lines.append(
            [f"{size} x {size}", f"{len(ratios)}", f"{statistics.median(ratios):.2f}",
             *(f"{share:.0%}" for share in shares), f"{max(ratios):.1f}"]
        )  # fmt: skip
    head = ["size", "rows", "median", *(f"<= {limit:g}" for limit in LIMITS), "worst"]
    return report.table(head, lines)


def line_of(row: Timed) -> str:
    return (
        f"{row.call} / {row.size} / {row.direction}: {row.edutorch:.1f} µs, "
        f"PyTorch {row.pytorch:.1f}, ratio {row.ratio:.2f}, floor {row.floor:.2f}"
    )


def keep(timed: list[Timed], text: str) -> None:
    """Write all rows as JSON, one a line, and the report beside them."""
    FOLDER.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(asdict(row)) for row in timed)
    (FOLDER / "calls.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    (FOLDER / "calls.md").write_text(f"# Calls\n\n{text}\n", encoding="utf-8")
