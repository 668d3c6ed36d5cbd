"""The course as a whole: no name before it is introduced, nothing unsaid about what it takes."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import textwrap

import pytest

import edutorch
from edutorch.classroom import EXERCISES, load_exercises
from edutorch.cli.lessons import data_of, read_lessons
from edutorch.datasets.copies import LOADERS
from tests.lessons.metadata import (
    EVERYWHERE,
    KEYS,
    NOTEBOOKS,
    is_mentioned,
    names_used,
    read,
    source,
    stems,
)

STEMS = stems()
load_exercises()
WITHOUT_GRAPH = {
    "01.exponential": "an op of the lesson's own `Number`, which is no tensor",
    "06.relabel": "the names of a dict",
    "08.cliff": "a formula for one learning rate",
    "08.factor": "a formula for the learning rate of a step",
    "10.size": "a formula for a size",
    "11.parameters": "a formula for a count",
    "22.rows": "the numbers of rows",
}
"""Exercises whose answer is no computation with tensors, and why."""


def test_the_readme_lists_every_notebook():
    assert sorted(STEMS) == sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


@pytest.mark.parametrize("stem", STEMS)
def test_a_notebook_says_what_it_takes(stem):
    said = read(stem)["metadata"].get("edutorch", {})
    assert set(said) == KEYS
    assert said["part"] in ("I", "II", "III", "IV", "V", "VI")
    assert 0 < said["seconds"] <= 60 and 0 < said["megabytes"] <= 1024
    assert isinstance(said["browser"], bool) and set(said["needs"]) <= {"gpu", "dist", "onnx"}


IN_BROWSER = [stem for stem in STEMS if read(stem)["metadata"]["edutorch"]["browser"]]
SITE = {"IPython", "edutorch", "matplotlib", "numpy", "scipy"}
"""What a lesson can import in a browser tab, beside Python's own modules."""


def test_the_lessons_that_run_in_a_browser_are_listed():
    assert [lesson.path.stem for lesson in read_lessons() if lesson.in_browser] == IN_BROWSER
    said = re.search(
        r"In a browser tab run ([\d, and]+),", (NOTEBOOKS / "README.md").read_text("utf-8")
    )
    assert re.findall(r"\d\d", said[1]) == sorted(stem[:2] for stem in IN_BROWSER)


@pytest.mark.parametrize("stem", IN_BROWSER)
def test_a_lesson_for_a_browser_finds_its_packages_and_data_there(stem):
    code = "\n".join(source(cell) for cell in read(stem)["cells"] if cell["cell_type"] == "code")
    tree = ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", code))
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    for node in ast.walk(tree):
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    roots = {name.partition(".")[0] for name in names}
    assert roots - SITE - sys.stdlib_module_names == set()
    files = set(LOADERS) | {"photo"}
    assert {name.partition(" ")[0] for name in data_of(NOTEBOOKS / f"{stem}.ipynb")} <= files


def cells_with_names(stem):
    """Return the cells of a notebook; each with its text, and the names of edutorch it uses."""
    modules = {}
    for cell in read(stem)["cells"]:
        text = source(cell)
        is_code = cell["cell_type"] == "code"
        yield text, list(dict.fromkeys(names_used(text, modules))) if is_code else None


def unknown_names(stem, known):
    """Return the names that a notebook uses before it says what they are, and those it uses."""
    said, unknown, used = "", [], set()
    new = set(read(stem)["metadata"].get("edutorch", {}).get("introduces", ()))
    for text, names in cells_with_names(stem):
        if names is None:
            said += text + "\n"
            continue
        for name in names:
            used.add(name)
            if name in known or name in EVERYWHERE:
                continue
            if name not in new:
                unknown.append(f"{name}: not in `introduces`")
            elif not is_mentioned(name, said):
                unknown.append(f"{name}: in no text before it is used")
    return list(dict.fromkeys(unknown)), used


@pytest.mark.parametrize("stem", STEMS)
def test_no_name_is_used_before_it_is_introduced(stem):
    earlier = STEMS[: STEMS.index(stem)]
    known = {
        name for other in earlier for name in read(other)["metadata"]["edutorch"]["introduces"]
    }
    new = set(read(stem)["metadata"]["edutorch"]["introduces"])
    unknown, used = unknown_names(stem, known)
    if not stem.startswith("00"):
        assert unknown == []
    assert new - used == set(), "introduced, but used in no cell"
    assert new & known == set(), "introduced earlier"


@pytest.mark.parametrize("stem", [stem for stem in STEMS if not stem.startswith("00")])
def test_a_notebook_has_three_exercises_that_mark_the_graph(stem):
    exercises = [exercise for exercise in EXERCISES.values() if exercise.notebook == stem]
    assert len(exercises) >= 3
    for exercise in exercises:
        is_marked = any(hint.mark for hint in exercise.hints)
        assert is_marked != (exercise.id in WITHOUT_GRAPH), exercise.id


@pytest.mark.parametrize("stem", STEMS)
def test_a_model_runs_on_the_strict_device(stem):
    """The strict device refuses what a graphics card refuses."""
    lesson = importlib.import_module(f"tests.lessons.nb{stem[:2]}")
    for package in getattr(lesson, "PACKAGES", ()):
        pytest.importorskip(package, reason=f"needs {package}: the extra `course`")
    names = {}
    for cell in read(stem)["cells"]:
        if cell["cell_type"] == "code":
            exec(compile(definitions(source(cell)), stem, "exec"), names)
    names["device"] = edutorch.device("strict")
    exec(compile(textwrap.dedent(lesson.STRICT), f"STRICT of {stem}", "exec"), names)


def definitions(code):
    """Return a program's imports, functions, classes and constants, without what it computes."""
    kept = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    tree = ast.parse(code)
    tree.body = [node for node in tree.body if isinstance(node, kept) or is_constant(node)]
    return tree


def is_constant(node):
    if not isinstance(node, ast.Assign):
        return False
    if not all(isinstance(target, ast.Name | ast.Tuple) for target in node.targets):
        return False  # `x[0] = 1` changes what is not there
    allowed = ast.Constant | ast.Tuple | ast.List | ast.Dict | ast.UnaryOp | ast.expr_context
    return all(isinstance(part, allowed | ast.unaryop) for part in ast.walk(node.value))
