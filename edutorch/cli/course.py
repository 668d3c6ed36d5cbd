"""`python -m edutorch course`: list the lessons, open one, put a fresh one in its place.

How far a student is, is read from the outputs that are saved in the student's own notebooks.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import Any

from .lessons import Lesson


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("words", metavar="[open] LESSON", nargs="*",
                        help="the number of a lesson, or a part of its name; without it, all are "
                        "listed. Other options are JupyterLab's: --port N, …")  # fmt: skip
    parser.add_argument("--reset", action="store_true",
                        help="move the notebook aside, and make a new one")  # fmt: skip
    parser.add_argument("--folder", type=Path, default=Path("notebooks"), metavar="FOLDER",
                        help="where your notebooks are; by default ./notebooks")  # fmt: skip


def course(options: argparse.Namespace, others: list[str]) -> int:
    """Run the command; return its exit code.

    Args:
        others: arguments that the command does not know, for JupyterLab.
    """
    from .lessons import CourseError

    if hasattr(sys.stdout, "reconfigure"):  # a terminal of Windows may not have all letters
        sys.stdout.reconfigure(errors="replace")
    words = list(options.words)
    is_open = words[:1] == ["open"]
    words = words[1:] if is_open else words
    if is_open and not words and others and not others[0].startswith("-"):
        words.append(others.pop(0))  # an option was between `open` and the lesson
    try:
        refuse_combinations(words, others, is_open, options.reset)
        if not words:
            return list_lessons(options.folder)
        lesson = find_lesson(words[0])
        notebook = student_file(options.folder, lesson)
        if options.reset:
            reset(lesson, notebook)
        if is_open or not options.reset:
            return open_lesson(lesson, notebook, others)
    except CourseError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def refuse_combinations(words: list[str], others: list[str], is_open: bool, reset: bool) -> None:
    from .lessons import OP, CourseError

    if len(words) > 1:
        raise CourseError(OP, f"one lesson at a time, got {' '.join(words)}")
    if not words and (is_open or reset):
        what = "--reset" if reset else "open"
        raise CourseError(OP, f"{what} which lesson?", hint=f"edutorch course {what} 03")
    if others and (not words or (reset and not is_open)):
        raise CourseError(OP, f"unknown arguments: {' '.join(others)}")


def find_lesson(word: str) -> Lesson:
    """Return the lesson with this number, name, or part of a name.

    Raises: CourseError: there is none, or there are several.
    """
    from .lessons import OP, CourseError, read_lessons

    lessons = read_lessons()
    stem = Path(word).name.removesuffix(".ipynb").lower()
    by_number = [lesson for lesson in lessons if stem and lesson.number == stem.zfill(2)]
    by_name = [lesson for lesson in lessons if lesson.path.stem.lower() == stem]
    by_part = [lesson for lesson in lessons if stem and stem in lesson.path.stem[3:].lower()]
    fitting = by_name or by_number or by_part
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(lesson.path.stem for lesson in fitting)
        raise CourseError(OP, f"{word!r} could be {names}", hint="give the whole name")
    known = ", ".join(lesson.number for lesson in lessons)
    raise CourseError(OP, f"there is no lesson {word!r}", hint=f"there are {known}")


def student_file(folder: Path, lesson: Lesson) -> Path:
    """Return the path of a student's notebook, whether it is there or not.

    Raises: CourseError: the folder cannot be reached.
    """
    from .lessons import OP, CourseError

    try:
        return folder.expanduser().resolve() / lesson.path.name
    except (OSError, RuntimeError, ValueError) as error:
        raise CourseError(OP, f"{str(folder)!r} cannot be reached ({error})") from None


def reset(lesson: Lesson, notebook: Path) -> None:
    """Move the student's notebook aside, and make a new one.

    Raises: CourseError: a file cannot be written; or it is the course's own.
    """
    from .lesson_files import copy_fresh
    from .lessons import OP, CourseError

    if notebook.exists() and notebook.samefile(lesson.path):
        raise CourseError(
            OP, f"{notebook} is the course's own file: there is no other copy of it",
            hint="git restore brings it back, or work in a folder of your own: --folder my_course",
        )  # fmt: skip
    try:
        old = copy_fresh(lesson.path, notebook)
    except OSError as error:
        raise cannot_write(notebook, error) from None
    print(f"{notebook}: new" + (f"; the old one is {old.name}" if old else ""))


def open_lesson(lesson: Lesson, notebook: Path, arguments: list[str]) -> int:
    """Start JupyterLab on a lesson; copy it first if the student has no copy of it.

    Raises: CourseError: a file cannot be written, or is damaged.
    """
    from .lab import require_jupyterlab, start_jupyterlab
    from .lesson_files import copy_new
    from .lessons import read_notebook

    require_jupyterlab("edutorch course")
    try:
        copy_new(lesson.path, notebook)
    except FileExistsError:
        pass
    except OSError as error:
        raise cannot_write(notebook, error) from None
    read_notebook(notebook)  # JupyterLab would only show an empty page
    if lesson.needs:
        print(f"{lesson.path.stem} needs {'; '.join(lesson.needs)}")
    return start_jupyterlab(notebook, arguments)


def cannot_write(path: Path, error: OSError) -> Any:
    from .lessons import OP, CourseError

    reason = error.strerror or type(error).__name__
    return CourseError(
        OP, f"{path} cannot be written ({reason})",
        hint="name a folder of your own: --folder FOLDER",
    )  # fmt: skip


# The list ------------------------------------------------------------------------------------


def list_lessons(folder: Path) -> int:
    """Print the lessons by part, with the student's progress; return 2 if a file is damaged."""
    from .lessons import OP, CourseError, Progress, progress, read_lessons, read_notebook

    lessons = read_lessons()
    width = max(len(lesson.title) for lesson in lessons)
    problems, right, total = [], 0, 0
    for part, members in itertools.groupby(lessons, lambda lesson: lesson.part):
        print(f"\n{part}" if part else "")
        for lesson in members:
            notebook = student_file(folder, lesson)
            done: Progress | None = None
            try:
                done = progress(read_notebook(notebook)) if notebook.exists() else None
                state = progress_text(lesson, done)
            except CourseError as error:
                problems.append(error)
                state = "damaged"
            except OSError as error:
                problems.append(CourseError(OP, f"{notebook}: cannot be read ({error.strerror})"))
                state = "unknown"
            right += done.right if done else 0
            total += done.total if done else lesson.checks
            minutes = f"{lesson.minutes} min" if lesson.minutes else ""
            needs = f"needs {'; '.join(lesson.needs)}" if lesson.needs else ""
            line = f"  {lesson.number}  {lesson.title:{width}}  {minutes:>7}  {state:15}  {needs}"
            print(line.rstrip())
    print(f"\n{right} of {total} exercises are right, as your notebooks in {folder} were saved.")
    print("edutorch course 03 opens lesson 03; edutorch course --reset 03 makes it new.")
    sys.stdout.flush()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 2 if problems else 0


def progress_text(lesson: Lesson, done: Any) -> str:
    """Return how far a student is.

    Args:
        done: the Progress of the student's notebook; None where there is none.
    """
    total = done.total if done else lesson.checks
    if not total:
        return "opened" if done else ""
    if done is None:
        return f"{total} exercise{'s' * (total > 1)}"
    return f"{done.right} of {total} right"
