"""What is exported for nbgrader, otter and Gradescope, and what is refused."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import zipfile

import pytest

from edutorch.__main__ import main
from edutorch.classroom import EXERCISES, load_exercises
from edutorch.classroom.interop import assert_right
from edutorch.classroom.interop.gradescope import gradescope_results
from edutorch.classroom.interop.lessons import read_lesson
from edutorch.classroom.interop.nbgrader import cells_of
from edutorch.classroom.interop.otter import test_of as otter_test
from edutorch.classroom.interop.solution_markers import BEGIN, END, marked_solution
from edutorch.classroom.results import ExerciseResult, StudentResult
from tests.classroom.hand_ins import EXERCISES as CHOSEN
from tests.classroom.hand_ins import NOTEBOOKS, SOLVED, WRONG, answered

jsonschema = pytest.importorskip("jsonschema", reason="needs the extra `test`")

load_exercises()
STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")


def export(grader, *arguments):
    return main(["classroom", "export", grader, *map(str, arguments)])


# The marked solution -----------------------------------------------------------------------------


def handed_out(marked):
    """Return what nbgrader makes of a marked solution for students."""
    lines, inside = [], False
    for line in marked.splitlines():
        if BEGIN in line:
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + stub for stub in STUB]
        inside = (inside or BEGIN in line) and END not in line
        if not inside and END not in line:
            lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize("id", EXERCISES)
def test_a_marked_solution_is_the_solution_and_its_rest_is_none(id):
    exercise = EXERCISES[id]
    marked = marked_solution(exercise)
    lines = [line for line in marked.splitlines() if BEGIN not in line and END not in line]
    assert "\n".join(lines) == exercise.solution.rstrip("\n")
    out = handed_out(marked)
    ast.parse(out)
    assert STUB[1] in out and len(out.splitlines()) < len(marked.splitlines()) + 2


# nbgrader ----------------------------------------------------------------------------------------


def nbgrader_cells(path):
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return {
        cell["metadata"]["nbgrader"]["grade_id"]: cell
        for cell in cells
        if "nbgrader" in cell["metadata"]
    }


def test_nbgrader_gets_answers_tests_and_locked_texts(tmp_path):
    assert export("nbgrader", *NOTEBOOKS, "--out", tmp_path, "--assignment", "lesson02") == 0
    path = tmp_path / "source" / "lesson02" / NOTEBOOKS[0].name
    cells = nbgrader_cells(path)
    test, answer, task = cells["test-02_softmax"], cells["cell-37"], cells["task-02_softmax"]
    assert test["metadata"]["nbgrader"] == {
        "schema_version": 3, "grade_id": "test-02_softmax", "grade": True, "solution": False,
        "locked": True, "task": False, "points": 2,
    }  # fmt: skip
    assert answer["metadata"]["nbgrader"]["solution"] is True
    assert BEGIN in "".join(answer["source"])
    assert task["metadata"]["nbgrader"]["locked"] is True
    assert task["metadata"]["editable"] is False
    release = tmp_path / "release" / "lesson02" / NOTEBOOKS[0].name
    handed = nbgrader_cells(release)
    assert "".join(handed["cell-37"]["source"]) + "\n" == CHOSEN["02.softmax"].starter
    for version in (path, release):
        text = version.read_text("utf-8")
        assert "<summary>Solution" not in text
        assert "torch.check" not in text
    assert SOLVED["02.softmax"].splitlines()[2].strip() not in release.read_text("utf-8")


def test_only_some_exercises_are_exported(tmp_path):
    assert export("nbgrader", NOTEBOOKS[0], "--only", "02.softmax", "--out", tmp_path) == 0
    path = tmp_path / "release" / NOTEBOOKS[0].stem / NOTEBOOKS[0].name
    assert nbgrader_cells(path).keys() == {"cell-37", "test-02_softmax", "task-02_softmax"}
    assert 'torch.check(\\"02.product\\")' in path.read_text("utf-8")


def test_an_answer_without_a_check_gets_one(tmp_path):
    document = json.loads(NOTEBOOKS[0].read_text("utf-8"))
    for cell in document["cells"]:
        cell["metadata"].pop("tags", None)
    path = tmp_path / NOTEBOOKS[0].name
    path.write_text(json.dumps(document), "utf-8")
    lesson = read_lesson(path)
    made = [cell for part in lesson.parts() for cell in cells_of(part, "release")]
    ids = [cell["id"] for cell in made]
    assert ids[ids.index("cell-33") + 1] == "test-02_product"
    assert len(ids) == len(set(ids)) == len(document["cells"]) + 3


# otter -------------------------------------------------------------------------------------------


def test_otter_gets_visible_tests_in_the_notebook_and_hidden_ones_in_files(tmp_path):
    requirement = "edutorch @ file:///somewhere"
    assert export("otter", *NOTEBOOKS, "--out", tmp_path, "--assignment", "lesson", "--seed", "7",
                  "--install", requirement) == 0  # fmt: skip
    folder = tmp_path / "lesson" / NOTEBOOKS[0].stem
    assert (folder / "requirements.txt").read_text("utf-8").strip() == requirement
    document = json.loads((folder / NOTEBOOKS[0].name).read_text("utf-8"))
    about = document["metadata"]["otter"]
    assert about["OK_FORMAT"] is True
    assert about["tests"].keys() == {"02_product", "02_softmax", "02_centre"}
    cases = [case for test in about["tests"].values() for case in test["suites"][0]["cases"]]
    assert not any(case["hidden"] for case in cases)
    sources = ["".join(cell["source"]) for cell in document["cells"]]
    assert 'grader.check("02_softmax")' in sources
    assert "otter.Notebook('02_backprop_by_hand.ipynb')" in "".join(sources)
    names = {}
    exec((folder / "tests" / "02_softmax.py").read_text("utf-8"), names)
    visible, hidden = names["test"]["suites"][0]["cases"]
    assert (visible["hidden"], visible["points"]) == (False, 0)
    assert (hidden["hidden"], hidden["points"]) == (True, 2)
    assert "seed=7" in hidden["code"] and "seed" not in visible["code"]


def test_the_code_of_otters_tests_is_a_doctest_of_the_answer():
    import doctest

    for code, failures in ((SOLVED["02.product"], 0), (WRONG["02.product"], 1)):
        names = {}
        exec(code, names)
        for case in otter_test(CHOSEN["02.product"], seed=3)["suites"][0]["cases"]:
            test = doctest.DocTestParser().get_doctest(case["code"], names, "test", None, 0)
            assert doctest.DocTestRunner().run(test, out=[].append).failed == failures


def test_the_answers_of_the_caller_are_asked():
    exec(SOLVED["02.product"], globals())
    assert_right("02.product")
    exec(WRONG["02.product"], globals())
    with pytest.raises(AssertionError, match=r"02\.product: "):
        assert_right("02.product", seed=1)


# Gradescope --------------------------------------------------------------------------------------

VISIBILITY = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
FORMAT = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
SCHEMA = {
    "type": "object",
    "properties": {
        "score": {"type": "number"}, "execution_time": {"type": "number"},
        "output": {"type": "string"}, "output_format": FORMAT, "test_output_format": FORMAT,
        "test_name_format": FORMAT, "visibility": VISIBILITY, "stdout_visibility": VISIBILITY,
        "extra_data": {"type": "object"}, "leaderboard": {"type": "array"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "score": {"type": "number"}, "max_score": {"type": "number"},
                    "status": {"enum": ["passed", "failed"]}, "name": {"type": "string"},
                    "name_format": FORMAT, "number": {"type": "string"},
                    "output": {"type": "string"}, "output_format": FORMAT,
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "visibility": VISIBILITY, "extra_data": {"type": "object"},
                },
                "additionalProperties": False,
            },
        },
    },
    "anyOf": [{"required": ["score"]}, {"required": ["tests"]}],
    "additionalProperties": False,
}  # fmt: skip
"""The fields of `results.json` that Gradescope's documentation names."""


def autograder(folder, hand_in, visibility="after_published"):
    """Export an autograder, unpack it as Gradescope does, and let it grade a hand-in."""
    zipped = folder / "autograder.zip"
    assert export("gradescope", *NOTEBOOKS, "--out", zipped, "--visibility", visibility) == 0
    root = folder / "autograder"
    with zipfile.ZipFile(zipped) as archive:
        archive.extractall(root / "source")
        assert archive.getinfo("run_autograder").external_attr >> 16 == 0o100755
    for name, content in hand_in.items():
        path = root / "submission" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    environment = {**os.environ, "AUTOGRADER_ROOT": str(root), "AUTOGRADER_PYTHON": sys.executable}
    command = ["bash", root / "source" / "run_autograder"]
    subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True)
    document = json.loads((root / "results" / "results.json").read_text("utf-8"))
    jsonschema.validate(document, SCHEMA)
    return document


@pytest.fixture(scope="module")
def walls():
    """Skip a test that grades where the walls of a jail are missing."""
    if sys.platform != "linux":
        pytest.skip("the jail is Linux's")
    from edutorch.classroom.jail.settings import Settings
    from tests.classroom.jails import open_factory

    open_factory(Settings()).close()


@pytest.mark.usefixtures("walls")
def test_gradescope_gets_a_result_for_each_exercise(tmp_path):
    answers = {**SOLVED, "02.softmax": WRONG["02.softmax"]}
    hand_in = {
        # A name that looks like a file of Canvas's belongs to the same student.
        "me_1_2_02_backprop_by_hand.ipynb": answered(NOTEBOOKS[0], answers),
        "deep/er/05_reading_graphs.ipynb": answered(NOTEBOOKS[1], answers),
    }
    document = autograder(tmp_path, hand_in)
    assert document["score"] == sum(one.points for one in CHOSEN.values()) - 2
    by_name = {test["name"]: test for test in document["tests"]}
    assert by_name.keys() == CHOSEN.keys()
    softmax = by_name["02.softmax"]
    assert (softmax["score"], softmax["max_score"], softmax["status"]) == (0, 2, "failed")
    assert softmax["output"]
    assert {test["visibility"] for test in document["tests"]} == {"after_published"}
    assert document["stdout_visibility"] == "hidden"
    assert set(document["extra_data"]) == {"seed", "walls", "python", "seconds"}


@pytest.mark.usefixtures("walls")
def test_gradescope_says_why_nothing_was_graded(tmp_path):
    document = autograder(tmp_path, {"notes.txt": b"no notebook"})
    assert document["score"] == 0
    assert "no notebook, .py or .zip file" in document["output"]


def test_a_wheel_is_put_into_the_autograder(tmp_path):
    wheel = tmp_path / "edutorch-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    assert export("gradescope", NOTEBOOKS[0], "--out", tmp_path / "a.zip", "--install", wheel) == 0
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.read(wheel.name) == b"wheel"
        assert f"/autograder/source/{wheel.name}[classroom]" in archive.read("setup.sh").decode()
        assert "--visibility visible --only 02.product" in archive.read("run_autograder").decode()
    for name in ("setup.sh", "run_autograder"):
        with zipfile.ZipFile(tmp_path / "a.zip") as archive:
            script = archive.read(name)
        subprocess.run(["bash", "-n"], input=script, check=True)


def test_the_command_offers_all_visibilities():
    from edutorch.classroom.interop.gradescope import VISIBILITIES

    assert set(VISIBILITIES) == set(VISIBILITY["enum"])


@pytest.mark.parametrize("visibility", VISIBILITY["enum"])
def test_results_for_gradescope_are_valid(visibility):
    one = ExerciseResult("02.softmax", 0.0, 2, 0, 3, "look <b>here</b>", 1)
    student = StudentResult("ada", "", False, ("a.ipynb",), (one,), ("a.ipynb: is empty",))
    better = student._replace(exercises=(one._replace(points=2.0, sentence=""),))
    document = gradescope_results([student, better, student], visibility, {})
    jsonschema.validate(document, SCHEMA)
    assert document["score"] == 2
    assert document["tests"][0]["output_format"] == "text"


# Bad input ---------------------------------------------------------------------------------------

REFUSED = {
    "no notebook": (["nowhere.ipynb"], "there is no notebook 'nowhere.ipynb'"),
    "broken": (["broken.ipynb"], "broken.ipynb: is no notebook"),
    "no exercise": ([NOTEBOOKS[0].with_name("00_five_minute_tour.ipynb")], "has no exercise"),
    "no cell": (["05_reading_graphs.ipynb"], "has 0 cells 'cell-32', where the answer to"),
    "twice": ([NOTEBOOKS[0], NOTEBOOKS[0]], "02_backprop_by_hand.ipynb is named twice"),
    "another's exercise": ([NOTEBOOKS[0], "--only", "05.carry"], "05.carry is in none of the"),
    "unknown exercise": ([NOTEBOOKS[0], "--only", "02.sftmax"], "there is no exercise '02.sftmax'"),
    "a path as name": ([NOTEBOOKS[0], "--assignment", "../x"], "'../x' is no name for a folder"),
    "no name": ([NOTEBOOKS[0], "--assignment", ""], "'' is no name for a folder"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("grader", ["nbgrader", "otter"])
def test_bad_input_is_one_sentence_and_nothing_is_written(
    name, grader, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.ipynb").write_text("{", "utf-8")
    empty = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "05_reading_graphs.ipynb").write_text(json.dumps(empty), "utf-8")
    arguments, sentence = REFUSED[name]
    assert export(grader, *arguments, "--out", "out") == 1
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_is_there_stays(tmp_path, capsys):
    mine = tmp_path / "release" / "lesson" / "mine.ipynb"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine", "utf-8")
    arguments = (NOTEBOOKS[0], "--out", tmp_path, "--assignment", "lesson")
    assert export("nbgrader", *arguments) == 1
    assert "is there already; nothing was written" in capsys.readouterr().err
    assert not (tmp_path / "source").exists()
    assert mine.read_text("utf-8") == "mine"
    (tmp_path / "a.zip").write_text("mine", "utf-8")
    assert export("gradescope", NOTEBOOKS[0], "--out", tmp_path / "a.zip") == 1
    assert "is there already; nothing was written" in capsys.readouterr().err


def test_wheels_that_cannot_be_used_are_refused(tmp_path, capsys):
    assert (
        export("gradescope", NOTEBOOKS[0], "--out", tmp_path / "a.zip", "--install", "x.whl") == 1
    )
    assert "--install: there is no wheel 'x.whl'" in capsys.readouterr().err
    assert export("otter", NOTEBOOKS[0], "--out", tmp_path / "o", "--install", "x.whl") == 1
    assert "--install takes no wheel for otter" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
