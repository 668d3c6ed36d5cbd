"""Serves a site on this machine.

Without the headers COOP and COEP: with them the page and Python's thread share memory, and the
library by which the kernel does that (coincident, in kernel 0.6.1) reads answers
that are only half written.
"""

from __future__ import annotations

import functools
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from .build import ABOUT
from .versions import OP, SiteError


class Handler(SimpleHTTPRequestHandler):
    """Answers with the right types of files, and with nothing written to the terminal."""

    protocol_version = "HTTP/1.1"  # one connection for many files
    extensions_map: ClassVar[dict[str, str]] = {
        **SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm",
        ".json": "application/json", ".whl": "application/zip", ".ipynb": "application/json",
        ".css": "text/css", ".svg": "image/svg+xml",
    }  # fmt: skip

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")  # asks whether the file is still the same
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def site_server(folder: Path, port: int = 0, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """Return a server for a site, which is not started yet.

    Raises: SiteError: the folder is no site, or the port is taken.
    """
    if not (folder / ABOUT).is_file():
        raise SiteError(
            OP, f"{str(folder)!r} is no site", hint=f"python -m edutorch site build {folder}"
        )
    handler = functools.partial(Handler, directory=str(folder))
    try:
        return ThreadingHTTPServer((host, port), handler)
    except OSError as error:
        raise SiteError(OP, f"port {port} of {host} cannot be used: {error.strerror}",
                        hint="choose another with --port N") from None  # fmt: skip
