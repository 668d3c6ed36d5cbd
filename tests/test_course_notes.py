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
    assert re.findall(r"(?m)^## (.*)$", text) == HEADINGS
    (notebook,) = NOTEBOOKS.glob(f"{path.stem}_*.ipynb")
    first = "".join(json.loads(notebook.read_text("utf-8"))["cells"][0]["source"])
    assert lines[0] == f"# {path.stem} {first.splitlines()[0].removeprefix('# ')}"
    assert re.search(r"## Time\n\n.*?\b\d+ minutes", text)


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_the_time_is_that_of_the_table(path):
    minutes = re.search(r"## Time\n\n.*?\b(\d+) minutes", path.read_text("utf-8"))
    row = re.search(
        rf"(?m)^\| `{path.stem}_\w+\.ipynb` \|[^|]*\| (\d+) \|",
        (NOTEBOOKS / "README.md").read_text("utf-8"),
    )
    assert minutes and row and minutes[1] == row[1]


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
def test_what_students_believe_is_answered(path):
    text = path.read_text("utf-8")
    part = text.partition("## What students believe\n")[2].partition("\n## ")[0]
    items = re.split(r"(?m)^- ", part)[1:]
    assert len(items) >= 3
    for item in items:
        assert re.match(r'\*?"', item), "what they say, in their words"
        assert item.count(" ") > 5, "and what corrects it"


def test_the_index_lists_all_notes():
    index = (FOLDER / "README.md").read_text("utf-8")
    titles = [path.read_text("utf-8").splitlines()[0][2:] for path in NOTES]
    wanted = [f"- [{title}]({path.name})" for title, path in zip(titles, NOTES, strict=True)]
    listed = [line for line in index.splitlines() if line.startswith("- [")]
    assert listed == wanted, "docs/course/README.md lists:\n" + "\n".join(wanted)


def test_links_between_the_notes_lead_to_pages_of_the_site():
    text = "[notes](../docs/course/README.md), [02](../docs/course/02.md), [grade](../teachers.md)"
    assert inside_links(text) == (
        "{doc}`notes </course/index>`, {doc}`02 </course/02>`, {doc}`grade </about/teachers>`"
    )
