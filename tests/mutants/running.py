"""Runs tests on a copy of the tree with one planted fault."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .areas import ROOT
from .coverage_map import LEFT_OUT, CoverageMap
from .operators import Mutant

SECONDS = 20.0
"""So long may the tests of one fault take, by what they took when they were measured."""

MOST_TESTS = 200
"""Of the tests that run a line, so many are tried at most."""

LIMIT = 240
"""Seconds after which a run counts as noticed: the fault has made it hang."""

COPIED = ("edutorch", "tests", "widgets", "notebooks", "docs", "benchmarks", "pyproject.toml",
          "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile")  # fmt: skip


class Verdict(NamedTuple):
    """What became of a mutant, and which test (or what else) noticed it."""

    mutant: Mutant
    killed: bool
    by: str


class Copy:
    """A copy of the tree, in which one fault after the other is planted."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="edutorch-mutants-"))
        skipped = shutil.ignore_patterns("node_modules", "artifacts", ".hypothesis", "build")
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.folder / name, ignore=skipped)
            elif source.exists():
                shutil.copy2(source, self.folder / name)
        modules = ROOT / "widgets" / "node_modules"
        if modules.exists():
            (self.folder / "widgets" / "node_modules").symlink_to(modules)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def try_mutant(self, mutant: Mutant, tests: CoverageMap | None) -> Verdict:
        """Plant a fault, and run what might notice it."""
        if mutant.path.suffix == ".js":
            return self.verdict_of(mutant, self.javascript_command(mutant.path))
        assert tests is not None
        chosen = choose(tests.tests_of(mutant.path, mutant.line), tests.times)
        if not chosen:
            return Verdict(mutant, False, "no test runs its file")
        return self.verdict_of(mutant, self.python_command(chosen))

    def verdict_of(self, mutant: Mutant, command: list[str]) -> Verdict:
        """Plant a fault, run a command, and take the fault out again."""
        target = self.folder / mutant.path.relative_to(ROOT)
        source = mutant.path.read_bytes()
        target.write_bytes(mutant.plant(source))
        folder = self.folder / "widgets" if mutant.path.suffix == ".js" else self.folder
        try:
            return self.verdict(mutant, command, folder)
        finally:
            target.write_bytes(source)

    @staticmethod
    def python_command(tests: list[str]) -> list[str]:
        return [
            *(sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider"),
            *("--no-header", *tests),
        ]

    @staticmethod
    def javascript_command(target: Path) -> list[str]:
        # The tests of the modules read their sources as text: vitest finds no import in them.
        return ["npx", "vitest", "related", target.name, "tests/modules.test.js", "--run",
                "--bail", "1"]  # fmt: skip

    def verdict(self, mutant: Mutant, command: list[str], folder: Path) -> Verdict:
        # No compiled file may be taken for that of another fault of the same second and length.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(self.folder)}
        try:
            done = subprocess.run(command, cwd=folder, env=environment, timeout=LIMIT,
                                  capture_output=True, text=True, check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            return Verdict(mutant, True, "it hung")
        if done.returncode == 0:
            return Verdict(mutant, False, "")
        if "ERROR: not found:" in done.stderr + done.stdout:
            raise SystemExit("the map names tests that are gone: python -m tests.mutants --update")
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return Verdict(mutant, True, failed[0] if failed else f"exit {done.returncode}")


def choose(tests: list[str], times: Mapping[str, float]) -> list[str]:
    """Return the tests to run: one of every file that has any, one of every function, the rest.

    Of each the quickest: a function with hundreds of rows must not take the place of all others.
    """
    tests = [test for test in tests if not test.startswith(LEFT_OUT)]
    of_files: dict[str, str] = {}
    of_functions: dict[str, str] = {}
    for test in tests:
        of_files.setdefault(test.partition("::")[0], test)
        of_functions.setdefault(test.partition("[")[0], test)
    chosen: dict[str, None] = {}
    spent = 0.0
    for test in itertools.chain(of_files.values(), of_functions.values(), tests):
        if test in chosen or (chosen and spent + times[test] > SECONDS):
            continue
        chosen[test] = None
        spent += times[test]
        if len(chosen) == MOST_TESTS:
            break
    return list(chosen)
