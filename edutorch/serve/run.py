"""Runs the server: its socket, its signals, its limits for connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from time import monotonic
from types import FrameType
from typing import Any

import uvicorn

from ..errors import InvalidValueError
from .app import Server
from .logs import log, start_logging
from .settings import Settings

MOST_HEADER_BYTES = 64 << 10
MOST_CONNECTIONS = 1024
FIRST_REQUEST_SECONDS = 0.5
"""So long a connection that is new when the server ends may take to send a request."""

LAST_SECONDS = 6
"""So long the server waits for running requests after the listening socket is closed."""

JOIN_SECONDS = 0.5


def listen(settings: Settings) -> socket.socket:
    """Return a socket that is bound to the host and port.

    Raises: InvalidValueError: it cannot be.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise InvalidValueError(
            "serve", f"cannot listen on {settings.host}:{settings.port}: {error}",
            hint="--port 0 takes any free port",
        ) from error  # fmt: skip
    return listener


def address(listener: socket.socket) -> str:
    """Return the address that a browser opens."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class Runner(uvicorn.Server):
    """uvicorn's server, which on a signal answers what it has accepted, and ends with 0."""

    def __init__(self, config: uvicorn.Config, app: Server, listener: socket.socket) -> None:
        super().__init__(config)
        self.app, self.listener = app, listener

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while the server runs. uvicorn would raise them again at the end."""
        handled = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in handled}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end at the first signal, end at once at the second."""
        if self.app.draining:
            self.should_exit = self.force_exit = True
            return
        self.app.draining = True
        loop = asyncio.get_running_loop()
        # Until then new requests are answered, and their connections closed: a client that keeps
        # one open hears so with its answer, not by a connection that breaks.
        loop.call_soon_threadsafe(loop.call_later, self.app.settings.drain, self.stop)

    def stop(self) -> None:
        """End the server: no further connection is accepted."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say where the server is once it listens."""
        await super().startup(sockets)
        print(f"serving {self.app.settings.models} on {address(self.listener)}", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, and say so."""
        log("ending", connections=len(self.server_state.connections))
        await self.accept_last()
        await super().shutdown(sockets)
        log("ended", requests=self.server_state.total_requests)

    async def accept_last(self) -> None:
        """Accept the connections that the kernel has made already, and listen no more.

        To close the socket over them would reset them, though their clients have sent a request.
        """
        waiting = []
        self.listener.setblocking(False)
        with contextlib.suppress(OSError):  # raised when none is left
            while True:
                waiting.append(self.listener.accept()[0])
        for server in self.servers:
            server.close()
        for connection in waiting:
            await asyncio.get_running_loop().connect_accepted_socket(self.make_protocol, connection)

    def make_protocol(self) -> asyncio.Protocol:
        """Return the reader of a new connection."""
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


def protocol_class() -> type[asyncio.Protocol]:
    """Return uvicorn's reader of HTTP with limits for headers: their size, and their time."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class Guarded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """Closes a connection whose headers are too large, or do not come."""

        header_timeout = 20.0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.header_bytes = 0
            self.header_timer = self.loop.call_later(self.header_timeout, transport.close)

        def data_received(self, data: bytes) -> None:
            waits = self.cycle is None or self.cycle.response_complete
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self.header_bytes = 0
                if self.header_timer is not None:
                    self.header_timer.cancel()
                    self.header_timer = None
            elif waits:  # headers that go on
                self.header_bytes += len(data)
                if self.header_bytes > MOST_HEADER_BYTES and not self.transport.is_closing():
                    self.transport.write(TOO_LARGE)
                    self.transport.close()
                if self.header_timer is None:
                    self.header_timer = self.loop.call_later(
                        self.header_timeout, self.transport.close
                    )

        def shutdown(self) -> None:
            """Close the connection, or wait a moment for a request that is on its way."""
            if self.cycle is None and not self.transport.is_closing():
                self.loop.call_later(FIRST_REQUEST_SECONDS, super().shutdown)
            else:
                super().shutdown()

        def connection_lost(self, exc: Exception | None) -> None:
            if self.header_timer is not None:
                self.header_timer.cancel()
            super().connection_lost(exc)

    return Guarded


TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


def join_threads() -> bool:
    """Wait a moment for the threads that run and load models; return False if one does not end."""
    threads = [thread for thread in threading.enumerate() if thread.name[:4] in ("run_", "load")]
    end = monotonic() + JOIN_SECONDS
    for thread in threads:
        thread.join(max(0.0, end - monotonic()))
    return not any(thread.is_alive() for thread in threads)


def run(settings: Settings, log_level: str = "info") -> int:
    """Serve a folder of models until a signal comes, and return the exit code."""
    start_logging(log_level)
    app = Server(settings)
    listener = listen(settings)
    reader = protocol_class()
    reader.header_timeout = settings.body_timeout  # type: ignore[attr-defined]
    config = uvicorn.Config(
        app, http=reader, ws="none", lifespan="on", log_config=None, access_log=False,
        server_header=False, timeout_keep_alive=60, limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=LAST_SECONDS, backlog=1024,
    )  # fmt: skip
    Runner(config, app, listener).run(sockets=[listener])
    if not join_threads():
        log("a model still runs, and is left", logging.WARNING)
        sys.stdout.flush()
        os._exit(0)  # the interpreter would wait for it
    return 0
