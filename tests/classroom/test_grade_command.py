"""`python -m edutorch grade`: from a folder of hand-ins to a folder of results, in jails."""

from __future__ import annotations

import json
import sys
import zipfile

import pytest

from edutorch.__main__ import main
from edutorch.classroom.exercise import find_exercise
from edutorch.classroom.results import Progress
from tests.classroom.test_class_grader import NOTEBOOK, RIGHT, notebook, write

if not sys.platform.startswith("linux"):
    pytest.skip("the jail is built of Linux's walls", allow_module_level=True)

from edutorch.classroom.jail.settings import Settings
from tests.classroom.jails import open_factory

SOFTMAX = find_exercise("02.softmax")
PAGE = NOTEBOOK.replace(".ipynb", ".html")
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


def feedback_of(folder, out):
    """Return the feedback of a run, by the path of each file."""
    top = folder / out / "feedback"
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*.*")}


@pytest.mark.parametrize("form", ["html", "notebook"])
def test_each_student_gets_feedback_and_two_runs_give_the_same(form, folder):
    half = "def gradient_of_logits(z, right):\n    return z.softmax(0)"
    write(folder / "class" / "dan" / NOTEBOOK, notebook(("cell-37", half)))
    for out in ("one", "two"):
        assert grade(folder, "--seed", "5", "--feedback", form, out=out) == 0
    files = feedback_of(folder, "one")
    name = NOTEBOOK if form == "notebook" else NOTEBOOK.replace(".ipynb", ".html")
    assert set(files) == {f"{student}/{name}" for student in [*CLASS, "dan"]}
    assert files == feedback_of(folder, "two")
    assert b"nothing is computed yet" in files[f"bob/{name}"]
    assert b"look here" in files[f"dan/{name}"], "the graph comes out of the jail"
    assert b"the code ended its process" in files[f"eve/{name}"]


@pytest.mark.slow
@pytest.mark.classroom
def test_a_run_that_is_killed_and_resumed_gives_the_same_feedback(folder, monkeypatch):
    assert grade(folder, "--seed", "5", out="whole") == 0
    add = Progress.add

    def die_at_bob(progress, result):
        if result.student == "bob":
            (folder / "out/feedback/bob" / PAGE).write_bytes(b"half")
            raise KeyboardInterrupt
        add(progress, result)

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "add", die_at_bob)
        with pytest.raises(KeyboardInterrupt):
            grade(folder, "--seed", "5")
    lines = (folder / "out" / "progress.jsonl").read_text().splitlines()
    kept = [json.loads(line)["student"] for line in lines]  # workers end in any order
    assert set(feedback_of(folder, "out")) == {f"{student}/{PAGE}" for student in [*kept, "bob"]}
    assert grade(folder, "--resume") == 0
    assert json.loads(read(folder, "run.json"))["graded"] == 3 - len(kept)
    assert feedback_of(folder, "out") == feedback_of(folder, "whole")
    for name in ("grades.csv", "results.json"):
        assert read(folder, name) == read(folder, name, out="whole")


def test_names_of_students_lead_nowhere_else(folder):
    with zipfile.ZipFile(folder / "class.zip", "w") as archive:
        for name in ("CON", "Ada", "ada", "c:"):
            archive.writestr(f"{name}/{NOTEBOOK}", RIGHT)
    arguments = ["--out", str(folder / "out"), "--only", "02.softmax"]
    assert main(["grade", str(folder / "class.zip"), *arguments]) == 0
    folders = {path.partition("/")[0] for path in feedback_of(folder, "out")}
    assert len(folders) == 4 and {"_CON", "c_"} < folders
    assert len({name.casefold() for name in folders}) == 4


def test_no_feedback(folder):
    assert grade(folder, "--feedback", "none") == 0
    assert not (folder / "out" / "feedback").exists()


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


@pytest.mark.parametrize(
    "option", ["--feedback=pdf", "--workers=0", "--timeout=0", "--timeout=nan", "--memory=-1"]
)
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


def test_random_numbers_are_the_same_ones_in_each_run(folder):
    chance = "torch.rand(2) * random.random() * np.random.rand()"
    source = f"import random\ndef gradient_of_logits(z, right): return z + {chance}"
    write(folder / "class" / "zoe.ipynb", notebook(("cell-37", source)))
    for out in ("one", "two"):
        assert grade(folder, "--seed", "5", "--student", "zoe", out=out) == 0
    assert "answer is [" in read(folder, "results.json", out="one")
    assert read(folder, "results.json", out="one") == read(folder, "results.json", out="two")
    assert feedback_of(folder, "one") == feedback_of(folder, "two")
