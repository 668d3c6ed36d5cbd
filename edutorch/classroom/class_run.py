"""A run of `python -m edutorch grade`: from a folder of hand-ins to a folder of results."""

from __future__ import annotations

import argparse
import json
import platform
import secrets
import sys
import time
from pathlib import Path

from ..errors import EdutorchError
from ..utils.atomic_files import write_atomically
from .class_grader import ClassSettings, grade_class
from .exercise import Exercise, find_exercise, load_exercises
from .jail import Settings
from .jail.factory import JailFactory
from .results import Progress, StudentResult, json_bytes, write_results
from .submissions import Submission, SubmissionError, by_student, find_submissions

MIB = 1 << 20
SEED = "seed.json"


def grade(options: argparse.Namespace) -> int:
    """Grade a class; return 0 if everything could be read."""
    exercises = chosen_exercises(options.only)
    students, errors = by_student(find_submissions(options.folder))
    if options.student:
        unknown = sorted(set(options.student) - students.keys())
        if unknown:
            raise SubmissionError(
                "grade", f"nobody is called {', '.join(unknown)}",
                hint=f"there are {', '.join(list(students)[:5])}, …",
            )  # fmt: skip
        students = {name: students[name] for name in options.student}
    for error in errors:
        print(error, file=sys.stderr)
    graded, failed = run(options, exercises, students)
    right = sum(result.points for result in graded)
    whole = sum(one.maximum for result in graded for one in result.exercises)
    print(f"{len(graded)} students, {right:g} of {whole:g} points: {options.out}")
    return int(bool(errors) or failed)


def chosen_exercises(only: list[str] | None) -> dict[str, type[Exercise]]:
    """Return the exercises to grade.

    Raises: SpecError: there is none of this id.
    """
    known = load_exercises()
    chosen = {id: find_exercise(id) for id in only or ()} or known
    return dict(sorted(chosen.items()))


def run(
    options: argparse.Namespace,
    exercises: dict[str, type[Exercise]],
    students: dict[str, list[Submission]],
) -> tuple[list[StudentResult], bool]:
    """Grade the students, and keep each result as soon as it is there.

    Returns: all results, and whether a file could not be read.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    seed = seed_of_run(options.out, options.resume, options.seed)
    progress = Progress(options.out, options.resume)
    left = {name: files for name, files in students.items() if name not in progress.done}
    limits = Settings(
        memory=options.memory * MIB, seconds=options.timeout, fewer_walls=options.walls == "fewer"
    )
    start = time.perf_counter()
    with JailFactory(limits) as factory:
        walls = {name: stands for name, (stands, _) in sorted(factory.walls.items())}
        settings = ClassSettings(exercises, seed, options.timeout)
        for result in grade_class(left, factory.jail, settings, options.workers):
            progress.add(result)
            tell(result, len(progress.done), len(students))
    progress.close()
    about = {
        "at": time.strftime("%Y-%m-%d %H:%M:%S"), "seconds": time.perf_counter() - start,
        "graded": len(left), "host": platform.node(), "system": platform.platform(),
        "python": platform.python_version(), "walls": walls,
    }  # fmt: skip
    results = [progress.done[name] for name in students]
    write_results(options.out, results, seed, about)
    return results, any(result.problems for result in results)


def tell(result: StudentResult, done: int, whole: int) -> None:
    """Print a line for one student, with what went wrong with the files."""
    print(f"{done}/{whole}  {result.student}: {result.points:g}", flush=True)
    for problem in result.problems:
        print(f"  {problem}", file=sys.stderr, flush=True)


def seed_of_run(folder: Path, resume: bool, seed: int | None) -> int:
    """Return the seed of a run: the one that is asked for, that of the resumed run, or a new one.

    It is on disk before anybody is graded.
    """
    path = folder / SEED
    if resume and path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))["seed"]
        if seed not in (None, known):
            raise EdutorchError(
                "grade", f"--resume continues a run with seed {known}, not {seed}",
                hint="leave out --seed, or choose another folder with --out",
            )  # fmt: skip
        return known
    seed = secrets.randbits(32) if seed is None else seed
    write_atomically(path, json_bytes({"seed": seed}))
    return seed
