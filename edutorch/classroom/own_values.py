"""Each student's own values in an exercise: drawn from the course key, checked by the grader.

    seed of (student, exercise) = HMAC-SHA256(course key, student, exercise)

The key stays with the teacher. A student's notebook holds that student's seeds, one for each
exercise: values can be drawn from them, but neither the key nor the seed of somebody else. The
grader works out the seeds from the key, so that another seed in the notebook gains nothing.

    torch.classroom.values_of("01.by_hand", student="ada", seed="…")      in ada's notebook
    python -m edutorch classroom key course.key                          the teacher, once
    python -m edutorch grade DIR --course-key course.key                 the teacher
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import os
import re
import secrets
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EdutorchError
from ..utils.atomic_files import write_atomically
from .attempt import Attempt
from .comparison import compare
from .exercise import Exercise, SpecError, find_exercise

KEY_BYTES, FEWEST_BYTES = 32, 16
SEED_DIGITS = 32
COURSE = "course.json"

RIGHT_FOR_SHARED = (
    "your answer is right for the values in the notebook that everybody has; yours stand in the "
    "notebook that was made for you"
)
RIGHT_FOR_OTHERS = (
    "your answer is right for other values than yours; yours stand above your answer in the "
    "notebook that was made for you"
)


class CourseKeyError(EdutorchError, ValueError):
    """A course key that is missing, too short, or not the one of the run."""


# The key -----------------------------------------------------------------------------------------


def make_key(path: Path) -> None:
    """Write a new course key, readable by its owner only.

    Raises: CourseKeyError: the file exists, or cannot be written.
    """
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise CourseKeyError(
            "classroom key", f"{str(path)!r} exists, and is not overwritten",
            hint="with another key all students would get other values",
        ) from None  # fmt: skip
    except OSError as error:
        raise CourseKeyError(
            "classroom key", f"{str(path)!r} cannot be written: {error.strerror}"
        ) from None
    with os.fdopen(file, "w") as stream:
        stream.write(secrets.token_hex(KEY_BYTES) + "\n")


def read_key(op: str, path: Path) -> bytes:
    """Return the course key in a file.

    Raises: CourseKeyError: there is no such file, or what it holds is no key, or too short.
    """
    again = f"python -m edutorch classroom key {path}"
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise CourseKeyError(
            op, f"the course key {str(path)!r} cannot be read: {reason}", hint=f"{again} makes one"
        ) from None
    if not re.fullmatch(r"(?:[0-9a-fA-F]{2})*", text):
        raise CourseKeyError(
            op, f"{str(path)!r} holds no course key", hint=f"it is one line of hex digits: {again}"
        )
    key = bytes.fromhex(text)
    if len(key) < FEWEST_BYTES:
        raise CourseKeyError(
            op, f"the course key in {str(path)!r} is too short: {len(key)} bytes, "
            f"at least {FEWEST_BYTES} are needed", hint=f"{again} makes one",
        )  # fmt: skip
    return key


def keep_key_of_run(folder: Path, resume: bool, key: bytes | None) -> None:
    """Write down which course key a run uses; refuse to resume it with another one.

    Raises: CourseKeyError: the first half of the run used another key, or none.
    """
    path = folder / COURSE
    fingerprint = "" if key is None else hashlib.sha256(b"course key" + key).hexdigest()[:16]
    if not resume:
        path.unlink(missing_ok=True)
    elif path.exists() or (key is not None and (folder / "progress.jsonl").exists()):
        known = json.loads(path.read_text(encoding="utf-8"))["key"] if path.exists() else ""
        if known != fingerprint:
            raise CourseKeyError(
                "grade", "--resume continues a run with another --course-key, or without one",
                hint="use the same one, or choose another folder with --out",
            )  # fmt: skip
    if key is not None and not path.exists():
        write_atomically(path, json.dumps({"key": fingerprint}).encode() + b"\n")


# Seeds and values --------------------------------------------------------------------------------


def seed_of_student(key: bytes, student: str, exercise: str) -> str:
    """Return the seed of a student for an exercise, as 32 hex digits.

    >>> from edutorch.classroom.own_values import seed_of_student
    >>> seed_of_student(bytes(32), "ada", "01.by_hand")
    '07975fe9803acda3cfda7be05eab82dd'
    """
    # JSON, so that ("a", "b.c") and ("a.b", "c") are two messages.
    message = json.dumps([unicodedata.normalize("NFC", student), exercise]).encode()
    return hmac.new(key, message, hashlib.sha256).hexdigest()[:SEED_DIGITS]


def draw_values(exercise: type[Exercise], seed: str) -> dict[str, Any]:
    """Return the values that a seed stands for."""
    if exercise.values is None:
        raise SpecError(exercise.id, "this exercise is the same for everybody")
    return exercise.values(np.random.default_rng(int(seed, 16)))


class OwnValues(dict[str, Any]):
    """The values of one student, by name; a notebook shows whose they are."""

    def __init__(self, values: Mapping[str, Any], student: str = "") -> None:
        super().__init__(values)
        self.student = student

    def __repr__(self) -> str:
        text = ", ".join(f"{name} = {value}" for name, value in self.items())
        return f"{text}  (for {self.student})" if self.student else text


values_in_notebook: dict[str, OwnValues] = {}
"""By exercise, what `values_of` was last asked for in this process: `check` uses it."""


def values_of(id: str, *, student: str = "", seed: str = "") -> OwnValues:
    """Return a student's own values for an exercise; `edutorch.check` then uses them.

    Args:
        id: the exercise, as "01.by_hand".
        student: whose they are, to be shown.
        seed: in a notebook that was made for one student; without it, the values of everybody.

    Raises: SpecError: there is no such exercise, all have the same one, or the seed is damaged.

    >>> edutorch.classroom.values_of("01.by_hand")
    a = 2.0, b = 5.0
    """
    exercise = find_exercise(id)
    if exercise.values is None:
        raise SpecError(id, "this exercise is the same for everybody: it has no own values")
    if seed and not re.fullmatch(rf"[0-9a-f]{{{SEED_DIGITS}}}", seed):
        raise SpecError(
            id, f"{seed!r} is no seed of a student",
            hint="copy this cell again from the notebook that you got",
        )  # fmt: skip
    values = draw_values(exercise, seed) if seed else exercise.shared_values
    own = OwnValues(values, student)
    if seed:
        values_in_notebook[id] = own
    else:
        values_in_notebook.pop(id, None)
    return own


# Grading -----------------------------------------------------------------------------------------


class CourseValues:
    """The values of a whole class, for the grader.

    Args:
        students: all of the class, whether they are graded now or not.
    """

    def __init__(self, key: bytes, students: Iterable[str]) -> None:
        self.key, self.students = key, sorted(students)
        self._rights: dict[tuple[str, int, str], list[Any]] = {}

    def of(self, student: str, exercise: type[Exercise]) -> dict[str, Any] | None:
        """Return the values of a student; None where all have the same exercise."""
        if exercise.values is None:
            return None
        return draw_values(exercise, seed_of_student(self.key, student, exercise.id))

    def owners(
        self, exercise: type[Exercise], seed: int, answers: Sequence[Attempt], student: str
    ) -> tuple[str, ...]:
        """Return the others for whose values wrong answers are right; "" stands for everybody's.

        Args:
            seed: of the cases.
            answers: to all cases.
        """
        if exercise.values is None or any(one.error or one.forbidden for one in answers):
            return ()
        return tuple(
            other for other in ("", *self.students)
            if other != student and self._is_right_for(exercise, seed, answers, other)
        )  # fmt: skip

    def _is_right_for(
        self, exercise: type[Exercise], seed: int, answers: Sequence[Attempt], other: str
    ) -> bool:
        rights = self._rights_for(exercise, seed, other)
        return len(rights) == len(answers) and all(
            compare(answer.value, right, exercise.tolerance) is None
            for answer, right in zip(answers, rights, strict=True)
        )

    def _rights_for(self, exercise: type[Exercise], seed: int, other: str) -> list[Any]:
        """Return what is right in all cases for somebody's values: computed once."""
        key = exercise.id, seed, other
        if key not in self._rights:
            values = self.of(other, exercise) if other else None
            cases = exercise.draw_cases(seed, values)
            self._rights[key] = [exercise.right(**case) for case in cases]
        return self._rights[key]


def sentence_for(owners: Sequence[str]) -> str:
    """Return what the student is told: never whose values they are."""
    if not owners:
        return ""
    return RIGHT_FOR_SHARED if "" in owners else RIGHT_FOR_OTHERS


# The command -------------------------------------------------------------------------------------


def add_key_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `classroom key`."""
    parser.add_argument("file", metavar="FILE", type=Path, help="where the new key goes")


def write_key(options: argparse.Namespace) -> int:
    """Make a course key; return 0."""
    make_key(options.file)
    print(f"{options.file}: keep it to yourself, and keep a copy; no student needs it")
    return 0
