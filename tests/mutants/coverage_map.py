"""The coverage map: which tests run which line, measured by `python -m tests.mutants --measure`."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from .areas import ROOT

FOLDER = ROOT / "build" / "mutants"
DATA, TIMES = FOLDER / "coverage.sqlite", FOLDER / "times.json"

LEFT_OUT = ("tests/test_house_rules.py", "tests/test_docs.py", "tests/test_docs_site.py",
            "tests/test_notebooks.py", "tests/test_beside.py")  # fmt: skip
"""These read the source itself, or run whole notebooks."""


def measure(paths: Sequence[str] = (), processes: str = "auto") -> None:
    """Run the tests once, and keep for each line the tests that ran it, and how long each took.

    Args:
        paths: run these test files only, and add what they run to what is known.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    report = FOLDER / "junit.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-n", processes, "--dist", "worksteal",
               "--no-tables",  # a mutant is tried with single rows
               "-m", "not slow and not notebooks and not programs and not browser",
               "--cov=edutorch",
               "--cov-context=test", "--cov-report=", f"--junitxml={report}",
               *(f"--ignore={path}" for path in LEFT_OUT),
               *(["--cov-append"] if paths else []), *paths]  # fmt: skip
    subprocess.run(command, cwd=ROOT, env={**os.environ, "COVERAGE_FILE": str(DATA)}, check=False)
    TIMES.write_text(json.dumps(times_of(report)))


def times_of(report: Path) -> dict[str, float]:
    """Return the seconds of each test that passed, by its file and name as in a context."""
    times = {}
    for case in ElementTree.parse(report).iter("testcase"):
        if any(part.tag in ("skipped", "failure", "error") for part in case):
            continue
        module = case.get("classname", "").split(".")
        times[f"{'/'.join(module)}.py::{case.get('name')}"] = float(case.get("time", "0"))
    return times


class CoverageMap:
    """Looks up the tests that run a line, the quickest first."""

    def __init__(self) -> None:
        if not DATA.exists() or not TIMES.exists():
            raise SystemExit("nothing was measured: run `python -m tests.mutants --measure` first")
        self.times: dict[str, float] = json.loads(TIMES.read_text())
        self.connection = sqlite3.connect(f"file:{DATA}?mode=ro", uri=True)

    def tests_of(self, path: Path, line: int) -> list[str]:
        """Return the tests that ran a line; of those that ran its file, where none did.

        What runs in another process, such as a loader's worker, was not seen: there the tests of
        the same package come first.
        """
        contexts = self.contexts(path)
        direct = [test for test, lines in contexts.items() if line in lines]
        if direct:
            return sorted(direct, key=self.times.__getitem__)
        beside = f"tests/{path.parent.name}/"
        return sorted(contexts, key=lambda test: (not test.startswith(beside), self.times[test]))

    def contexts(self, path: Path) -> dict[str, set[int]]:
        from coverage.numbits import numbits_to_nums

        rows = self.connection.execute(
            "select context.context, line_bits.numbits from line_bits "
            "join file on file.id = line_bits.file_id "
            "join context on context.id = line_bits.context_id where file.path = ?",
            (str(path),),
        )
        lines: dict[str, set[int]] = {}
        for context, bits in rows:
            test = context.rpartition("|")[0]  # behind it: setup, run or teardown
            if test in self.times:
                lines.setdefault(test, set()).update(numbits_to_nums(bits))
        return lines
