"""Hostile submissions: none gains credit, none leaves a process or a file, no neighbour suffers.

Each attacks in one way and says `Success` where it got through. A row names what stops it: the
beginning of the error that the grader reports. `python -m pytest -rA` prints the seconds.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time

import pytest

from edutorch.classroom.exercise import load_exercises
from edutorch.classroom.grading import grade
from edutorch.classroom.jail.settings import MIB, Settings

if not sys.platform.startswith("linux"):
    pytest.skip("the jail is built of Linux's walls", allow_module_level=True)

from edutorch.classroom.jail.watcher import Watcher
from tests.classroom.jails import open_factory
from tests.classroom.test_jail_submissions import CLASSES, LATE, ROWS, WRONG, submission

pytestmark = pytest.mark.slow

PATIENCE = 90.0  # seconds for what ends by itself, on a busy machine
HANGS = 2.0  # seconds for what never does

SETTINGS = Settings(
    memory=128 * MIB, disk=8 * MIB, processes=16, seconds=PATIENCE, submission_seconds=600,
    cpu_seconds=60,
)  # fmt: skip

HONEST = """
honest_neighbour = True
def gradient_of_logits(z, right):
    result = z.softmax(0)
    result[right] -= 1
    return result
"""


@pytest.fixture(scope="module")
def exercise():
    return load_exercises()["02.softmax"]


@pytest.fixture(scope="module", autouse=True)
def factory():
    os.environ["EDUTORCH_TEST_PASSWORD"] = "xyzzy-4711"
    with open_factory(SETTINGS) as factory:
        yield factory


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    """What the submissions are after: a file, a folder, two sockets, this process."""
    folder = tmp_path_factory.mktemp("others")
    secret = folder / "answers.txt"
    secret.write_text("xyzzy-4711")
    tcp, abstract = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    name = f"edutorch-{os.getpid()}"
    abstract.bind(f"\0{name}")
    abstract.listen()
    from edutorch.classroom import specs

    with tcp, abstract:
        yield {
            "@SECRET@": str(secret), "@FOLDER@": str(folder), "@PASSWORD@": "xyzzy-4711",
            "@PORT@": str(tcp.getsockname()[1]), "@ABSTRACT@": name, "@GRADER@": str(os.getpid()),
            "@SPECS@": specs.__path__[0] + "/nb02_backprop_by_hand.py",
        }  # fmt: skip
        assert sorted(os.listdir(folder)) == ["answers.txt"]


def run(factory, exercise, code, seconds=PATIENCE):
    with factory.jail([code]) as jail:
        source, forbid = exercise.answer_source(), exercise.forbid
        return grade(exercise, lambda case: jail.ask(source, case, forbid, seconds), seed=1)


def processes_of(factory):
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        return Watcher(proc, factory.process.pid).processes()[1:]
    finally:
        os.close(proc)


def snapshot(factory):
    """Return what lies in the folder of the jails: it must not change."""
    return {
        os.path.join(folder, file): os.lstat(os.path.join(folder, file)).st_mtime_ns
        for folder, _, files in os.walk(factory.folder)
        for file in files
    }


@pytest.mark.parametrize(("threat", "name"), ROWS, ids=[f"{t}: {n}" for t, n in ROWS])
def test_a_hostile_submission_gains_nothing(threat, name, factory, exercise, targets):
    stopped = CLASSES[threat][name][1]
    before, start = snapshot(factory), time.monotonic()
    code = submission(threat, name, targets)
    outcome = run(factory, exercise, code, HANGS if LATE in stopped else PATIENCE)
    error = outcome.attempt.error or ("forbidden" if outcome.attempt.forbidden else WRONG)
    print(f"{threat}: {name}: {error[:90]}  ({time.monotonic() - start:.1f} s)")
    assert outcome.points == 0 and outcome.passed == 0
    assert "Success" not in error
    assert any(error.startswith(text) or text == "." for text in stopped.split("|")), error
    assert processes_of(factory) == []
    assert snapshot(factory) == before


def test_an_honest_student_afterwards_gets_all_points(factory, exercise):
    assert run(factory, exercise, HONEST).is_right


BOMBS = ("fork bomb", "memory of threads", "disk bomb")


def test_bombs_hurt_no_neighbour(factory, exercise, targets):
    bombs = [
        threading.Thread(
            target=run, args=(factory, exercise, submission("exhausts", name, targets), 20)
        )
        for name in BOMBS
    ]
    for bomb in bombs:
        bomb.start()
    outcomes = [run(factory, exercise, HONEST) for _ in range(20)]
    for bomb in bombs:
        bomb.join()
    assert [outcome.points for outcome in outcomes] == [exercise.points] * 20
    assert processes_of(factory) == []
