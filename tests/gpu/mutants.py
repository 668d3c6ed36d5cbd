"""Mutants of the hand-written kernels: does the kernels' check notice each small mistake?

`python -m tests.gpu.mutants` makes them all by program, runs the check of the file on each, in a
process of its own (a mutant may crash, or never end), and compares the survivors with the table
`survivors.toml`, where each has its reason. `--sample 10` takes some at random; `--file softmax`
those of one file, `--part 2/3` a third of them; `--list` only shows them.

    barrier   a `__syncthreads()` is removed
    bound     in a condition, `a < b` becomes `a < b + 1`, or `a < b - 1`
    shuffle   the mask loses a lane, the distance is 1 more, or twice as large
    index     `x[i]` becomes `x[i + 1]`
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from edutorch.kernels.gpu.module import CudaModule, use_launcher
from edutorch.kernels.gpu.row_launch import module_for
from tests.gpu.fibers import FiberLauncher, check_addresses, compile_modules
from tests.gpu.row_checks import CHECKS as ROW_CHECKS
from tests.gpu.text_checks import TABLES, TEXT_CHECKS, text_of

SURVIVORS = Path(__file__).with_name("survivors.toml")
DTYPE = "float32"  # the texts of the other dtypes differ in two names of types
CHECKS = {**ROW_CHECKS, **TEXT_CHECKS}
"""The check of each hand-written text."""

FIRST = {
    "softmax": "#define WARP", "random": "struct Words", "optimizers": "// A block does a chunk",
    "gradients": "// A block does a chunk", "one_hot": "// y[i, c] = 1",
}  # fmt: skip
"""Where the part of a text begins that is changed: what is before counts for another file."""

SECONDS = 10
"""The processor time after which a mutant counts as caught: it does not end."""


STOP_OUT_OF_BOUNDS = ("-fsanitize=bounds", "-fsanitize-undefined-trap-on-error")
"""With these flags of g++ a process ends where an index is outside of a thread's own array.

For the texts whose launches AddressSanitizer cannot repeat: it does not copy what tables point to.
"""


class Mutant(NamedTuple):
    """One change of a text: the characters from `start` to `stop` become `new`."""

    file: str
    function: str
    operator: str
    line: int
    old: str
    new: str
    start: int
    stop: int

    @property
    def name(self) -> str:
        """Return what tells it from all others, also after lines above have moved."""
        change = f"{self.old.strip()} -> {self.new.strip() or 'nothing'}"
        return f"{self.file}, {self.function}: {self.operator}: {change}"


# Making them -----------------------------------------------------------------------------------


def code_of(text: str, start: int) -> str:
    """Return a text with blanks in place of its comments, and of all before `start`."""
    blank = re.sub(r"//[^\n]*", lambda match: " " * len(match[0]), text)
    return " " * start + blank[start:]


def changes(code: str) -> Iterator[tuple[str, int, int, str]]:
    """Yield (operator, start, stop, new text) of all changes of a text."""
    for match in re.finditer(r"__sync(threads|warp)\([^)]*\);", code):
        yield "barrier", match.start(), match.end(), ";"
    for match in re.finditer(r"__shfl\w*_sync\((\w+), \w+, (\w+)\)", code):
        yield "shuffle", match.start(1), match.end(1), "0x7fffffffu"
        for change in ("+ 1", "* 2"):
            yield "shuffle", match.start(2), match.end(2), f"({match[2]} {change})"
    for match in re.finditer(r"\b(?:if|for) \(|\?", code):
        first, last = condition(code, match.start())
        for bound in re.finditer(r" (?:<|>|<=|>=|==) (-?[\w.]+(?: \* \w+)?)", code[first:last]):
            start, stop = first + bound.start(1), first + bound.end(1)
            for change in ("+ 1", "- 1"):
                yield "bound", start, stop, f"({code[start:stop]} {change})"
    for match in re.finditer(r"(\w)\[([^\[\]]+)\]", code):
        before = code[max(0, match.start() - 200) : match.start()]
        is_declaration = re.search(r"(__shared__|struct \w+ \{ )[^;{}]*$", before)
        if not is_declaration:
            yield "index", match.start(2), match.end(2), f"{match[2]} + 1"


def condition(code: str, start: int) -> tuple[int, int]:
    """Return where the condition of `if (`, of `for (…;` or before a `?` begins and ends."""
    if code[start] == "?":
        return max(code.rfind(mark, 0, start) for mark in "(;={") + 1, start
    first = code.index("(", start) + 1
    if code.startswith("for", start):
        first = code.index(";", first) + 1
        return first, code.index(";", first)
    depth, last = 1, first
    while depth:
        depth += {"(": 1, ")": -1}.get(code[last], 0)
        last += 1
    return first, last - 1


def original_of(file: str) -> CudaModule:
    """Return the text of a name in `CHECKS`."""
    return text_of(file) if file in TEXT_CHECKS else module_for(file, DTYPE)


def mutants_of(file: str) -> list[Mutant]:
    """Return all mutants of a file in `edutorch/kernels/gpu`.

    Those of `reduce.cuh`, which all files include, count for the first file. The conversions in
    `common.cuh` are no kernels: tests compare them with ml_dtypes, number by number.
    """
    text = original_of(file).text
    made = []
    first = text.index(FIRST.get(file, "typedef float T;"))
    for operator, start, stop, new in changes(code_of(text, first)):
        begin, end = text.rfind("\n", 0, start) + 1, text.find("\n", stop)
        old_line = text[begin:end]
        new_line = text[begin:start] + new + text[stop:end]
        line = text.count("\n", 0, start) + 1
        function = re.findall(r"__device__ .*?(\w+)\(|__global__ void (\w+)\(", text[:start])[-1]
        made.append(Mutant(file, "".join(function), operator, line, old_line, new_line, begin, end))
    return list({mutant[:]: mutant for mutant in made}.values())


# Running them ----------------------------------------------------------------------------------


class MutantLauncher(FiberLauncher):
    """Launches another text in the place of one."""

    def __init__(self, original: CudaModule, changed: CudaModule, together: Sequence[CudaModule]):
        super().__init__(together)
        self.original, self.changed = original, changed

    def function(self, module: CudaModule, kernel: str) -> tuple[Any, str]:
        return super().function(self.changed if module == self.original else module, kernel)


def is_caught(mutant: Mutant) -> bool:
    """Run the check of a mutant's file on it, in a process of its own; then AddressSanitizer."""
    original = original_of(mutant.file)
    text = original.text[: mutant.start] + mutant.new + original.text[mutant.stop :]
    others = [original_of(file) for file in CHECKS]
    flags = STOP_OUT_OF_BOUNDS if mutant.file in TABLES else ()
    compile_modules(others, flags)  # once, for all mutants
    process = os.fork()
    if process == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            launcher = MutantLauncher(original, CudaModule("mutant", text), others)
            launcher.flags = flags
            if mutant.file in TABLES:
                launcher.orders = (0,)
            with use_launcher(launcher):
                CHECKS[mutant.file](DTYPE)
            reads = mutant.operator in ("bound", "index") and mutant.file not in TABLES
            if reads:  # what it reads may be read for nothing
                launcher.orders, launcher.record = (0,), []
                with use_launcher(launcher):
                    CHECKS[mutant.file](DTYPE, sizes=(1, 33))
                changed = [
                    launch._replace(module=launcher.changed)
                    for launch in launcher.record
                    if launch.module == original
                ]
                check_addresses(changed)
        except BaseException:  # noqa: BLE001 (caught, by whatever it was)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(process, 0)
    return status != 0


def survivors_with_reasons() -> dict[str, str]:
    """Return the mutants that are known to survive, with the reason."""
    return tomllib.loads(SURVIVORS.read_text(encoding="utf-8")) if SURVIVORS.exists() else {}


def sample(count: int, seed: int = 0) -> list[Mutant]:
    """Return some mutants of all files, the same ones for the same seed."""
    every = [mutant for file in CHECKS for mutant in mutants_of(file)]
    return random.Random(seed).sample(every, count)


def main() -> int:
    """Run mutants, and say which survive; 1 if one does without a reason."""
    parser = argparse.ArgumentParser(description="mutants of the hand-written CUDA kernels")
    parser.add_argument("--file", choices=list(CHECKS), action="append")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", default="1/1", help="2/3: the second third of them")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    every = [mutant for file in options.file or CHECKS for mutant in mutants_of(file)]
    part, parts = map(int, options.part.split("/"))
    every = every[part - 1 :: parts]
    if options.sample:
        every = random.Random(options.seed).sample(every, options.sample)
    if options.list:
        print("\n".join(mutant.name for mutant in every))
        return 0
    known, alive = survivors_with_reasons(), []
    for mutant in every:
        if not is_caught(mutant):
            alive.append(mutant)
            print(f"survives, line {mutant.line}: {mutant.name}", flush=True)
    print_table(every, alive)
    return int(any(mutant.name not in known for mutant in alive))


def count_of(file: str, mutants: Sequence[Mutant]) -> int:
    """Return how many of some mutants are of a file."""
    return sum(mutant.file == file for mutant in mutants)


def print_table(every: Sequence[Mutant], alive: Sequence[Mutant]) -> None:
    """Print for each file, and for all, how many mutants were caught."""
    files = {file: (count_of(file, every), count_of(file, alive)) for file in CHECKS}
    files["all"] = (len(every), len(alive))
    print(f"{'file':12} {'mutants':>8} {'caught':>8} {'survive':>8} {'':>8}")
    for file, (count, survive) in files.items():
        if count:
            rate = f"{100 * (count - survive) / count:.1f} %"
            print(f"{file:12} {count:8} {count - survive:8} {survive:8} {rate:>8}")


if __name__ == "__main__":
    sys.exit(main())
