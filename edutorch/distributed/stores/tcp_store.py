"""A store in the memory of one process, which others reach by TCP."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

from ..errors import DistNetworkError
from .frames import read_frame, write_frame
from .store import DEFAULT_TIMEOUT, Store, Table, checked_timeout

__all__ = ["TCPStore"]

ARRIVED = "init/"
"""The key that counts the processes, under PyTorch's name."""


class Server(socketserver.ThreadingTCPServer):
    """Answers each client in a thread of its own; a command at a time changes the values."""

    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128

    def __init__(self, address: tuple[str, int], family: int, listening: int | None) -> None:
        self.address_family = family
        self.table, self.lock = Table(), threading.Lock()
        super().__init__(address, Client, bind_and_activate=listening is None)
        if listening is not None:
            self.socket.close()
            self.socket = socket.socket(fileno=listening)
            self.server_address = self.socket.getsockname()
            self.server_activate()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off is no failure of the store."""


class Client(socketserver.StreamRequestHandler):
    """Answers one client. Nothing it sends is unpickled or executed: a command is a name."""

    server: Server

    def handle(self) -> None:
        """Answer commands until the client closes, or sends what is none."""
        while frame := read_frame(self.rfile):  # type: ignore[arg-type]
            command, *arguments = frame
            with self.server.lock:
                answer = self.server.table.run(command.decode(), arguments)
            write_frame(self.wfile, answer)  # type: ignore[arg-type]


class TCPStore(Store):
    """A store in the memory of one process, the master, which the others reach by TCP.

    Only bytes travel. It listens on the address of `host_name` alone; whoever can reach that may
    read and change the values, so name an address of a network that is yours.

    Args:
        host_name: the master's name or address.
        port: 0, on the master: any free one, see `port`.
        world_size: how many processes use it; None: it is not known.
        is_master: this process has the values.
        timeout: how long is waited for a connection, and in `get` and `wait`.
        wait_for_workers: the master waits until all processes are connected.
        multi_tenant: a store of this process at the same port is used, if there is one.
        master_listen_fd: a socket that listens already.
        use_libuv: accepted.

    Raises: DistNetworkError: the port is in use, or the master cannot be reached in time.

    >>> store = distributed.TCPStore("127.0.0.1", 0, is_master=True)
    >>> worker = distributed.TCPStore("127.0.0.1", store.port)
    >>> worker.set("name", "value")
    >>> store.get("name")
    b'value'
    """

    def __init__(
        self, host_name: str, port: int, world_size: int | None = None, is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT, wait_for_workers: bool = True,
        multi_tenant: bool = False, master_listen_fd: int | None = None, use_libuv: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self._timeout = checked_timeout(timeout)
        self.host, self.port = host_name, int(port)
        self.libuvBackend = False
        self._server: Server | None = None
        if is_master:
            shared = _SERVERS.get(self.port) if multi_tenant else None
            self._server = shared or start_server(host_name, self.port, master_listen_fd)
            self.port = self._server.server_address[1]
            _SERVERS[self.port] = self._server
        self._lock = threading.Lock()
        self._socket = connect(host_name, self.port, self._timeout)
        self._file = self._socket.makefile("rwb")
        self.add(ARRIVED, 1)
        if is_master and wait_for_workers and world_size:
            self.wait_for_workers(world_size)

    def wait_for_workers(self, world_size: int) -> None:
        """Wait until so many processes are connected."""
        self.wait_until(
            lambda: self.add(ARRIVED, 0) >= world_size, self._timeout,
            lambda: f"{self.add(ARRIVED, 0)} of {world_size} processes have come to "
            f"{self.host}:{self.port}",
        )  # fmt: skip

    def request(self, command: str, *arguments: bytes) -> list[bytes]:
        with self._lock:
            try:
                write_frame(self._file, [command.encode(), *arguments])  # type: ignore[arg-type]
                answer = read_frame(self._file)  # type: ignore[arg-type]
            except (OSError, ValueError) as error:
                raise self.lost(command, str(error)) from error
        if answer is None:
            raise self.lost(command, "it has closed the connection")
        return answer

    def lost(self, command: str, reason: str) -> DistNetworkError:
        """Return the error for a master that does not answer any more."""
        return DistNetworkError(
            "TCPStore", f"{command}: the store at {self.host}:{self.port} is gone: {reason}",
            hint="its process, usually rank 0, has ended; see what that one said",
        )  # fmt: skip

    def clone(self) -> TCPStore:
        """Return a store with the same values and a connection of its own."""
        other = object.__new__(TCPStore)
        vars(other).update(vars(self), _lock=threading.Lock(), _server=None)
        other._socket = connect(self.host, self.port, self._timeout)
        other._file = other._socket.makefile("rwb")
        return other

    def __del__(self) -> None:
        with suppress(Exception):  # the interpreter may be ending, or the constructor has failed
            self._file.close()
            self._socket.close()
            if self._server is not None:
                _SERVERS.pop(self.port, None)
                self._server.shutdown()
                self._server.server_close()


_SERVERS: dict[int, Server] = {}
"""The servers of this process, by their ports."""


def start_server(host: str, port: int, listening: int | None) -> Server:
    """Start the server of a store.

    Raises: DistNetworkError: the port is in use, or the name is none of this computer.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        server = Server(address[:2], family, listening)  # type: ignore[arg-type]
    except OSError as error:
        raise DistNetworkError(
            "TCPStore", f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="another program may use this port: choose another one, or 0 for any; and the "
            "master runs on the computer of that name",
        ) from error  # fmt: skip
    threading.Thread(
        target=server.serve_forever, args=(0.05,), daemon=True, name="edutorch-store"
    ).start()
    return server


def connect(host: str, port: int, timeout: timedelta) -> socket.socket:
    """Connect to a store, whose process may not be there yet.

    Raises: DistNetworkError: it did not come in time.
    """
    begin, reason = time.monotonic(), ""
    while (waited := time.monotonic() - begin) <= timeout.total_seconds() or not reason:
        try:
            left = max(0.05, timeout.total_seconds() - waited)
            made = socket.create_connection((host, port), timeout=left)
            made.settimeout(None)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
        except OSError as error:
            reason = str(error.strerror or error)
            time.sleep(0.02)
    raise DistNetworkError(
        "TCPStore", f"no store answers at {host}:{port} after {waited:.1f} s: {reason}",
        hint="the master, is_master=True, is started with the same host and port",
    )  # fmt: skip
