"""`assignment.toml`: what it may say, what late costs, and which of several hand-ins counts."""

from __future__ import annotations

import csv
import json
import os
import sys
import zipfile
from datetime import UTC, datetime, timedelta

import pytest

from edutorch.__main__ import main
from edutorch.classroom.assignment import Assignment, AssignmentError, read_assignment
from edutorch.classroom.class_grader import grade_class, in_order_of_time
from edutorch.classroom.exercise import find_exercise
from edutorch.classroom.exercise_grader import ClassSettings
from edutorch.classroom.jail.settings import Settings
from edutorch.classroom.spec_files import load_specs, read_specs
from edutorch.classroom.submissions import Submission, by_student, find_submissions, modified_at
from tests.classroom.own_exercises import (
    ASSIGNMENT,
    NOTEBOOK,
    RIGHT,
    WRONG,
    notebook,
    write,
    write_class,
    write_specs,
)  # fmt: skip
from tests.classroom.test_class_grader import in_process

DUE = datetime(2026, 11, 20, 22, 59, tzinfo=UTC)  # 23:59 in Berlin
ONE = 'exercises = ["71.mean"]\n'
DATED = ONE + "due = 2026-11-20T23:59:00+01:00\n"


def read(tmp_path, text):
    return read_assignment(write(tmp_path / "assignment.toml", text))


# The file ----------------------------------------------------------------------------------------


def test_the_example_of_the_page(tmp_path):
    assignment = read(tmp_path, ASSIGNMENT)
    assert assignment.title == "Lesson 7"
    assert assignment.exercises == ("71.mean", "02.softmax")
    assert assignment.due == DUE
    assert assignment.points == {"71.mean": 4.0}
    assert assignment.late == (10.0, 50.0, 15.0, False)
    assert read(tmp_path, DATED).due == DUE
    assert read(tmp_path, "").hand_ins == "last"


BAD = {
    'titel = "x"': "`titel` is no key\n  hint: did you mean `title`?",
    "xyzzy = 1": "`xyzzy` is no key\n  hint: there are title, exercises, due",
    DATED + "[late]\npercent_a_day = 1": "`percent_a_day` is no key in [late]\n"
    "  hint: did you mean `percent_per_day`?",
    ONE
    + '[points]\n"71.man" = 1': "`71.man` is no key in [points]\n  hint: did you mean `71.mean`",
    ONE + '[points]\n"71.mean" = -1': "`points.71.mean` is -1\n  hint: from 0 to",
    ONE + '[points]\n"71.mean" = "2"': "`points.71.mean` is '2', and not a number",
    "title = 3": "`title` is 3, and not a text",
    'exercises = "71.mean"': "`exercises` is '71.mean', and not a list",
    "exercises = []": "`exercises` is empty",
    'exercises = ["a.b", "a.b"]': "`exercises` is a list of different ids",
    "due = 2026-11-20T23:59:00": "`due` is 2026-11-20 23:59:00, and no time zone is said",
    "due = 2026-11-20": "and not a date with a time",
    'due = "2026-11-20T23:59:00Z"': "and not a date with a time",
    "due = 0001-01-01T00:00:00+01:00": "which UTC has no year for",
    'time_zone = "Berlin"': "`time_zone` is 'Berlin', which is none that this machine knows",
    'time_zone = "/etc/passwd"': "`time_zone` is '/etc/passwd', which is none",
    'hand_ins = "first"': "`hand_ins` is 'first'\n  hint: 'last' or 'best'",
    'hand_in_time = "mtime"': "`hand_in_time` is 'mtime'\n  hint: 'layout' or 'modified'",
    "[late]\npercent_per_day = 1": "`late` says what late costs, and no `due`",
    DATED + "[late]\npercent_per_day = 101": "`late.percent_per_day` is 101",
    DATED + "[late]\npercent_per_day = nan": "`late.percent_per_day` is nan",
    DATED + "[late]\npercent_per_day = true": "is True, and not a number",
    DATED + "[late]\ngrace_minutes = -1": "`late.grace_minutes` is -1",
    DATED + "[late]\nmaximum_percent = 50": "has maximum_percent, and no percent_per_day",
    DATED + "[late]\nrefuse = 1": "`refuse` is 1, and not a true or false",
    DATED + "[late]\nrefuse = true\npercent_per_day = 1": "has both refuse and percent_per_day",
    "late = 3": "`late` says what late costs",
    DATED + "late = 3": "`late` is 3, and not a table",
    "title = ": "is no TOML",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_files_are_refused(text, tmp_path):
    with pytest.raises(AssignmentError) as error:
        read(tmp_path, text)
    assert BAD[text] in str(error.value)
    assert str(tmp_path / "assignment.toml") in str(error.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(AssignmentError, match=r"none\.toml: No such file"):
        read_assignment(tmp_path / "none.toml")


# Late --------------------------------------------------------------------------------------------

RULE = DATED + "[late]\npercent_per_day = 10\nmaximum_percent = 25\ngrace_minutes = 15\n"
AFTER = {
    "before": (timedelta(hours=-1), 0, 2.0),
    "on the dot": (timedelta(0), 0, 2.0),
    "within the grace": (timedelta(minutes=15), 0, 2.0),
    "just after": (timedelta(minutes=15, seconds=1), 1, 1.8),
    "a whole day": (timedelta(days=1), 1, 1.8),
    "the second day": (timedelta(days=1, seconds=1), 2, 1.6),
    "the maximum": (timedelta(days=40), 40, 1.5),
}


@pytest.mark.parametrize("name", AFTER)
def test_each_day_that_has_begun_counts(name, tmp_path):
    after, days, points = AFTER[name]
    assignment = read(tmp_path, RULE)
    file = Submission("ada", "a.ipynb", bytes, time=(DUE + after).isoformat())
    assert assignment.days_late(file) == days
    assert assignment.points_after(2.0, days) == points


TIMES = {
    "2026-11-20 22:58:59.948203 UTC": -1,
    "2026-11-20 23:59:00 Europe/Berlin": 0,
    "2026-11-20 22:59:00": 0,  # nbgrader's own: it is UTC
    "2026-11-20T22:59:00Z": 0,
    "2026-11-20T23:59:01+01:00": 1,
}


@pytest.mark.parametrize("text", TIMES)
def test_times_of_nbgrader(text, tmp_path):
    time = read(tmp_path, DATED).time_of(Submission("ada", "a.ipynb", bytes, time=text))
    assert time is not None
    assert round((time - DUE).total_seconds()) in (TIMES[text], 0)
    assert (time > DUE) == (TIMES[text] > 0)


def test_days_are_counted_across_a_change_of_the_clock(tmp_path):
    text = 'due = 2026-10-24T23:00:00\ntime_zone = "Europe/Berlin"'
    assignment = read(tmp_path, text)
    file = Submission("ada", "a.ipynb", bytes, time="2026-10-25 22:30:00 Europe/Berlin")
    assert assignment.days_late(file) == 2  # one hour came twice: it is 24 and a half later
    file = file._replace(time="2026-10-25 22:00:00 Europe/Berlin")
    assert assignment.days_late(file) == 1


def settings(folder, text):
    exercises = load_specs(read_specs([write_specs(folder)]))
    return ClassSettings(exercises, seed=7, assignment=read(folder, text))


def graded(folder, class_folder, text=RULE):
    students, errors = by_student(find_submissions(class_folder))
    assert not errors
    results = grade_class(students, in_process, settings(folder, text))
    return {result.student: result for result in results}


LATE, IN_TIME = "2026-11-22 12:00:00 UTC", "2026-11-20 12:00:00 UTC"


def nbgrader(folder, student, time, source=RIGHT):
    place = folder / "course" / "submitted" / student / "lesson07"
    write(place / NOTEBOOK, notebook(source))
    write(place / "timestamp.txt", time + "\n")
    return folder / "course"


@pytest.mark.parametrize("below", ["", "submitted", "zip"])
def test_nbgrader_says_the_time(below, tmp_path):
    nbgrader(tmp_path, "ada", IN_TIME)
    folder = nbgrader(tmp_path, "bob", LATE)
    if below == "zip":
        with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
            for path in sorted(folder.rglob("*.*")):
                archive.write(path, path.relative_to(folder).as_posix())
        folder = tmp_path / "class.zip"
    results = graded(tmp_path, folder / below if below == "submitted" else folder)
    assert [(result.late, result.points, result.counted) for result in results.values()] == [
        (False, 2.0, 2.0), (True, 2.0, 1.6),
    ]  # fmt: skip
    assert results["bob"].exercises[0].days_late == 2


def test_a_students_own_timestamp_says_nothing(tmp_path):
    folder = nbgrader(tmp_path, "ada", LATE)
    place = folder / "submitted" / "ada" / "lesson07"
    write(place / "more" / NOTEBOOK, notebook(RIGHT))
    write(place / "more" / "timestamp.txt", IN_TIME)
    with zipfile.ZipFile(place / "work.zip", "w") as archive:
        for name in ("", "submitted/ada/lesson07/"):
            archive.writestr(f"{name}timestamp.txt", IN_TIME)
            archive.writestr(name + NOTEBOOK, notebook(RIGHT))
    write(folder / "bob" / NOTEBOOK, notebook(RIGHT))
    write(folder / "bob" / "timestamp.txt", LATE)
    files = [file for file in find_submissions(folder) if isinstance(file, Submission)]
    assert {file.time for file in files if file.student == "ada"} == {LATE}
    assert {file.time for file in files if file.student == "bob"} == {""}


def test_a_time_that_is_none_is_a_problem_and_counts_as_in_time(tmp_path):
    result = graded(tmp_path, nbgrader(tmp_path, "ada", "yesterday"))["ada"]
    assert result.counted == 2.0
    assert "timestamp.txt beside it says no time: 'yesterday'" in result.problems[0]


def test_a_file_from_another_age_has_no_time(tmp_path):
    class Far(type(tmp_path)):  # few file systems keep such a time
        def stat(self, **_):
            return os.stat_result([0] * 8 + [10**13] * 2)

    assert modified_at(Far(tmp_path)) is None
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        info = zipfile.ZipInfo(f"ada/{NOTEBOOK}")
        info.date_time = (1980, 0, 0, 0, 0, 0)
        archive.writestr(info, notebook(RIGHT))
    (file,) = find_submissions(tmp_path / "class.zip")
    assert isinstance(file, Submission) and file.modified is None


def test_canvas_marks_what_is_late(tmp_path):
    write(tmp_path / "class" / f"ada_LATE_1815_36_{NOTEBOOK}", notebook(RIGHT))
    write(tmp_path / "class" / f"bob_1816_37_{NOTEBOOK}", notebook(RIGHT))
    results = graded(tmp_path, tmp_path / "class")
    assert (results["ada"].late, results["ada"].counted) == (True, 1.8)
    assert (results["bob"].late, results["bob"].counted) == (False, 2.0)


def test_times_of_files_count_only_if_the_file_says_so(tmp_path):
    folder = write_class(tmp_path, {"ada": RIGHT})
    set_time(folder / "ada" / NOTEBOOK, 3)
    assert graded(tmp_path, folder)["ada"].counted == 2.0
    modified = 'hand_in_time = "modified"\n' + RULE
    assert graded(tmp_path, folder, modified)["ada"].counted == 1.5
    # Of a zip file of the class, in the time zone of the assignment.
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        late = zipfile.ZipInfo(f"ada/{NOTEBOOK}", (2026, 11, 21, 0, 30, 0))
        archive.writestr(late, notebook(RIGHT))
    assert graded(tmp_path, tmp_path / "class.zip", modified)["ada"].counted == 1.8
    eastern = 'time_zone = "Asia/Tokyo"\n' + modified
    assert graded(tmp_path, tmp_path / "class.zip", eastern)["ada"].counted == 2.0
    # Of a student's zip file, its own.
    (folder / "bob").mkdir()
    with zipfile.ZipFile(folder / "bob" / "work.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo(NOTEBOOK, (2020, 1, 1, 0, 0, 0)), notebook(RIGHT))
    set_time(folder / "bob" / "work.zip", 1)
    assert graded(tmp_path, folder, modified)["bob"].counted == 1.8


# Several hand-ins --------------------------------------------------------------------------------


def set_time(path, days):
    time = (DUE + timedelta(days=days)).timestamp()
    os.utime(path, times=(time, time))


def several(folder, *answers):
    """Write hand-ins of one student: (days after the due date, source)."""
    for number, (days, source) in enumerate(answers, 8):  # "10" comes after "9"
        path = write(folder / "class" / "ada" / f"try{number}" / NOTEBOOK, notebook(source))
        set_time(path, days)
    return folder / "class"


MODIFIED = 'hand_in_time = "modified"\n'
CHOICES = {
    "the last": (MODIFIED + RULE, [(-1, RIGHT), (1, WRONG)], 0.0, 1),
    "by time, not by name": (MODIFIED + RULE, [(1, RIGHT), (-1, WRONG)], 1.8, 1),
    "the best": (MODIFIED + 'hand_ins = "best"\n' + RULE, [(1, RIGHT), (2, RIGHT), (3, WRONG)],
                 1.8, 1),
    "none is right": (MODIFIED + 'hand_ins = "best"\n' + RULE, [(1, WRONG), (2, WRONG)], 0.0, 2),
    "late ones refused": (MODIFIED + DATED + "[late]\nrefuse = true\n",
                          [(-2, WRONG), (-1, RIGHT), (1, WRONG)], 2.0, 0),
    "all refused": (MODIFIED + DATED + "[late]\nrefuse = true\n", [(2, RIGHT)], 0.0, 2),
    "by name": (RULE, [(0, WRONG), (0, WRONG), (0, RIGHT)], 2.0, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
def test_of_several_hand_ins_one_counts(name, tmp_path):
    text, answers, counted, days = CHOICES[name]
    result = graded(tmp_path, several(tmp_path, *answers), text)["ada"]
    assert (result.counted, result.exercises[0].days_late) == (counted, days)
    if name == "all refused":
        assert "was handed in late, and late hand-ins do not count" in result.exercises[0].sentence
        assert result.points == 0 and result.late


def test_names_are_in_the_order_of_people():
    files = [Submission("ada", f"{name}.ipynb", bytes) for name in ("a-10", "a", "a-9", "a-1")]
    ordered = in_order_of_time(files, Assignment())
    assert [file.file for file in ordered] == ["a.ipynb", "a-1.ipynb", "a-9.ipynb", "a-10.ipynb"]


# The command -------------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path):
    if not sys.platform.startswith("linux"):
        pytest.skip("the jail is built of Linux's walls")
    from tests.classroom.jails import open_factory

    open_factory(Settings()).close()
    write_specs(tmp_path)
    nbgrader(tmp_path, "ada", LATE)
    nbgrader(tmp_path, "bob", IN_TIME)
    write(tmp_path / "course" / "submitted" / "carol" / "lesson07" / NOTEBOOK, notebook(WRONG))
    return tmp_path


def grade(folder, *options, out="out"):
    command = ["grade", str(folder / "course"), "--specs", str(folder / "specs"), "--out",
               str(folder / out), *options]  # fmt: skip
    return main(command)


def test_a_class_is_graded_with_its_assignment(course, capsys):
    write(course / "course" / "assignment.toml", ASSIGNMENT)
    assert grade(course, "--seed", "5") == 0
    assert "1 of 3 students count as in time: nothing says when" in capsys.readouterr().err
    with (course / "out" / "grades.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == ["student", "id", "late", "02.softmax", "71.mean", "points", "counted",
                          "maximum", "problems"]  # fmt: skip
    assert [(row["late"], row["points"], row["counted"], row["maximum"]) for row in rows] == [
        ("late", "4", "3.2", "6"), ("", "4", "4", "6"), ("", "0", "0", "6"),
    ]  # fmt: skip
    document = json.loads((course / "out" / "results.json").read_text())
    assert document["assignment"]["due"] == "2026-11-20T22:59:00+00:00"
    ada = document["students"][0]
    assert (ada["points"], ada["counted"]) == (4, 3.2)
    assert [(one["counted"], one["days_late"]) for one in ada["exercises"]] == [(0, 0), (3.2, 2)]
    path = str(course / "course" / "assignment.toml")
    assert grade(course, "--seed", "5", "--assignment", path, out="again") == 0
    for name in ("grades.csv", "results.json"):
        assert (course / "out" / name).read_bytes() == (course / "again" / name).read_bytes()


def test_a_resumed_run_grades_by_the_same_rule(course, capsys):
    file = write(course / "course" / "assignment.toml", RULE)
    assert grade(course, "--student", "ada") == 0
    write(file, RULE.replace("10", "20"))
    assert grade(course, "--resume") == 1
    assert "--resume continues a run with other assignment" in capsys.readouterr().err
    write(file, RULE)
    assert grade(course, "--resume") == 0


def test_exercises_that_are_not_there(course, capsys):
    write(course / "course" / "assignment.toml", 'exercises = ["71.men"]')
    assert grade(course) == 1
    assert "there is no exercise '71.men'\n  hint: try 71.mean" in capsys.readouterr().err
    write(course / "course" / "assignment.toml", ONE)
    assert grade(course, "--only", "02.softmax") == 1
    assert "there is no exercise '02.softmax'" in capsys.readouterr().err
    write(course / "course" / "assignment.toml", '[points]\n"71.men" = 3')
    assert grade(course) == 1
    assert "there is no exercise '71.men'" in capsys.readouterr().err
    assert find_exercise("02.softmax").points == 2
