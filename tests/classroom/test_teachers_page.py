"""The commands on the page for teachers are commands, and what it shows of files is so."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from edutorch.__main__ import _parser
from edutorch.classroom.interop.grade_export import make_parser
from edutorch.classroom.submissions import owned

PAGE = (Path(__file__).parents[2] / "docs" / "teachers.md").read_text("utf-8")
COMMANDS = re.findall(r"^ *python -m edutorch (.+)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_is_one(command):
    arguments = shlex.split(command, comments=True)
    if arguments[:2] == ["grade", "export"]:
        make_parser().parse_args(arguments[2:])
    else:
        _parser().parse_args(arguments)


def test_the_layouts_of_the_page_name_the_student():
    (block,) = re.findall(r"^```\n(submitted.+?)^```", PAGE, re.DOTALL | re.MULTILINE)
    paths = re.findall(r"(?:^|(?<=\s{4}))(\S.*?\.(?:ipynb|py))", block, re.MULTILINE)
    students = [owned(tuple(path.split("/")), path, bytes).student for path in paths]
    assert students == ["ada", "lovelaceada", "Ada Lovelace", "ada", "ada", "ada"]


def test_the_page_has_its_sections():
    for title in ("Own exercises", "Own values per student", "Several machines",
                  "A class without a network"):  # fmt: skip
        assert f"\n## {title}\n\n" in PAGE
