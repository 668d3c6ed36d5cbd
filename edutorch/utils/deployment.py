"""Files that a command writes for running elsewhere: their names, and the folder they go to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Files", "kubernetes_name", "write_files"]

Files = Iterable[tuple[str, str]]
"""Names and texts of files."""


def write_files(files: Files, folder: Path) -> list[Path]:
    """Write files into a folder, which is made if need be, and return their paths.

    All texts are made before the first is written: an error leaves nothing behind.
    """
    paths = []
    for name, text in list(files):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def kubernetes_name(name: str) -> str:
    """Return a name as Kubernetes takes it: small letters, digits and dashes, a letter first.

    >>> from edutorch.utils.deployment import kubernetes_name
    >>> kubernetes_name("My_Net.v2"), kubernetes_name("2nets_")
    ('my-net-v2', 'm-2nets')
    """
    name = re.sub("[^a-z0-9]", "-", name.lower()).strip("-")
    return (name if name[:1].isalpha() else f"m-{name}")[:50].rstrip("-")
