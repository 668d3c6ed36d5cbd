"""The names of students: what they may be, so that they can be the names of folders anywhere."""

from __future__ import annotations

import csv
import re
import unicodedata
from pathlib import Path

from ..errors import EdutorchError

REFUSED = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f]')
"""Characters that no file name may have on one of the systems."""

RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
LONGEST = 100


class StudentNameError(EdutorchError, ValueError):
    """A name that no student can have here, or that nobody has."""


def check_name(op: str, name: str) -> str:
    """Return a name in its composed form (macOS takes accents apart in names of files).

    Raises: StudentNameError: it could not be the name of a folder on every system.

    >>> from edutorch.classroom.student_names import check_name
    >>> check_name("pack", "../ada")
    Traceback (most recent call last):
    edutorch.classroom.student_names.StudentNameError: pack: '../ada' cannot be the name of a folder
      hint: call the student by letters, digits, spaces, dots, - and _
    """
    name = unicodedata.normalize("NFC", name)
    unfit = not name or len(name) > LONGEST or name != name.strip(" .")
    if unfit or REFUSED.search(name) or RESERVED.fullmatch(name):
        raise StudentNameError(
            op, f"{name[:LONGEST]!r} cannot be the name of a folder",
            hint="call the student by letters, digits, spaces, dots, - and _",
        )  # fmt: skip
    return name


def read_class_list(op: str, path: Path) -> list[str]:
    """Return the names in a file: one a line, or the first column of a CSV file.

    Raises: StudentNameError: there is no such file, no name in it, or one twice or unusable.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise StudentNameError(
            op, f"the class list {str(path)!r} cannot be read: {reason}",
            hint="write a text file with the name of one student a line",
        ) from None  # fmt: skip
    names = [row[0].strip() for row in csv.reader(text.splitlines()) if row and row[0].strip()]
    names = [check_name(op, name) for name in names]
    if not names:
        raise StudentNameError(op, f"the class list {str(path)!r} names nobody")
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise StudentNameError(op, f"the class list {str(path)!r} names {name!r} twice")
        seen.add(name.casefold())
    return names


def check_known(op: str, names: list[str], known: list[str], where: str) -> None:
    """Refuse names that are not among those known.

    Raises: StudentNameError: it names the first five, and what there is.
    """
    unknown = sorted({unicodedata.normalize("NFC", name) for name in names} - set(known))
    if unknown:
        more = ", …" if len(unknown) > 5 else ""
        raise StudentNameError(
            op, f"nobody in {where} is called {', '.join(unknown[:5])}{more}",
            hint=f"there are {', '.join(known[:5])}{', …' if len(known) > 5 else ''}",
        )  # fmt: skip
