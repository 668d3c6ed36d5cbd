"""The report on similar answers as a table (CSV) and as a page (HTML) that needs nothing else."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from .results import as_text

MOST_SHOWN = 200
"""Pairs on the page; the table has all."""

NO_PROOF = (
    "This is no proof. It says which answers are similar, not why: two students may have had the "
    "same idea, the same tutor, the same book, or an exercise with one obvious answer. Read both "
    "codes, and talk with both students, before you conclude anything."
)

STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em;
  color: #1c1c1c; background: #ffffff; }
.no-proof { border: 2px solid #8a5a00; background: #fff7e6; padding: .7em 1em; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .25em .9em .25em 0; border-bottom: 1px solid #cccccc; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1em; }
.pair > div { min-width: 0; }
pre { background: #f5f5f5; padding: .7em; white-space: pre-wrap; }
mark { background: #ffe08a; border-bottom: 2px solid #8a5a00; }
"""

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Similar answers</title>
<style>
{style}</style>
</head>
<body>
<h1>Similar answers</h1>
<p class="no-proof"><strong>{first}</strong> {rest}</p>
<p>{summary}</p>
{table}
{pairs}
</body>
</html>
"""


class Pair(NamedTuple):
    """Two similar answers.

    Attributes:
        shares: how much of the own code of each is in the other, from 0 to 1.
        characters: so many in common, as they are compared.
        passages: of each, where in its code: (start, end).
    """

    exercise: str
    students: tuple[str, str]
    codes: tuple[str, str]
    shares: tuple[float, float]
    characters: int
    passages: tuple[list[tuple[int, int]], list[tuple[int, int]]]

    @property
    def share(self) -> float:
        """The larger share: who copies may add to it."""
        return max(self.shares)


def table(pairs: Sequence[Pair]) -> str:
    """Return all pairs as CSV, the most similar first."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["exercise", "student", "other student", "share", "share of the other", "characters"]
    )
    for pair in pairs:
        shares = [f"{share:.2f}" for share in pair.shares]
        row = [pair.exercise, *pair.students, *shares, str(pair.characters)]
        writer.writerow([as_text(cell) for cell in row])
    return text.getvalue()


def count_of(pairs: Sequence[Pair]) -> str:
    """Return how many pairs there are, as "2 pairs of similar answers"."""
    return f"{len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'} of similar answers"


def page(pairs: Sequence[Pair], students: int, threshold: float) -> str:
    """Return the page: a list, and the codes of each pair with what is in common marked.

    Args:
        students: so many have handed in.
        threshold: pairs below this share are not listed.
    """
    first, _, rest = NO_PROOF.partition(". ")
    summary = (
        f"Of {students} students there {'is' if len(pairs) == 1 else 'are'} {count_of(pairs)}: "
        f"{threshold:.0%} or more of the own code of one is in the other, when names, comments "
        "and spaces do not count. What everybody got (the starter, the cells of the notebook, the "
        "solution that it shows) is not compared, nor are answers with little code."
    )
    if len(pairs) > MOST_SHOWN:
        summary += f" The first {MOST_SHOWN} are shown here; the table similar.csv has all."
    shown = pairs[:MOST_SHOWN]
    return PAGE.format(
        style=STYLE, first=f"{first}.", rest=escape(rest), summary=escape(summary),
        table=list_of(shown), pairs="\n".join(map(section, range(1, len(shown) + 1), shown)),
    )  # fmt: skip


def list_of(pairs: Sequence[Pair]) -> str:
    """Return the table at the top, each row with a link to its pair."""
    if not pairs:
        return "<p>No pair is.</p>"
    rows = [
        f'<tr><td><a href="#pair-{number}">{number}</a></td><td>{escape(pair.exercise)}</td>'
        f"<td>{escape(pair.students[0])}</td><td>{pair.shares[0]:.0%}</td>"
        f"<td>{escape(pair.students[1])}</td><td>{pair.shares[1]:.0%}</td>"
        f"<td>{pair.characters}</td></tr>"
        for number, pair in enumerate(pairs, 1)
    ]
    head = "<tr><th></th><th>exercise</th><th>student</th><th>in common</th><th>student</th>" \
           "<th>in common</th><th>characters</th></tr>"  # fmt: skip
    return "\n".join(["<table>", head, *rows, "</table>"])


def section(number: int, pair: Pair) -> str:
    """Return the two codes of a pair, side by side."""
    sides = [
        f"<div><h3>{escape(student)}</h3><pre>{marked(code, passages)}</pre></div>"
        for student, code, passages in zip(pair.students, pair.codes, pair.passages, strict=True)
    ]
    title = f'<h2 id="pair-{number}">{number}. {escape(pair.exercise)}</h2>'
    return "\n".join([title, '<div class="pair">', *sides, "</div>"])


def marked(code: str, passages: Sequence[tuple[int, int]]) -> str:
    """Return a code as HTML, in which passages are marked.

    >>> from edutorch.classroom.similarity_page import marked
    >>> marked("a < b", [(2, 3)])
    'a <mark>&lt;</mark> b'
    """
    parts, end = [], 0
    for start, stop in passages:
        parts += [escape(code[end:start]), f"<mark>{escape(code[start:stop])}</mark>"]
        end = stop
    return "".join([*parts, escape(code[end:])])
