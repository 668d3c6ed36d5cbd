"""A class of hand-ins, in all layouts, with all that goes wrong: a sentence each; it goes on."""

from __future__ import annotations

import json
import time
import zipfile
from contextlib import contextmanager

import pytest

from edutorch.classroom.answer_cells import Cell, answer_cell, source_of_answer
from edutorch.classroom.attempt import Attempt, first_line, namespace, run_answer
from edutorch.classroom.class_grader import grade_class
from edutorch.classroom.exercise import find_exercise
from edutorch.classroom.exercise_grader import ClassSettings
from edutorch.classroom.results import GRADES, RESULTS, Progress, write_results
from edutorch.classroom.submissions import (
    MOST_BYTES,
    SubmissionError,
    by_student,
    find_submissions,
)

SOFTMAX = find_exercise("02.softmax")
SETTINGS = ClassSettings({SOFTMAX.id: SOFTMAX}, seed=7)
NOTEBOOK = "02_backprop_by_hand.ipynb"


def notebook(*cells, **more):
    """Return a notebook's text, of (id, source) pairs."""
    made = [{"cell_type": "code", "id": id, "source": source.splitlines(keepends=True),
             "metadata": {}, "outputs": []} for id, source in cells]  # fmt: skip
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": made, **more})


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


RIGHT = notebook(("cell-37", SOFTMAX.solution))


class InProcess:
    """Runs the student's code here: a stand-in for the jail."""

    def __init__(self, sources):
        self.names = dict(namespace())
        self.error = ""
        try:
            for source in sources:
                exec(source, self.names)
        except Exception as error:  # noqa: BLE001
            self.error = first_line(error)

    def ask(self, answer_source, case, forbid, seconds):
        if self.error:
            return Attempt(case, error=self.error)
        scope = dict(namespace())
        exec(answer_source, scope)
        return run_answer(scope["answer"], self.names, case, forbid)


@contextmanager
def in_process(sources):
    yield InProcess(sources)


def graded(folder, **more):
    students, errors = by_student(find_submissions(folder))
    results = {r.student: r for r in grade_class(students, in_process, SETTINGS, **more)}
    return results, errors


# Layouts ---------------------------------------------------------------------------------------

LAYOUTS = {
    "nbgrader": "submitted/ada/lesson02/" + NOTEBOOK,
    "canvas": f"ada_1815_36_{NOTEBOOK}",
    "canvas, late": f"ada_LATE_1815_36_{NOTEBOOK}",
    "moodle": f"ada_1815_assignsubmission_file_/{NOTEBOOK}",
    "a folder": "ada/" + NOTEBOOK,
    "a file": "ada.ipynb",
    "a Python file": "ada.py",
}


@pytest.mark.parametrize("zipped", ["", "whole", "each"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_names_the_student(layout, zipped, tmp_path):
    path = LAYOUTS[layout]
    content = SOFTMAX.solution if path.endswith(".py") else RIGHT
    folder = tmp_path / "class"
    if zipped == "whole":
        folder.mkdir()
        folder = folder / "all.zip"
        with zipfile.ZipFile(folder, "w") as archive:
            archive.writestr(path, content)
    elif zipped == "each":
        (folder / "ada").mkdir(parents=True)
        with zipfile.ZipFile(folder / "ada" / "hand_in.zip", "w") as archive:
            archive.writestr(NOTEBOOK, RIGHT)
    else:
        write(folder / path, content)
    results, errors = graded(folder)
    assert not errors
    assert results.keys() == {"ada"}
    assert results["ada"].points == SOFTMAX.points
    if zipped != "each":
        assert results["ada"].late == ("late" in layout)
        assert results["ada"].number == ("1815" if "1815" in path else "")


# What goes wrong -------------------------------------------------------------------------------

TRUNCATED = RIGHT[: len(RIGHT) // 2]
SAID = {
    "empty": ("", "is empty"),
    "truncated": (TRUNCATED, "is no JSON, or cut off"),
    "no notebook": ('{"cells": 3}', "is no notebook"),
    "a list": ("[]", "is no notebook"),
    "not UTF-8": (b"\xff\xfe\x00", "is no UTF-8 text"),
    "large": (b" " * (MOST_BYTES + 1), "which no notebook of the course has"),
    "deep": ("[" * 100_000, "is no JSON, or cut off"),
}


@pytest.mark.parametrize("name", SAID)
def test_a_file_that_cannot_be_read_is_a_problem_of_one_student(name, tmp_path):
    content, sentence = SAID[name]
    write(tmp_path / "ada" / NOTEBOOK, content)
    write(tmp_path / "bob" / NOTEBOOK, RIGHT)
    results, _ = graded(tmp_path)
    assert sentence in results["ada"].problems[0]
    assert f"ada/{NOTEBOOK}" in results["ada"].problems[0]
    assert results["ada"].points == 0
    assert results["bob"].points == SOFTMAX.points


CELLS = {
    "missing": (notebook(("other", "x = 1")), "no cell 'cell-37', and none that defines"),
    "syntax": (notebook(("cell-37", "def gradient_of_logits(z:")), "is no Python"),
    "an error": (notebook(("cell-37", "def gradient_of_logits(z, right): 1 / 0")),
                 "your code raised ZeroDivisionError"),
    "absent import": (notebook(("cell-37", "import no_such_thing\n" + SOFTMAX.solution)),
                      "ModuleNotFoundError: No module named 'no_such_thing'"),
    "not a number": (notebook(("cell-37", "def gradient_of_logits(z, right): return z * np.nan")),
                     "answer is [nan"),
}  # fmt: skip


@pytest.mark.parametrize("name", CELLS)
def test_a_bad_cell_costs_its_exercise(name, tmp_path):
    content, sentence = CELLS[name]
    write(tmp_path / "ada" / NOTEBOOK, content)
    results, _ = graded(tmp_path)
    (result,) = results["ada"].exercises
    assert sentence in result.sentence
    assert result.points == 0


def test_a_submission_has_a_deadline(tmp_path):
    seconds = []

    class Slow:
        def ask(self, answer_source, case, forbid, limit):
            seconds.append(limit)
            time.sleep(0.02)
            return Attempt(case, error="TimeoutError: the code did not answer in time")

    @contextmanager
    def slow(sources):
        yield Slow()

    write(tmp_path / "ada" / NOTEBOOK, RIGHT)
    settings = SETTINGS._replace(
        exercises={str(number): SOFTMAX for number in range(5)}, submission_seconds=0.1
    )
    students, _ = by_student(find_submissions(tmp_path))
    list(grade_class(students, slow, settings))
    assert seconds[0] == 0.1 and seconds[-1] == 0.001  # not the 10 seconds of an exercise


def test_to_start_a_jail_takes_no_time_of_the_students(tmp_path):
    seconds = []

    class Starting(InProcess):
        start_seconds = 50.0

        def ask(self, answer_source, case, forbid, limit):
            seconds.append(limit)
            return super().ask(answer_source, case, forbid, limit)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

    write(tmp_path / "ada" / NOTEBOOK, RIGHT)
    settings = SETTINGS._replace(exercises={"1": SOFTMAX, "2": SOFTMAX}, submission_seconds=0.001)
    students, _ = by_student(find_submissions(tmp_path))
    list(grade_class(students, Starting, settings))
    assert seconds[0] == 0.001 and seconds[-1] == settings.seconds


def test_nothing_and_something_else_was_handed_in(tmp_path):
    with pytest.raises(SubmissionError, match="there is no folder"):
        list(find_submissions(tmp_path / "none"))
    with pytest.raises(SubmissionError, match=r"no notebook, \.py or \.zip"):
        list(find_submissions(tmp_path))


def test_links_and_paths_lead_nowhere(tmp_path):
    write(tmp_path / "secret.ipynb", RIGHT)
    folder = tmp_path / "class"
    (folder / "ada").mkdir(parents=True)
    (folder / "ada" / NOTEBOOK).symlink_to(tmp_path / "secret.ipynb")
    with zipfile.ZipFile(folder / "bob.zip", "w") as archive:
        archive.writestr("../../evil.ipynb", RIGHT)
    write(folder / "carol.zip", b"no zip file")
    students, errors = by_student(find_submissions(folder))
    assert not students
    assert [str(error).partition(": ")[2].rpartition(": ")[2] for error in errors] == [
        "is a link; nothing was read through it", "leads out of the zip file",
        "is no zip file that can be read (File is not a zip file)",
    ]  # fmt: skip


def test_a_bomb_is_unpacked_no_further_than_allowed(tmp_path):
    with zipfile.ZipFile(tmp_path / "ada.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(NOTEBOOK, b" " * (MOST_BYTES + 1))
    results, _ = graded(tmp_path)
    assert "which no notebook of the course has" in results["ada"].problems[0]


# Cells -------------------------------------------------------------------------------------------


def test_an_answer_is_found_by_its_names_where_ids_were_lost():
    other = Cell("", "def other(): pass")
    first, second = Cell("a", SOFTMAX.solution), Cell("b", SOFTMAX.solution)
    assert answer_cell([other, first, second], SOFTMAX) is second
    tagged = Cell("c", SOFTMAX.solution, ("exercise",))
    assert answer_cell([tagged, first, second], SOFTMAX) is tagged
    by_id = Cell("cell-37", SOFTMAX.solution)
    assert answer_cell([by_id, first, second], SOFTMAX) is by_id
    assert answer_cell([other], SOFTMAX) is None


def test_only_definitions_that_the_answer_uses_are_run_besides():
    cells = [
        Cell("1", "import math\nimport os\nSCALE = 2.0\nx = print('no')\nfor i in []: pass"),
        Cell("2", "def helper(z):\n    return z * SCALE\n\ndef unused():\n    pass"),
        Cell("3", "this is no python"),
        Cell("4", "def answer(z):\n    return helper(math.exp(z))"),
    ]
    prelude, answer = source_of_answer(cells, cells[3])
    assert prelude == "import math\nSCALE = 2.0\ndef helper(z):\n    return z * SCALE"
    assert answer == cells[3].source


def test_magics_are_no_errors(tmp_path):
    write(
        tmp_path / "ada" / NOTEBOOK,
        notebook(("cell-37", "%matplotlib inline\n!ls\nx?\n" + SOFTMAX.solution)),
    )
    results, _ = graded(tmp_path)
    assert results["ada"].points == SOFTMAX.points


def test_old_notebooks_are_read(tmp_path):
    cell = {"cell_type": "code", "input": SOFTMAX.solution, "metadata": {}}
    write(tmp_path / "ada.ipynb", json.dumps({"nbformat": 3, "worksheets": [{"cells": [cell]}]}))
    results, _ = graded(tmp_path)
    assert results["ada"].points == SOFTMAX.points


# Results -----------------------------------------------------------------------------------------


def class_of(folder, *names):
    for name in names:
        write(
            folder / name / NOTEBOOK,
            RIGHT if name != "bob" else notebook(("cell-37", SOFTMAX.starter)),
        )
    return by_student(find_submissions(folder))[0]


def run(folder, out, resume=False, stop_after=99):
    students = class_of(folder, "ada", "bob", "=carol")
    out.mkdir(exist_ok=True)
    progress = Progress(out, resume)
    left = {name: files for name, files in students.items() if name not in progress.done}
    for count, result in enumerate(grade_class(left, in_process, SETTINGS, workers=2)):
        if count == stop_after:
            break
        progress.add(result)
    progress.close()
    write_results(out, progress.done.values(), SETTINGS.seed, {"host": "here"})
    return len(left)


def test_two_runs_with_one_seed_give_equal_files(tmp_path):
    for out in ("a", "b"):
        run(tmp_path / "class", tmp_path / out)
    for name in (GRADES, RESULTS):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    table = (tmp_path / "a" / GRADES).read_text().splitlines()
    assert table[0] == "student,id,late,02.softmax,points,maximum,problems"
    assert table[1:] == ["'=carol,,,2,2,2,", "ada,,,2,2,2,", "bob,,,0,0,2,"]


def test_a_killed_run_goes_on_with_the_rest(tmp_path):
    run(tmp_path / "class", tmp_path / "whole")
    run(tmp_path / "class", tmp_path / "parts", stop_after=1)
    with (tmp_path / "parts" / "progress.jsonl").open("a") as stream:
        stream.write('{"student": "half a li')
    assert run(tmp_path / "class", tmp_path / "parts", resume=True) == 2
    for name in (GRADES, RESULTS):
        whole, parts = ((tmp_path / out / name).read_bytes() for out in ("whole", "parts"))
        assert whole == parts
