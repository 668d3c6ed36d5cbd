"""Takes the answer out of a notebook: one cell, and the definitions that its names lead to.

Nothing else of the notebook is run: no training loop, no download, no picture. Of the other cells
only imports, functions, classes and plain constants at the top level are taken, and of these only
what the answer uses.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .exercise import Exercise
from .submissions import Submission, SubmissionError

MAGIC = re.compile(r"^(\s*)([%!?].*|.*\?)$", re.MULTILINE)


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
        return [Cell("", text)]
    if not text.strip():
        raise SubmissionError("grade", f"{file}: is empty")
    try:
        notebook = json.loads(text)
        cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
        return [code_cell(cell) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, RecursionError) as error:
        raise SubmissionError("grade", f"{file}: is no JSON, or cut off ({error})") from error
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise SubmissionError("grade", f"{file}: is no notebook (no {error})") from error


def code_cell(cell: dict) -> Cell:  # type: ignore[type-arg]
    source = cell.get("source", cell.get("input", ""))
    metadata = cell.get("metadata", {})
    tags = tuple(map(str, metadata.get("tags", ())))
    text = "".join(map(str, source)) if isinstance(source, list) else str(source)
    id = metadata.get("nbgrader", {}).get("grade_id") or cell.get("id", "")
    return Cell(str(id), without_magics(text), tags)


def without_magics(source: str) -> str:
    """Turn lines for IPython (`%matplotlib`, `!pip`, `name?`) into comments."""
    return MAGIC.sub(r"\1pass  # \2", source)


def answer_cell(cells: Sequence[Cell], exercise: type[Exercise]) -> Cell | None:
    """Return the cell of an exercise: by its id, else the last one that defines its names."""
    wanted = set(exercise.names)
    for cell in cells:
        if cell.id == exercise.cell and wanted <= defined_names(cell.source):
            return cell
    fitting = [cell for cell in cells if wanted <= defined_names(cell.source)]
    tagged = [cell for cell in fitting if "exercise" in cell.tags]
    if fitting:
        return (tagged or fitting)[-1]
    return next((cell for cell in cells if cell.id == exercise.cell), None)


def defined_names(source: str) -> set[str]:
    """Return the names that a cell defines at its top level; none if it is no Python."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {name for statement in statements for name in names_bound(statement)}


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
    own = ast.parse(answer.source).body
    definitions: list[ast.stmt] = []
    for cell in cells:
        if cell is answer:
            continue
        try:
            statements = ast.parse(cell.source).body
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
