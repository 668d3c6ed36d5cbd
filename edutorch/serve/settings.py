"""The settings of a server, as the command line has them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Of a model's folder. It cannot leave the folder of models, and needs no escape in HTML."""

VERSION = re.compile(r"[1-9][0-9]{0,17}")
"""Of a version's folder."""


@dataclass(frozen=True)
class Settings:
    """All limits and switches of a server.

    Args:
        models: the folder with `name/VERSION/model.*`.
        max_batch: the most rows that requests share a call with; 1 turns batching off.
        batch_delay: seconds that a request waits for others of its shape.
        queue: the most requests that wait for a model; more are answered 503.
        workers: threads that run models.
        timeout: seconds after which a request is answered 504.
        max_body: bytes; larger bodies are answered 413.
        body_timeout: seconds in which a body, or the headers, must have arrived.
        drain: seconds in which connections are told to close before the server ends.
        reload: seconds between two looks at the folder; 0: it is read once.
        allow_control: whether clients may list, load and unload models.
        allow_hosts: further names by which the server may be called; "*" for any.
        trusted: the handler.py files that may run.
    """

    models: Path
    host: str = "127.0.0.1"
    port: int = 8000
    max_batch: int = 32
    batch_delay: float = 0.002
    queue: int = 256
    workers: int = 1
    timeout: float = 30.0
    max_body: int = 64 << 20
    body_timeout: float = 20.0
    drain: float = 1.0
    reload: float = 0.0
    allow_control: bool = False
    allow_hosts: tuple[str, ...] = ()
    trusted: tuple[Path, ...] = field(default=())
