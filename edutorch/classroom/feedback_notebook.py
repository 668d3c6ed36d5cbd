"""The feedback for a student as a notebook, which Jupyter opens.

Each exercise is a cell with the student's code; its outputs are the sentence and the picture. What
an untrusted notebook does not show (SVG), is there as PNG and as text, too.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from ..viz.render.svg import USUAL_SCALE
from .feedback import Example, ExerciseFeedback, clean, shortened
from .feedback_page import (
    StudentPage,
    again_text,
    alternative,
    example_title,
    one_line,
    picture_of,
    score_text,
    sentence_html,
    sentence_text,
)

KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def notebook_page(page: StudentPage) -> str:
    """Return a notebook in the format 4.5."""
    student = "".join(
        f"\\{letter}" if letter in MARKDOWN else letter for letter in one_line(page.student)
    )
    about = [f"# {page.notebook}\n", "\n", f"{student}: {page.points_text}\n"]
    about += [f"\n    {one_line(problem)}\n" for problem in page.problems]
    cells = [markdown("about", "".join(about))]
    for feedback in page.exercises:
        name = feedback.exercise.id.replace(".", "-")
        title = f"## {feedback.exercise.title}\n\n{score_text(feedback)}"
        cells += [markdown(f"{name}-title", title), code_cell(name, feedback)]
    document = {
        "cells": cells, "metadata": {"kernelspec": KERNEL, "language_info": {"name": "python"}},
        "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


MARKDOWN = frozenset("\\`*_{}[]()<>#+-.!|$&~")
"""What Markdown reads as more than a letter."""


def markdown(name: str, source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def code_cell(name: str, feedback: ExerciseFeedback) -> dict[str, Any]:
    """Return a cell with the student's code, and what is said about it as its outputs."""
    outputs = [
        output({"text/plain": sentence_text(feedback), "text/html": sentence_html(feedback)})
    ]
    if feedback.example is not None:
        outputs += example_outputs(feedback.example, feedback.exercise.id)
    return {
        "cell_type": "code", "id": name, "metadata": {}, "execution_count": None,
        "source": shortened(feedback.code), "outputs": outputs,
    }  # fmt: skip


def output(data: dict[str, str], png_width: int | None = None) -> dict[str, Any]:
    metadata = {} if png_width is None else {"image/png": {"width": png_width}}
    return {"output_type": "display_data", "metadata": metadata, "data": data}


def example_outputs(example: Example, id: str) -> list[dict[str, Any]]:
    """Return an example case as text, and the student's graph as a picture and as text."""
    lines = [example_title(example), *example.inputs, *example.captions, again_text(example, id)]
    outputs = [output({"text/plain": clean("\n".join(filter(None, lines)))})]
    picture = picture_of(example, painted=True)
    if picture is not None:
        table = f"{alternative(example)}\n\n{picture.table}"
        bundle, width = {"text/plain": clean(table)}, None
        if picture.svg is not None:
            bundle["image/svg+xml"] = picture.svg
        if picture.png is not None:
            bundle["image/png"] = base64.b64encode(picture.png).decode()
            width = round(width_of_png(picture.png) / USUAL_SCALE)
        outputs.append(output(bundle, width))
    return outputs


def width_of_png(png: bytes) -> int:
    """Return the width that a PNG names in its header, in pixels."""
    return int.from_bytes(png[16:20], "big")
