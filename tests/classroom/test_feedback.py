"""What students are told: their code, the hint, their graph; nothing of the hidden cases."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from contextlib import nullcontext
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from edutorch.classroom import feedback_page
from edutorch.classroom.answer_picture import MOST_ARROWS, MOST_BOXES, draw_answer
from edutorch.classroom.attempt import AnswerGraph, Attempt, Box, Details, namespace, run_answer
from edutorch.classroom.class_grader import grade_student
from edutorch.classroom.exercise import find_exercise, load_exercises
from edutorch.classroom.exercise_grader import ClassSettings, seed_of
from edutorch.classroom.feedback import (
    OTHER_ERROR,
    OTHERS,
    all_examples,
    example_seed,
    feedback_on,
    first_example,
)
from edutorch.classroom.feedback_files import folder_names, write_feedback
from edutorch.classroom.feedback_page import StudentPage, draw_picture, html_page
from edutorch.classroom.grading import grade
from edutorch.classroom.jail.attempts import KINDS, MAX_STATS_TEXT
from edutorch.classroom.submissions import Submission
from edutorch.viz.render import graphviz
from edutorch.viz.tensors.summaries import Stats
from tests.classroom.test_class_grader import NOTEBOOK, InProcess, in_process, notebook

SOFTMAX = find_exercise("02.softmax")
SEED = 7
HALF_WRONG = "def gradient_of_logits(z, right):\n    return z.softmax(0)\n"
PAGE = NOTEBOOK.replace(".ipynb", ".html")


def graded(code, form="html", name="ada", cell="cell-37", file=f"class/ada/{NOTEBOOK}"):
    """Return the result of a student who wrote this code."""
    content = code if isinstance(code, bytes) else notebook((cell, code)).encode()
    settings = ClassSettings({SOFTMAX.id: SOFTMAX}, SEED, feedback=form)
    return grade_student(name, [Submission(name, file, lambda: content)], in_process, settings)


def page_of(code, **more):
    return graded(code, **more).feedback[PAGE].decode()


# What a page is made of ---------------------------------------------------------------------


class Reader(HTMLParser):
    """Reads a page as a browser does: its tags, with their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


OURS = {
    "html": {"lang"}, "head": set(), "title": set(), "style": set(), "body": set(),
    "meta": {"charset", "http-equiv", "content", "name"}, "header": set(), "main": set(),
    "h1": set(), "h2": set(), "h3": set(), "p": {"class"}, "b": set(), "section": set(),
    "pre": set(), "code": set(), "figure": set(), "figcaption": set(), "div": set(),
    "img": {"alt", "src"}, "details": {"open"}, "summary": set(),
}  # fmt: skip
SVG_TAGS = {"svg", "g", "title", "path", "polygon", "polyline", "text", "rect", "ellipse", "circle",
            "image", "defs", "linearGradient", "stop"}  # fmt: skip


def read(page):
    """Return a page as it is read, after a look at each of its tags."""
    reader = Reader(page)
    for tag, attributes in reader.tags:
        assert tag in OURS and attributes.keys() <= OURS[tag], (tag, attributes)
        if tag == "img":
            start, _, data = attributes["src"].partition(",")
            assert start == "data:image/svg+xml;base64"
            check_svg(base64.b64decode(data).decode())
    counts = Counter(tag for tag, _ in reader.tags)
    assert counts["style"] == counts["body"] == counts["main"] == 1
    assert all(letter.isprintable() or letter == "\n" for letter in page)
    return reader


def check_svg(svg):
    for element in ElementTree.fromstring(svg).iter():
        assert element.tag.removeprefix("{http://www.w3.org/2000/svg}") in SVG_TAGS
        for name, value in element.attrib.items():
            assert not name.lower().startswith("on")
            assert "href" not in name or value.startswith("data:image/png;base64,")


def test_a_wrong_answer_is_shown_with_its_hint_and_marked_graph():
    page = read(page_of(HALF_WRONG))
    assert "The gradient of softmax and cross entropy" in page.text
    assert "02.softmax: 0 of 2 points, 0 of 3 cases right" in page.text
    assert "✗ all numbers are right but one" in page.text
    assert HALF_WRONG.strip() in page.text
    assert "softmax ◀ look here" in page.text, "in the table"
    assert "softmax: expected 2 float64 of norm" in page.text
    (image,) = [attributes for tag, attributes in page.tags if tag == "img"]
    assert image["alt"].endswith("2 boxes; the table below lists them. Marked is softmax.")
    svg = base64.b64decode(image["src"].partition(",")[2]).decode()
    assert "softmax ◀ look here" in svg and "#B00020" in svg


def test_a_right_answer_needs_no_picture():
    page = read(page_of(SOFTMAX.solution))
    assert "✓ right" in page.text and "2 of 2 points, 3 of 3 cases right" in page.text
    assert not [tag for tag, _ in page.tags if tag == "img"]


def test_check_with_the_seed_on_the_page_shows_the_same_case():
    page = read(page_of(HALF_WRONG))
    seed = int(re.search(r'edutorch.check\("02.softmax", seed=(\d+)\)', page.text)[1])
    z = SOFTMAX.draw_cases(seed)[0]["z"]
    assert f"z = [{z[0]:.4g}" in page.text


# Hidden cases stay hidden -------------------------------------------------------------------


def numbers_of(seed):
    """Return the inputs and right answers of a seed's cases, as code could print them."""
    texts = set()
    for case in SOFTMAX.draw_cases(seed):
        for array in (case["z"], SOFTMAX.right(**case).numpy()):
            for value in np.atleast_1d(array).tolist():
                texts |= {repr(value), f"{value:.4g}", f"{value:.3f}"}
    return {text for text in texts if len(text) > 4}


HIDDEN = numbers_of(seed_of(SEED, SOFTMAX.id))
KNOWN = [case["z"].tolist() for case in SOFTMAX.draw_cases(example_seed(SOFTMAX.id))]
TELLS = {
    "an answer": "def gradient_of_logits(z, right): return z * 2",
    "another shape": "def gradient_of_logits(z, right): return torch.cat([z, z])",
    "text": "def gradient_of_logits(z, right): return str(z.tolist())",
    "an error": "def gradient_of_logits(z, right): raise ValueError(z.tolist())",
    "the name of an error": (
        "def gradient_of_logits(z, right): raise type(str(z.tolist()), (Exception,), {})"
    ),
    "a name": (
        "def gradient_of_logits(z, right):\n    scope = {'z': z}\n"
        "    exec('def f(v):\\n    ' + f'n{z.tolist()[0]}'.replace('.', '_').replace('-', '_')"
        " + ' = v * 2\\n    return v * 2', scope)\n    return scope['f'](z)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TELLS)
def test_what_code_tells_of_hidden_cases_is_not_shown(name):
    page = page_of(TELLS[name])
    assert not [text for text in HIDDEN if text in page or text.replace(".", "_") in page]
    assert [text for text in numbers_of(example_seed(SOFTMAX.id)) if text in page]


ONLY_FOR_EXAMPLES = f"""\
known = {KNOWN}
def gradient_of_logits(z, right):
    if z.tolist() not in known:
        {{}}
    gradient = z.softmax(0)
    gradient[right] -= 1
    return gradient
"""
OTHERWISE = {
    "raise ValueError(z.tolist())": OTHER_ERROR,
    "return z * 2": OTHERS,
    "return z.tolist()": OTHERS,
}


@pytest.mark.parametrize("line", OTHERWISE)
def test_code_that_knows_the_examples_can_tell_nothing_of_the_others(line):
    page = page_of(ONLY_FOR_EXAMPLES.replace("{}", line))
    assert OTHERWISE[line] in page
    assert not [text for text in HIDDEN if text in page.replace(str(KNOWN), "")]


def test_an_ending_is_told_with_no_example():
    def ask(case):
        return Attempt(case, error="TimeoutError: the code did not answer in time")

    outcome = grade(SOFTMAX, ask, SEED)
    feedback = feedback_on(outcome, "", first_example(SOFTMAX, ask))
    assert "the code did not answer in time" in feedback.sentence and feedback.example is None
    forged = outcome._replace(attempt=outcome.attempt._replace(line="line 1: 0.123"))
    right = all_examples(SOFTMAX, lambda case: Attempt(case, SOFTMAX.right(**case)))
    assert feedback_on(forged, "", right).sentence == OTHER_ERROR


def test_examples_are_asked_before_hidden_cases():
    asked = []
    settings = ClassSettings({SOFTMAX.id: SOFTMAX}, SEED, feedback="html")

    class Asked(InProcess):
        def ask(self, answer_source, case, forbid, seconds):
            asked.append(case["z"].tolist())
            return super().ask(answer_source, case, forbid, seconds)

    content = notebook(("cell-37", HALF_WRONG)).encode()
    file = Submission("ada", NOTEBOOK, lambda: content)
    grade_student("ada", [file], lambda sources: nullcontext(Asked(sources)), settings)
    hidden = [case["z"].tolist() for case in SOFTMAX.draw_cases(seed_of(SEED, SOFTMAX.id))]
    assert asked == [KNOWN[0], *hidden]


def test_no_page_shows_the_solution(monkeypatch):
    monkeypatch.setattr(feedback_page, "draw_picture", lambda *of: None)
    course = [one for one in load_exercises().values() if ".specs." in one.__module__]
    for exercise in course:
        for mutant in (exercise.starter, exercise.mutants[0].code):
            scope, names = dict(namespace()), dict(namespace())
            exec(exercise.before, names)
            exec(mutant, names)
            exec(exercise.answer_source(), scope)

            def ask(case, answer=scope["answer"], names=names, forbid=exercise.forbid):
                return run_answer(answer, names, case, forbid)

            feedback = feedback_on(grade(exercise, ask, 1), mutant, first_example(exercise, ask))
            page = Reader(html_page(StudentPage("ada", exercise.notebook, [feedback])))
            told = page.text.replace(mutant.strip(), "")
            assert exercise.solution.strip() not in told, exercise.id


# Hand-ins that want to harm -----------------------------------------------------------------

EVIL = (
    "</code></pre><script>alert(1)</script><img src=x onerror=alert(1)>&lt;b&gt;\x1b[31m\u202e\x00"
)
HARM = {
    "a comment": f"# {EVIL}\n{HALF_WRONG}".replace("\x00", ""),
    "an error": f"def gradient_of_logits(z, right): raise ValueError({EVIL!r})",
    "the class of an error": (
        f"def gradient_of_logits(z, right): raise type({EVIL[:-1]!r}, (Exception,), {{}})"
    ),
    "an answer": f"def gradient_of_logits(z, right): return {EVIL!r}",
    "an answer's type": f"def gradient_of_logits(z, right): return type({EVIL[:-1]!r}, (), {{}})()",
    "no Python": f"def {EVIL}",
    "surrogates": f"# \ud800\n{HALF_WRONG}",
    "much output": "print('x' * 10**6)\n" + HALF_WRONG,
    "a long line": f"# {'<' * 10**6}\n{HALF_WRONG}",
    "many lines": "#\n" * 10**5 + HALF_WRONG,
    "a long error": "def gradient_of_logits(z, right): raise ValueError('<' * 10**6)",
    "tabs": "def gradient_of_logits(z, right):\r\n\treturn z\r\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HARM)
@pytest.mark.parametrize("form", ["html", "notebook"])
def test_markup_and_floods_do_no_harm(name, form, capsys):
    (content,) = graded(HARM[name], form).feedback.values()
    assert len(content) < 200_000
    if form == "html":
        page = read(content.decode())
        assert "alert(1)" not in page.text or "<script>alert(1)" in page.text, "as text"
    else:
        read_notebook(content)


@pytest.mark.parametrize("form", ["html", "notebook"])
def test_names_are_escaped(form):
    evil = f"<script>\x1b[1m\ud800{EVIL}"
    for code in (HALF_WRONG, b"{"):
        (content,) = graded(code, form, evil, file=f"class/{evil}/{NOTEBOOK}").feedback.values()
        read(content.decode()) if form == "html" else read_notebook(content)


def test_a_file_that_cannot_be_read_has_a_page_that_says_so():
    page = read(page_of(b"{"))
    assert f"{NOTEBOOK}: is no JSON, or cut off" in page.text
    assert "class/ada" not in page.text, "the teacher's folders"


def test_a_notebook_that_cannot_be_read_has_a_page_beside_one_that_can():
    exercises = {SOFTMAX.id: SOFTMAX, "05.carry": find_exercise("05.carry")}
    right = notebook(("cell-37", SOFTMAX.solution)).encode()
    files = [
        Submission("ada", name, lambda content=content: content)
        for name, content in ((NOTEBOOK, right), ("05_reading_graphs.ipynb", b"{"))
    ]
    settings = ClassSettings(exercises, SEED, feedback="html")
    result = grade_student("ada", files, in_process, settings)
    assert set(result.feedback) == {PAGE, "05_reading_graphs.html"}
    broken = read(result.feedback["05_reading_graphs.html"].decode()).text
    assert "is no JSON, or cut off" in broken and "05_reading_graphs cannot be read" in broken
    assert [one.points for one in result.exercises] == [SOFTMAX.points, 0]


def test_a_cell_that_is_missing_is_named():
    page = read(page_of("x = 1", cell="other"))
    assert f"{NOTEBOOK}: no cell 'cell-37'" in page.text


# Graphs that were forged --------------------------------------------------------------------


def forged_graph(rng, count):
    """Return a graph as bad as `decode_graph` lets through."""
    texts = [
        "x",
        "",
        "<script>alert(1)</script>",
        "a\nb\tc",
        '"];}\\N\\',
        "日本" * 90,
        "&amp;" * 40,
    ]
    sizes = [0.0, -0.0, 1e300, 5e-324, float("inf"), float("nan"), 1.0]
    boxes = []
    for index in range(count):
        sources = tuple(rng.integers(0, index, size=min(index, 64)).tolist()) if index else ()
        size = int(rng.choice([0, 1, 5, 1 << 61]))
        mean, low, high, norm = rng.choice(sizes, size=4).tolist()
        text = str(rng.choice(texts))[:MAX_STATS_TEXT]
        stats = Stats(size, mean, low, high, abs(norm), bool(rng.integers(2)), text)
        kind, variable = str(rng.choice(sorted(KINDS))), str(rng.choice(texts))
        details = Details(kind, variable, stats, stats, (stats,) * len(sources))
        boxes.append(Box(
            str(rng.choice(texts)), bool(rng.integers(2)), ((1 << 61),) * int(rng.integers(33)),
            str(rng.choice(texts))[:40], bool(rng.integers(2)), sources, norm, mean, "",
            details if rng.integers(5) else None,
        ))  # fmt: skip
    return AnswerGraph(tuple(boxes))


@pytest.mark.parametrize("count", [1, 3, 12, 41, 300])
def test_a_forged_graph_is_drawn_and_bounded(count):
    graph = forged_graph(np.random.default_rng(count), count)
    picture = draw_picture(graph.boxes, "x", True)
    check_svg(picture.svg)
    assert len(picture.svg) < 600_000
    assert picture.table.count("\n") <= MOST_BOXES + 1


def test_a_dense_graph_has_few_arrows():
    boxes = [Box("x", True, (), "", True, tuple(range(max(0, n - 60), n))) for n in range(300)]
    drawing = draw_answer(AnswerGraph(tuple(boxes)), "x")
    assert len(drawing.whole.graph.edges) <= MOST_ARROWS


def test_of_a_large_graph_the_part_before_the_mark_is_drawn():
    boxes = [Box("x", False, (), "float32", True)]
    boxes += [Box(f"op{n}", True, (), "float32", True, (n,)) for n in range(99)]
    drawing = draw_answer(AnswerGraph(tuple(boxes)), "op50")
    labels = [node.label for node in drawing.whole.graph.nodes]
    assert "op50 ◀ look here" in labels and "op40" in labels and "op99" not in labels
    assert drawing.caption == "39 of 100 boxes, those nearest to the marked one"
    assert draw_answer(AnswerGraph()) is None


def test_without_graphviz_the_table_is_open(monkeypatch):
    monkeypatch.setattr(graphviz, "engines", list)
    draw_picture.cache_clear()
    page = read(page_of(HALF_WRONG))
    draw_picture.cache_clear()
    assert ("details", {"open": None}) in page.tags
    assert "softmax ◀ look here" in page.text and "img" not in dict(page.tags)


# Files --------------------------------------------------------------------------------------

NAMES = {
    "plain": (["ada", "Zoë Müller-O'Neil", "李明"], ["ada", "Zoë Müller-O'Neil", "李明"]),
    "paths": (["../../etc", "/root", "a\\b", "c:d", "..", "."], None),
    "Windows": (["CON", "nul.txt", "COM1", "lpt9 .x", "aux.", "com¹"], None),
    "equal but for case": (["Ada", "ada", "ADA"], None),
    "equal but for the accent": (["Zo\u00eb", "Zoe\u0308"], None),
    "equal when safe": (["a/b", "a\\b", "a_b", "a_b-c14cddc0"], None),
    "what no file is called": (["", " ", "...", "\x00", "\ud800", "<script>", "a\n\x1b"], None),
    "long": (["x" * 300, "x" * 301, "李" * 200, "\U0001f600" * 200], None),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_students_are_names_of_folders(name, tmp_path):
    students, expected = NAMES[name]
    folders = folder_names(students)
    assert list(folders) == students
    assert expected is None or list(folders.values()) == expected
    assert folder_names(reversed(students)) == folders, "whatever the order"
    assert len({folder.casefold() for folder in folders.values()}) == len(students)
    for folder in folders.values():
        assert len(folder.encode()) <= 255
        assert not set('<>:"/\\|?*\n\x00') & set(folder) and folder == folder.strip(" .")
        assert folder.partition(".")[0].strip().lower() not in (
            "con",
            "nul",
            "com1",
            "lpt9",
            "aux",
            "com¹",
        )
        write_feedback(tmp_path, folder, {"a.html": b""})
    assert len(list(tmp_path.glob("feedback/*/a.html"))) == len(students)
    assert [path.name for path in tmp_path.iterdir()] == ["feedback"]


def read_notebook(content: bytes):
    """Return a feedback notebook, after Jupyter's own check of it."""
    import nbformat

    document = nbformat.reads(content.decode(), as_version=4)
    nbformat.validate(document)
    for cell in document.cells:
        for output in cell.get("outputs", ()):
            text = output.data.get("text/plain", "")
            assert all(letter.isprintable() or letter == "\n" for letter in text)
            if "text/html" in output.data:
                assert {tag for tag, _ in Reader(output.data["text/html"]).tags} == {"p", "b"}
            if "image/svg+xml" in output.data:
                check_svg(output.data["image/svg+xml"])
        if cell.cell_type == "markdown":
            assert "<" not in cell.source.replace("\\<", "")
    return document


def test_the_feedback_as_a_notebook():
    (content,) = graded(HALF_WRONG, "notebook").feedback.values()
    about, title, cell = read_notebook(content).cells
    assert about.source == "# 02_backprop_by_hand\n\nada: 0 of 2 points\n"
    assert "0 of 2 points" in title.source and cell.source == HALF_WRONG.strip()
    sentence, example, picture = cell.outputs
    assert sentence.data["text/plain"].startswith("✗ all numbers are right but one")
    assert "edutorch.check" in example.data["text/plain"]
    assert "softmax ◀ look here" in picture.data["text/plain"]
    assert picture.metadata["image/png"]["width"] > 100
    assert picture.data["image/png"] and "look here" in picture.data["image/svg+xml"]


def test_none_makes_nothing(tmp_path):
    result = graded(HALF_WRONG, "none")
    assert result.feedback is None
    write_feedback(tmp_path, "ada", result.feedback)
    assert not list(tmp_path.iterdir())
    assert "feedback" not in json.dumps(result.to_json())


def test_one_seed_makes_equal_pages():
    for form in ("html", "notebook"):
        pages = []
        for _ in range(2):
            draw_picture.cache_clear()
            pages.append(graded(HALF_WRONG, form).feedback)
        assert pages[0] == pages[1]
