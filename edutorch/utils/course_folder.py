"""Where the notebooks of the course lie."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def course_folder(package: Path = PACKAGE) -> Path | None:
    """Return the folder with the notebooks of the course; None where there is none.

    A wheel carries them inside the package; in a checkout they are beside it.
    """
    for folder in (package / "_notebooks", package.parent / "notebooks"):
        if any(folder.glob("[0-9][0-9]_*.ipynb")):
            return folder
    return None
