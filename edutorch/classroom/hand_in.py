"""Puts a student's notebooks into one file, which `python -m edutorch grade` reads.

python -m edutorch classroom hand-in notebooks --student "Ada Lovelace"

hand_in/Ada Lovelace.zip:    Ada Lovelace/02_backprop_by_hand.ipynb, …
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from ..utils.atomic_files import write_atomically
from .student_names import StudentNameError, check_name
from .submissions import SubmissionError, check_size

OP = "classroom hand-in"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `classroom hand-in`."""
    parser.add_argument("folder", metavar="DIR", type=Path, nargs="?", default=Path("notebooks"),
                        help="your notebooks; by default ./notebooks")  # fmt: skip
    parser.add_argument("--student", metavar="NAME", help="your name; asked for if left out")
    parser.add_argument("--to", type=Path, default=Path("hand_in"), metavar="FOLDER",
                        help="where the file goes; by default ./hand_in")  # fmt: skip


def hand_in(options: argparse.Namespace) -> int:
    """Write the file; return 0."""
    write_hand_in(options.student, options.folder, options.to)
    print("Copy this file to the folder that your teacher has named.")
    return 0


def write_hand_in(
    student: str | None = None, folder: str | Path = ".", to: str | Path = "hand_in"
) -> Path:
    """Write the notebooks of a folder into one file that a teacher can grade; return its path.

    In a browser tab it is downloaded from the list of files.

    Args:
        student: the name, as the teacher writes it; None asks for it.
        folder: has the notebooks.
        to: where the file is written.

    Raises:
        StudentNameError: no name, one that cannot be a file's, or that of somebody else.
        SubmissionError: there is no notebook, or one could not be graded.
    """
    notebooks = read_notebooks(Path(folder))
    student = check_name(OP, student or owner_of(notebooks) or ask_for_name())
    made_for = owner_of(notebooks)
    if made_for and made_for != student:
        raise StudentNameError(
            OP, f"these notebooks were made for {made_for!r}, not for {student!r}",
            hint="hand in your own, under the name that they were made for",
        )  # fmt: skip
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in notebooks.items():
            archive.writestr(f"{student}/{name}", text)
    path = Path(to) / f"{student}.zip"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content.getvalue())
    except OSError as error:
        raise SubmissionError(OP, f"{path}: cannot be written: {error.strerror}") from None
    print(f"{path}: {', '.join(notebooks)}")
    return path


def read_notebooks(folder: Path) -> dict[str, str]:
    """Return the notebooks of a folder by their names.

    Raises: SubmissionError: there is none, or one could not be graded.
    """
    paths = sorted(folder.glob("*.ipynb")) if folder.is_dir() else []
    paths = [path for path in paths if not re.search(r"\.old-\d+$", path.stem)]  # `course --reset`
    if not paths:
        raise SubmissionError(
            OP, f"there is no notebook in {str(folder)!r}",
            hint="name the folder of your notebooks: classroom hand-in FOLDER",
        )  # fmt: skip
    notebooks = {}
    for path in paths:
        check_size(str(path), path.stat().st_size)
        try:
            text = path.read_text(encoding="utf-8")
            json.loads(text)["cells"]
        except (ValueError, KeyError, TypeError):
            raise SubmissionError(
                OP, f"{path}: is damaged, or no notebook", hint="open it, and save it again"
            ) from None
        notebooks[path.name] = text
    return notebooks


def owner_of(notebooks: Mapping[str, str]) -> str:
    """Return the student that the notebooks were made for; "" if they are everybody's.

    Raises: StudentNameError: they were made for several.
    """
    metadata = [json.loads(text).get("metadata", {}).get("edutorch") for text in notebooks.values()]
    owners = sorted({str(own["student"]) for own in metadata
                     if isinstance(own, dict) and own.get("student")})  # fmt: skip
    if len(owners) > 1:
        raise StudentNameError(OP, f"these notebooks were made for several: {', '.join(owners)}")
    return owners[0] if owners else ""


def ask_for_name() -> str:
    """Return the name that the student types.

    Raises: StudentNameError: there is nobody to ask.
    """
    try:
        return input("Your name, as your teacher writes it: ").strip()
    except EOFError:
        print(file=sys.stderr)
        raise StudentNameError(
            OP, "whose notebooks are these?", hint="add --student NAME"
        ) from None
