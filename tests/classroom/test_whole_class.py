"""Whole classes are graded, honest students beside hostile ones (`make test-classroom`).

EDUTORCH_KILLS=20 kills the grader more often, EDUTORCH_SEED draws another class and other moments.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from edutorch.classroom.exercise import load_exercises
from tests.classroom.class_of import ClassOf, write_class

if not sys.platform.startswith("linux"):
    pytest.skip("the jail is built of Linux's walls", allow_module_level=True)

from edutorch.classroom.class_grader import ClassSettings, grade_class
from edutorch.classroom.jail.settings import MIB, Settings
from edutorch.classroom.submissions import by_student, find_submissions
from tests.classroom.jails import open_factory
from tests.classroom.test_jail_hostile import processes_of
from tests.classroom.test_jail_walls import FORK_BOMB, PROCESSES_OF_MEMORY, QUESTION

pytestmark = [pytest.mark.slow, pytest.mark.classroom]

KILLS = int(os.environ.get("EDUTORCH_KILLS", "5"))
SEED = int(os.environ.get("EDUTORCH_SEED", "29"))
TEN = (
    "01.by_hand", "01.exponential", "01.flat_place", "02.centre", "02.product", "02.softmax",
    "05.carry", "05.normalise", "06.count", "06.counter",
)  # fmt: skip
EXERCISES = {id: load_exercises()[id] for id in TEN}
FILES = ("grades.csv", "results.json")
STUDENTS = 20  # of the small class
LIMIT = "2"  # seconds per exercise

# What ends by itself, so that an undisturbed run and a resumed one say the same of it.
ENDING = (("ends", "os._exit"), ("lies", "equal to all"), ("reads", "a secret file"),
          ("exhausts", "one large array"), ("ends", "endless loop"))  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def walls():
    open_factory(Settings()).close()


class Grader:
    """Runs `python -m edutorch grade` in processes with their own folder for temporary files.

    Args:
        folder: with the hand-ins in `class`.
    """

    def __init__(self, folder: Path, ids: list[str]) -> None:
        self.folder, self.ids = folder, ids
        self.temporary = folder / "tmp"
        self.temporary.mkdir()

    def start(self, out: str, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "edutorch", "grade", str(self.folder / "class"), "--out",
                   str(self.folder / out), "--seed", str(SEED), "--timeout", LIMIT,
                   *(word for id in self.ids for word in ("--only", id)), *options]  # fmt: skip
        environment = {**os.environ, "TMPDIR": str(self.temporary)}
        return subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def finish(self, out: str, *options: str) -> str:
        """Run to the end, and return what was printed."""
        text, _ = (process := self.start(out, *options)).communicate(timeout=170)
        assert process.returncode == 0, text
        assert self.leftovers() == []
        return text

    def leftovers(self) -> list[str]:
        """Return what a run has left: processes that name its folder, and temporary files."""
        return [str(path) for path in self.temporary.iterdir()] + self.processes()

    def processes(self) -> list[str]:
        """Return the command lines of what still runs."""
        mark = f"{self.temporary}/".encode()
        left = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
                if mark in command and b"Z" not in (folder / "stat").read_bytes().split()[2:3]:
                    left.append(command.decode(errors="replace"))
            except OSError:  # it has ended
                continue
        return left

    def count_graded(self, out: str) -> int:
        """Return how many students are graded, and kept."""
        progress = self.folder / out / "progress.jsonl"
        return progress.read_bytes().count(b"\n") if progress.exists() else 0

    def results(self, out: str) -> list[bytes]:
        """Return the bytes of all that a run with the same seed writes again."""
        pages = sorted((self.folder / out / "feedback").rglob("*.html"))
        files = [self.folder / out / name for name in FILES] + pages
        assert pages, "no student has a page"
        return [file.read_bytes() for file in files]

    def points(self, out: str) -> dict[str, dict[str, float]]:
        students = json.loads((self.folder / out / "results.json").read_text())["students"]
        return {
            student["student"]: {one["exercise"]: one["points"] for one in student["exercises"]}
            for student in students
        }


def targets_in(folder: Path) -> dict[str, str]:
    """Return what hostile submissions are after."""
    (folder / "others").mkdir()
    (folder / "others" / "answers.txt").write_text("xyzzy-4711")
    return {
        "@SECRET@": str(folder / "others" / "answers.txt"), "@FOLDER@": str(folder / "others"),
        "@PASSWORD@": "xyzzy-4711", "@PORT@": "9", "@ABSTRACT@": "edutorch-class",
        "@GRADER@": str(os.getpid()), "@SPECS@": "/specs.py",
    }  # fmt: skip


def test_sixty_students_of_whom_twenty_are_hostile(tmp_path):
    settings = ClassOf(60, 20, SEED, targets=targets_in(tmp_path))
    expected = write_class(tmp_path / "class", settings, EXERCISES)
    grader = Grader(tmp_path, list(EXERCISES))
    start = time.monotonic()
    print(grader.finish("out").splitlines()[-1], f"({time.monotonic() - start:.0f} s)")
    assert grader.points("out") == expected
    assert os.listdir(tmp_path / "others") == ["answers.txt"]
    assert sorted(os.listdir(tmp_path / "out")) == [
        "feedback", "grades.csv", "plan.json", "progress.jsonl", "results.json", "run.json",
        "seed.json",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def small(walls, tmp_path_factory):
    """A small class, and its results in "whole"."""
    folder = tmp_path_factory.mktemp("small")
    exercises = {id: EXERCISES[id] for id in ("02.centre", "02.product", "02.softmax")}
    expected = write_class(folder / "class", ClassOf(STUDENTS, 4, SEED, threats=ENDING), exercises)
    grader = Grader(folder, list(exercises))
    grader.finish("whole")
    assert grader.points("whole") == expected
    return grader


@pytest.mark.parametrize("workers", ["1", "4"])
def test_the_results_are_the_same_bytes(workers, small):
    small.finish(workers, "--workers", workers)
    assert small.results(workers) == small.results("whole")


def test_a_killed_grader_leaves_nothing_and_goes_on(small):
    rng = random.Random(SEED)
    graded = []
    for kill in range(KILLS):
        # Five times in one folder: runs are killed that were resumed, too.
        out, resume = f"killed{kill // 5}", ["--resume"] if kill % 5 else []
        more = graded[-1] + rng.randrange(6) if resume else rng.randrange(6)
        process = small.start(out, *resume)
        while small.count_graded(out) < min(more, STUDENTS) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 3.0 if more == 0 else 0.5))
        process.kill()
        process.communicate()
        deadline = time.monotonic() + 20
        while processes := small.processes():
            assert time.monotonic() < deadline, processes
            time.sleep(0.02)
        graded.append(small.count_graded(out))
        print(f"killed with {graded[-1]} of {STUDENTS} students graded")
        if kill % 5 == 4 or kill == KILLS - 1:
            small.finish(out, "--resume")
            assert small.results(out) == small.results("whole")
            assert not [name for name in os.listdir(small.folder / out) if name[0] == "."]
    assert any(0 < count < STUDENTS for count in graded), "no kill came in the midst of grading"


DISK_BOMB = """
def f(x):
    for number in range(10**6):
        with open(f"/home/{number % 900}", "ab") as file: file.write(bytes(10**6))
"""


def test_bombs_of_processes_memory_and_disk_hurt_no_neighbour(tmp_path):
    """Without seccomp, which refuses new processes: the other walls must hold them in."""
    exercises = {id: EXERCISES[id] for id in ("01.exponential", "02.softmax", "06.counter")}
    expected = write_class(tmp_path, ClassOf(20, faults=False), exercises)
    students, _ = by_student(find_submissions(tmp_path))
    limits = Settings(without=frozenset({"seccomp"}), fewer_walls=True, memory=128 * MIB,
                      disk=8 * MIB)  # fmt: skip
    done, errors = threading.Event(), set()

    def throw(factory, code):
        while not done.is_set():
            with factory.jail([code]) as jail:
                errors.add(jail.ask(QUESTION, {"x": 1}, seconds=2).error.partition(":")[0])

    with open_factory(limits) as factory:
        bombs = [
            threading.Thread(target=throw, args=(factory, code))
            for code in (FORK_BOMB, PROCESSES_OF_MEMORY, DISK_BOMB)
        ]
        for bomb in bombs:
            bomb.start()
        results = list(grade_class(students, factory.jail, ClassSettings(exercises, SEED, 60), 2))
        done.set()
        for bomb in bombs:
            bomb.join()
        assert processes_of(factory) == []
    print(sorted(errors))
    assert {"MemoryError", "OSError"} <= errors and "" not in errors
    assert len(results) == 20
    for result in results:
        points = {one.exercise: one.points for one in result.exercises}
        assert points == expected[result.student], [one.sentence for one in result.exercises]
