"""The meeting of the launchers of several computers, with strangers among them."""

from __future__ import annotations

import os
import socket
import struct
import threading
from contextlib import suppress
from multiprocessing.connection import Client

import pytest

from edutorch.distributed.errors import DistNetworkError
from edutorch.distributed.run import handshake, rendezvous
from edutorch.distributed.run.handshake import HELLO, NONCE, Channel
from edutorch.distributed.run.rendezvous import Meeting, Node, join_meeting

SECRET = b"a secret of this test, which nobody else knows"


@pytest.fixture
def meeting():
    made = Meeting(("127.0.0.1", 0), SECRET, (2, 2))
    yield made
    made.close()


class Recorded:
    """A connection that remembers what it has sent."""

    def __init__(self, connection):
        self.connection, self.sent = connection, []

    def send_bytes(self, data):
        self.sent.append(bytes(data))
        self.connection.send_bytes(data)

    def __getattr__(self, name):
        return getattr(self.connection, name)


def framed(address, *messages):
    """Send messages in the frames of `multiprocessing.connection`, and read what comes."""
    with Client(address, family="AF_INET") as connection, suppress(OSError, EOFError):
        for message in messages:
            connection.send_bytes(message)
        while connection.poll(0.1):
            connection.recv_bytes()


def raw(address, data):
    """Send bytes, and close."""
    with socket.create_connection(address, timeout=5) as connection, suppress(OSError):
        connection.sendall(data)


def recorded_join(secret):
    """Return what an honest node sends, to a meeting of its own."""
    other = Meeting(("127.0.0.1", 0), secret, (2, 2))
    recorded = Recorded(Client(other.address, family="AF_INET"))
    channel = Channel(recorded, secret, is_server=False)
    channel.send({"rank": 1, "host": "replayed", "processes": 1, "pid": 1})
    other.wait(Node(0, "here", 1), 10)
    other.close()
    return recorded.sent


def strangers(address):
    """Return 30 connections that prove nothing."""
    hello = HELLO + os.urandom(NONCE)
    replay = recorded_join(SECRET)
    asks = b'{"rank": 1, "host": "evil", "processes": 1}'
    return [
        *(lambda n=n: raw(address, os.urandom(n)) for n in (0, 1, 3, 64, 5000, 200_000)),
        *(lambda text=text: raw(address, text) for text in (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"SSH-2.0-x\r\n", b"\x16\x03\x01\x02\x00",
            b"\x80\x04\x95cos\nsystem\n(S'true'\ntR.",
        )),
        # A frame of two gigabytes is announced; one of a length below zero; half of one is sent.
        lambda: raw(address, struct.pack("!i", 2**31 - 1) + b"x" * 100),
        lambda: raw(address, struct.pack("!i", -1) + struct.pack("!Q", 2**60)),
        lambda: raw(address, struct.pack("!i", 44) + hello[:10]),
        *(lambda n=n: framed(address, b"x" * n) for n in (0, 32, 256, 257, 100_000)),
        *(lambda proof=proof: framed(address, hello, proof, asks) for proof in (
            b"", bytes(32), os.urandom(32), os.urandom(31), b"x" * 300,
        )),
        lambda: framed(address, hello, asks),
        lambda: framed(address, hello, hello, asks),
        *(lambda: framed(address, *replay) for _ in range(3)),
        *(lambda wrong=wrong: wrong_secret(address, wrong) for wrong in (b"", b"x" * 46)),
    ]  # fmt: skip


def wrong_secret(address, secret):
    with suppress(DistNetworkError):
        join_meeting(address, secret, Node(1, "wrong", 1), 0.5)


def test_strangers_change_nothing(meeting, monkeypatch):
    monkeypatch.setattr(handshake, "PATIENCE", 1.0)
    silent = [socket.create_connection(meeting.address) for _ in range(5)]  # and say nothing
    visits = strangers(meeting.address)
    assert len(visits) + len(silent) >= 30
    threads = [threading.Thread(target=visit) for visit in visits]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert meeting.members == {}
    channel = join_meeting(meeting.address, SECRET, Node(1, "honest", 3), 10)
    nodes = meeting.wait(Node(0, "here", 2), 10)
    assert [(node.rank, node.host, node.processes) for node in nodes] == [
        (0, "here", 2), (1, "honest", 3),
    ]  # fmt: skip
    channel.close()
    for connection in silent:
        connection.close()


def test_a_node_that_never_comes_is_named(meeting):
    with pytest.raises(DistNetworkError, match=r"nodes did not come within 0.3 s") as caught:
        meeting.wait(Node(0, "here", 1), 0.3)
    assert "missing node ranks = [1]" in str(caught.value).replace("  ", " ")


def test_one_place_is_taken_once(meeting):
    first = join_meeting(meeting.address, SECRET, Node(1, "first", 1), 10)
    meeting.wait(Node(0, "here", 1), 10)
    second = join_meeting(meeting.address, SECRET, Node(1, "second", 1), 10)
    assert second.receive(5) == ({"refused": "node rank 1 is here already"}, b"")
    assert meeting.members[1].host == "first"
    first.close()


def test_without_a_secret_others_cannot_come():
    with pytest.raises(DistNetworkError, match="without a secret, only this computer itself"):
        Meeting(("0.0.0.0", 0), b"", (2, 2))


def test_a_port_in_use_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(DistNetworkError, match="choose another --master-port"):
            Meeting(taken.getsockname(), SECRET, (2, 2))


def test_a_changed_message_is_refused(meeting):
    recorded = Recorded(Client(meeting.address, family="AF_INET"))
    channel = Channel(recorded, SECRET, is_server=False)
    channel.send({"rank": 1, "host": "honest", "processes": 1})
    meeting.wait(Node(0, "here", 1), 10)
    server = meeting.members[1].channel
    recorded.connection.send_bytes(recorded.sent[-1])  # the same bytes a second time
    with pytest.raises(DistNetworkError, match="not signed"):
        server.receive(5)
    recorded.close()


def test_a_name_may_become_known_later(monkeypatch):
    listener, attempts = rendezvous.Listener, []

    def unknown_twice(*args, **named):
        attempts.append(args)
        if len(attempts) < 3:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return listener(*args, **named)

    monkeypatch.setattr(rendezvous, "Listener", unknown_twice)
    monkeypatch.setattr(rendezvous.time, "sleep", lambda seconds: None)
    Meeting(("127.0.0.1", 0), SECRET, (2, 2)).close()
    assert len(attempts) == 3
    monkeypatch.setattr(rendezvous, "NAME_LIMIT", 0.0)
    attempts.clear()
    with pytest.raises(DistNetworkError, match=r"cannot listen at nowhere:0 .*not known"):
        Meeting(("nowhere", 0), SECRET, (2, 2))
