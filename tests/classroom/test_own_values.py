"""Each student's own values: in the notebook, in `check`, in the grader, and what is told."""

from __future__ import annotations

import json
import stat
import sys
from typing import ClassVar

import numpy as np
import pytest

import edutorch as torch
from edutorch.__main__ import main
from edutorch.classroom import EXERCISES, load_exercises, notebook
from edutorch.classroom.class_grader import grade_class
from edutorch.classroom.exercise import Exercise, Hint, SpecError, find_exercise
from edutorch.classroom.exercise_grader import ClassSettings
from edutorch.classroom.own_values import (
    RIGHT_FOR_OTHERS,
    RIGHT_FOR_SHARED,
    CourseValues,
    OwnValues,
    draw_values,
    seed_of_student,
    values_in_notebook,
    values_of,
)
from edutorch.classroom.results import StudentResult
from edutorch.classroom.submissions import by_student, find_submissions
from tests.classroom.test_class_grader import in_process, write
from tests.classroom.test_class_grader import notebook as notebook_text
from tests.classroom.test_exercises import outcome_of

load_exercises()
KEY = bytes(range(32))
BY_HAND = find_exercise("01.by_hand")
NAME = "01_scalar_autograd.ipynb"
CLASS = ["ada", "bob", "carol", "dan"]
OWN = [id for id, exercise in EXERCISES.items() if exercise.values is not None]


@pytest.fixture(autouse=True)
def nothing_is_remembered():
    yield
    values_in_notebook.clear()
    notebook.progress.clear()


def values(student, exercise=BY_HAND, key=KEY):
    return draw_values(exercise, seed_of_student(key, student, exercise.id))


def solution(student):
    return BY_HAND.solution_of(**values(student))


# Seeds -----------------------------------------------------------------------------------------


def test_a_seed_belongs_to_a_key_a_student_and_an_exercise():
    seeds = {
        seed_of_student(key, student, id)
        for key in (KEY, bytes(32))
        for student, id in (("ada", "01.a"), ("bob", "01.a"), ("ada", "01.b"), ("ada,", "01.a"))
    }
    assert len(seeds) == 8
    assert {len(seed) for seed in seeds} == {32}


def test_an_accent_is_the_same_letter_in_both_forms():
    assert seed_of_student(KEY, "Zoë", "01.a") == seed_of_student(KEY, "Zoe\u0308", "01.a")


# Exercises with own values ----------------------------------------------------------------------


@pytest.mark.parametrize("id", OWN)
def test_a_solution_is_right_for_its_own_values_only(id):
    exercise = EXERCISES[id]
    assert exercise.solution == exercise.solution_of(**exercise.shared_values)
    for seed in range(5):
        own = exercise.values(np.random.default_rng(seed))
        assert own.keys() == exercise.shared_values.keys()
        assert outcome_of(exercise, exercise.solution_of(**own), values=own).is_right
        assert not outcome_of(exercise, exercise.solution, values=own).is_right
        assert not outcome_of(exercise, exercise.starter, values=own).is_right


@pytest.mark.parametrize("id", OWN)
def test_an_answer_holds_nothing_that_the_values_alone_decide(id):
    # Else an answer for somebody else's values could not be recognized.
    exercise = EXERCISES[id]
    own = exercise.values(np.random.default_rng(1))
    wrong = outcome_of(exercise, exercise.solution, values=own).attempt
    shared = outcome_of(exercise, exercise.solution).attempt
    part = {name: wrong.case[name] for name in wrong.case if name not in own}
    assert torch.equal(
        torch.tensor(list(wrong.value.values())),
        torch.tensor(list(exercise.right(**part, **exercise.shared_values).values())),
    )
    assert shared.is_right


def test_few_students_share_their_values():
    drawn = {tuple(values(f"student {number}").values()) for number in range(200)}
    assert len(drawn) > 190


def test_a_block_with_values_says_what_everybody_has():
    with pytest.raises(SpecError, match="needs `shared_values` and `solution_of`"):

        class Broken(Exercise):
            """An exercise without the values of everybody."""

            id, notebook, cell, names = "99.broken", "99", "cell", ("x",)
            solution = "x = 1"

            def values(rng):
                return {"a": 1}

            def cases(rng):
                yield {}

            def answer(theirs, a):
                return theirs.x

            def right(a):
                return a


# In the notebook ---------------------------------------------------------------------------------


def test_a_notebook_shows_the_values_and_checks_them():
    own = values_of("01.by_hand", student="ada", seed=seed_of_student(KEY, "ada", "01.by_hand"))
    assert isinstance(own, OwnValues) and own == values("ada")
    assert repr(own) == f"a = {own['a']}, b = {own['b']}  (for ada)"
    names = {"a_grad": own["b"], "b_grad": own["a"] + 2 * own["b"]}
    assert torch.check("01.by_hand", names).is_right
    of_everybody = {"a_grad": 5.0, "b_grad": 12.0}
    feedback = [torch.check("01.by_hand", of_everybody) for _ in range(3)]
    assert feedback[-1].solution == BY_HAND.solution_of(**own)
    assert repr(values_of("01.by_hand")) == "a = 2.0, b = 5.0"
    assert torch.check("01.by_hand", of_everybody).is_right


def test_what_cannot_be_shown():
    with pytest.raises(SpecError, match="this exercise is the same for everybody"):
        values_of("02.softmax")
    with pytest.raises(SpecError, match="'12' is no seed of a student"):
        values_of("01.by_hand", student="ada", seed="12")


# The key -----------------------------------------------------------------------------------------


def test_a_key_is_for_its_owner_and_is_never_overwritten(tmp_path, capsys):
    path = tmp_path / "course.key"
    assert main(["classroom", "key", str(path)]) == 0
    text = path.read_text()
    assert len(bytes.fromhex(text)) == 32
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert main(["classroom", "key", str(path)]) == 1
    assert "exists, and is not overwritten" in capsys.readouterr().err
    assert path.read_text() == text
    assert main(["classroom", "key", str(tmp_path / "none" / "course.key")]) == 1
    assert "cannot be written: No such file" in capsys.readouterr().err


# A notebook for each student ---------------------------------------------------------------------


@pytest.fixture
def course(tmp_path):
    write(
        tmp_path / "course" / NAME,
        notebook_text(
            ("values", 'torch.classroom.values_of("01.by_hand")'),
            ("cell-31", BY_HAND.starter),
        ),
    )
    write(tmp_path / "course.key", KEY.hex())
    write(tmp_path / "class.txt", "".join(f"{name}\n" for name in CLASS))
    return tmp_path


def notebooks(course, *options, **replaced):
    files = {"course_key": "course.key", "class_list": "class.txt", **replaced}
    return main(
        [
            "classroom", "notebooks", str(course / "course"), "--out", str(course / "out"),
            "--course-key", str(course / files["course_key"]),
            "--class-list", str(course / files["class_list"]), *options,
        ]
    )  # fmt: skip


def test_a_notebook_is_written_for_each_student(course):
    assert notebooks(course) == 0
    assert sorted(path.name for path in (course / "out").iterdir()) == CLASS
    shown = {}
    for student in CLASS:
        text = (course / "out" / student / NAME).read_text(encoding="utf-8")
        made = json.loads(text)
        assert made["metadata"]["edutorch"] == {"student": student}
        source = "".join(made["cells"][0]["source"])
        shown[student] = eval(source, {"torch": torch})
        assert dict(shown[student]) == values(student) and shown[student].student == student
        # Nothing in it leads to the values of others.
        others = [seed_of_student(KEY, other, BY_HAND.id) for other in CLASS if other != student]
        assert not any(secret in text for secret in (KEY.hex(), *others))
    assert len({repr(dict(own)) for own in shown.values()}) == len(CLASS)


def test_one_student_can_be_chosen(course):
    assert notebooks(course, "--student", "bob") == 0
    assert [path.name for path in (course / "out").iterdir()] == ["bob"]


def test_the_notebook_of_the_course_shows_values():
    text = find_notebook()
    assert 'torch.classroom.values_of(\\"01.by_hand\\")' in text


def find_notebook():
    from tests.house import ROOT

    return (ROOT / "notebooks" / NAME).read_text(encoding="utf-8")


BAD = {
    "no key": ({"course_key": "none.key"}, [], "none.key' cannot be read: No such file"),
    "a short key": ({"course_key": "short.key"}, [], "is too short: 4 bytes, at least 16"),
    "no hex": ({"course_key": "class.txt"}, [], "holds no course key"),
    "no list": ({"class_list": "none.txt"}, [], "none.txt' cannot be read: No such file"),
    "twice": ({"class_list": "twice.txt"}, [], "names 'Ada' twice"),
    "nobody": ({"class_list": "nobody.txt"}, [], "names nobody"),
    "a path": ({"class_list": "path.txt"}, [], "'../ada' cannot be the name of a folder"),
    "unknown": ({}, ["--student", "zoe"], "class.txt is called zoe"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_said_and_nothing_written(name, course, capsys):
    files, options, sentence = BAD[name]
    write(course / "short.key", "00112233")
    write(course / "twice.txt", "ada\nAda\n")
    write(course / "nobody.txt", "\n")
    write(course / "path.txt", "../ada\n")
    assert notebooks(course, *options, **files) == 1
    assert sentence in capsys.readouterr().err
    assert not (course / "out").exists()


def test_a_folder_that_is_not_empty_is_left_alone(course, capsys):
    write(course / "out" / "mine.txt", "mine")
    assert notebooks(course) == 1
    assert "out' is not empty" in capsys.readouterr().err
    assert [path.name for path in (course / "out").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "is no notebook"),
        (notebook_text(("a", "x = 1")), "shows own values"),
        (notebook_text(("a", 'values_of("01.zoo")')), "there is no exercise '01.zoo'"),
        (notebook_text(("a", 'values_of("02.softmax")')), "same for everybody"),
        (None, "there is no notebook"),
    ],
)
def test_notebooks_without_values_are_refused(content, sentence, course, capsys):
    (course / "course" / NAME).unlink()
    if content is not None:
        write(course / "course" / NAME, content)
    assert notebooks(course) == 1
    assert sentence in capsys.readouterr().err
    assert not (course / "out").exists()


# The grader --------------------------------------------------------------------------------------


def graded(folder, answers, students=None, **more):
    for student, code in answers.items():
        write(folder / student / NAME, notebook_text(("cell-31", code)))
    files, _ = by_student(find_submissions(folder))
    course = CourseValues(KEY, students or files)
    settings = ClassSettings({BY_HAND.id: BY_HAND}, 7, 10.0, own_values=course)
    return {result.student: result for result in grade_class(files, in_process, settings, **more)}


def test_an_answer_for_somebody_elses_values_is_reported(tmp_path):
    results = graded(
        tmp_path,
        {
            "ada": solution("ada"), "bob": solution("ada"), "carol": BY_HAND.solution,
            "dan": "a_grad, b_grad = 1.0, 1.0", "eve": solution("frank"), "gil": "1 / 0",
            "hal": BY_HAND.starter,
        },
        students=["ada", "bob", "carol", "dan", "eve", "frank", "gil", "hal"], workers=2,
    )  # fmt: skip
    assert {name: result.points for name, result in results.items() if result.points} == {"ada": 1}
    (bob,) = results["bob"].exercises
    assert bob.right_for == ("ada",) and bob.sentence == RIGHT_FOR_OTHERS
    (eve,) = results["eve"].exercises
    assert eve.right_for == ("frank",)  # who has handed in nothing
    (carol,) = results["carol"].exercises
    assert carol.right_for == () and carol.sentence == RIGHT_FOR_SHARED
    for name in ("ada", "dan", "gil", "hal"):
        (result,) = results[name].exercises
        assert result.right_for == ()
        assert result.sentence not in (RIGHT_FOR_SHARED, RIGHT_FOR_OTHERS)


def test_what_a_student_is_told_names_nobody(tmp_path):
    results = graded(tmp_path, {name: solution("ada") for name in CLASS})
    for name in CLASS[1:]:
        (result,) = results[name].exercises
        assert result.right_for == ("ada",)
        assert not any(other in result.sentence for other in CLASS)


def test_a_result_is_read_as_it_was_written(tmp_path):
    result = graded(tmp_path, {"ada": solution("ada"), "bob": solution("ada")})["bob"]
    assert StudentResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    old = result.to_json()
    for exercise in old["exercises"]:
        del exercise["right_for"]
    assert StudentResult.from_json(old).exercises[0].right_for == ()


class Window(Exercise):
    """A function that each student writes for a size of his or her own."""

    id, notebook, cell, names = "98.window", "98_window", "cell-1", ("smooth",)
    shared_values: ClassVar = {"size": 2}

    def values(rng):
        return {"size": int(rng.integers(3, 60))}

    def cases(rng):
        for _ in range(2):
            yield {"x": rng.normal(size=64)}

    def answer(theirs, x, size):
        return theirs.smooth(torch.tensor(x))

    def right(x, size):
        return torch.tensor(np.convolve(x, np.ones(size) / size, "valid"))

    hints = (Hint("x as it is", lambda attempt: attempt.is_close(torch.tensor(attempt.case["x"]))),)
    starter = "def smooth(x):\n    return x\n"

    def solution_of(size):
        return f"def smooth(x):\n    return x.unfold(0, {size}, 1).mean(1)\n"

    solution = solution_of(**shared_values)


EXERCISES.pop("98.window")  # it is of no notebook


def test_a_teachers_exercise_may_ask_for_a_function(tmp_path):
    for student, owner in (("ada", "ada"), ("bob", "ada"), ("carol", "carol")):
        code = Window.solution_of(**values(owner, Window))
        write(tmp_path / student / "98.ipynb", notebook_text(("cell-1", code)))
    files, _ = by_student(find_submissions(tmp_path))
    settings = ClassSettings({Window.id: Window}, 7, 10.0, own_values=CourseValues(KEY, files))
    results = sorted(grade_class(files, in_process, settings))  # workers end in any order
    assert [result.points for result in results] == [1, 0, 1]
    assert results[1].exercises[0].right_for == ("ada",)


# The command -------------------------------------------------------------------------------------

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the jail needs Linux")


def grade(course, *options, key="course.key"):
    return main(
        [
            "grade", str(course / "class"), "--out", str(course / "grades"), "--only", "01.by_hand",
            "--course-key", str(course / key), *options,
        ]
    )  # fmt: skip


@pytest.fixture
def handed_in(course):
    for student, owner in (("ada", "ada"), ("bob", "ada"), ("carol", "dan")):
        content = notebook_text(("cell-31", solution(owner)))
        write(course / "class" / student / NAME, content)
    return course


@pytest.mark.slow
@pytest.mark.classroom
@LINUX
def test_the_command_grades_own_values(handed_in, capsys):
    from edutorch.classroom.jail.settings import Settings
    from tests.classroom.jails import open_factory

    open_factory(Settings()).close()
    assert grade(handed_in, "--class-list", str(handed_in / "class.txt"), "--seed", "5") == 0
    assert "3 students, 1 of 3 points" in capsys.readouterr().out
    text = (handed_in / "grades" / "results.json").read_text(encoding="utf-8")
    by_name = {student["student"]: student for student in json.loads(text)["students"]}
    assert by_name["bob"]["exercises"][0]["right_for"] == ["ada"]
    assert by_name["carol"]["exercises"][0]["right_for"] == ["dan"]
    assert KEY.hex() not in text
    write(handed_in / "other.key", bytes(32).hex())
    assert grade(handed_in, "--resume", key="other.key") == 1
    assert "with another --course-key" in capsys.readouterr().err
    assert grade(handed_in, "--resume", "--class-list", str(handed_in / "class.txt")) == 0
    assert text == (handed_in / "grades" / "results.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("key", "class_list", "sentence"),
    [
        ("none.key", "class.txt", "none.key makes one"),
        ("short.key", "class.txt", "is too short: 1 bytes"),
        ("course.key", "others.txt", "nobody in {}/others.txt is called ada, bob, carol"),
    ],
)
def test_bad_keys_and_lists_are_said_before_anybody_is_graded(
    key, class_list, sentence, handed_in, capsys
):
    write(handed_in / "short.key", "00")
    write(handed_in / "others.txt", "zoe\n")
    assert grade(handed_in, "--class-list", str(handed_in / class_list), key=key) == 1
    assert sentence.format(handed_in) in capsys.readouterr().err
    assert not (handed_in / "grades").exists()


def test_a_class_list_alone_is_refused(handed_in, capsys):
    code = main(
        ["grade", str(handed_in / "class"), "--class-list", str(handed_in / "class.txt")]
    )  # fmt: skip
    assert code == 1
    assert "--class-list is read only with --course-key FILE" in capsys.readouterr().err
