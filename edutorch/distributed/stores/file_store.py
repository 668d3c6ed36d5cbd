"""A store in a file, for the processes that can read and write it. SQLite locks the file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, MutableMapping
from contextlib import closing
from pathlib import Path

from ..errors import DistStoreError
from .store import Store, Table

__all__ = ["FileStore"]


class FileStore(Store):
    """A store in a file, which the processes of one computer share.

    Args:
        file_name: is made, if it is not there. Begin each job with a new or an empty one: the
            values of the last job would be found there.
        world_size: accepted.

    Raises: DistStoreError: the file cannot be made, or is another file.

    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "store"
    >>> distributed.FileStore(path).set("name", "value")
    >>> distributed.FileStore(path).get("name")
    b'value'
    """

    def __init__(self, file_name: str | os.PathLike[str], world_size: int = -1) -> None:
        super().__init__()
        self.path = os.fspath(file_name)
        self.request("count")  # raises now, if the file cannot be used

    def request(self, command: str, *arguments: bytes) -> list[bytes]:
        try:
            with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as file:
                if command not in ("check", "read", "count", "keys") or is_new(self.path):
                    file.execute("BEGIN IMMEDIATE")  # nobody else writes until COMMIT
                    file.execute("CREATE TABLE IF NOT EXISTS store (key BLOB UNIQUE, value BLOB)")
                else:
                    file.execute("BEGIN")
                answer = Table(Rows(file)).run(command, arguments)
                file.execute("COMMIT")
                return answer
        except sqlite3.Error as error:
            raise DistStoreError(
                "FileStore", f"{self.path} cannot be used: {error}",
                hint="name a file that is not there yet, in a folder that can be written",
            ) from error  # fmt: skip

    def clone(self) -> FileStore:
        """Return a store with the same file."""
        return FileStore(self.path)


def is_new(path: str) -> bool:
    """Whether a file is not there, or empty."""
    file = Path(path)
    return not file.exists() or not file.stat().st_size


class Rows(MutableMapping[bytes, bytes]):
    """The rows of the table in a file, as a dictionary."""

    def __init__(self, file: sqlite3.Connection) -> None:
        self.file = file

    def __getitem__(self, key: bytes) -> bytes:
        row = self.file.execute("SELECT value FROM store WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        return row[0]

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.file.execute("INSERT OR REPLACE INTO store VALUES (?, ?)", (key, value))

    def __delitem__(self, key: bytes) -> None:
        self.file.execute("DELETE FROM store WHERE key = ?", (key,))

    def __iter__(self) -> Iterator[bytes]:
        return (key for (key,) in self.file.execute("SELECT key FROM store"))

    def __len__(self) -> int:
        return self.file.execute("SELECT COUNT(*) FROM store").fetchone()[0]
