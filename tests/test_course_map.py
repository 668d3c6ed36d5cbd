"""The course's README: its table, its paths and its map fit the notebooks and each other."""

from __future__ import annotations

import re
from html import unescape

import pytest

from docs.course_map import LESSONS, SVG, arrows, draw
from tests.lessons.metadata import NOTEBOOKS, read, stems

README = (NOTEBOOKS / "README.md").read_text("utf-8")
IN_LAB = {"sklearn", "matplotlib", "tqdm", "PIL"}
D2L = 21  # chapters, besides the appendices
ZERO_TO_HERO = 9  # lectures


def section(heading):
    """Return what stands below a heading of the README."""
    return README.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def rows(text):
    """Return the cells of each row of the tables in a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rules = [index for index, row in enumerate(cells) if set("".join(row)) <= set(":-")]
    heads = {index - 1 for index in rules} | set(rules)
    return [row for index, row in enumerate(cells) if index not in heads]


def lessons_in(text):
    """Return the lessons that a text names, without the sections in brackets."""
    return re.findall(r"\b\d\d\b", re.sub(r"\(.*?\)", "", text))


LISTED = {row[0].strip("`")[:2]: row for row in rows(README) if row[0].endswith(".ipynb`")}


def test_the_map_has_all_lessons_in_the_order_of_the_course():
    existing = [stem[:2] for stem in stems()]
    assert [number for number in LESSONS if number in existing] == existing
    planned = [number for number, entry in LESSONS.items() if not entry.is_later]
    assert planned == list(LISTED)
    later = {row[0][:2] for row in rows(README) if row[0].endswith("(later)")}
    assert later == {number for number, entry in LESSONS.items() if entry.is_later}


def test_the_map_has_no_circle_and_no_arrow_too_many():
    """What a lesson needs comes earlier in the course: so there is no circle."""
    order = list(LESSONS)
    everything = {}
    for number, entry in LESSONS.items():
        assert all(order.index(need) < order.index(number) for need in entry.needs), number
        behind = [everything[need] for need in entry.needs]
        for need in entry.needs:
            assert not any(need in others for others in behind), f"{need} → {number} follows"
        everything[number] = set(entry.needs).union(*behind)
    assert all("00" in before for number, before in everything.items() if number != "00")


def test_the_parts_are_those_of_the_readme():
    part = 0
    parts = {}
    for line in README.splitlines():
        part += bool(re.match(r"## [IVX]+\. ", line))
        if re.match(r"\| `?\d\d[_ ]", line):
            parts.setdefault(re.findall(r"\d\d", line)[0], part)
    assert parts == {number: entry.part for number, entry in LESSONS.items()}
    for stem in stems():
        said = read(stem)["metadata"].get("edutorch")
        roman = ["I", "II", "III", "IV", "V", "VI"]
        assert not said or said["part"] == roman[LESSONS[stem[:2]].part - 1], stem


def test_the_map_in_the_repository_shows_the_table():
    """Positions may differ between versions of Graphviz; `python -m docs.course_map` draws anew."""
    text = unescape(SVG.read_text("utf-8"))
    assert len(text) < 60_000
    assert "prefers-color-scheme: dark" in text and "docs/_static/course_map.svg" in README
    titles = set(re.findall(r"<title>(.*?)</title>", text))
    wanted = {f"{start}->{end}" for start, end in arrows()}
    assert titles == {*LESSONS, *wanted, "course"}
    for number, entry in LESSONS.items():
        assert f"{number} \N{NO-BREAK SPACE}{entry.title}</text>" in text, number


def test_the_map_can_be_drawn():
    pytest.importorskip("pygraphviz", reason="needs the extra `lab`")
    text = draw()
    assert re.findall("<title>.*?</title>", text) == re.findall(
        "<title>.*?</title>", SVG.read_text("utf-8")
    )


PATHS = section("Three ways through").split("\n\n**")


@pytest.mark.parametrize("path", PATHS[-3:], ids=["weekend", "term", "pictures"])
def test_a_path_respects_what_comes_before_what(path):
    taken = [number for row in rows(path) for number in lessons_in(row[1])]
    assert len(taken) == len(set(taken)) >= 7
    is_whole = "I know PyTorch" not in path  # else what is not taken is known
    for index, number in enumerate(taken):
        needs = set(LESSONS[number].needs)
        assert needs & set(taken[index:]) == set(), f"{number} comes too early"
        assert not is_whole or needs <= set(taken), f"{number} needs {needs}"


def test_the_term_has_twelve_weeks_and_all_lessons():
    weeks = rows(next(path for path in PATHS if path.startswith("A term")))
    assert [row[0] for row in weeks] == [str(week) for week in range(1, 13)]
    assert [number for row in weeks for number in lessons_in(row[1])] == list(LISTED)


def test_the_table_of_lessons_is_filled_in():
    for number, row in LISTED.items():
        _, question, minutes, needs, exercises = row
        assert question and 5 <= int(minutes) <= 180, number
        assert needs and (exercises != "–" or number == "00"), number


@pytest.mark.parametrize("stem", [stem for stem in stems() if "edutorch" in read(stem)["metadata"]])
def test_what_a_lesson_needs_is_in_the_table(stem):
    said, needs = read(stem)["metadata"]["edutorch"], LISTED[stem[:2]][3]
    assert ("`course`" in needs) == bool(set(said["packages"]) - IN_LAB), said["packages"]
    assert ("GPU" in needs) == ("gpu" in said["needs"])


def test_every_chapter_and_lecture_has_its_row():
    table = rows(section("If you come from another course"))
    first = [row[0] for row in table]
    chapters, rest = first[:D2L], first[D2L:]
    assert [re.match(r"\d+", title)[0] for title in chapters] == [str(n + 1) for n in range(D2L)]
    assert [title.startswith("Appendix") for title in rest] == [True] * 2 + [False] * ZERO_TO_HERO
    lectures = [re.match(r"\d+", title)[0] for title in rest[2:]]
    assert lectures == [str(n + 1) for n in range(ZERO_TO_HERO)]
    for title, here in table:
        named = set(lessons_in(here))
        assert named <= set(LESSONS), title
        assert named or "because" in here or "Tools" in title or "tools" in title, title
        assert "not here" not in here or "because" in here, title


@pytest.mark.parametrize("stem", stems())
def test_sections_that_the_readme_names_exist(stem):
    """`08 (4, 7)` are sections of lesson 08."""
    text = "\n".join(
        "".join(cell["source"]) for cell in read(stem)["cells"] if cell["cell_type"] == "markdown"
    )
    sections = set(re.findall(r"(?m)^## (\d+)\.", text))
    for inside in re.findall(rf"\b{stem[:2]} \(([\d, –AB]+)\)", README):
        assert set(re.findall(r"\d+", inside)) <= sections, inside
