"""Writes the files of an export: all of them, or none.

Everything is made before the first file is written, into a folder beside the target, which is then
renamed.
"""

from __future__ import annotations

import io
import re
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from .lessons import ExportError

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of all files in a zip file, so that two exports are equal."""


def check_name(name: str) -> str:
    """Return the name of an assignment, which becomes that of a folder.

    Raises: ExportError: it has other characters than letters, digits, - _ and dots.
    """
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ExportError(
            "export", f"--assignment {name!r} is no name for a folder",
            hint="letters, digits, - and _ are",
        )  # fmt: skip
    return name


def check_empty(folder: Path) -> None:
    """Refuse a folder in which something is already.

    Raises: ExportError: it is a file, or not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExportError(
            "export", f"{str(folder)!r} is there already; nothing was written",
            hint="remove it, or choose another with --out or --assignment",
        )  # fmt: skip


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new folder, which is there with all of them, or not at all.

    Args:
        files: by their paths in the folder.

    Raises: ExportError: something is there already.
    """
    check_empty(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, content in files.items():
            path = beside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        beside.chmod(0o755)  # mkdtemp's folders are for their owner alone
        if folder.exists():
            folder.rmdir()
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def zip_bytes(files: Mapping[str, bytes], programs: tuple[str, ...] = ()) -> bytes:
    """Return a zip file.

    Args:
        programs: the names of those files that may be executed.
    """
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            about = zipfile.ZipInfo(name, EPOCH)
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = (0o100755 if name in programs else 0o100644) << 16
            archive.writestr(about, content)
    return stream.getvalue()
