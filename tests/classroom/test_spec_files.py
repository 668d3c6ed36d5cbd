"""Teachers' own exercises: read from a folder, tested before anybody is graded, never in a jail."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import edutorch
from edutorch.__main__ import main
from edutorch.classroom import EXERCISES
from edutorch.classroom.exercise import SpecError, load_exercises
from edutorch.classroom.jail.settings import Settings
from edutorch.classroom.spec_check import check_exercise, check_solutions
from edutorch.classroom.spec_files import load_specs, read_specs
from tests.classroom.own_exercises import RIGHT, SPEC, TABLE, WRONG, write_class, write_specs

on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the jail is built of Linux's walls"
)


def load(folder):
    return load_specs(read_specs([folder]))


# Loading -----------------------------------------------------------------------------------------


def test_exercises_are_loaded_and_do_not_join_the_course(tmp_path):
    course = dict(load_exercises())
    exercises = load(write_specs(tmp_path))
    assert [*exercises] == ["71.mean"]
    assert course == EXERCISES
    assert exercises["71.mean"].answer_source().startswith("def answer(theirs, x):")
    assert load(tmp_path / "specs").keys() == exercises.keys()  # once more is no collision


def changed(old, new):
    assert old in SPEC
    return SPEC.replace(old, new)


FILES = {
    "syntax": ("class Mean(\n", "a.py, line 1: is no Python"),
    "no exercise": ("x = 1\n", "a.py: there is no exercise in it"),
    "no solution": (SPEC[: SPEC.index("    solution")], "a.py: Mean: an exercise needs `solution`"),
    "no cases": (changed("def cases", "def other"), "a.py: Mean: an exercise needs `cases`"),
    "an id": (changed('"71.mean"', '"mean"'), "a.py: mean: an id is like"),
    "an error": ("import edutorch\n1 / 0\n", "a.py, line 2: raised ZeroDivisionError"),
    "ends": ("raise SystemExit(3)\n", "a.py, line 1: raised SystemExit: 3"),
    "an error in a field": (changed("points = 2", "points = 1 / 0"), ": `points`: raised Zero"),
    "a neighbour": ("import nb72_none\n", "a.py, line 1: raised ModuleNotFoundError"),
    "points": (changed("points = 2", 'points = "2"'), "a.py: 71.mean: `points` is a number above"),
    "names": (changed('("average",)', '"average"'), "a.py: 71.mean: `names` is a tuple of names"),
    "forbid": (changed('frozenset({"mean"})', '"mean"'), "a.py: 71.mean: `forbid` is a frozenset"),
    "a hint": (changed("hint=0", "hint=1"), "a.py: 71.mean: `mutants` names a hint that is not"),
    "hints": (changed("    hints = (", "    hints = 3, ("), "a.py: 71.mean: `hints` is a tuple"),
    "mutants": (changed("    mutants = (", "    mutants = 3, ("), "`mutants` is a tuple of Mutant"),
    "text": (changed("    starter = ", "    starter = 3, "), "a.py: 71.mean: `starter` is text"),
    "answer": (changed("theirs.average(", "theirs.average(load_specs"), "`answer` uses load_specs"),
    "of the course": (changed("71.mean", "02.softmax"), "there is an exercise '02.softmax' in "),
}


@pytest.mark.parametrize("name", FILES)
def test_an_error_names_file_and_field(name, tmp_path):
    source, sentence = FILES[name]
    with pytest.raises(SpecError) as error:
        load(write_specs(tmp_path, a=source))
    assert sentence in str(error.value)
    assert str(tmp_path / "specs" / "a.py") in str(error.value)


def test_a_collision_names_both_files(tmp_path):
    folder = write_specs(tmp_path, a=SPEC, b=SPEC)
    with pytest.raises(SpecError) as error:
        load(folder)
    sentence = f"{folder / 'b.py'}: there is an exercise '71.mean' in {folder / 'a.py'}, too"
    assert sentence in str(error.value)
    with pytest.raises(SpecError, match="nb02_backprop_by_hand"):
        load(write_specs(tmp_path / "other", a=SPEC.replace("71.mean", "02.softmax")))


def test_folders_that_are_refused(tmp_path):
    inside = Path(edutorch.__file__).parent / "classroom" / "specs"
    standard = Path(os.__file__).parent / "json"
    rows = {
        tmp_path / "none": "there is no such folder",
        tmp_path: "there is no .py file in it",
        inside: "which students can read",
        standard: "which students can read",
    }
    for folder, sentence in rows.items():
        with pytest.raises(SpecError, match=sentence):
            read_specs([folder])
    (tmp_path / "a.py").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match=r"a\.py: is no UTF-8 text"):
        read_specs([tmp_path])


# Testing exercises -------------------------------------------------------------------------------

FAULTS = {
    "solution": (changed("x.sum() / len(x)\\n", "x.sum()\\n"),
                 "71.mean: the `solution` fails its own check: that is the sum"),
    "solution raises": (changed("return x.sum() / len(x)\\n", "return x.summ()\\n"),
                        "the `solution` fails its own check: your code raised AttributeError"),
    "solution forbidden": (changed("x.sum() / len(x)\\n", "x.mean()\\n"),
                           "fails its own check: write it without `mean`"),
    "cases raises": (changed("yield {", "yield 1 / 0, {"), "71.mean: `cases` raised ZeroDivision"),
    "no case": (changed("(3, 8)", "()"), "71.mean: `cases` yields nothing"),
    "an object": (changed('yield {"x": rng', 'yield {"x": rng}; {"x": rng'), "holds a Generator"),
    "other cases": (changed("rng.normal", "np.random.default_rng().normal"),
                    "`cases` draws other cases for the same seed: use `rng` alone"),
    "right raises": (changed("np.mean(x)", "np.nomean(x)"), "71.mean: `right` raised Attribute"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_nobody_is_graded_with_a_wrong_block(name, tmp_path, capsys):
    source, sentence = FAULTS[name]
    folder = write_specs(tmp_path, a=source)
    with pytest.raises(SpecError) as error:
        check_solutions(load(folder), {"71.mean": 5})
    assert f"{folder / 'a.py'}: " in str(error.value) and sentence in str(error.value)
    hand_ins, out = write_class(tmp_path, {"ada": RIGHT}), tmp_path / "out"
    arguments = ["grade", str(hand_ins), "--specs", str(folder), "--out", str(out)]
    assert main(arguments) == 1
    assert sentence in capsys.readouterr().err
    assert not (out / "progress.jsonl").exists()
    assert main(["grade", "--check-specs", "--specs", str(folder)]) == 1
    printed = capsys.readouterr().out
    assert "REFUSED" in printed and sentence in printed
    assert printed.count(str(folder / "a.py")) == 1


WEAK = {
    "starter": (changed("return x  # your code", "return x.sum() / len(x)"), "ACCEPTED",
                "the untouched `starter` is accepted"),
    "mutant": (changed("return x[0]", "return x.sum() / len(x)"), "3 of 4",
               "`mutants`[2] is accepted"),
    "hint": (changed("x[0]\")", "x[0]\", hint=0)"), "3 of 4",
             "`mutants`[2] gets the general sentence first, and should get `hints`[0]"),
}  # fmt: skip


@pytest.mark.parametrize("name", WEAK)
def test_check_specs_says_what_is_weak(name, tmp_path, capsys):
    source, cell, sentence = WEAK[name]
    folder = write_specs(tmp_path, a=source)
    assert main(["grade", "--check-specs", "--specs", str(folder)]) == 1
    printed = capsys.readouterr().out
    assert cell in printed and f"{folder / 'a.py'}: 71.mean: {sentence}" in printed


def test_check_specs_prints_the_table_of_the_page(tmp_path, capsys):
    folder = str(write_specs(tmp_path))
    assert main(["grade", "--check-specs", "--specs", folder]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rstrip() for line in lines] == TABLE.splitlines()
    assert main(["grade", "--check-specs", "--specs", folder, "--only", "02.softmax"]) == 0
    assert "02.softmax       refused   accepted  4 of 4    4 of 4" in capsys.readouterr().out


def test_an_exercise_of_the_course_passes():
    report = check_exercise(load_exercises()["02.centre"])
    assert not report.faults and report.caught == report.hinted == 8


# Grading -----------------------------------------------------------------------------------------

SPY = """
import os
def average(x):
    for folder in {folders!r}:
        for action in (os.listdir, os.stat):
            try: action(folder)
            except OSError: continue
            raise RuntimeError("it is there: " + folder)
        for name in {names!r}:
            try: open(os.path.join(folder, name)).read()
            except OSError: continue
            raise RuntimeError("it can be read: " + name)
    raise RuntimeError("nothing is there")
"""


@pytest.mark.slow
@pytest.mark.classroom
@on_linux
def test_a_class_is_graded_and_no_jail_can_read_the_specs(tmp_path, capsys):
    from tests.classroom.jails import open_factory

    open_factory(Settings()).close()
    folder = write_specs(tmp_path)
    spy = SPY.format(folders=[str(folder), str(tmp_path)], names=["nb71_averages.py"])
    names = {}
    exec(spy, names)
    with pytest.raises(RuntimeError, match="it is there"):  # outside, it sees the folder
        names["average"](None)
    hand_ins = write_class(tmp_path, {"ada": RIGHT, "bob": WRONG, "eve": spy})
    out = tmp_path / "out"
    command = ["grade", str(hand_ins), "--specs", str(folder), "--out", str(out), "--seed", "3"]
    assert main(command) == 0
    students = json.loads((out / "results.json").read_text())["students"]
    assert [student["points"] for student in students] == [2, 0, 0]
    sentences = [student["exercises"][0]["sentence"] for student in students]
    assert sentences[1] == "that is the sum: by what do you divide it?"
    assert "RuntimeError: nothing is there" in sentences[2]


def test_specs_among_the_hand_ins_are_refused(tmp_path, capsys):
    folder = write_specs(tmp_path)
    assert main(["grade", str(tmp_path), "--specs", str(folder)]) == 1
    assert "lies among the hand-ins" in capsys.readouterr().err


def test_check_specs_takes_no_folder(tmp_path, capsys):
    assert main(["grade", str(tmp_path), "--check-specs"]) == 1
    assert "--check-specs grades nobody: leave out the folder" in capsys.readouterr().err
    assert main(["grade"]) == 1
    assert "give the folder with the hand-ins" in capsys.readouterr().err
