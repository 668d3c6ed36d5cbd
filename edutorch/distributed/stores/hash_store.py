"""A store in the memory of one process, for its threads."""

from __future__ import annotations

import threading

from .store import Store, Table

__all__ = ["HashStore"]


class HashStore(Store):
    """A store in the memory of one process.

    >>> store = distributed.HashStore()
    >>> store.compare_set("leader", "", "me"), store.compare_set("leader", "", "you")
    (b'me', b'me')
    """

    def __init__(self) -> None:
        super().__init__()
        self._table, self._lock = Table(), threading.Lock()

    def request(self, command: str, *arguments: bytes) -> list[bytes]:
        with self._lock:
            return self._table.run(command, arguments)
