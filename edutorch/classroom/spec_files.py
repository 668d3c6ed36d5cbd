"""Teachers' own exercises: the blocks in the .py files of a folder outside of the package.

A file is loaded from its text, here and on other machines; it stands by itself: it imports edutorch
and NumPy, but not its neighbours. Errors name the file and the field.
"""

from __future__ import annotations

import ast
import hashlib
import linecache
import traceback
import types
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .attempt import first_line
from .exercise import Exercise, Hint, Mutant, SpecError, collect_exercises, load_exercises

PACKAGE = Path(__file__).resolve().parents[1]


class SpecFile(NamedTuple):
    """A file with exercises, as text."""

    path: str
    source: str


def read_specs(folders: Iterable[Path]) -> tuple[SpecFile, ...]:
    """Read all .py files of some folders.

    Raises: SpecError: a folder is not there, holds none, or students could read it.
    """
    files: dict[str, SpecFile] = {}
    for folder in folders:
        refuse_readable(folder)
        paths = sorted(folder.glob("*.py"))
        if not paths:
            raise SpecError("grade", f"--specs {folder}: there is no .py file in it")
        for path in paths:
            try:
                files[str(path)] = SpecFile(str(path), path.read_text(encoding="utf-8-sig"))
            except UnicodeDecodeError as error:
                raise SpecError("grade", f"{path}: is no UTF-8 text ({error.reason})") from None
    return tuple(files.values())


def refuse_readable(folder: Path) -> None:
    """Refuse a folder that is none, or that students could read: in the package, or in a jail."""
    if not folder.is_dir():
        raise SpecError("grade", f"--specs {folder}: there is no such folder")
    from .jail.package_copy import standard_library

    inside = folder.resolve()
    for path in (PACKAGE, *map(Path, standard_library())):
        if inside.is_relative_to(path.resolve()):
            raise SpecError(
                "grade", f"--specs {folder}: lies in {path}, which students can read",
                hint="keep your exercises in a folder of your own",
            )  # fmt: skip


def load_specs(files: Iterable[SpecFile]) -> dict[str, type[Exercise]]:
    """Return the exercises of some files, by id.

    Raises: SpecError: a file cannot be loaded, or an id is there already; with the file and field.
    """
    course, loaded = load_exercises(), dict[str, type[Exercise]]()
    for file in files:
        for exercise in load_file(file):
            other = loaded.get(exercise.id) or course.get(exercise.id)
            if other is not None:
                raise SpecError(
                    "grade", f"{file.path}: there is an exercise {exercise.id!r} in "
                    f"{file_of(other)}, too", hint="give one of them another `id`",
                )  # fmt: skip
            loaded[exercise.id] = exercise
    return loaded


def load_file(file: SpecFile) -> list[type[Exercise]]:
    """Return the exercises of a file."""
    # Another name for another text: the source of `answer` is looked up by it.
    name = f"{file.path}#{hashlib.sha256(file.source.encode()).hexdigest()[:8]}"
    lines = file.source.splitlines(keepends=True)
    linecache.cache[name] = (len(file.source), None, lines, name)
    module = types.ModuleType(Path(file.path).stem)
    module.__file__ = file.path
    with collect_exercises() as exercises:
        try:
            exec(compile(file.source, name, "exec"), vars(module))
            for exercise in exercises:
                check_fields(exercise)
        except SpecError as error:
            raise SpecError("grade", f"{file.path}: {error.op}: {error.message}", error.arguments,
                            error.hint) from error  # fmt: skip
        except SyntaxError as error:
            where = f"{file.path}, line {error.lineno}"
            raise SpecError("grade", f"{where}: is no Python ({error.msg})") from error
        except (Exception, SystemExit) as error:
            where = place_of(error, file, name)
            raise SpecError("grade", f"{where}: raised {first_line(error)}") from error
    if not exercises:
        raise SpecError("grade", f"{file.path}: there is no exercise in it",
                        hint="a class of edutorch.classroom.exercise.Exercise")  # fmt: skip
    return exercises


def place_of(error: BaseException, file: SpecFile, name: str) -> str:
    """Return file, line and field of an error while a file is loaded."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == name and frame.lineno
    ]  # fmt: skip
    if not lines:
        return file.path
    field = field_at(file.source, lines[0]) or field_at(file.source, lines[-1])
    return f"{file.path}, line {lines[-1]}" + (f": `{field}`" if field else "")


def field_at(source: str, line: int) -> str:
    """Return the field of the block that a line belongs to; "" outside of blocks.

    >>> from edutorch.classroom.spec_files import field_at
    >>> field_at("class A(Exercise):\\n    points = 1 / 0", 2)
    'points'
    """
    for block in ast.parse(source).body:
        if not isinstance(block, ast.ClassDef):
            continue
        for statement in block.body:
            if statement.lineno <= line <= (statement.end_lineno or line):
                if isinstance(statement, ast.FunctionDef):
                    return statement.name
                targets = getattr(statement, "targets", [getattr(statement, "target", None)])
                return ", ".join(ast.unparse(target) for target in targets if target)
    return ""


def file_of(exercise: type[Exercise]) -> str:
    """Return the file that an exercise stands in."""
    return str(exercise.cases.__globals__.get("__file__", exercise.__module__))  # type: ignore[attr-defined]


def check_fields(exercise: type[Exercise]) -> None:
    """Refuse a field of a wrong type."""
    hints, mutants = exercise.hints, exercise.mutants
    texts = ("title", "notebook", "cell", "before", "starter", "solution")
    wrong = {name: "is text" for name in texts if not isinstance(getattr(exercise, name), str)}
    points = exercise.points
    if isinstance(points, bool) or not isinstance(points, int | float) or not 0 < points < 1e6:
        wrong["points"] = "is a number above 0"
    if not is_tuple_of(exercise.names, str) or not exercise.names:
        wrong["names"] = 'is a tuple of names, as ("mean",)'
    if not isinstance(exercise.forbid, frozenset):
        wrong["forbid"] = 'is a frozenset of names, as frozenset({"softmax"})'
    if not is_tuple_of(hints, Hint):
        wrong["hints"] = "is a tuple of Hint"
    if not is_tuple_of(mutants, Mutant):
        wrong["mutants"] = "is a tuple of Mutant"
    elif any(mutant.hint not in (None, *range(len(hints))) for mutant in mutants):
        wrong["mutants"] = f"names a hint that is not there: there are {len(hints)}, from 0 on"
    for name, sentence in wrong.items():
        raise SpecError(exercise.id, f"`{name}` {sentence}; it is {getattr(exercise, name)!r:.60}")


def is_tuple_of(value: object, type: type) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, type) for item in value)
