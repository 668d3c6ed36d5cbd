"""The jail answers as the notebook does; what comes out of it is checked before it is believed."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from typing import ClassVar

import numpy as np
import pytest

import edutorch as torch
from edutorch.classroom.attempt import AnswerGraph, Attempt, Box, Details, run_answer
from edutorch.classroom.exercise import load_exercises
from edutorch.classroom.grading import grade
from edutorch.classroom.jail import attempts, frames, inside, values
from edutorch.classroom.jail.sandbox import SandboxFactory
from edutorch.classroom.jail.settings import Settings
from edutorch.viz.tensors.summaries import Stats

if not sys.platform.startswith("linux"):
    pytest.skip("the jail is built of Linux's walls", allow_module_level=True)

from edutorch.classroom.jail import JailFactory, MissingWalls
from tests.classroom.jails import open_factory

SECONDS = 60.0  # the machine may be busy; nothing here waits so long


@pytest.fixture(scope="module", autouse=True)
def factory():
    with open_factory(Settings(seconds=SECONDS)) as factory:
        yield factory


@pytest.fixture(scope="module")
def exercise():
    return load_exercises()["02.softmax"]


def run(factory, exercise, code, seconds=SECONDS):
    with factory.jail([code]) as jail:
        source, forbid = exercise.answer_source(), exercise.forbid
        return grade(exercise, lambda case: jail.ask(source, case, forbid, seconds), seed=1)


def test_a_solution_gets_its_points(factory, exercise):
    outcome = run(factory, exercise, exercise.solution)
    assert outcome.is_right and outcome.points == exercise.points
    assert "softmax" in outcome.attempt.graph.ops


def test_a_wrong_answer_gets_the_hint_of_the_notebook(factory, exercise):
    for mutant in exercise.mutants:
        outcome = run(factory, exercise, mutant.code)
        assert outcome.points == 0
        assert outcome.advice[0].index == mutant.hint


def test_an_error_names_the_line(factory, exercise):
    outcome = run(factory, exercise, "def gradient_of_logits(z, right):\n    return z[99]")
    assert outcome.attempt.error.startswith("DimError: index 99") or outcome.attempt.error
    assert outcome.attempt.line == "line 2: return z[99]"
    broken = run(factory, exercise, "def gradient_of_logits(z, right:\n")
    assert broken.attempt.error.startswith("SyntaxError")


def test_a_forbidden_function_is_told_and_is_not_there(factory, exercise):
    code = """
from edutorch.nn import functional
def gradient_of_logits(z, right):
    z = z.requires_grad_()
    getattr(functional, 'cross_' + 'entropy')(z[None], torch.tensor([right])).backward()
    return z.grad
"""
    outcome = run(factory, exercise, code)
    assert outcome.points == 0 and outcome.attempt.forbidden == ("cross_entropy",)
    assert "write it without `cross_entropy`" in outcome.advice[0].text


def test_threads_share_a_factory(factory, exercise):
    outcomes = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(run(factory, exercise, exercise.solution)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.is_right for outcome in outcomes] == [True] * 4


def test_each_exercise_has_a_process_of_its_own(factory):
    source = "def answer(theirs, x): return theirs.count(x)"
    with factory.jail(
        ["seen = []\ndef count(x):\n    seen.append(x)\n    return len(seen)"]
    ) as jail:
        assert [jail.ask(source, {"x": 1}).value for _ in range(3)] == [1, 2, 3]
        assert jail.ask(source + "  # another", {"x": 1}).value == 1


def test_a_submission_has_a_deadline_and_so_has_an_exercise(factory):
    source = "def answer(theirs, x): return theirs.f(x)"
    with factory.jail(["import time\ndef f(x):\n    time.sleep(600)"]) as jail:
        start = time.monotonic()
        first = jail.ask(source, {"x": 1}, seconds=1.5)
        assert first.error == "TimeoutError: the code did not answer in time"
        assert jail.ask(source, {"x": 2}, seconds=1.5).error == first.error
        jail.seconds_left = 0.5
        assert jail.ask(source + "#", {"x": 2}, seconds=100).error == first.error
        assert time.monotonic() - start < 40


class SameProcess:
    """A test double of a sandbox, without any wall."""

    walls: ClassVar = {}

    @contextlib.contextmanager
    def jail(self, cells):
        self.names, _ = inside.run_cells(cells)
        yield self

    def ask(self, answer_source, case, forbid=frozenset(), seconds=None):
        answer = inside.define_answer(answer_source)
        header, blobs = attempts.encode_attempt(run_answer(answer, self.names, case, forbid))
        return attempts.decode_attempt(header, b"".join(blobs), case, forbid)

    def close(self):
        pass


def test_another_sandbox_can_stand_in(exercise, monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # `run_cells` sets it
    factory: SandboxFactory = SameProcess()
    assert run(factory, exercise, exercise.solution).is_right
    assert run(factory, exercise, exercise.mutants[0].code).points == 0


# What the walls are -------------------------------------------------------------------


STANDING = """
import json
from edutorch.classroom.jail import standing
print(json.dumps([wall._asdict() for wall in standing()]))
"""


def test_all_walls_stand_and_say_what_they_are(factory):
    """Asked in a new process: SciPy's threads, once there, come back in every forked child."""
    done = subprocess.run([sys.executable, "-c", STANDING], capture_output=True, check=True)
    walls = json.loads(done.stdout)
    differing = [wall for wall in walls if wall["stands"] != factory.walls[wall["name"]][0]]
    assert differing == []
    assert all(wall["meaning"] for wall in walls)


def test_a_missing_wall_is_refused():
    with pytest.raises(MissingWalls, match="are missing: seccomp") as caught:
        JailFactory(Settings(without=frozenset({"seccomp"})))
    assert "the kernel refuses new processes" in str(caught.value)
    assert "--walls=fewer" in str(caught.value)


# What comes out of it -----------------------------------------------------------------

ROUND_TRIPS = (
    None, True, 3, -(10**200), 2.5, float("inf"), 1 + 2j, "text ✓", b"bytes", (1, [2.0, None]),
    {"a": 1, 2: (3,)}, np.arange(6.0).reshape(2, 3), np.float32(1.5), np.zeros((0, 3), np.int8),
    torch.ones(2, 3), torch.ones((), dtype=torch.bfloat16), torch.tensor([True, False]),
    torch.arange(3), torch.ones(2, dtype=torch.complex64),
)  # fmt: skip


@pytest.mark.parametrize("value", ROUND_TRIPS, ids=lambda value: repr(value)[:20])
def test_values_cross_the_wall(value):
    encoder = values.Encoder()
    header = json.loads(json.dumps(encoder.encode(value)))
    back = values.Decoder(b"".join(encoder.blobs)).decode(header)
    assert type(back) is type(value)
    if isinstance(value, torch.Tensor | np.ndarray):
        assert back.dtype == value.dtype and back.shape == value.shape
        assert bool((back == value).all())
    else:
        assert back == value


def npy(text, body=b""):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def box(**changes):
    fields = {"label": "x", "is_op": True, "shape": [], "dtype": "", "differentiable": True,
              "sources": [], "norm": None, "gradient_norm": None, "line": "",
              "details": None}  # fmt: skip
    return list((fields | changes).values())


def details(stats):
    return ["op", "", stats, None, []]


def attempt_of(**changes):
    return {"value": None, "graph": [], "error": "", "line": "", "forbidden": []} | changes


HUGE = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000)}\n"
OBJECTS = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n"
CODE = b"__import__('os').abort()\n"

FORGED = {
    "an array of 7 TiB": ({"array": len(npy(HUGE)), "dtype": "float64"}, npy(HUGE)),
    "an array of objects": ({"array": len(npy(OBJECTS)), "dtype": "object"}, npy(OBJECTS)),
    "a pickled array": ({"array": len(npy(OBJECTS)), "dtype": "float64"}, npy(OBJECTS)),
    "code as a header": ({"array": len(npy(CODE)), "dtype": "float64"}, npy(CODE)),
    "more than the frame": ({"array": 10**9, "dtype": "float64"}, b""),
    "a negative length": ({"array": -1, "dtype": "float64"}, b""),
    "a type that is not known": ({"code": "os.abort()"}, b""),
    "a bare list": ([1, 2], b""),
    "a list as a key": ({"dict": [[{"list": []}, None]]}, b""),
    "an int of many digits": ({"int": "f" * 10**5}, b""),
    "a float of letters": ({"float": "nonsense"}, b""),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_forged_values_are_refused(name):
    header, body = FORGED[name]
    with pytest.raises(frames.FrameError):
        attempts.decode_attempt(attempt_of(value=header), body, {}, frozenset())


def test_deep_values_are_refused():
    value = None
    for _ in range(100):
        value = {"list": [value]}
    with pytest.raises(frames.FrameError, match="too deeply"):
        values.Decoder(b"").decode(value)
    with pytest.raises(frames.FrameError, match="too many"):
        values.Decoder(b"").decode({"list": [None] * 20_000})


FORGED_ATTEMPTS = {
    "claims to be right": attempt_of(is_right=True),
    "difference": attempt_of(difference=None),
    "no dict": [],
    "text is none": attempt_of(error=3),
    "a source out of range": attempt_of(graph=[box(sources=[1])]),
    "a cycle": attempt_of(graph=[box(sources=[1]), box(sources=[0])]),
    "itself": attempt_of(graph=[box(sources=[0])]),
    "too many boxes": attempt_of(graph=[box()] * 3000),
    "norm": attempt_of(graph=[box(norm="large")]),
    "truth of an int": attempt_of(graph=[box(is_op=1)]),
    "parts": attempt_of(graph=[[1, 2]]),
    "details of another kind": attempt_of(graph=[box(details=[["op"], "", None, None, []])]),
    "an unknown kind": attempt_of(graph=[box(details=["<script>", "", None, None, []])]),
    "flows without sources": attempt_of(graph=[box(details=["op", "", None, None, [None]])]),
    "a negative norm": attempt_of(
        graph=[box(details=details([2, 0.0, 0.0, 0.0, -1.0, False, ""]))]
    ),
    "a size of text": attempt_of(
        graph=[box(details=details(["2", 0.0, 0.0, 0.0, 1.0, False, ""]))]
    ),
    "half the statistics": attempt_of(graph=[box(details=details([2, 0.0]))]),
}


@pytest.mark.parametrize("name", FORGED_ATTEMPTS)
def test_forged_attempts_are_refused(name):
    with pytest.raises(frames.FrameError):
        attempts.decode_attempt(FORGED_ATTEMPTS[name], b"", {}, frozenset())


STATS = Stats(2, 1.5, 1.0, 2.0, 2.2, False, "[1, 2]")


def test_an_attempt_crosses_the_wall():
    boxes = (
        Box("x", False, (2,), "float64", True, (), 1.0),
        Box("exp", True, (2,), "", True, (0,), details=Details("op", "y", STATS, None, (STATS,))),
    )
    sent = Attempt({}, torch.ones(2), graph=AnswerGraph(boxes), forbidden=("exp", "other"))
    header, blobs = attempts.encode_attempt(sent)
    back = attempts.decode_attempt(
        json.loads(json.dumps(header)), b"".join(blobs), {"x": 1}, frozenset({"exp"})
    )
    assert back.graph.boxes == boxes
    assert back.forbidden == ("exp",) and back.case == {"x": 1}


def test_text_can_be_printed_and_saved():
    text = values.clean_text("a\x1b[31m\ud800\u202eb\n", 100)
    assert text.encode() and text == "a�[31m?�b\n"


FRAMES = {
    "a long header": (frames.LENGTHS.pack(1 << 31, 0), "at most 100 are allowed"),
    "a long body": (frames.LENGTHS.pack(2, 1 << 31), "at most 100 are allowed"),
    "no JSON": (frames.LENGTHS.pack(4, 0) + b"{[{[", "not JSON"),
    "deep JSON": (frames.LENGTHS.pack(100, 0) + b"[" * 100, "not JSON"),
    "not UTF-8": (frames.LENGTHS.pack(1, 0) + b"\xff", "not JSON"),
    "half a frame": (frames.LENGTHS.pack(10, 0) + b"{", "closed the socket"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_bad_frames_are_refused(name):
    data, message = FRAMES[name]
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(data)
        theirs.close()
        with pytest.raises(frames.FrameError, match=message):
            frames.receive_frame(ours, 100, 100, time.monotonic() + 5)


def test_a_frame_that_never_ends_meets_the_deadline():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(frames.LENGTHS.pack(100, 0) + b"x")
        with pytest.raises(TimeoutError):
            frames.receive_frame(ours, 1000, 0, time.monotonic() + 0.05)
