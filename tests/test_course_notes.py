"""The notes for teachers: one page a lesson, all of one form."""

from __future__ import annotations

import json
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
    assert max(map(len, lines)) <= 140
    assert re.findall(r"(?m)^## (.*)$", text) == HEADINGS
    (notebook,) = NOTEBOOKS.glob(f"{path.stem}_*.ipynb")
    first = "".join(json.loads(notebook.read_text("utf-8"))["cells"][0]["source"])
    assert lines[0] == f"# {path.stem} {first.splitlines()[0].removeprefix('# ')}"
    assert re.search(r"## Time\n\n\d+ minutes", text)


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_the_time_is_that_of_the_table(path):
    minutes = re.search(r"## Time\n\n(\d+) minutes", path.read_text("utf-8"))
    row = re.search(
        rf"(?m)^\| `{path.stem}_\w+\.ipynb` \|[^|]*\| (\d+) \|",
        (NOTEBOOKS / "README.md").read_text("utf-8"),
    )
    assert minutes and row and minutes[1] == row[1]


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_what_students_believe_leads_to_a_place_in_the_lesson(path):
    text = path.read_text("utf-8")
    part = text.partition("## What students believe\n")[2].partition("\n## ")[0]
    items = re.split(r"(?m)^- ", part)[1:]
    assert len(items) >= 4
    for item in items:
        assert item.startswith('*"'), "what they say, in their words"
        assert re.search(r"[Ss]ection|[Pp]icture|[Cc]ell|[Ee]xercise|[Ff]ilm|story|pits", item), (
            item
        )


def test_the_index_lists_all_notes():
    index = (FOLDER / "README.md").read_text("utf-8")
    listed = dict(re.findall(r"(?m)^- \[(.*)\]\((\d\d\.md)\)$", index))
    titles = {path.read_text("utf-8").splitlines()[0][2:]: path.name for path in NOTES}
    assert listed == titles


def test_links_between_the_notes_lead_to_pages_of_the_site():
    text = "[notes](../docs/course/README.md), [02](../docs/course/02.md), [grade](../teachers.md)"
    assert inside_links(text) == (
        "{doc}`notes </course/index>`, {doc}`02 </course/02>`, {doc}`grade </about/teachers>`"
    )
