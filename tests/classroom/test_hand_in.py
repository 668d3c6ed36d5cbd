"""`classroom hand-in`: one file with a student's notebooks, as the grader reads it."""

from __future__ import annotations

import json
import sys
import zipfile

import pytest

from edutorch.__main__ import main
from edutorch.classroom import EXERCISES, load_exercises
from edutorch.classroom.class_grader import WITHOUT_EXERCISES, grade_class
from edutorch.classroom.exercise_grader import ClassSettings
from edutorch.classroom.submissions import MOST_BYTES, by_student, find_submissions
from tests.classroom.test_class_grader import NOTEBOOK, RIGHT, SETTINGS, SOFTMAX, in_process, write
from tests.classroom.test_class_grader import notebook as notebook_text
from tests.house import ROOT

load_exercises()


@pytest.fixture
def student(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "notebooks" / NOTEBOOK, RIGHT)
    return tmp_path


def hand_in(*options):
    return main(["classroom", "hand-in", *options])


def graded(folder, settings=SETTINGS):
    students, errors = by_student(find_submissions(folder))
    assert errors == []
    return {r.student: r for r in grade_class(students, in_process, settings)}


@pytest.mark.parametrize("name", ["ada", "Ada Lovelace", "A. Lovelace", "Zoë Ødegård", "张伟"])
def test_a_hand_in_is_graded(name, student, capsys):
    assert hand_in("--student", name) == 0
    assert f"hand_in/{name}.zip: {NOTEBOOK}\n" in capsys.readouterr().out.replace("\\", "/")
    results = graded(student / "hand_in")
    assert results.keys() == {name}
    assert results[name].points == SOFTMAX.points and results[name].problems == ()


def test_the_whole_course_is_handed_in(student):
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        if path.name != NOTEBOOK:
            write(student / "notebooks" / path.name, path.read_bytes())
    assert hand_in("--student", "ada", "--to", "box") == 0
    for settings in (SETTINGS, ClassSettings({**EXERCISES}, 7)):
        (result,) = graded(student / "box", settings).values()
        assert result.points == SOFTMAX.points and result.problems == ()


def test_lessons_without_exercises_are_known():
    lessons = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert lessons - {exercise.notebook for exercise in EXERCISES.values()} == {*WITHOUT_EXERCISES}


def test_a_file_beside_the_notebook_is_a_problem_not_the_answer(student):
    write(student / "class" / "ada" / NOTEBOOK, RIGHT)
    write(student / "class" / "ada" / "zz_notes.ipynb", notebook_text(("a", "x = 1")))
    (result,) = graded(student / "class").values()
    assert result.points == SOFTMAX.points
    assert "zz_notes.ipynb: is none of the notebooks" in result.problems[0]


def test_another_hand_in_replaces_the_first(student):
    write(student / "notebooks" / NOTEBOOK, notebook_text(("cell-37", SOFTMAX.starter)))
    assert hand_in("--student", "ada") == 0
    write(student / "notebooks" / NOTEBOOK, RIGHT)
    assert hand_in("--student", "ada") == 0
    assert [path.name for path in (student / "hand_in").iterdir()] == ["ada.zip"]
    assert graded(student / "hand_in")["ada"].points == SOFTMAX.points


def test_the_name_is_asked_for(student, monkeypatch, capsys):
    monkeypatch.setattr("builtins.input", lambda question: " ada ")
    assert hand_in() == 0
    assert (student / "hand_in" / "ada.zip").exists()

    def end_of_input(question):
        raise EOFError

    monkeypatch.setattr("builtins.input", end_of_input)
    assert hand_in() == 1
    assert "add --student NAME" in capsys.readouterr().err


def test_notebooks_made_for_a_student_are_that_students(student, capsys):
    own = notebook_text(("a", "x = 1"), metadata={"edutorch": {"student": "ada"}})
    write(student / "notebooks" / "01_scalar_autograd.ipynb", own)
    assert hand_in("--student", "bob") == 1
    assert "were made for 'ada', not for 'bob'" in capsys.readouterr().err
    assert not (student / "hand_in").exists()
    assert hand_in() == 0
    with zipfile.ZipFile(student / "hand_in" / "ada.zip") as archive:
        assert archive.namelist() == ["ada/01_scalar_autograd.ipynb", f"ada/{NOTEBOOK}"]
    write(student / "notebooks" / "05_reading_graphs.ipynb", own.replace('"ada"', '"eve"'))
    assert hand_in() == 1
    assert "were made for several: ada, eve" in capsys.readouterr().err


BAD = {
    "damaged": (RIGHT[:50], "ada", "is damaged, or no notebook"),
    "no notebook": (json.dumps([]), "ada", "is damaged, or no notebook"),
    "large": (" " * (MOST_BYTES + 1), "ada", "which no notebook of the course has"),
    "a path": (RIGHT, "../ada", "'../ada' cannot be the name of a folder"),
    "a device": (RIGHT, "con", "'con' cannot be the name of a folder"),
    "long": (RIGHT, "a" * 101, "cannot be the name of a folder"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_graded_is_not_handed_in(name, student, capsys):
    content, who, sentence = BAD[name]
    write(student / "notebooks" / NOTEBOOK, content)
    assert hand_in("--student", who) == 1
    assert sentence in capsys.readouterr().err
    assert not (student / "hand_in").exists()


def test_a_folder_without_notebooks(student, capsys):
    assert hand_in("elsewhere", "--student", "ada") == 1
    assert "there is no notebook in 'elsewhere'" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="a file stands where the folder would be")
def test_a_folder_that_cannot_be_written(student, capsys):
    write(student / "hand_in", "a file")
    assert hand_in("--student", "ada") == 1
    assert "ada.zip: cannot be written: File exists" in capsys.readouterr().err
