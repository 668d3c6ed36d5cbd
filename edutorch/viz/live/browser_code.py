"""Where the code for the browser is."""

from __future__ import annotations

from pathlib import Path


def folder() -> Path:
    """Return the folder of the browser code: in an installed package, or in a checkout."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "_widgets"
    return installed if installed.is_dir() else package.parent / "widgets"
