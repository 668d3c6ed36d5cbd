"""The meeting of the launchers of all computers: node 0 waits, the others come.

Node 0 listens at MASTER_ADDR:MASTER_PORT. Each other node connects, proves the job's secret
(`handshake.py`) and says who it is. From then on it executes nothing but the daemon of its own MPI,
with arguments that `remote_start.py` has checked.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from ..errors import DistNetworkError
from .handshake import Channel, Refused

__all__ = ["Meeting", "Node", "join_meeting"]

MAX_WAITING = 64
"""More connections than this are not looked at at the same time."""

NAME_LIMIT = 20.0
"""Seconds in which the name of this computer has to be known: in a cluster it is made with it."""


@dataclass(slots=True)
class Node:
    """A computer that takes part.

    Attributes:
        rank: its number.
        host: its name.
        processes: how many it runs.
        channel: the connection to its launcher; None: it is this one.
    """

    rank: int
    host: str
    processes: int
    channel: Channel | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Meeting:
    """What node 0 does: it waits for the others.

    Args:
        address: where it listens.
        secret: the job's; without one it listens on loopback only.
        nodes: how many have to come at least, and at most.

    Raises: DistNetworkError: the port is in use, or the address is not one of this computer.
    """

    def __init__(self, address: tuple[str, int], secret: bytes, nodes: tuple[int, int]) -> None:
        self.secret, self.nodes = secret, nodes
        host, port = address
        if not secret and not is_loopback(host):
            raise DistNetworkError(
                "rendezvous", f"without a secret, only this computer itself can be met, not {host}",
                hint="give all computers the same --rdzv-secret-file",
            )  # fmt: skip
        try:
            self.listener = listen(host, port)
        except OSError as error:
            raise DistNetworkError(
                "rendezvous", f"cannot listen at {host}:{port} ({error.strerror})",
                hint="another program may use the port: choose another --master-port",
            ) from None  # fmt: skip
        self.address: tuple[str, int] = self.listener.address  # type: ignore[assignment]
        self.members: dict[int, Node] = {}
        self.changed = threading.Condition()
        self.slots = threading.Semaphore(MAX_WAITING)
        self.is_open = True
        threading.Thread(target=self._accept, daemon=True, name="edutorch-rendezvous").start()

    def _accept(self) -> None:
        """Let each connection prove itself in a thread of its own: a silent one stops nobody."""
        while self.is_open:
            try:
                connection = self.listener.accept()
            except OSError:
                if not self.is_open:
                    return
                time.sleep(0.05)
                continue
            if not self.slots.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._welcome, args=(connection,), daemon=True).start()

    def _welcome(self, connection: Connection) -> None:
        try:
            channel = Channel(connection, self.secret, is_server=True)
            told = channel.receive(timeout=5)
            node = read_node(told[0] if told else {}, channel)
        except (Refused, OSError, EOFError, ValueError):
            with suppress(OSError):
                connection.close()
            return
        finally:
            self.slots.release()
        with self.changed:
            if node.rank in self.members and self.members[node.rank].channel is not None:
                channel.send({"refused": f"node rank {node.rank} is here already"})
                channel.close()
                return
            self.members[node.rank] = node
            self.changed.notify_all()

    def wait(self, own: Node, timeout: float) -> list[Node]:
        """Wait for the other nodes. Returns all, by rank.

        Raises: DistNetworkError: some did not come; they are named.
        """
        least, most = self.nodes
        limit = time.monotonic() + timeout
        self.members[own.rank] = own
        with self.changed:
            while len(self.members) < most:
                left = limit - time.monotonic()
                if left <= 0 or (len(self.members) >= least and left < timeout - GRACE):
                    break
                self.changed.wait(min(left, 0.2))
            missing = sorted(set(range(least)) - set(self.members))
            if len(self.members) < least:
                raise DistNetworkError(
                    "rendezvous", f"nodes did not come within {timeout:g} s",
                    {"missing node ranks": missing, "here": sorted(self.members)},
                    f"start them with --node-rank and --master-addr {self.address[0]} "
                    f"--master-port {self.address[1]}",
                )  # fmt: skip
            return [self.members[rank] for rank in sorted(self.members)][:most]

    def close(self) -> None:
        """Stop listening, and let all nodes go."""
        self.is_open = False
        self.listener.close()
        for node in self.members.values():
            if node.channel is not None:
                with suppress(OSError):
                    node.channel.send({"end": True})
                node.channel.close()


GRACE = 3.0
"""Seconds that are waited for more nodes, where as many as are needed are here."""


def read_node(told: dict[str, Any], channel: Channel) -> Node:
    """Return the node that a message describes.

    Raises: ValueError: it describes none.
    """
    rank, host, processes = (told.get(name) for name in ("rank", "host", "processes"))
    is_name = isinstance(host, str) and host.replace("-", "").replace(".", "").isalnum()
    if not (isinstance(rank, int) and isinstance(processes, int) and is_name):
        raise ValueError("no node")
    if not (0 <= rank < 10_000 and 1 <= processes <= 4096):
        raise ValueError("no node")
    return Node(rank, str(host), processes, channel)


def listen(host: str, port: int) -> Listener:
    """Listen, as soon as the name is known.

    Raises: OSError: it is not in time, or the port is in use.
    """
    limit = time.monotonic() + NAME_LIMIT
    while True:
        try:
            return Listener((host, port), family="AF_INET", backlog=MAX_WAITING)
        except socket.gaierror:
            if time.monotonic() > limit:
                raise
            time.sleep(0.3)


def join_meeting(address: tuple[str, int], secret: bytes, node: Node, timeout: float) -> Channel:
    """Connect to node 0, as often as it takes until it listens, and say who this is.

    Raises: DistNetworkError: it cannot be reached in time, or refuses.
    """
    limit = time.monotonic() + timeout
    reason: object = ""
    while time.monotonic() < limit:
        try:
            socket.create_connection(address, timeout=5).close()
            channel = Channel(Client(address, family="AF_INET"), secret, is_server=False)
            channel.send({"rank": node.rank, "host": node.host, "processes": node.processes,
                          "pid": os.getpid()})  # fmt: skip
            return channel
        except (OSError, EOFError, Refused) as error:
            reason = error
            time.sleep(0.3)
    raise DistNetworkError(
        "rendezvous", f"node 0 at {address[0]}:{address[1]} was not reached within {timeout:g} s",
        {"last": reason}, "is it started, is the address right, and is it the same secret?",
    )  # fmt: skip


def is_loopback(host: str) -> bool:
    """Whether an address is one of this computer alone."""
    return host == "localhost" or host.startswith("127.") or host == "::1"
