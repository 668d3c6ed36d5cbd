"""Both ends of a connection prove that they know the job's secret, and sign what they send.

Each end sends a number that is used once; the other one returns its HMAC. All further messages
carry an HMAC of their contents, their direction and their number in the connection, so that none
can be changed, repeated or sent back. `multiprocessing.connection` frames the messages and limits
their length; nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..errors import DistNetworkError

__all__ = ["Channel", "read_secret"]

HELLO = b"edutorch rendezvous 1"
NONCE, DIGEST = 32, 32
MAX_HELLO, MAX_MESSAGE = 256, 1 << 20
PATIENCE = 5.0
"""Seconds in which the other end has to prove itself."""


class Refused(DistNetworkError):
    """The other end does not know the secret, or speaks something else."""


def read_secret(path: str | None) -> bytes:
    """Return the secret in a file; without a file, an empty one, which only loopback accepts.

    Raises: DistNetworkError: the file is missing, too short, or others may read it.
    """
    if not path:
        return b""
    file = Path(path)
    try:
        secret, mode = file.read_bytes().strip(), file.stat().st_mode
    except OSError as error:
        raise DistNetworkError(
            "rendezvous", f"the secret cannot be read: {error}",
            hint="write one with: python -c 'import secrets; print(secrets.token_hex())'",
        ) from None  # fmt: skip
    if len(secret) < 16:
        raise DistNetworkError(
            "rendezvous", f"the secret in {path} has fewer than 16 characters",
            hint="write one with: python -c 'import secrets; print(secrets.token_hex())'",
        )  # fmt: skip
    if mode & 0o077 and file.owner() != "root":
        raise DistNetworkError(
            "rendezvous", f"others may read the secret in {path}", hint=f"chmod 600 {path}"
        )
    return secret


class Channel:
    """A connection whose two ends know the same secret.

    Args:
        connection: of `multiprocessing.connection`.
        secret: the job's.
        is_server: this end has accepted the connection.

    Raises: Refused: the other end does not prove itself in time.
    """

    def __init__(self, connection: Connection, secret: bytes, is_server: bool) -> None:
        self.connection = connection
        own = secrets.token_bytes(NONCE)
        mine, theirs = (b"server", b"client") if is_server else (b"client", b"server")
        self._send_raw(HELLO + own)
        hello = self._receive_raw(MAX_HELLO)
        if len(hello) != len(HELLO) + NONCE or not hello.startswith(HELLO):
            raise Refused("rendezvous", "the other end speaks another protocol")
        other = hello[len(HELLO) :]
        nonces = own + other if is_server else other + own
        self._send_raw(digest(secret, mine + nonces))
        if not hmac.compare_digest(self._receive_raw(MAX_HELLO), digest(secret, theirs + nonces)):
            raise Refused("rendezvous", "the other end does not know the job's secret")
        self._key = digest(secret, b"session" + nonces)
        self._mine, self._theirs = mine, theirs
        self._sent = self._received = 0

    def _send_raw(self, data: bytes) -> None:
        try:
            self.connection.send_bytes(data)
        except OSError as error:
            raise Refused(
                "rendezvous", f"the other end has closed the connection ({error})"
            ) from None

    def _receive_raw(self, most: int) -> bytes:
        try:
            if not self.connection.poll(PATIENCE):
                raise Refused("rendezvous", "the other end says nothing")
            return self.connection.recv_bytes(most)
        except (OSError, EOFError) as error:
            raise Refused(
                "rendezvous", f"the other end has closed the connection ({error})"
            ) from None

    def send(self, message: dict[str, Any], data: bytes = b"") -> None:
        """Send a message, and bytes that belong to it."""
        head = json.dumps(message).encode()
        body = len(head).to_bytes(4, "big") + head + data
        signature = digest(self._key, self._mine + self._sent.to_bytes(8, "big") + body)
        self._sent += 1
        self.connection.send_bytes(signature + body)

    def receive(self, timeout: float | None = None) -> tuple[dict[str, Any], bytes] | None:
        """Return the next message and its bytes; None: there was none in time.

        Raises: Refused: the message is not signed by the other end. EOFError: it is closed.
        """
        if not self.connection.poll(timeout):
            return None
        received = self.connection.recv_bytes(MAX_MESSAGE)
        signature, body = received[:DIGEST], received[DIGEST:]
        wanted = digest(self._key, self._theirs + self._received.to_bytes(8, "big") + body)
        if not hmac.compare_digest(signature, wanted):
            raise Refused("rendezvous", "a message is not signed by the other end")
        self._received += 1
        length = int.from_bytes(body[:4], "big")
        return json.loads(body[4 : 4 + length]), body[4 + length :]

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def digest(key: bytes, data: bytes) -> bytes:
    """Return the HMAC of some bytes."""
    return hmac.new(key, data, hashlib.sha256).digest()
