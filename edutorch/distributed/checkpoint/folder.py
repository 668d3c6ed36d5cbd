"""The folder of a checkpoint: on a disk, or anywhere that fsspec reaches ("s3://…")."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ...errors import InvalidValueError
from ...utils.atomic_files import is_url, resolve_url, write_atomically

__all__ = ["Folder"]


class Folder:
    """A folder of files that are written as a whole, and read in parts.

    Args:
        path: a path, or a URL that fsspec knows.

    >>> from edutorch.distributed.checkpoint.folder import Folder
    >>> place = Folder("memory://doc/run")
    >>> place.make(); place.write("a", b"12345"); place.read("a", 1, 3)
    b'23'
    >>> place.sizes()
    {'a': 5}
    """

    def __init__(self, path: Any) -> None:
        text = os.fspath(path)
        if not isinstance(text, str) or not text:
            raise InvalidValueError("checkpoint", f"the folder is a path or a URL, not {path!r}")
        self.name = text.rstrip("/") or text
        self._files: Any = None
        self._path = self.name
        if is_url(self.name):
            self._files, self._path = resolve_url(self.name, "checkpoint")
            protocol = self._files.protocol
            if "file" in ((protocol,) if isinstance(protocol, str) else protocol):
                self._files = None  # a disk, whose files are renamed in one step

    def join(self, name: str) -> str:
        """Return the path, or the URL, of a file."""
        return f"{self.name if self._files is not None else self._path}/{name}"

    def make(self) -> None:
        """Make the folder, if it is not there."""
        if self._files is None:
            Path(self._path).mkdir(parents=True, exist_ok=True)
        else:
            self._files.makedirs(self._path, exist_ok=True)

    def write(self, name: str, data: bytes) -> None:
        """Write a file: to a temporary one, flushed, then renamed."""
        write_atomically(self.join(name), data)

    def read(self, name: str, start: int = 0, stop: int | None = None) -> bytes:
        """Read a file, or some bytes of it.

        Raises: FileNotFoundError: it is not there.
        """
        if self._files is not None:
            return self._files.cat_file(f"{self._path}/{name}", start=start or None, end=stop)
        with open(self.join(name), "rb") as file:
            file.seek(start)
            return file.read() if stop is None else file.read(stop - start)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of its files by name; an empty dict if there is no such folder."""
        if self._files is None:
            if not Path(self._path).is_dir():
                return {}
            with os.scandir(self._path) as entries:
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        self._files.invalidate_cache()
        return {
            path.rstrip("/").rpartition("/")[2]: int(facts["size"] or 0)
            for path, facts in self._list().items()
            if facts["type"] == "file"
        }

    def folders(self) -> list[str]:
        """Return the names of the folders within."""
        if self._files is None:
            inside = Path(self._path)
            return sorted(p.name for p in inside.iterdir() if p.is_dir()) if inside.is_dir() else []
        self._files.invalidate_cache()
        names = (
            path.rstrip("/").rpartition("/")[2]
            for path, facts in self._list().items()
            if facts["type"] == "directory"
        )
        return sorted(names)

    def _list(self) -> dict[str, Any]:
        try:
            return {facts["name"]: facts for facts in self._files.ls(self._path, detail=True)}
        except FileNotFoundError:
            return {}

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self._files is None:
            Path(self.join(name)).unlink(missing_ok=True)
        elif self._files.exists(f"{self._path}/{name}"):
            self._files.rm_file(f"{self._path}/{name}")
