"""The feedback for a student as a page of HTML.

A page needs no network, no script and no other file. All that a student wrote, or that came out of
a jail, is escaped, and bounded in size. What may be shown of it at all, `feedback.py` decides.
"""

from __future__ import annotations

import base64
import functools
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import MissingExtraError
from ..viz.diagnostics.messages import escape_text
from ..viz.history.export import digest
from ..viz.render.graphviz import LayoutError
from .answer_picture import draw_answer
from .attempt import AnswerGraph, Box
from .feedback import Example, ExerciseFeedback, clean, shortened

TABLE_ROWS = 40


class StudentPage(NamedTuple):
    """What a student is told about one notebook.

    Attributes:
        problems: what was wrong with the files.
    """

    student: str
    notebook: str
    exercises: Sequence[ExerciseFeedback]
    problems: Sequence[str] = ()

    @property
    def points_text(self) -> str:
        points = sum(feedback.points for feedback in self.exercises)
        whole = sum(feedback.exercise.points for feedback in self.exercises)
        return f"{points:g} of {whole:g} points"


class Picture(NamedTuple):
    """The student's graph in every form in which a page may show it.

    Attributes:
        svg, png: None where they cannot be drawn on this machine.
        table: the graph as text.
    """

    svg: str | None
    png: bytes | None
    table: str


def picture_of(example: Example, painted: bool = False) -> Picture | None:
    """Return the picture of an example's graph; None if nothing was computed.

    Args:
        painted: whether a PNG is wanted, too.
    """
    # Without what no picture shows, the graphs of two students with one mistake are equal.
    boxes = tuple(box._replace(line="") for box in example.attempt.graph.boxes)
    return draw_picture(boxes, example.mark, painted)


@functools.lru_cache(256)  # many students make the same mistake
def draw_picture(boxes: tuple[Box, ...], mark: str, painted: bool) -> Picture | None:
    drawing = draw_answer(AnswerGraph(boxes), mark)
    if drawing is None:
        return None
    table = drawing.table(TABLE_ROWS)
    try:
        svg = drawing.svg
    except (LayoutError, MissingExtraError):  # the page then shows the table
        return Picture(None, None, table)
    return Picture(svg, drawing.png() if painted else None, table)


STYLE = """
:root{color-scheme:light dark;--ink:#111827;--pale:#4b5563;--page:#ffffff;--box:#f3f4f6;
--line:#d1d5db;--right:#1b7f4b;--wrong:#b00020}
@media(prefers-color-scheme:dark){:root{--ink:#e5e7eb;--pale:#9ca3af;--page:#111827;--box:#1f2937;
--line:#374151;--right:#4ade80;--wrong:#fca5a5}}
body{max-width:60rem;margin:2rem auto;padding:0 1rem;background:var(--page);color:var(--ink);
font:16px/1.5 Helvetica,Arial,sans-serif}
h1{font-size:1.6rem;margin:0}h2{font-size:1.2rem;margin:0 0 .25rem}
h3{font-size:1rem;margin:1rem 0 .25rem}
section{border-top:1px solid var(--line);padding-top:1rem;margin-top:2rem}
.about{color:var(--pale);margin:0}
.right,.wrong{border-left:4px solid var(--right);padding:.4rem .8rem;font-weight:bold}
.wrong{border-color:var(--wrong)}
.right b{color:var(--right)}.wrong b{color:var(--wrong)}
pre{background:var(--box);border:1px solid var(--line);border-radius:6px;padding:.6rem .8rem;
overflow:auto;max-height:40rem;font:13px/1.45 Menlo,Consolas,"DejaVu Sans Mono",monospace}
img{max-width:100%;height:auto;background:#ffffff;border:1px solid var(--line);border-radius:6px}
figure{margin:1rem 0}figcaption{color:var(--pale);font-size:.9rem}
summary{cursor:pointer;color:var(--pale)}
"""


def html_page(page: StudentPage) -> str:
    """Return a whole page, whose policy lets it load and run nothing."""
    policy = f"default-src 'none'; img-src data:; style-src {digest(STYLE)}; base-uri 'none'"
    title = escape_text(f"{page.notebook} · {one_line(page.student)}")
    problems = "".join(
        f'<p class="wrong">{escape_text(one_line(line))}</p>\n' for line in page.problems
    )
    sections = "\n".join(map(section, page.exercises))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape_text(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style></head>\n<body>\n"
        f"<header><h1>{escape_text(page.notebook)}</h1>\n"
        f'<p class="about">{escape_text(one_line(page.student))}: {page.points_text}</p></header>\n'
        f"<main>\n{problems}{sections}\n</main>\n</body></html>\n"
    )


def section(feedback: ExerciseFeedback) -> str:
    """Return what a page shows of one exercise."""
    exercise = feedback.exercise
    code = escape_text(shortened(feedback.code))
    parts = [
        f"<section>\n<h2>{escape_text(exercise.title)}</h2>",
        f'<p class="about">{escape_text(score_text(feedback))}</p>',
        sentence_html(feedback),
        f"<h3>Your code</h3>\n<pre><code>{code}</code></pre>" if code else "",
        "" if feedback.example is None else example_html(feedback.example, exercise.id),
        "</section>",
    ]
    return "\n".join(filter(None, parts))


def score_text(feedback: ExerciseFeedback) -> str:
    cases = f", {feedback.passed} of {feedback.total} cases right" if feedback.total else ""
    exercise = feedback.exercise
    return f"{exercise.id}: {feedback.points:g} of {exercise.points:g} points{cases}"


def sentence_text(feedback: ExerciseFeedback) -> str:
    return "✓ right" if feedback.is_right else f"✗ {one_line(feedback.sentence)}"


def sentence_html(feedback: ExerciseFeedback) -> str:
    mark, _, rest = sentence_text(feedback).partition(" ")
    name = "right" if feedback.is_right else "wrong"
    return f'<p class="{name}"><b>{mark}</b> {escape_text(rest)}</p>'


def example_html(example: Example, id: str) -> str:
    """Return an example case with the student's graph, as a picture and as text."""
    inputs = escape_text("\n".join(example.inputs))
    captions = "".join(f"<div>{escape_text(one_line(line))}</div>" for line in example.captions)
    shown = [
        f"<h3>{example_title(example)}</h3>",
        f"<pre>{inputs}</pre>" if inputs else "",
        f'<p class="about">{escape_text(again_text(example, id))}</p>',
    ]
    picture = picture_of(example)
    if picture is None or picture.svg is None:
        shown.append(f"<figure><figcaption>{captions}</figcaption></figure>")
    else:
        image = base64.b64encode(picture.svg.encode()).decode()
        shown.append(
            f'<figure><img alt="{escape_text(alternative(example))}" '
            f'src="data:image/svg+xml;base64,{image}">\n'
            f"<figcaption>{captions}</figcaption></figure>"
        )
    if picture is not None:
        opened = " open" if picture.svg is None else ""
        shown.append(
            f"<details{opened}><summary>The graph as a table</summary>"
            f"<pre>{escape_text(picture.table)}</pre></details>"
        )
    return "\n".join(filter(None, shown))


def example_title(example: Example) -> str:
    return "An example" if example.attempt.is_right else "An example that is not right"


def again_text(example: Example, id: str) -> str:
    return f'edutorch.check("{id}", seed={example.seed}) in your notebook shows this case again.'


def alternative(example: Example) -> str:
    """Return the picture in words."""
    boxes = len(example.attempt.graph.boxes)
    marked = f" Marked is {example.mark}." if example.mark else ""
    count = "1 box" if boxes == 1 else f"{boxes} boxes"
    return f"The graph of your code, {count}; the table below lists them.{marked}"


def one_line(text: str) -> str:
    return clean(" ".join(text.split()))
