"""The notes for teachers: one page a lesson, all of one form."""

from __future__ import annotations

import re

import pytest

from docs.make_pages import inside_links
from tests.house import ROOT
from tests.lessons.metadata import NOTEBOOKS

FOLDER = ROOT / "docs" / "course"
NOTES = sorted(FOLDER.glob("[0-9][0-9].md"))
HEADINGS = [
    "Goals", "Time", "What students believe", "Questions for the room", "What to skip",
    "If something fails",
]  # fmt: skip


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_notes_have_one_form(path):
    text = path.read_text("utf-8")
    lines = text.splitlines()
    assert 25 <= len(lines) <= 60
    assert re.findall(r"(?m)^## (.*)$", text) == HEADINGS
    assert re.fullmatch(rf"# {path.stem} \S.*", lines[0])
    assert re.search(r"## Time\n+.*?\b(\d+|hour)", text)


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_the_time_is_that_of_the_table(path):
    """Where the notes begin with minutes; others divide a lesson into sessions."""
    minutes = re.search(r"## Time\n+(\d+) minutes", path.read_text("utf-8"))
    row = re.search(
        rf"(?m)^\| `{path.stem}_\w+\.ipynb` \|[^|]*\| (\d+) \|",
        (NOTEBOOKS / "README.md").read_text("utf-8"),
    )
    assert row and (minutes is None or minutes[1] == row[1])


def test_links_between_the_notes_lead_to_pages_of_the_site():
    text = "[notes](../docs/course/README.md), [02](../docs/course/02.md), [grade](../teachers.md)"
    assert inside_links(text) == (
        "{doc}`notes </course/index>`, {doc}`02 </course/02>`, {doc}`grade </about/teachers>`"
    )
