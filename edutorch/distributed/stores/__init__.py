"""Stores: small dictionaries of bytes that several processes share."""

from __future__ import annotations

from .file_store import FileStore
from .hash_store import HashStore
from .store import PrefixStore, Store
from .tcp_store import TCPStore

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]
