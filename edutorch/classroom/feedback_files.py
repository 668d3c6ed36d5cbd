"""The feedback of a class as files: one for each student and notebook, as HTML or as a notebook.

    feedback/<student>/02_backprop_by_hand.html

Names of students become names of folders that every system can have, and that lead nowhere else.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..utils.atomic_files import write_atomically
from .feedback_page import StudentPage, html_page

FOLDER = "feedback"

RESERVED = {
    "con",
    "prn",
    "aux",
    "nul",
    *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)),
}
"""What no file may be called on Windows, whatever its suffix."""

LONGEST_NAME = 120
"""In bytes. What is added to it, to tell two names apart, must fit into 255, too."""


def folder_names(students: Iterable[str]) -> dict[str, str]:
    """Return a name of a folder for each student, which every system can have.

    No two are equal where a file system takes capital letters, or the two ways to write ë, for one.

    >>> from edutorch.classroom.feedback_files import folder_names
    >>> folder_names(["ada", "../bob", "CON"])
    {'ada': 'ada', '../bob': '_bob', 'CON': '_CON'}
    """
    names = {student: safe_name(student) for student in students}
    for length in (8, 64):
        owners: dict[str, list[str]] = {}
        for student, name in names.items():
            owners.setdefault(name.casefold(), []).append(student)
        for student in (one for some in owners.values() if len(some) > 1 for one in some):
            hashed = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()
            names[student] = f"{safe_name(student)}-{hashed[:length]}"
    return names


def safe_name(student: str) -> str:
    """Return a student's name with letters, digits and a few marks only."""
    name = "".join(
        letter if unicodedata.category(letter)[0] in "LMN" or letter in " -_.'" else "_"
        for letter in unicodedata.normalize("NFC", student)
    )
    name = name.encode()[:LONGEST_NAME].decode(errors="ignore").strip(". ") or "_"
    stem = unicodedata.normalize("NFKC", name.partition(".")[0]).strip().casefold()
    return f"_{name}" if stem in RESERVED else name


def render_pages(pages: Iterable[StudentPage], form: str) -> dict[str, bytes]:
    """Return the content of each file of a student, by its name.

    Args:
        form: "html" or "notebook".
    """
    from .feedback_notebook import notebook_page

    if form == "notebook":
        return {f"{page.notebook}.ipynb": notebook_page(page).encode() for page in pages}
    return {f"{page.notebook}.html": html_page(page).encode() for page in pages}


def write_feedback(out: Path, folder: str, files: Mapping[str, bytes] | None) -> None:
    """Write the files of a student, each whole or not at all."""
    if not files:
        return
    target = out / FOLDER / folder
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomically(target / name, content)
