"""Plants faults one at a time, runs the tests that run the line, and prints the score by area.

    python -m tests.mutants --measure            which test runs which line: once, some 20 minutes
    python -m tests.mutants --update             the same for the test files that have changed since
    python -m tests.mutants --count 400 --seed 0
    python -m tests.mutants --areas optim amp --count 40

Needs pytest-cov (in the extra `dev`), and node for the area `widgets`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import queue
import shutil
import threading
import tomllib
from pathlib import Path

from .areas import AREAS
from .coverage_map import CoverageMap, measure
from .draw import draw, mutant_name
from .operators import Mutant
from .running import Copy, Verdict
from .update import keep_sources, update

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
SAMPLE = Path(__file__).with_name("sample.toml")
GOAL = 0.92


def equivalents() -> dict[str, str]:
    """Return the mutants that change nothing that can be seen, each with the reason."""
    return tomllib.loads(EQUIVALENT.read_text())["equivalent"]


def run(mutants: list[Mutant], processes: int) -> list[Verdict]:
    """Try each mutant, so many at a time, and say what became of it."""
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        waiting.put(mutant)
    verdicts: list[Verdict] = []

    def work() -> None:
        needs_map = any(mutant.path.suffix == ".py" for mutant in mutants)
        copy, tests = Copy(), CoverageMap() if needs_map else None
        try:
            while not waiting.empty():
                verdict = copy.try_mutant(waiting.get(), tests)
                verdicts.append(verdict)
                print(describe_mutant(verdict), flush=True)
        finally:
            copy.close()

    threads = [threading.Thread(target=work) for _ in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return verdicts


def describe_mutant(verdict: Verdict) -> str:
    mutant = verdict.mutant
    word = "killed" if verdict.killed else "LIVES "
    return (
        f"{word} {mutant.operator}, line {mutant.line}, {mutant_name(mutant)}  [{verdict.by[:120]}]"
    )


def write_sample(by_area: dict[str, list[Verdict]], count: int) -> None:
    """Keep some that were killed, in turn from each area, with the test that killed them."""
    killed = {
        area: [verdict for verdict in verdicts if verdict.by.startswith("FAILED tests/")]
        for area, verdicts in by_area.items()
    }
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*killed.values()))
    chosen = itertools.islice((verdict for verdict in in_turn if verdict is not None), count)
    lines = ["# Faults that a test notices: the slow suite plants them again.", "[killed]"]
    for verdict in chosen:
        test = verdict.by.removeprefix("FAILED ").partition(" - ")[0]
        lines.append(f"{json.dumps(mutant_name(verdict.mutant))} = {json.dumps(test)}")
    SAMPLE.write_text("\n".join(lines) + "\n")


def table(by_area: dict[str, list[Verdict]]) -> str:
    """Write the score by area."""
    lines = ["| area | mutants | killed | score |", "|:--|--:|--:|--:|"]
    for area, verdicts in by_area.items():
        killed = sum(verdict.killed for verdict in verdicts)
        score = killed / len(verdicts) if verdicts else 1.0
        mark = "" if score >= GOAL else " (below the goal)"
        lines.append(f"| {area} | {len(verdicts)} | {killed} | {score:.0%}{mark} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure which test runs which line")
    parser.add_argument("--update", action="store_true", help="measure the changed test files")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--areas", nargs="+", choices=list(AREAS), default=list(AREAS))
    parser.add_argument("--sample", type=int, default=0, help="keep so many for the slow suite")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.measure or options.update:
        if options.update:
            update()
        else:
            measure()
            keep_sources()
        return 0
    areas = [area for area in options.areas if area != "widgets" or shutil.which("npx")]
    drawn = draw(options.count, options.seed, areas)
    known = equivalents()
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*drawn.values()))
    tried = [
        mutant for mutant in in_turn if mutant is not None and mutant_name(mutant) not in known
    ]
    verdicts = {verdict.mutant: verdict for verdict in run(tried, options.processes)}
    by_area = {
        area: [verdicts[mutant] for mutant in mutants if mutant in verdicts]
        for area, mutants in drawn.items()
    }
    print(table(by_area))
    if options.sample:
        write_sample(by_area, options.sample)
    left_out = [
        mutant_name(m) for mutants in drawn.values() for m in mutants if mutant_name(m) in known
    ]
    for name in left_out:
        print(f"left out, it changes nothing: {name} ({known[name]})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
