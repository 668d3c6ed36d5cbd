"""The example of `docs/teachers_specs.md`, and a class for it."""

from __future__ import annotations

import json
import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "teachers_specs.md").read_text(encoding="utf-8")
SPEC = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
ASSIGNMENT = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
TABLE = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[0]
NOTEBOOK = "71_averages.ipynb"
RIGHT = "def average(x): return x.sum() / len(x)"
WRONG = "def average(x): return x.sum()"


def notebook(source, cell="mean"):
    """Return the text of a notebook with one answer."""
    cells = [{"cell_type": "code", "id": cell, "source": source, "metadata": {}, "outputs": []}]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def write_specs(folder, **files):
    """Write the example, or other files, and return their folder."""
    for name, source in (files or {"nb71_averages": SPEC}).items():
        write(folder / "specs" / f"{name}.py", source)
    return folder / "specs"


def write_class(folder, answers):
    """Write a hand-in for each student, and return their folder."""
    for student, source in answers.items():
        write(folder / "class" / student / NOTEBOOK, notebook(source))
    return folder / "class"
