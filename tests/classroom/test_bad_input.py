"""Bad input costs one exercise its points: a sentence says who, where and why; the rest goes on."""

from __future__ import annotations

import json
import os
import sys
import time
import tracemalloc

import pytest

from edutorch.__main__ import main
from edutorch.classroom.answer_cells import MOST_CODE, Cell, read_cells, without_magics
from edutorch.classroom.exercise import find_exercise
from edutorch.classroom.submissions import Submission, SubmissionError, by_student, find_submissions
from tests.classroom.test_class_grader import NOTEBOOK, notebook, write

if not sys.platform.startswith("linux"):
    pytest.skip("the jail is built of Linux's walls", allow_module_level=True)

from edutorch.classroom.jail.settings import Settings
from tests.classroom.jails import open_factory

SOFTMAX, PRODUCT = find_exercise("02.softmax"), find_exercise("02.product")
PRODUCT_CELL = (PRODUCT.cell, PRODUCT.solution)
ANSWER = "def gradient_of_logits(z, right):\n    result = z.softmax(0)\n    result[right] -= 1\n"


def with_answer(code, id=SOFTMAX.cell):
    """Return a notebook whose other exercise is right."""
    return notebook(PRODUCT_CELL, (id, code))


WHOLE = with_answer(SOFTMAX.solution)

FILES = {
    "empty": ("", "is empty"),
    "truncated": (WHOLE[: len(WHOLE) // 2], "is no JSON, or cut off"),
    "no_notebook": ('{"cells": 3}', "is no notebook"),
    "not_utf8": (b"\xff\xfe\x00", "is no UTF-8 text"),
    "large": (200_000_000, "has 200 MB, which no notebook of the course has"),
    "much_code": (with_answer("x = 1\n" * 100_000), "characters of code: no notebook"),
}
"""Bad files: all exercises in them are lost. A number is the size of a file of zeros."""

CELLS = {
    "missing": (notebook(PRODUCT_CELL), 0, "no cell 'cell-37', and none that defines"),
    "renamed": (with_answer(SOFTMAX.solution, "another"), 2, ""),
    "of_another_notebook": (
        with_answer("def normalise(x): return x"), 0, "name 'gradient_of_logits' is not defined",
    ),
    "syntax": (with_answer("def gradient_of_logits(z:"), 0, "is no Python ("),
    "prints": (
        with_answer(ANSWER + "    print('x' * 10_000_000)\n    return result"), 2, "",
    ),
    "absent_import": (
        with_answer("import no_such_thing\n" + SOFTMAX.solution), 0,
        "ModuleNotFoundError: No module named 'no_such_thing'",
    ),
    "device": (with_answer(ANSWER + "    return result.to('cuda')"), 0, "cuda"),
    "meta": (with_answer(ANSWER + "    return result.to('meta')"), 0, "meta"),
    "nan": (with_answer(ANSWER + "    return result * np.nan"), 0, "answer is [nan"),
    "error": (with_answer(ANSWER + "    return 1 / 0"), 0, "your code raised ZeroDivisionError"),
    "half": (with_answer(ANSWER + "    return result if len(z) < 3 else z"), 0, "answer is ["),
}  # fmt: skip
"""Bad cells: the content, the points of `02.softmax`, the sentence."""


@pytest.fixture(scope="module")
def students(tmp_path_factory):
    """Return the results by student, and what was printed to stderr."""
    open_factory(Settings()).close()
    folder = tmp_path_factory.mktemp("bad")
    for name, content in {**FILES, **CELLS}.items():
        path = folder / "class" / name / NOTEBOOK
        write(path, content[0] if isinstance(content[0], str | bytes) else "")
        if content[0] == 200_000_000:
            os.truncate(path, content[0])
    write(folder / "class" / "twice" / f"a_{NOTEBOOK}", with_answer("x = 1"))
    write(folder / "class" / "twice" / f"b_{NOTEBOOK}", WHOLE)
    options = ["--only", "02.softmax", "--only", "02.product", "--timeout", "60"]
    status = main(["grade", str(folder / "class"), "--out", str(folder / "out"), *options])
    assert status == 1  # not all could be read
    document = json.loads((folder / "out" / "results.json").read_text(encoding="utf-8"))
    return {student["student"]: student for student in document["students"]}


def by_exercise(student):
    return {one["exercise"]: one for one in student["exercises"]}


def test_all_are_graded(students):
    assert students.keys() == {*FILES, *CELLS, "twice"}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_named_with_its_cause(name, students):
    student = students[name]
    (problem,) = student["problems"]
    assert f"{name}/{NOTEBOOK}" in problem  # the student and the file
    assert FILES[name][1] in problem
    assert student["points"] == 0


@pytest.mark.parametrize("name", CELLS)
def test_a_bad_cell_costs_its_exercise_alone(name, students):
    _, points, sentence = CELLS[name]
    one = by_exercise(students[name])["02.softmax"]
    assert one["points"] == points, one
    assert sentence in one["sentence"] and bool(one["sentence"]) == (points == 0)
    assert one["file"].endswith(f"{name}/{NOTEBOOK}")
    assert one["cell"] == {"missing": "", "renamed": "another"}.get(name, SOFTMAX.cell)
    assert "\n" not in one["sentence"]
    assert by_exercise(students[name])["02.product"]["points"] == PRODUCT.points
    assert not students[name]["problems"]


def test_a_hand_in_that_came_twice_is_told(students):
    assert students["twice"]["points"] == SOFTMAX.points + PRODUCT.points
    (problem,) = students["twice"]["problems"]
    assert f"b_{NOTEBOOK}: counts; 02_backprop_by_hand was also handed in as" in problem


def test_two_students_of_one_name_are_two(tmp_path):
    for number in (7, 8):
        write(tmp_path / f"leewei_{number}_36_{NOTEBOOK}", WHOLE)
    write(tmp_path / f"ada_9_36_{NOTEBOOK}", WHOLE)
    students, _ = by_student(find_submissions(tmp_path))
    assert list(students) == ["ada", "leewei_7", "leewei_8"]


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "ada" / NOTEBOOK
    write(path, "")
    os.truncate(path, 200_000_000)
    (submission,) = find_submissions(tmp_path)
    tracemalloc.start()
    try:
        with pytest.raises(SubmissionError, match="has 200 MB, which no notebook"):
            read_cells(submission)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


# Python that looks like IPython -------------------------------------------------------------------

UNCHANGED = [
    "def f(x):\n    return x  # why?",
    "x = (7\n     % 3)",
    'text = """\n% of all\n"""',
]


@pytest.mark.parametrize("source", UNCHANGED)
def test_what_is_python_stays_as_it_is(source):
    assert without_magics(source) == source


@pytest.mark.parametrize("line", ["%matplotlib inline", "!ls", "?x", "x?", "a.b??"])
def test_lines_for_ipython_are_taken_out(line):
    assert without_magics(f"{line}\ny = 1") == f"pass  # {line}\ny = 1"


@pytest.mark.parametrize("text", ["\n" * 400_000 + "%", " " * 400_000 + "!!", "a." * 200_000 + " "])
def test_a_long_cell_is_read_in_no_time(text):
    cells = [{"cell_type": "code", "source": text}]
    content = json.dumps({"cells": cells}).encode()
    assert len(text) < MOST_CODE
    start = time.monotonic()
    (cell,) = read_cells(Submission("ada", "ada.ipynb", lambda: content))
    assert isinstance(cell, Cell) and time.monotonic() - start < 10
