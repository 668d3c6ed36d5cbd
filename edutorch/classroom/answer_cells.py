"""Takes the answer out of a notebook: one cell, and the definitions that its names lead to.

Nothing else of the notebook is run: no training loop, no download, no picture. Of the other cells
only imports, functions, classes and plain constants at the top level are taken, and of these only
what the answer uses.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .exercise import Exercise
from .submissions import Submission, SubmissionError

MAGIC = re.compile(r"^([ \t]*+)([%!?].*|[\w.*]++\?\??)$", re.MULTILINE)

MOST_CODE = 500_000
"""Characters of code in a notebook. Of more, the syntax tree would take gigabytes."""


class Cell(NamedTuple):
    """One code cell. Its id is "" in notebooks that were saved by an old version."""

    id: str
    source: str
    tags: tuple[str, ...] = ()


def read_cells(submission: Submission) -> list[Cell]:
    """Return the code cells of a hand-in; a Python file is one cell.

    Raises: SubmissionError: it is too large, no text, or no notebook.
    """
    content = submission.read()
    file = submission.file
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SubmissionError("grade", f"{file}: is no UTF-8 text ({error.reason})") from error
    if submission.name.endswith(".py"):
        return checked_size(file, [Cell("", text)])
    if not text.strip():
        raise SubmissionError("grade", f"{file}: is empty")
    try:
        notebook = json.loads(text)
        cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
        read = [code_cell(cell) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, RecursionError) as error:
        raise SubmissionError("grade", f"{file}: is no JSON, or cut off ({error})") from error
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise SubmissionError("grade", f"{file}: is no notebook (no {error})") from error
    cells = checked_size(file, read)
    return [cell._replace(source=without_magics(cell.source)) for cell in cells]


def checked_size(file: str, cells: list[Cell]) -> list[Cell]:
    size = sum(len(cell.source) for cell in cells)
    if size > MOST_CODE:
        raise SubmissionError(
            "grade", f"{file}: has {size:,} characters of code: no notebook of the course has",
            hint=f"at most {MOST_CODE:,} are read",
        )  # fmt: skip
    return cells


def code_cell(cell: dict) -> Cell:  # type: ignore[type-arg]
    source = cell.get("source", cell.get("input", ""))
    metadata = cell.get("metadata", {})
    tags = tuple(map(str, metadata.get("tags", ())))
    text = "".join(map(str, source)) if isinstance(source, list) else str(source)
    id = metadata.get("nbgrader", {}).get("grade_id") or cell.get("id", "")
    return Cell(str(id), text, tags)


def without_magics(source: str) -> str:
    """Turn lines for IPython (`%matplotlib`, `!pip`, `name?`) into comments.

    Not where all is Python: there a line may begin with `%`, too.
    """
    return source if is_python(source) else MAGIC.sub(r"\1pass  # \2", source)


@functools.lru_cache(512)
def parse_once(source: str) -> list[ast.stmt]:
    return ast.parse(source).body


def parse(source: str) -> list[ast.stmt]:
    """Return the statements of a cell; most cells are the same for the whole class."""
    return parse_once(source) if len(source) < 4_000 else ast.parse(source).body


def is_python(source: str) -> bool:
    try:
        parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def answer_cell(cells: Sequence[Cell], exercise: type[Exercise]) -> Cell | None:
    """Return the cell of an exercise: by its id, else the last one that defines its names."""
    # A name that stands in a cell above is not looked for in this one.
    wanted = set(exercise.names) - defined_names(exercise.before)
    for cell in cells:
        if cell.id == exercise.cell and wanted <= defined_names(cell.source):
            return cell
    fitting = [cell for cell in cells if wanted <= defined_names(cell.source)]
    tagged = [cell for cell in fitting if "exercise" in cell.tags]
    if fitting:
        return (tagged or fitting)[-1]
    return next((cell for cell in cells if cell.id == exercise.cell), None)


def defined_names(source: str) -> frozenset[str]:
    """Return the names that a cell defines at its top level; none if it is no Python."""
    return defined_once(source) if len(source) < 4_000 else find_defined(source)


def find_defined(source: str) -> frozenset[str]:
    try:
        statements = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(name for statement in statements for name in names_bound(statement))


defined_once = functools.lru_cache(512)(find_defined)


def names_bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        yield statement.name
        return
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield (alias.asname or alias.name).partition(".")[0]
        return
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def names_read(statements: Iterable[ast.stmt]) -> set[str]:
    """Return all names that occur in statements, in functions and classes in them, too."""
    return {
        node.id for statement in statements for node in ast.walk(statement)
        if isinstance(node, ast.Name)
    }  # fmt: skip


def is_definition(statement: ast.stmt) -> bool:
    """Return whether a statement may run besides the answer: it does nothing but define."""
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        value = statement.value
        try:
            return value is not None and (ast.literal_eval(value) or True)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return False
    return isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)


def source_of_answer(cells: Sequence[Cell], answer: Cell) -> list[str]:
    """Return the definitions that an answer uses, and the answer, as sources to run in order.

    Raises: SyntaxError: the answer is no Python.
    """
    own = parse(answer.source)
    definitions: list[ast.stmt] = []
    for cell in cells:
        if cell is answer:
            continue
        try:
            statements = parse(cell.source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue  # another exercise's cell: it costs points there alone
        definitions += filter(is_definition, statements)
    needed = needed_definitions(definitions, names_read(own))
    used = [ast.unparse(statement) for statement in definitions if id(statement) in needed]
    return [*(["\n".join(used)] if used else []), answer.source]


def needed_definitions(definitions: Sequence[ast.stmt], names: set[str]) -> set[int]:
    """Return the ids of the definitions that names lead to, directly or through others."""
    by_name: dict[str, list[ast.stmt]] = {}
    for statement in definitions:
        for name in names_bound(statement):
            by_name.setdefault(name, []).append(statement)
    needed: set[int] = set()
    waiting, seen = list(names), set(names) | set(dir(builtins))
    while waiting:
        for statement in by_name.get(waiting.pop(), ()):
            if id(statement) not in needed:
                needed.add(id(statement))
                further = names_read([statement]) - seen
                seen |= further
                waiting += further
    return needed
