"""nbgrader and otter grade what we export, and give the points that our own grader gives.

    make interop

It makes an environment with both of them, in which these tests run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig

import pytest

from edutorch.__main__ import main
from tests.classroom import hand_ins
from tests.classroom.hand_ins import CLASS, EXERCISES, NOTEBOOKS, POINTS, TOTAL, answered

pytestmark = pytest.mark.interop
for library in ("nbgrader", "otter"):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"needs {library}: `make interop`", allow_module_level=True)


# nbgrader calls programs that lie beside Python.
PATHS = {**os.environ, "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"}


def run(*command, folder):
    arguments = [sys.executable, "-m", *map(str, command)]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, env=PATHS)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def export(grader, out, *options):
    assert main(["classroom", "export", grader, *map(str, NOTEBOOKS), "--out", str(out),
                 "--assignment", "lesson", *options]) == 0  # fmt: skip


def own_points(folder, out):
    """Return what our grader gives, by student and exercise."""
    only = [argument for id in EXERCISES for argument in ("--only", id)]
    run("edutorch", "grade", folder, "--out", out, "--walls", "fewer", "--workers", "1", *only,
        folder=folder)  # fmt: skip
    students = json.loads((out / "results.json").read_text("utf-8"))["students"]
    return {
        student["student"]: {one["exercise"]: one["points"] for one in student["exercises"]}
        for student in students
    }


@pytest.fixture(scope="module", params=["ours", "nbgrader's"])
def course(request, tmp_path_factory):
    """A course of nbgrader: exported, handed out in our or its own version, handed in, graded."""
    folder = tmp_path_factory.mktemp("course")
    export("nbgrader", folder)
    ours = folder / "ours"
    (folder / "release").rename(ours)
    run("nbgrader", "generate_assignment", "lesson", "--create", folder=folder)
    release = {"ours": ours, "nbgrader's": folder / "release"}[request.param] / "lesson"
    hand_ins.write_class(folder / "submitted", sorted(release.glob("*.ipynb")), "lesson")
    run("nbgrader", "autograde", "lesson", "--create", folder=folder)
    return folder


def nbgrader_points(course):
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course}/gradebook.db") as gradebook:
        return {
            submission.student.id: {
                grade.name: grade.score for notebook in submission.notebooks
                for grade in notebook.grades
            }
            for submission in gradebook.assignment_submissions("lesson")
        }  # fmt: skip


def test_nbgrader_gives_our_points(course, tmp_path):
    theirs = nbgrader_points(course)
    ours = own_points(course / "submitted", tmp_path / "grades")
    assert {student: sum(points.values()) for student, points in theirs.items()} == POINTS
    for student, points in ours.items():
        named = {f"test-{id.replace('.', '_')}": value for id, value in points.items()}
        assert theirs[student] == named


def test_nbgrader_takes_our_cells(course):
    from nbgrader.nbgraderformat import MetadataValidator, read

    for folder in ("source", "ours"):
        for path in (course / folder / "lesson").glob("*.ipynb"):
            MetadataValidator().validate_nb(read(path, as_version=4))


def test_nbgrader_restores_a_test_that_was_changed(course):
    text = (course / "autograded" / "ada" / "lesson" / NOTEBOOKS[0].name).read_text("utf-8")
    assert "assert_right(" in text


@pytest.fixture(scope="module")
def autograders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("otter")
    export("otter", folder, "--seed", "7")
    return folder / "lesson"


@pytest.mark.parametrize("student", CLASS)
def test_otter_gives_our_points(student, autograders, tmp_path):
    total = {}
    for notebook in NOTEBOOKS:
        folder = autograders / notebook.stem
        hand_in = tmp_path / notebook.name
        hand_in.write_bytes(answered(folder / notebook.name, CLASS[student]))
        run("otter", "run", "-a", folder / "autograder.zip", "-o", tmp_path, hand_in,
            folder=tmp_path)  # fmt: skip
        for test in json.loads((tmp_path / "results.json").read_text("utf-8"))["tests"]:
            if "score" in test:
                name = test["name"].replace("_", ".")
                total[name] = total.get(name, 0) + test["score"]
    solved = {id: code == EXERCISES[id].solution for id, code in CLASS[student].items()}
    expected = {id: one.points * solved.get(id, False) for id, one in EXERCISES.items()}
    assert total == expected
    assert sum(total.values()) == POINTS[student]


def test_the_class_has_some_of_each():
    assert POINTS["ada"] == TOTAL > POINTS["cleo"] > POINTS["bob"] == 0
