"""A class that is graded in parts, and put together: the same bytes as in one run."""

from __future__ import annotations

import json
import sys

import pytest

from edutorch.__main__ import main
from edutorch.classroom.engines import make_shards, shard_of
from edutorch.classroom.feedback_files import folder_names
from edutorch.classroom.jail.settings import Settings
from tests.classroom.own_exercises import RIGHT, WRONG, write, write_class, write_specs

if not sys.platform.startswith("linux"):
    pytest.skip("the jail is built of Linux's walls", allow_module_level=True)

from tests.classroom.jails import open_factory

NAMES = ["ada", "bob", "carol", "dan", "Eve Ünal", "=fay", "gus"]
DUE = "due = 2026-11-20T23:59:00Z\n[late]\npercent_per_day = 10\n"
FILES = ("grades.csv", "results.json", "seed.json", "plan.json")

pytestmark = [pytest.mark.slow, pytest.mark.classroom]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Return a folder with the results of three parts, and of one whole run."""
    open_factory(Settings()).close()
    folder = tmp_path_factory.mktemp("parts")
    write_specs(folder)
    write_class(folder, {name: WRONG if name in ("bob", "gus") else RIGHT for name in NAMES})
    write(folder / "class" / "broken" / "71_averages.ipynb", "{")
    write(folder / "class" / "assignment.toml", DUE)
    grade(folder, "whole")
    for number in (1, 2, 3):
        grade(folder, f"part{number}", "--shard", f"{number}/3")
        feedback = folder / f"part{number}" / "feedback"
        for student in students_of(folder / f"part{number}"):
            write(feedback / student / "index.html", f"for {student}")
        write(feedback / "style.css", "the same")
    return folder


def grade(folder, out, *options, seed="7"):
    command = ["grade", str(folder / "class"), "--specs", str(folder / "specs"), "--out",
               str(folder / out), "--seed", seed, *options]  # fmt: skip
    return main(command)


def students_of(folder):
    document = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return [student["student"] for student in document["students"]]


def merge(folder, *names, out):
    arguments = [str(folder / name) for name in names]
    return main(["grade", "merge", *arguments, "--out", str(out)])


@pytest.mark.parametrize("names", [("part1", "part2", "part3"), ("part3", "part1", "part2")])
def test_parts_are_the_same_bytes_as_one_run(names, parts, tmp_path, capsys):
    assert merge(parts, *names, out=tmp_path / "out") == 0
    assert "8 students of 8" in capsys.readouterr().out
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (parts / "whole" / name).read_bytes()
    run = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    assert [part["shard"][-2:] for part in run["merged"]] == ["/3"] * 3
    assert run["class"] == sorted([*NAMES, "broken"])


def test_feedback_is_carried_over(parts, tmp_path):
    merge(parts, "part1", "part2", "part3", out=tmp_path / "out")
    feedback = tmp_path / "out" / "feedback"
    folders = folder_names([*NAMES, "broken"]).values()  # the pages of `grade`
    assert {path.name for path in feedback.iterdir()} == {*folders, *NAMES, "broken", "style.css"}
    assert (feedback / "ada" / "index.html").read_text() == "for ada"


def test_merged_results_can_be_merged_again_and_resumed(parts, tmp_path, capsys):
    assert merge(parts, "part1", "part2", out=tmp_path / "two") == 1
    missing = sorted(students_of(parts / "part3"))
    printed = capsys.readouterr()
    assert f"missing: {', '.join(missing)}\nmissing: shard 3/3\n" in printed.err
    assert f"{8 - len(missing)} students of 8" in printed.out
    assert merge(parts, tmp_path / "two", "part3", out=tmp_path / "all") == 0
    assert "missing" not in capsys.readouterr().err
    assert grade(parts, tmp_path / "two", "--resume") == 1  # one file cannot be read
    for folder in ("two", "all"):
        for name in FILES:
            assert (tmp_path / folder / name).read_bytes() == (parts / "whole" / name).read_bytes()


def test_what_does_not_belong_together_is_refused(parts, tmp_path, capsys):
    first = parts / "part1"
    student = students_of(first)[0]

    def refused(sentence, *names, out=tmp_path / "out"):
        assert merge(parts, *names, out=out) == 1
        assert sentence in capsys.readouterr().err
        assert not (tmp_path / "out").exists()

    def copy(name, old, new, file):
        for path in first.glob("*.json"):
            text = path.read_text(encoding="utf-8")
            assert path.name != file or old in text
            write(
                tmp_path / name / path.name, text.replace(old, new) if path.name == file else text
            )
        return tmp_path / name

    refused(f"{student} is in {first} and in {first}", "part1", "part1")
    seed = copy("seed", '"seed": 7', '"seed": 8', "results.json")
    refused(f"{parts / 'part2'} and {seed} do not agree in their seed", "part2", seed)
    numpy = copy("numpy", '"numpy": "', '"numpy": "0', "run.json")
    refused("do not agree in their versions", "part2", numpy)
    other = copy("spec", '"71.mean": "', '"71.mean": "0', "run.json")
    refused("do not agree in their exercises", "part2", other)
    late = copy("late", '"percent_per_day": 10', '"percent_per_day": 20', "results.json")
    refused("do not agree in their assignment", "part2", late)
    cut = copy("cut", '"students"', '"student"', "results.json")
    refused("results.json: says nothing about students", "part2", cut)
    field = copy("field", '"days_late"', '"days"', "results.json")
    refused("results.json: is of another version", "part2", field)
    write(tmp_path / "json" / "results.json", "{")
    refused("results.json: is no JSON", "part2", tmp_path / "json")
    refused("results.json: No such file", "part2", tmp_path / "none")
    refused("is one of the folders to merge", "part2", "part1", out=parts / "part2")


def test_two_files_of_one_name_are_refused(parts, tmp_path, capsys):
    for path in (parts / "part1").glob("*.json"):
        write(tmp_path / "one" / path.name, path.read_text(encoding="utf-8"))
    write(tmp_path / "one" / "feedback" / "style.css", "another one")
    assert merge(parts, "part2", tmp_path / "one", out=tmp_path / "out") == 1
    assert "style.css differ" in capsys.readouterr().err


# Shards ------------------------------------------------------------------------------------------


def test_each_student_is_in_one_shard_by_the_name_alone():
    names = [f"student {number}" for number in range(300)]
    counts = [sum(shard_of(name, 3) == number for name in names) for number in (1, 2, 3)]
    assert sum(counts) == 300 and min(counts) > 70
    assert shard_of("Ünal", 1000) == shard_of("U\u0308nal", 1000)  # as macOS writes it


def test_a_class_is_cut_into_shards():
    shards = make_shards(dict.fromkeys("abcde", ()), 2)
    assert [(shard.number, "".join(shard.students)) for shard in shards] == [
        (1, "ab"), (2, "cd"), (3, "e"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "1/0", "a/b", "-1/3", "1/2/3"])
def test_parts_that_are_none(text, parts, capsys):
    with pytest.raises(SystemExit):
        grade(parts, "none", f"--shard={text}")
    assert "is like 2/8" in capsys.readouterr().err


def test_options_that_need_each_other(parts, capsys):
    folder = str(parts / "class")
    rows = {
        ("--shard", "1/3"): "--shard needs --seed",
        ("--engine", "dask"): "--engine dask needs --scheduler",
        ("--scheduler", "tcp://127.0.0.1:1"): "--scheduler is for --engine dask",
    }
    for options, sentence in rows.items():
        assert main(["grade", folder, *options]) == 1
        assert sentence in capsys.readouterr().err


def test_merge_needs_folders_and_out(capsys):
    for arguments in (["--out", "x"], ["part1"]):
        with pytest.raises(SystemExit):
            main(["grade", "merge", *arguments])
        assert "required" in capsys.readouterr().err
