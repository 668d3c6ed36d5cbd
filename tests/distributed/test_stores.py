"""Stores: what PyTorch's answer, between threads and processes, and what strangers may send."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest

from edutorch import distributed
from edutorch.distributed.stores.frames import MOST_BYTES
from tests.distributed.launch import ROOT
from tests.oracle import require_torch

SHORT = timedelta(milliseconds=150)


def make_store(of, folder, library=distributed):
    """A new store of one of our kinds, or of PyTorch's."""
    if of == "hash":
        return library.HashStore()
    if of == "file":
        return library.FileStore(str(folder / f"{library.__name__}.store"), 1)
    if of == "prefix":
        return library.PrefixStore("before", library.HashStore())
    return library.TCPStore("127.0.0.1", 0, 1, True, timedelta(seconds=30))


def answer(call):
    """What a call returns, or the class of what it raises."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001
        return type(error).__name__


STEPS = {
    "set and get": lambda s: (s.set("a", "x"), s.get("a"), s.set("a", "y"), s.get("a")),
    "add": lambda s: (s.add("n", 3), s.add("n", -5), s.get("n"), s.add("m", 0)),
    "compare_set": lambda s: (
        s.compare_set("c", "", "1"), s.compare_set("c", "2", "3"), s.compare_set("c", "1", "4"),
        s.get("c"), s.compare_set("none", "x", "y"), s.check(["none"]),
    ),
    "check": lambda s: (s.set("k", ""), s.check(["k"]), s.check(["k", "absent"]), s.get("k")),
    "count": lambda s: (s.num_keys(), s.set("a", "1"), s.set("b", "2"), s.num_keys()),
    "late": lambda s: (s.set_timeout(SHORT), answer(lambda: s.get("absent"))),
    "late wait": lambda s: answer(lambda: s.wait(["absent"], SHORT)),
    "timeout": lambda s: (s.set_timeout(SHORT), s.timeout),
    "several": lambda s: (s.multi_set(["p", "q"], ["1", "2"]), s.multi_get(["q", "p"])),
    "append": lambda s: (s.append("r", "po"), s.append("r", "tato"), s.get("r")),
    "delete": lambda s: (s.set("d", "1"), s.delete_key("d"), s.delete_key("d"), s.check(["d"])),
    "queues": lambda s: (
        s.queue_push("u", "1"), s.queue_push("u", "2"), s.queue_len("u"), s.check(["u"]),
        s.queue_pop("u"), s.queue_pop("u"), s.queue_len("u"), s.check(["u"]),
        answer(lambda: s.queue_pop("u", False)), s.queue_len("other"),
    ),
    "names": lambda s: (s.set("z", "1"), s.set("y", "1"), sorted(s.list_keys())[-2:]),
    "barrier": lambda s: s.barrier("together", 1),
}  # fmt: skip

ONLY_OURS = {("file", step) for step in ("several", "append", "delete", "queues", "names")}
ONLY_OURS |= {("file", "count"), ("file", "late"), ("file", "late wait")}  # a RuntimeError there


@pytest.mark.parametrize("of", ["hash", "file", "tcp", "prefix"])
def test_a_store_answers_as_pytorchs(of, tmp_path):
    torch = require_torch()
    for name, step in STEPS.items():
        folder = tmp_path / name
        folder.mkdir()
        ours = answer(partial(step, make_store(of, folder)))
        if (of, name) in ONLY_OURS:
            assert ours in (None, "DistStoreError") or isinstance(ours, tuple), (name, ours)
            continue
        theirs = answer(partial(step, make_store(of, folder, torch.distributed)))
        assert ours == theirs, name


@pytest.mark.parametrize("of", ["hash", "file", "tcp"])
def test_threads_count_without_losing_one(of, tmp_path):
    store = make_store(of, tmp_path)

    def count(mine):
        for _ in range(25):
            mine.add("n", 1)

    threads = [threading.Thread(target=count, args=(store.clone(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get("n") == b"100"


CLIENT = """
import sys
from edutorch import distributed
of, place, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = (distributed.FileStore(place) if of == "file"
         else distributed.TCPStore("127.0.0.1", int(place), 3, False))
for _ in range(20):
    store.add("count", 1)
store.set(f"bytes{number}", bytes([0, 255, number]))
store.barrier("end", 3)
print(int(store.get("count")))
"""


@pytest.mark.parametrize("of", ["file", "tcp"])
def test_processes_share_a_store(of, tmp_path):
    listener = socket.create_server(("127.0.0.1", 0))
    place = str(tmp_path / "store") if of == "file" else str(listener.getsockname()[1])
    clients = [
        subprocess.Popen([sys.executable, "-c", CLIENT, of, place, str(number)],
                         stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for number in (1, 2)
    ]  # fmt: skip
    store = (
        distributed.FileStore(place) if of == "file"
        else distributed.TCPStore("127.0.0.1", 0, 3, True, timedelta(seconds=60),
                                  master_listen_fd=listener.detach())
    )  # fmt: skip
    for _ in range(20):
        store.add("count", 1)
    store.barrier("end", 3)
    assert [client.communicate(timeout=60)[0] for client in clients] == ["60\n", "60\n"]
    assert store.multi_get(["bytes1", "bytes2"]) == [b"\0\xff\1", b"\0\xff\2"]
    listener.close()


def test_errors_say_what_is_missing_and_how_long_was_waited():
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, timeout=SHORT)
    store.set("a", "1")
    with pytest.raises(distributed.DistStoreError, match=r"after 0\.\d s: missing keys: 'b'"):
        store.wait(["a", "b"])
    with pytest.raises(distributed.DistNetworkError, match=f"{store.port}: Address already in use"):
        distributed.TCPStore("127.0.0.1", store.port, is_master=True)
    shared = distributed.TCPStore("127.0.0.1", store.port, is_master=True, multi_tenant=True)
    assert shared.get("a") == b"1"
    with pytest.raises(distributed.DistStoreError, match=r"1 of 3 processes have come to"):
        distributed.TCPStore("127.0.0.1", 0, 3, True, SHORT)
    with pytest.raises(distributed.DistNetworkError, match=r"no store answers at 127.0.0.1:\d+"):
        distributed.TCPStore("127.0.0.1", free_port(), timeout=SHORT)
    with pytest.raises(distributed.DistStoreError, match="queue 'q' is empty"):
        store.queue_pop("q")
    with pytest.raises(distributed.DistStoreError, match="barrier 'x' has 1 of 2 processes"):
        store.barrier("x", 2, SHORT)
    with pytest.raises(ValueError, match="the value of 'word' is no number"):
        store.add("word", store.set("word", "one") or 1)
    with pytest.raises(TypeError, match="a store waits for a list of keys"):
        store.wait("a")
    with pytest.raises(TypeError, match=r"a timeout is a datetime\.timedelta, not int"):
        store.set_timeout(3)
    with pytest.raises(TypeError, match="a store has texts and bytes, not dict"):
        store.set("a", {})


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_file_that_is_none_of_a_store(tmp_path):
    (tmp_path / "text").write_text("this is no store " * 100)
    with pytest.raises(distributed.DistStoreError, match="text cannot be used"):
        distributed.FileStore(str(tmp_path / "text"))
    with pytest.raises(distributed.DistStoreError, match="cannot be used"):
        distributed.FileStore(str(tmp_path / "no folder" / "file"))


def test_what_strangers_send_changes_nothing():
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True)
    store.set("a", "1")
    before = len(store.list_keys())

    def frame(*parts):
        lengths = b"".join(struct.pack("!I", len(part)) for part in parts)
        return struct.pack("!I", len(parts)) + lengths + b"".join(parts)

    hostile = [
        b"GET / HTTP/1.1\r\n\r\n", os.urandom(200), struct.pack("!I", 2**32 - 1),
        struct.pack("!II", 1, MOST_BYTES + 1), struct.pack("!II", 1, 1000) + b"short",
        frame(b"__init__"), frame(b"run", b"x"), frame(b"write", b"odd"), frame(b"\xff\xfe"),
        frame(b"read", b"absent"), frame(b"swap"), frame(),
    ]  # fmt: skip
    for message in hostile:
        with socket.create_connection(("127.0.0.1", store.port)) as stranger:
            stranger.sendall(message)
            stranger.shutdown(socket.SHUT_WR)
            stranger.settimeout(5)
            with suppress(ConnectionResetError):
                assert stranger.recv(100) == b"", message
    idle = [socket.create_connection(("127.0.0.1", store.port)) for _ in range(20)]
    begin = time.monotonic()
    assert store.get("a") == b"1"
    assert len(store.list_keys()) == before
    assert time.monotonic() - begin < 5
    for stranger in idle:
        stranger.close()


def test_a_master_that_ends_is_named():
    master = distributed.TCPStore("127.0.0.1", 0, is_master=True)
    worker = distributed.TCPStore("127.0.0.1", master.port)
    worker._socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(distributed.DistNetworkError, match=r"write: the store at .* is gone"):
        worker.set("a", "1")
