"""Where a class is graded: on this machine, or on several.

A class is cut into shards of students. An engine takes shards, and yields the result of each
student; what it is told is plain data, a `Plan`, so that it can travel:

    with contextlib.closing(LocalEngine(plan)) as engine:
        for result in engine.grade(shards):
            …

`LocalEngine` is one pool of workers; on other machines (`dask_engine.py`) it grades each shard.
"""

from __future__ import annotations

import hashlib
import os
import platform
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

import edutorch

from .assignment import Assignment
from .class_grader import grade_class
from .exercise import Exercise, find_exercise
from .exercise_grader import ClassSettings
from .jail import Settings
from .jail.chain import open_factory
from .own_values import CourseValues
from .results import StudentResult
from .spec_files import SpecFile, load_specs
from .submissions import Submission, SubmissionError


class Plan(NamedTuple):
    """How a class is graded, as plain data.

    Attributes:
        ids: the exercises of the assignment.
        specs: the files of those that are not of the course: as text, for the grader's processes
            alone. No jail gets them.
        seed: draws the cases.
        seconds: for all cases of an exercise.
        limits: of the jails.
        workers: students at once; None: one for each processor.
        own_values: of each student, with the course key.
        feedback: the form of the students' feedback.
    """

    ids: tuple[str, ...]
    specs: tuple[SpecFile, ...]
    seed: int
    seconds: float
    limits: Settings
    assignment: Assignment = Assignment()
    workers: int | None = None
    own_values: CourseValues | None = None
    feedback: str = "none"

    def class_settings(self) -> ClassSettings:
        """Return the settings, with the exercises loaded."""
        own = load_specs(self.specs)
        exercises: dict[str, type[Exercise]] = {
            id: own[id] if id in own else find_exercise(id) for id in self.ids
        }
        return ClassSettings(
            exercises, self.seed, self.seconds, assignment=self.assignment,
            own_values=self.own_values, feedback=self.feedback,
        )  # fmt: skip


class Shard(NamedTuple):
    """Some students of a class, with what they have handed in."""

    number: int
    students: Mapping[str, Sequence[Submission]]

    def with_content(self) -> Shard:
        """Return the shard with the bytes of the files in place of what reads them here."""
        students = {
            name: [file._replace(read=Content.of(file)) for file in files]
            for name, files in self.students.items()
        }
        return Shard(self.number, students)


class Content(NamedTuple):
    """The bytes of a file, or why it cannot be read; it stands for `Submission.read`."""

    content: bytes
    error: SubmissionError | None = None

    @classmethod
    def of(cls, file: Submission) -> Self:
        try:
            return cls(file.read())
        except SubmissionError as error:
            return cls(b"", error)

    def __call__(self) -> bytes:
        if self.error is not None:
            raise self.error
        return self.content


class Engine(Protocol):
    """Grades shards of students. `walls` is filled when it has graded."""

    walls: dict[str, bool | None]

    def grade(self, shards: Sequence[Shard]) -> Iterator[StudentResult]: ...

    def close(self) -> None: ...


class LocalEngine:
    """Grades on this machine, in jails of one factory, several students at once.

    Raises: what `open_factory` raises.
    """

    def __init__(self, plan: Plan) -> None:
        self.settings = plan.class_settings()
        self.workers = plan.workers or os.cpu_count() or 1
        self.factory = open_factory(plan.limits)
        self.walls = {name: stands for name, (stands, _) in sorted(self.factory.walls.items())}

    def grade(self, shards: Sequence[Shard]) -> Iterator[StudentResult]:
        """Yield the results of all students; shards make no difference here."""
        students = {name: files for shard in shards for name, files in shard.students.items()}
        yield from grade_class(students, self.factory.jail, self.settings, self.workers)

    def close(self) -> None:
        """End the jails."""
        self.factory.close()


# Shards -----------------------------------------------------------------------------------------


def make_shards(students: Mapping[str, Sequence[Submission]], size: int) -> list[Shard]:
    """Cut a class into shards of at most `size` students."""
    names = list(students)
    return [
        Shard(number, {name: students[name] for name in names[start : start + size]})
        for number, start in enumerate(range(0, len(names), size), 1)
    ]


def shard_of(student: str, count: int) -> int:
    """Return which of `count` shards a student is in, from 1 on: it depends on the name alone.

    >>> from edutorch.classroom.engines import shard_of
    >>> [shard_of(name, 3) for name in ("ada", "dan", "fay")]
    [3, 2, 1]
    """
    name = unicodedata.normalize("NFC", student).encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big") % count + 1


def versions() -> dict[str, Any]:
    """Return the versions that results depend on."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {"edutorch": edutorch.__version__, "numpy": np.__version__, "python": python}


def digests(exercises: Mapping[str, type[Exercise]]) -> dict[str, str]:
    """Return a digest of the source of each exercise's module."""
    sources = {id: module_source(exercise) for id, exercise in exercises.items()}
    return {id: hashlib.sha256(text.encode()).hexdigest()[:16] for id, text in sources.items()}


def module_source(exercise: type[Exercise]) -> str:
    import linecache

    return "".join(linecache.getlines(exercise.cases.__code__.co_filename))
