"""A run of `python -m edutorch grade`: from a folder of hand-ins to a folder of results."""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import EdutorchError
from ..utils.atomic_files import write_atomically
from . import assignment as assignment_file
from .assignment import Assignment, read_assignment
from .engines import Engine, LocalEngine, Plan, digests, make_shards, shard_of, versions
from .exercise import Exercise, SpecError, find_exercise, load_exercises
from .exercise_grader import seed_of
from .feedback_files import folder_names, write_feedback
from .jail import Settings
from .merging import PLAN, SEED
from .own_values import CourseValues, keep_key_of_run, read_key
from .results import Progress, StudentResult, json_bytes, write_results
from .spec_check import check_solutions, print_reports
from .spec_files import SpecFile, load_specs, read_specs
from .student_names import check_known, read_class_list
from .submissions import Submission, SubmissionError, by_student, find_submissions

MIB = 1 << 20
NO_ASSIGNMENT = Assignment()


def grade(options: argparse.Namespace) -> int:
    """Grade a class; return 0 if everything could be read."""
    specs = read_specs(options.specs or ())
    own = load_specs(specs)
    if options.check_specs:
        return print_reports(chosen_exercises(options.only, own, Assignment()))
    refuse_specs_among_hand_ins(options)
    assignment = assignment_of(options)
    exercises = chosen_exercises(options.only, own, assignment)
    students, errors = by_student(find_submissions(options.folder))
    own_values = values_of_class(options, list(students))
    options.folders = folder_names(students)  # of all: so --student changes no name
    students = chosen_students(students, options)
    for error in errors:
        print(error, file=sys.stderr)
    graded, failed = run(options, exercises, students, specs, assignment, own_values)
    right = sum(result.points for result in graded)
    whole = sum(one.maximum for result in graded for one in result.exercises)
    print(f"{len(graded)} students, {right:g} of {whole:g} points: {options.out}")
    return int(bool(errors) or failed)


def refuse_specs_among_hand_ins(options: argparse.Namespace) -> None:
    """Refuse exercises that would be taken for hand-ins."""
    for folder in options.specs or ():
        if folder.resolve().is_relative_to(options.folder.resolve()):
            raise SpecError("grade", f"--specs {folder}: lies among the hand-ins",
                            hint=f"keep it outside of {options.folder}")  # fmt: skip


def assignment_of(options: argparse.Namespace) -> Assignment:
    """Return what `assignment.toml` says: that of the command line, or in the folder."""
    path = options.assignment or options.folder / assignment_file.FILE
    if options.assignment is None and not path.is_file():
        return Assignment()
    return read_assignment(path)


def chosen_exercises(
    only: list[str] | None, own: Mapping[str, type[Exercise]], assignment: Assignment
) -> dict[str, type[Exercise]]:
    """Return the exercises to grade: those of the assignment, else the teacher's own, else all.

    Raises: SpecError: there is none of this id.
    """
    known = {**load_exercises(), **own}
    chosen = {id: find_exercise(id, known) for id in assignment.exercises} or own or known
    for id in assignment.points:
        find_exercise(id, known)
    if only:
        chosen = {id: find_exercise(id, chosen if assignment.exercises else known) for id in only}
    return dict(sorted(chosen.items()))


def chosen_students(
    students: dict[str, list[Submission]], options: argparse.Namespace
) -> dict[str, list[Submission]]:
    """Return the students that `--student` names, or all.

    Raises: SubmissionError: nobody is called so.
    """
    if not options.student:
        return students
    unknown = sorted(set(options.student) - students.keys())
    if unknown:
        raise SubmissionError(
            "grade", f"nobody is called {', '.join(unknown)}",
            hint=f"there are {', '.join(list(students)[:5])}, …",
        )  # fmt: skip
    return {name: students[name] for name in options.student}


def run(
    options: argparse.Namespace,
    exercises: dict[str, type[Exercise]],
    students: dict[str, list[Submission]],
    specs: tuple[SpecFile, ...] = (),
    assignment: Assignment = NO_ASSIGNMENT,
    own_values: CourseValues | None = None,
) -> tuple[list[StudentResult], bool]:
    """Grade the students, and keep each result as soon as it is there.

    Returns: all results, and whether a file could not be read.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    keep_key_of_run(options.out, options.resume, own_values and own_values.key)
    seed = seed_of_run(options.out, options.resume, options.seed)
    fields = None if assignment == NO_ASSIGNMENT else assignment.to_json()
    keep_plan(options.out, options.resume, {"exercises": digests(exercises), "assignment": fields})
    check_solutions(exercises, {id: seed_of(seed, id) for id in exercises})
    names = sorted(students)
    if options.shard:
        number, count = options.shard
        students = {name: files for name, files in students.items()
                    if shard_of(name, count) == number}  # fmt: skip
    progress = Progress(options.out, options.resume)
    left = {name: files for name, files in students.items() if name not in progress.done}
    limits = Settings(
        memory=options.memory * MIB, seconds=options.timeout,
        fewer_walls=options.walls == "fewer", wasm=options.walls == "wasm",
    )  # fmt: skip
    plan = Plan(tuple(exercises), specs, seed, options.timeout, limits, assignment, options.workers,
                own_values, options.feedback)  # fmt: skip
    start = time.perf_counter()
    with contextlib.closing(open_engine(plan, options)) as engine:
        for result in engine.grade(make_shards(left, options.shard_size)):
            # Before the student counts as graded: a run that is killed loses no file.
            write_feedback(options.out, options.folders[result.student], result.feedback)
            progress.add(result._replace(feedback=None))
            tell(result, len(progress.done), len(students))
    progress.close()
    tell_without_time(students, assignment)
    about = {
        "at": time.strftime("%Y-%m-%d %H:%M:%S"), "seconds": time.perf_counter() - start,
        "graded": len(left), "host": platform.node(), "system": platform.platform(),
        "python": platform.python_version(), "walls": engine.walls, "versions": versions(),
        "exercises": digests(exercises), "class": names,
        "shard": "{}/{}".format(*options.shard) if options.shard else None,
    }  # fmt: skip
    results = [progress.done[name] for name in students]
    write_results(options.out, results, seed, about, fields)
    return results, any(result.problems for result in results)


def keep_plan(folder: Path, resume: bool, plan: dict[str, Any]) -> None:
    """Keep what is graded; a resumed run grades the same, or its results would not fit together."""
    path, plan = folder / PLAN, json.loads(json_bytes(plan))
    if resume and path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        changed = [name for name in plan if known.get(name) != plan[name]]
        if changed:
            raise EdutorchError(
                "grade", f"--resume continues a run with other {' and '.join(changed)}",
                hint="grade all again, or choose another folder with --out",
            )  # fmt: skip
    write_atomically(path, json_bytes(plan))


def open_engine(plan: Plan, options: argparse.Namespace) -> Engine:
    """Return what grades: this machine, or a cluster."""
    if options.engine == "dask":
        from .dask_engine import DaskEngine

        return DaskEngine(plan, options.scheduler)
    return LocalEngine(plan)


def tell_without_time(students: Mapping[str, Sequence[Submission]], assignment: Assignment) -> None:
    """Say of how many students nothing says when they handed in, if it matters."""
    if assignment.due is None:
        return
    without = [
        name for name, files in students.items()
        if not any(file.time or file.late for file in files)
        and not (assignment.hand_in_time == "modified" and any(file.modified for file in files))
    ]  # fmt: skip
    if without:
        print(f"{len(without)} of {len(students)} students count as in time: nothing says when "
              f'they handed in ({", ".join(without[:3])}, …); hand_in_time = "modified" takes the '
              "times of their files", file=sys.stderr)  # fmt: skip


def values_of_class(options: argparse.Namespace, handed_in: list[str]) -> CourseValues | None:
    """Return the own values of the students; None without a course key.

    Raises: CourseKeyError, StudentNameError: the key cannot be used, or somebody has handed in who
        is not in the class list, so that the values would be of nobody.
    """
    if options.course_key is None:
        if options.class_list is not None:
            raise EdutorchError("grade", "--class-list is read only with --course-key FILE")
        return None
    key = read_key("grade", options.course_key)
    if options.class_list is None:
        return CourseValues(key, handed_in)
    whole = read_class_list("grade", options.class_list)
    check_known("grade", handed_in, whole, str(options.class_list))
    return CourseValues(key, whole)


def tell(result: StudentResult, done: int, whole: int) -> None:
    """Print a line for one student, with what went wrong with the files."""
    print(f"{done}/{whole}  {result.student}: {result.points:g}", flush=True)
    for problem in result.problems:
        print(f"  {problem}", file=sys.stderr, flush=True)
    for one in result.exercises:
        if one.file and not one.total:
            print(f"  {one.location}: {one.sentence}", file=sys.stderr, flush=True)


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
