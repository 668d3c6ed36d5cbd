"""How long a class takes: `python -m benchmarks grading --students 200 --hostile 20`.

The class is written by tests/classroom/class_of.py and graded by `python -m edutorch grade` as a
process of its own. Every student's points are compared with what they must be.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path

from edutorch.classroom.exercise import Exercise, load_exercises
from tests.classroom.class_of import HOSTILE_EXERCISE, ClassOf, write_class

from .report import table

INTERVAL = 0.25
"""Seconds between two looks at the memory. Each costs some milliseconds."""

SEED = 29

PAGE = Path(__file__).with_name("grading.md")
"""The table of all runs with `--keep`."""


class PeakMemory(threading.Thread):
    """Watches a process and all that come from it: the largest sum of their memory.

    Pages that several processes share are counted once (PSS). Where another user's process does not
    tell, its resident pages are counted (RSS), which is more.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak, self.ended = pid, 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(INTERVAL):
            self.peak = max(self.peak, sum(map(memory_of, processes_below(self.pid))))


def processes_below(pid: int) -> Iterator[int]:
    """Yield a process and all that come from it."""
    yield pid
    children: list[str] = []
    with suppress(OSError):  # it has ended
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            children += file.read_text().split()
    for child in children:
        yield from processes_below(int(child))


def memory_of(pid: int) -> int:
    """Return the bytes of memory of a process; 0 if it has ended."""
    for file, name in (("smaps_rollup", "Pss:"), ("status", "VmRSS:")):
        try:
            lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


def run(options: argparse.Namespace) -> str:
    """Grade a class, check its points, and return the table."""
    exercises = dict(sorted(load_exercises().items())[: options.exercises])
    if options.hostile and HOSTILE_EXERCISE not in exercises:
        raise SystemExit(f"--exercises is too small: hostile students attack {HOSTILE_EXERCISE}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "others").mkdir()
        (folder / "others" / "answers.txt").write_text("xyzzy-4711")
        settings = ClassOf(options.students, options.hostile, SEED, targets=targets(folder))
        expected = write_class(folder / "class", settings, exercises)
        before, load = cpu_seconds(), os.getloadavg()[0]
        start = time.perf_counter()
        peak = grade(folder, exercises, options)
        seconds = time.perf_counter() - start
        cpu = cpu_seconds() - before
        loads = f"{load:.1f}, {os.getloadavg()[0]:.1f}"
        wrong = wrong_points(folder / "out" / "results.json", expected)
        assert os.listdir(folder / "others") == ["answers.txt"], "a submission has left a file"
    for line in wrong:
        print(line)
    row = [
        f"{options.students} ({options.hostile} hostile)", f"{len(exercises)}",
        f"{options.workers}", f"{seconds:.1f}", f"{cpu:.1f}", loads,
        f"{peak / 2**20:.0f} MiB", f"{60 * options.students / seconds:.0f}",
        f"{len(wrong)} of {options.students * len(exercises)}",
    ]  # fmt: skip
    head = ["students", "exercises", "workers", "seconds", "CPU seconds", "load before, after",
            "peak memory", "students a minute", "wrong points"]  # fmt: skip
    if options.keep:
        keep(row)
    return table(head, [row])


def keep(row: list[str]) -> None:
    """Append a row to the table in grading.md."""
    with PAGE.open("a", encoding="utf-8") as page:
        page.write(f"| {date.today()} | {' | '.join(row)} |\n")


def targets(folder: Path) -> dict[str, str]:
    """Return what hostile submissions are after."""
    return {
        "@SECRET@": str(folder / "others" / "answers.txt"), "@FOLDER@": str(folder / "others"),
        "@PASSWORD@": "xyzzy-4711", "@PORT@": "9", "@ABSTRACT@": "edutorch-grading",
        "@GRADER@": str(os.getpid()), "@SPECS@": "/specs.py",
    }  # fmt: skip


def grade(folder: Path, exercises: dict[str, type[Exercise]], options: argparse.Namespace) -> int:
    """Run the grader, and return its peak memory in bytes."""
    command = [sys.executable, "-m", "edutorch", "grade", str(folder / "class"), "--out",
               str(folder / "out"), "--workers", str(options.workers), "--timeout",
               str(options.timeout), "--seed", str(SEED)]  # fmt: skip
    command += [word for id in exercises for word in ("--only", id)]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        watch = PeakMemory(process.pid)
        watch.start()
        status = process.wait()
        watch.ended.set()
        watch.join()
    if status:
        raise SystemExit((folder / "log").read_text(errors="replace")[-2000:])
    return watch.peak


def cpu_seconds() -> float:
    """Return the processor time of all processes that have been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wrong_points(results: Path, expected: dict[str, dict[str, float]]) -> list[str]:
    """Return a sentence for each exercise whose points are not those expected."""
    students = json.loads(results.read_text(encoding="utf-8"))["students"]
    points = {
        student["student"]: {one["exercise"]: one for one in student["exercises"]}
        for student in students
    }
    return [
        f"{student}, {id}: {points[student][id]['points']:g} points instead of {right:g}"
        f" ({points[student][id]['sentence']})"
        for student, exercises in expected.items()
        for id, right in exercises.items()
        if points[student][id]["points"] != right
    ]
