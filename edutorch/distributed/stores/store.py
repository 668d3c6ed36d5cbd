"""What all stores have in common. Each of them has one method of its own: `request`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from ..errors import DistStoreError, QueueEmptyError

__all__ = ["PrefixStore", "Store"]

DEFAULT_TIMEOUT = timedelta(seconds=300)


class NotANumberError(DistStoreError, ValueError):
    """`add` on a key whose value is no number."""


class Store:
    """A dictionary of bytes that several processes share. Reading a key waits until it is there.

    `HashStore`, `FileStore` and `TCPStore` are stores. Each method is atomic: two processes that
    call `add` at once both count.

    >>> store = distributed.HashStore()
    >>> store.set("name", "value")
    >>> store.get("name"), store.add("count", 2), store.add("count", 3)
    (b'value', 2, 5)
    """

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    # What differs between stores ---------------------------------------------------------------

    def request(self, command: str, *arguments: bytes) -> list[bytes]:
        """Carry out one of `COMMANDS`, where the values are, while nobody else changes them."""
        raise NotImplementedError

    def pause(self, since: float) -> None:
        """Wait a moment before the store is asked again, less long at first."""
        time.sleep(min(0.05, max(0.001, (time.monotonic() - since) / 10)))

    # Reading ------------------------------------------------------------------------------------

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Let `get` and `wait` wait so long.

        Raises: TypeError: no `timedelta`.
        """
        self._timeout = checked_timeout(timeout)

    def get(self, key: str) -> bytes:
        """Return the value of a key; wait until it is there.

        Raises: DistStoreError: it did not come in time.
        """
        return self.multi_get([key])[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of several keys; wait until all are there."""
        self.wait(keys)
        return self.request("read", *encoded(keys))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there.

        Raises: DistStoreError: after `timeout`, by default the store's; it names those missing.
        """
        limit = self._timeout if timeout is None else checked_timeout(timeout)
        encoded(keys)  # one text is refused
        wanted = list(keys)
        self.wait_until(lambda: self.check(wanted), limit, lambda: self.missing(wanted))

    def wait_until(
        self, is_so: Callable[[], bool], limit: timedelta, missing: Callable[[], str]
    ) -> None:
        """Ask again and again until something is so.

        Args: missing: what is missing, for the error.
        """
        begin = time.monotonic()
        while not is_so():
            waited = time.monotonic() - begin
            if waited > limit.total_seconds():
                raise DistStoreError(
                    type(self).__name__, f"wait timeout after {waited:.1f} s: {missing()}",
                    hint="another process sets it; has that one started, and does it go on?",
                )  # fmt: skip
            self.pause(begin)

    def missing(self, keys: Sequence[str]) -> str:
        """Say which of these keys are missing."""
        absent = [repr(key) for key in keys if not self.check([key])]
        return f"missing keys: {', '.join(absent) or 'none'}"

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there now."""
        return self.request("check", *encoded(keys)) == [b"1"]

    def num_keys(self) -> int:
        """Return how many keys there are."""
        return int(self.request("count")[0])

    def list_keys(self) -> list[str]:
        """Return all keys, sorted."""
        return [key.decode() for key in self.request("keys")]

    # Writing ------------------------------------------------------------------------------------

    def set(self, key: str, value: str | bytes) -> None:
        """Set the value of a key."""
        self.multi_set([key], [value])

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Set several keys at once."""
        pairs = zip(encoded(keys), map(as_bytes, values), strict=True)
        self.request("write", *itertools.chain.from_iterable(pairs))

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which begins with 0. Returns the sum.

        Raises: DistStoreError: the value is no number.
        """
        answer = self.request("add", as_bytes(key), b"%d" % int(amount))
        if not answer:
            raise NotANumberError(
                type(self).__name__, f"add: the value of {key!r} is no number",
                hint="a key is used by set, or by add",
            )  # fmt: skip
        return int(answer[0])

    def append(self, key: str, value: str | bytes) -> None:
        """Append bytes to a value, which begins empty."""
        self.request("append", as_bytes(key), as_bytes(value))

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """Set a key if it has the expected value, or if it is not there and "" is expected.

        Returns: the value that it has now; the expected one, if it is not there.
        """
        return self.request("swap", *encoded([key, expected_value, desired_value]))[0]

    def delete_key(self, key: str) -> bool:
        """Delete a key. Returns whether it was there."""
        return self.request("delete", as_bytes(key)) == [b"1"]

    # Queues, and all together -------------------------------------------------------------------

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Put a value at the end of a queue."""
        self.request("push", as_bytes(key), as_bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue; wait for one, if it is empty and `block` is True.

        Raises: QueueEmptyError: it is empty. DistStoreError: nothing came in time.
        """
        taken = self.request("pop", as_bytes(key))
        if not taken and not block:
            raise QueueEmptyError(type(self).__name__, f"queue {key!r} is empty")

        def take() -> bool:
            taken.extend(self.request("pop", as_bytes(key)) if not taken else [])
            return bool(taken)

        self.wait_until(take, self._timeout, lambda: f"queue {key!r} is empty")
        return taken[0]

    def queue_len(self, key: str) -> int:
        """Return the length of a queue."""
        return int(self.request("length", as_bytes(key))[0])

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until so many processes have called this with the same key."""
        arrived = self.add(key, 1)
        limit = self._timeout if timeout is None else checked_timeout(timeout)

        def is_full() -> bool:
            nonlocal arrived
            arrived = self.add(key, 0) if arrived < world_size else arrived
            return arrived >= world_size

        self.wait_until(
            is_full, limit, lambda: f"barrier {key!r} has {arrived} of {world_size} processes"
        )

    def clone(self) -> Store:
        """Return a store with the same values, for another thread."""
        return self

    def has_extended_api(self) -> bool:
        """Whether there are `append`, `multi_get` and `multi_set`: yes."""
        return True


class PrefixStore(Store):
    """Another store, with a prefix before each key: two uses of one store do not mix.

    Args:
        prefix: the keys are `prefix/key`.
        store: any store.

    >>> store = distributed.HashStore()
    >>> distributed.PrefixStore("first", store).set("name", "value")
    >>> store.list_keys()
    ['first/name']
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix, self.underlying_store = prefix, store
        self._timeout = store.timeout

    @property
    def _underlying_non_prefix_store(self) -> Store:
        below = self.underlying_store
        return below._underlying_non_prefix_store if isinstance(below, PrefixStore) else below

    def set_timeout(self, timeout: timedelta) -> None:
        """Let `get` and `wait` wait so long, here and in the other store."""
        super().set_timeout(timeout)
        self.underlying_store.set_timeout(timeout)

    def request(self, command: str, *arguments: bytes) -> list[bytes]:
        begin = f"{self.prefix}/".encode()
        if command == "count":  # of the whole store, as in PyTorch
            return self.underlying_store.request(command)
        if command == "keys":
            keys = self.underlying_store.request(command)
            return [key.removeprefix(begin) for key in keys if key.startswith(begin)]
        step = {"write": 2, "read": 1, "check": 1}.get(command, len(arguments))
        named = [
            begin + argument if position % step == 0 else argument
            for position, argument in enumerate(arguments)
        ]
        return self.underlying_store.request(command, *named)

    def clone(self) -> PrefixStore:
        return PrefixStore(self.prefix, self.underlying_store.clone())


# What each command does to the values ------------------------------------------------------------


class Table:
    """The values of a store, and the commands that read and change them.

    Args: values: a mapping of keys to bytes; by default a new dictionary.
    """

    def __init__(self, values: Any = None) -> None:
        self.values: Any = {} if values is None else values

    def run(self, command: str, arguments: Sequence[bytes]) -> list[bytes]:
        """Carry out a command.

        Raises: DistStoreError: there is no such command, or it has other arguments.
        """
        function = getattr(self, f"do_{command}", None)
        try:
            if function is not None:
                return function(*arguments)
        except (TypeError, KeyError, UnicodeDecodeError):
            pass
        raise DistStoreError("Store", f"a command that no store has sent: {command[:20]!r}")

    def do_read(self, *keys: bytes) -> list[bytes]:
        return [self.values[key] for key in keys]

    def do_check(self, *keys: bytes) -> list[bytes]:
        return [flag(all(key in self.values or self.front(key) for key in keys))]

    def do_count(self) -> list[bytes]:
        return [b"%d" % len(self.do_keys())]

    def do_keys(self) -> list[bytes]:
        return sorted(key for key in self.values if b"\0" not in key)  # those are of queues

    def do_write(self, *pairs: bytes) -> list[bytes]:
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.values[key] = value
        return []

    def do_add(self, key: bytes, amount: bytes) -> list[bytes]:
        try:
            total = int(self.values.get(key, b"0")) + int(amount)
        except ValueError:
            return []
        self.values[key] = b"%d" % total
        return [self.values[key]]

    def do_append(self, key: bytes, value: bytes) -> list[bytes]:
        self.values[key] = self.values.get(key, b"") + value
        return []

    def do_swap(self, key: bytes, expected: bytes, desired: bytes) -> list[bytes]:
        if key not in self.values:
            if expected:
                return [expected]
            self.values[key] = desired
        elif self.values[key] == expected:
            self.values[key] = desired
        return [self.values[key]]

    def do_delete(self, key: bytes) -> list[bytes]:
        is_there = key in self.values
        if is_there:
            del self.values[key]
        return [flag(is_there)]

    # A queue is kept as one value for each entry, and two for the numbers of its ends.

    def front(self, key: bytes) -> int:
        """Return how many entries a queue has."""
        return self.end(key, b"last") - self.end(key, b"first")

    def end(self, key: bytes, which: bytes) -> int:
        name = key + b"\0" + which
        return int(self.values[name]) if name in self.values else 0

    def do_push(self, key: bytes, value: bytes) -> list[bytes]:
        last = self.end(key, b"last")
        self.values[key + b"\0%d" % last] = value
        self.values[key + b"\0last"] = b"%d" % (last + 1)
        return []

    def do_pop(self, key: bytes) -> list[bytes]:
        if not self.front(key):
            return []
        first = self.end(key, b"first")
        name = key + b"\0%d" % first
        value = self.values[name]
        del self.values[name]
        self.values[key + b"\0first"] = b"%d" % (first + 1)
        return [value]

    def do_length(self, key: bytes) -> list[bytes]:
        return [b"%d" % self.front(key)]


def flag(value: bool) -> bytes:
    """Return a truth value as it travels."""
    return b"1" if value else b"0"


def as_bytes(value: str | bytes) -> bytes:
    """Return a text or bytes as bytes.

    Raises: TypeError: something else, which a store does not take.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"a store has texts and bytes, not {type(value).__name__}")


def encoded(values: Iterable[str]) -> list[bytes]:
    """Return texts as bytes.

    Raises: TypeError: one text, where several belong.
    """
    if isinstance(values, (str, bytes)):
        raise TypeError(f"a store waits for a list of keys, not for {values!r}")
    return [as_bytes(value) for value in values]


def checked_timeout(timeout: timedelta) -> timedelta:
    """Return a timeout.

    Raises: TypeError: no `timedelta`.
    """
    if not isinstance(timeout, timedelta):
        raise TypeError(
            f"a timeout is a datetime.timedelta, not {type(timeout).__name__}: "
            "timedelta(seconds=30)"
        )
    return timeout
