"""Canvas's gradebook and Moodle's worksheet: filled in, and read again from their documentation."""

from __future__ import annotations

import csv
import io
import zipfile

import pytest

from edutorch.__main__ import main
from edutorch.classroom.interop.gradebooks import Table
from edutorch.classroom.interop.moodle import feedback_files, folder_name, keys_of
from edutorch.classroom.results import ExerciseResult, StudentResult, write_results

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Lesson 1 (4710),Lesson 2 (4711),Current Score
,,,,,Manual Posting,,
    Points Possible,,,,,10,4,(read only)
"Turing, Alan",007,0012,alan,B,3,,9
"Lovelace, Ada",1815,0003,ada,A,4,,8
"=HYPERLINK(""x"")",33,0004,grace,A,4,1,8
"""
MOODLE = """\
Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,\
Last modified (submission),Last modified (grade),Feedback comments
Participant 007,Alan Turing,alan@example.org,Submitted,,4.00,Yes,,,
Participant 1815,Ada Lovelace,ada@example.org,Submitted,,4.00,Yes,,,old
Participant 33,Grace_Hopper,grace@example.org,Submitted,3,4.00,No,,,mine
"""


def student(name, number="", points=(2.0, 2.0), sentence="<b>no</b>"):
    exercises = tuple(
        ExerciseResult(id, value, 2, 3, 3, "" if value else sentence)
        for id, value in zip(("02.softmax", "05.carry"), points, strict=True)
    )
    return StudentResult(name, number, False, ("a.ipynb",), exercises)


ADA, ALAN = student("lovelaceada", "1815"), student("alan", "", (0.0, 1.5))
GRACE = student("grace", "33")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "gradebook.csv").write_text(CANVAS, "utf-8")
    (tmp_path / "worksheet.csv").write_text("\ufeff" + MOODLE, "utf-8")
    return tmp_path


def results(folder, *students):
    out = folder / "grades"
    out.mkdir(exist_ok=True)
    write_results(out, students, 1, {})


def export(folder, *options):
    """Run the command; --canvas and --moodle stand for the tables in the folder."""
    tables = {
        "--canvas": ["--canvas", str(folder / "gradebook.csv"), "--assignment", "Lesson 2"],
        "--moodle": ["--moodle", str(folder / "worksheet.csv")],
    }
    arguments = [argument for option in options for argument in tables.get(option, [option])]
    return main(["grade", "export", "--results", str(folder / "grades"), *arguments])


# Parsers, written from what Canvas and Moodle document of their imports ---------------------------


def canvas_import(text):
    """Return the points of each assignment and the grades by user id, as Canvas reads a gradebook.

    The first five columns say who it is; every other is an assignment, "Title (id)". A line whose
    student is "Points Possible" has the points, all others belong to the user ID.
    """
    header, *lines = csv.reader(io.StringIO(text))
    assert header[:2] == ["Student", "ID"]
    start = next(index for index, name in enumerate(header) if "(" in name)
    assert set(header[2:start]) <= {"SIS User ID", "SIS Login ID", "Section"}
    points, grades = {}, {}
    for line in lines:
        values = dict(zip(header[start:], line[start:], strict=True))
        if line[0].strip() == "Points Possible":
            points = {name: float(value) for name, value in values.items()}
        else:
            assert line[1] not in grades
            grades[line[1]] = {name: float(value) for name, value in values.items() if value}
    return points, grades


def moodle_import(text):
    """Return grade and comments by participant, as Moodle reads a grading worksheet.

    A line belongs to the number of its Identifier. An empty grade, and one that may not be changed,
    leave what is there.
    """
    read = {}
    for line in csv.DictReader(io.StringIO(text)):
        word, number = line["Identifier"].split(" ")
        assert word == "Participant" and None not in line
        if line["Grade can be changed"] == "Yes" and line["Grade"]:
            grade = float(line["Grade"])
            assert 0 <= grade <= float(line["Maximum Grade"])
            read[number] = grade, line["Feedback comments"]
    return read


def moodle_folder(name):
    """Return name and participant of a folder in a zip file of feedback: parts between "_"."""
    full_name, participant, plugin, part, rest = name.split("_", 4)
    assert (plugin, part, rest) == ("assignsubmission", "file", "")
    return full_name, participant


# Canvas ------------------------------------------------------------------------------------------


def test_canvas_reads_what_we_write(folder, capsys):
    results(folder, ADA, ALAN)
    assert export(folder, "--canvas") == 0
    text = (folder / "grades" / "canvas.csv").read_text("utf-8")
    column = "Lesson 2 (4711)"
    points, grades = canvas_import(text)
    assert points == {column: 4}
    assert grades == {"007": {column: 1.5}, "1815": {column: 4}, "33": {}}
    assert list(grades) == ["007", "1815", "33"], "the order of the gradebook"
    assert text.splitlines()[2] == '"Turing, Alan",007,0012,alan,B,1.5'
    said = capsys.readouterr().err
    assert '=HYPERLINK("x") has handed in nothing: left empty' in said


def test_no_cell_is_a_formula(folder):
    (folder / "grades").mkdir()
    table = Table(
        folder, ["a"], [[start + "1"] for start in ("=", "+", "-", "@", "\t", "\r", "\n")]
    )
    cells = [line[0] for line in csv.reader(io.StringIO(table.to_bytes().decode(), newline=""))][1:]
    assert all(cell.startswith("'") for cell in cells)
    results(folder, ADA, ALAN)
    assert export(folder, "--canvas") == 0
    assert "'=HYPERLINK" in (folder / "grades" / "canvas.csv").read_text("utf-8")


def test_a_new_assignment_and_semicolons(folder, capsys):
    path = folder / "gradebook.csv"
    path.write_text("Student;ID;Section\nAda;01;A, B\n", "utf-8")
    results(folder, student("Ada", "01"))
    assert main(["grade", "export", "--results", str(folder / "grades"), "--canvas", str(path),
                 "--assignment", "Lesson 9", "--out", str(folder / "out")]) == 0  # fmt: skip
    lines = (folder / "out" / "canvas.csv").read_text("utf-8").splitlines()
    assert lines == ["Student;ID;Section;Lesson 9", "    Points Possible;;;4", "Ada;01;A, B;4"]
    assert "has no column 'Lesson 9': Canvas will ask" in capsys.readouterr().err


# Moodle ------------------------------------------------------------------------------------------


def test_moodle_reads_what_we_write(folder, capsys):
    results(folder, ADA, student("Alan Turing", "", (0.0, 1.5)), GRACE)
    assert export(folder, "--moodle") == 0
    text = (folder / "grades" / "moodle.csv").read_text("utf-8")
    assert moodle_import(text) == {
        "007": (1.5, "02.softmax: &lt;b&gt;no&lt;/b&gt;"), "1815": (4, "all right"),
    }  # fmt: skip
    assert text.splitlines()[3].startswith("Participant 33,Grace_Hopper,grace@example.org,")
    assert text.splitlines()[3].endswith(",3,4.00,No,,,mine")
    assert "Grace_Hopper has a grade that cannot be changed" in capsys.readouterr().err
    assert not (folder / "grades" / "moodle_feedback.zip").exists()


def test_feedback_lies_in_moodles_folders(folder, capsys):
    results(folder, ADA, GRACE, student("alan@example.org"))
    feedback = folder / "grades" / "feedback"
    for name, content in (("lovelaceada/a.html", "yours"), ("grace/b.html", "hers")):
        (feedback / name).parent.mkdir(parents=True)
        (feedback / name).write_text(content, "utf-8")
    (folder / "secret").write_text("secret", "utf-8")
    (feedback / "lovelaceada" / "link").symlink_to(folder / "secret")
    (feedback / "lovelaceada" / "folder").symlink_to(folder)
    assert export(folder, "--moodle") == 0
    with zipfile.ZipFile(folder / "grades" / "moodle_feedback.zip") as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert files == {"Ada Lovelace_1815_assignsubmission_file_/a.html": "yours"}
    assert "there is no feedback for alan@example.org" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["..", ".", "../secret", "/etc", ""])
def test_a_name_leads_to_no_other_folder(name, tmp_path):
    (tmp_path / "feedback" / "ada").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.html").write_text("secret", "utf-8")
    assert feedback_files(tmp_path / "feedback", name) == {}


@pytest.mark.parametrize("name", ["Grace_Hopper", "../../etc", 'a/b\\c:"d"', "..", "x" * 40])
def test_folders_of_feedback_name_the_participant(name):
    table = Table(None, ["Identifier", "Full name"], [["Participant 0042", name]])  # type: ignore
    folder = folder_name(keys_of(table, table.lines[0]))
    assert moodle_folder(folder)[1] == "0042"
    assert "/" not in folder and "\\" not in folder and not folder.startswith(".")


def test_points_have_commas_where_cells_end_with_semicolons(folder):
    text = "Identifier;Full name;Grade;Maximum Grade\nParticipant 1;Ada;;4,00\n"
    (folder / "worksheet.csv").write_text(text, "utf-8")
    results(folder, student("Ada", "1", (1.5, 0.0)))
    assert export(folder, "--moodle") == 0
    written = (folder / "grades" / "moodle.csv").read_text("utf-8").splitlines()
    assert written[1] == "Participant 1;Ada;1,5;4,00"


# Bad input ---------------------------------------------------------------------------------------

LINES = CANVAS.splitlines(keepends=True)
REFUSED = {
    "no id column": (CANVAS.replace("ID,SIS User", "No,SIS User", 1), "has 0 columns 'ID'"),
    "empty": ("", "has 0 columns 'Student', and needs one"),
    "not UTF-8": (b"\xff\xfeS", "is no UTF-8 text"),
    "no CSV": (CANVAS + '"open', "is no CSV file"),
    "too long": (CANVAS + "a,1,,,,,,,,,\n", "line 7 has more cells than the first line"),
    "a student twice": (CANVAS + LINES[4], "Lovelace, Ada is there twice, with the id 1815"),
    "no id": (CANVAS + "Somebody,,,,,,,\n", "'Somebody' has no ID"),
    "a student lacking": ("".join(LINES[:4]), "lacks lovelaceada, who handed in; nothing was"),
    "other points": (CANVAS.replace(",10,4,", ",10,5,"), "is 5, and the run has 4 points"),
    "points no number": (CANVAS.replace(",10,4,", ",10,four,"), "'four', which is no number"),
    "two columns": (
        CANVAS.replace("Current Score", "Lesson 2 (4712)"),
        "are columns of 'Lesson 2'",
    ),
    "two of one name": (CANVAS + "Al,9,0009,alan,,,,\n", "alan may be any of 2 lines"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_gradebook_is_one_sentence_and_nothing_is_written(name, folder, capsys):
    content, sentence = REFUSED[name]
    content = content if isinstance(content, bytes) else content.encode()
    (folder / "gradebook.csv").write_bytes(content)
    results(folder, ADA, ALAN)
    before = sorted(folder.rglob("*"))
    # What is right beside it is not written either.
    assert export(folder, "--moodle", "--canvas") == 1
    said = capsys.readouterr().err
    assert sentence in said and "gradebook.csv" in said
    assert sorted(folder.rglob("*")) == before


def test_who_is_not_in_the_gradebook_can_be_left_out(folder, capsys):
    results(folder, ADA, student("zoe", "99"))
    assert export(folder, "--canvas", "--missing=skip") == 0
    _, grades = canvas_import((folder / "grades" / "canvas.csv").read_text("utf-8"))
    assert {id for id, points in grades.items() if points} == {"1815"}
    assert "zoe is not in" in capsys.readouterr().err


def test_two_hand_ins_of_one_student_are_refused(folder, capsys):
    results(folder, ADA, student("ada"))
    assert export(folder, "--canvas") == 1
    assert "ada and lovelaceada are both Lovelace, Ada" in capsys.readouterr().err


RESULTS = {
    "none": (None, "there are no results"),
    "broken": ("{", "holds no results of `grade`"),
    "others": ('{"students": [{}]}', "holds no results of `grade`"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_that_cannot_be_read(name, folder, capsys):
    content, sentence = RESULTS[name]
    (folder / "grades").mkdir()
    if content:
        (folder / "grades" / "results.json").write_text(content, "utf-8")
    assert export(folder, "--canvas") == 1
    assert sentence in capsys.readouterr().err


def test_a_student_who_is_twice_in_the_results(folder, capsys):
    results(folder, ADA, ADA._replace(student="other"))
    assert export(folder, "--canvas") == 1
    assert "1815 is there twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name a table"),
        (["--canvas", "a.csv"], "--assignment is the column"),
        (["--assignment", "a", "--moodle", "a.csv"], "--assignment is the column"),
    ],
)
def test_options_that_do_not_go_together(arguments, sentence, capsys):
    with pytest.raises(SystemExit):
        main(["grade", "export", *arguments])
    assert sentence in capsys.readouterr().err


def test_a_table_that_is_not_there(folder, capsys):
    results(folder, ADA)
    (folder / "worksheet.csv").unlink()
    assert export(folder, "--moodle") == 1
    assert "there is no file" in capsys.readouterr().err
