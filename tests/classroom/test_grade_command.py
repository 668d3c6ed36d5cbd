"""`python -m edutorch grade`: from a folder of hand-ins to a folder of results, in jails."""

from __future__ import annotations

import json
import sys

import pytest

from edutorch.__main__ import main
from edutorch.classroom.exercise import find_exercise
from tests.classroom.test_class_grader import NOTEBOOK, RIGHT, notebook, write

if not sys.platform.startswith("linux"):
    pytest.skip("the jail is built of Linux's walls", allow_module_level=True)

from edutorch.classroom.jail.settings import Settings
from tests.classroom.jails import open_factory

SOFTMAX = find_exercise("02.softmax")
CLASS = {
    "ada": RIGHT,
    "bob": notebook(("cell-37", SOFTMAX.starter)),
    "eve": notebook(("cell-37", "import os\nos._exit(0)")),
}
POINTS = {"ada": 2.0, "bob": 0.0, "eve": 0.0}


@pytest.fixture(scope="module", autouse=True)
def walls():
    open_factory(Settings()).close()


@pytest.fixture
def folder(tmp_path):
    for name, content in CLASS.items():
        write(tmp_path / "class" / name / NOTEBOOK, content)
    return tmp_path


def grade(folder, *options, out="out"):
    only = [] if "--only" in options else ["--only", "02.softmax"]
    arguments = ["grade", str(folder / "class"), "--out", str(folder / out), *only, *options]
    return main(arguments)


def read(folder, name, out="out"):
    return (folder / out / name).read_text(encoding="utf-8")


def test_a_class_is_graded(folder, capsys):
    assert grade(folder, "--seed", "5") == 0
    assert "3 students, 2 of 6 points" in capsys.readouterr().out
    students = json.loads(read(folder, "results.json"))["students"]
    assert {student["student"]: student["points"] for student in students} == POINTS
    sentences = [student["exercises"][0]["sentence"] for student in students]
    assert sentences[1].startswith("nothing is computed yet")
    assert "the code ended its process" in sentences[2]
    run = json.loads(read(folder, "run.json"))
    assert run["seed"] == 5 and run["graded"] == 3
    assert run["walls"] and False not in run["walls"].values()


def test_a_resumed_run_grades_only_the_rest(folder):
    assert grade(folder, "--seed", "5", out="whole") == 0
    assert grade(folder, "--seed", "5", "--student", "ada") == 0
    assert grade(folder, "--resume") == 0
    assert json.loads(read(folder, "run.json"))["graded"] == 2
    for name in ("grades.csv", "results.json"):
        assert read(folder, name) == read(folder, name, out="whole")


BAD = {
    "an unknown student": (["--student", "zoe"], "nobody is called zoe"),
    "an unknown exercise": (["--only", "02.softmx"], "there is no exercise '02.softmx'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_choices_are_said_before_anybody_is_graded(name, folder, capsys):
    options, sentence = BAD[name]
    assert grade(folder, *options) == 1
    assert sentence in capsys.readouterr().err
    assert not (folder / "out").exists()


@pytest.mark.parametrize("option", ["--workers=0", "--timeout=0", "--timeout=nan", "--memory=-1"])
def test_bad_numbers_are_refused(option, folder, capsys):
    with pytest.raises(SystemExit):
        grade(folder, option)
    assert option.split("=")[0] in capsys.readouterr().err


def test_another_seed_cannot_be_resumed(folder, capsys):
    grade(folder, "--seed", "5", "--student", "ada")
    assert grade(folder, "--resume", "--seed", "6") == 1
    assert "continues a run with seed 5, not 6" in capsys.readouterr().err


def test_a_folder_that_is_not_there(tmp_path, capsys):
    assert main(["grade", str(tmp_path / "none")]) == 1
    assert "there is no folder" in capsys.readouterr().err
