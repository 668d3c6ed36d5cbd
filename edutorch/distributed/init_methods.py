"""`init_method`: where `init_process_group` learns rank and world size from.

The launcher, or `multiprocessing.spawn`, has connected the processes before, so an address or a
file is not needed to find the others: its form is checked, and its numbers are used.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from ..errors import InvalidValueError
from .environment import missing_variables, placement, read_int
from .stores import FileStore, PrefixStore, Store

__all__ = ["Start", "resolve"]


class Start(NamedTuple):
    """What an `init_method` says.

    Attributes:
        rank, world_size: of this process.
        store: what the processes share beside the group; None: nothing was asked for.
    """

    rank: int
    world_size: int
    store: Store | None


def resolve(
    init_method: str | None, rank: int, world_size: int, store: Any, timeout: timedelta | None
) -> Start:
    """Return rank and world size, from the arguments, the address, or the environment.

    Args:
        init_method: "env://", "tcp://host:port?rank=0&world_size=2" or "file:///path"; None: "env://".
        rank, world_size: -1: not given.
        store: instead of an init_method.
        timeout: what a store waits for.

    Raises: ValueError: another form, or a number is missing.

    >>> from edutorch.distributed.init_methods import resolve
    >>> resolve("tcp://127.0.0.1:29500?rank=1&world_size=2", -1, -1, None, None)
    Start(rank=1, world_size=2, store=None)
    """
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(
            "init_process_group: timeout is a datetime.timedelta, not "
            f"{type(timeout).__name__}: timedelta(minutes=5)"
        )
    if store is not None:
        return from_store(init_method, rank, world_size, store)
    address = urlsplit(init_method or "env://")
    if address.scheme not in ("env", "tcp", "file"):
        raise InvalidValueError(
            "init_process_group", f"unknown init_method {init_method!r}",
            hint="there are 'env://', 'tcp://HOST:PORT' and 'file:///PATH'",
        )  # fmt: skip
    if address.scheme == "tcp" and not has_port(address):
        raise InvalidValueError(
            "init_process_group", f"init_method {init_method!r} has no host or no port",
            hint="for example 'tcp://127.0.0.1:29500'",
        )  # fmt: skip
    told = parse_qs(address.query)
    rank = number(told, "rank", rank, init_method)
    world_size = number(told, "world_size", world_size, init_method)
    rank, world_size = from_environment(rank, world_size)
    if address.scheme != "file":
        return Start(rank, world_size, None)
    if not address.path:
        raise InvalidValueError(
            "init_process_group", f"init_method {init_method!r} has no path",
            hint="for example 'file:///tmp/of_this_job'",
        )  # fmt: skip
    return Start(rank, world_size, shared(FileStore(address.path, world_size), timeout))


def from_store(init_method: str | None, rank: int, world_size: int, store: Any) -> Start:
    """Return what the arguments say, where a store is given.

    Raises:
        ValueError: there is an init_method as well, or a number is missing.
        TypeError: it is no store.
    """
    if init_method is not None:
        raise InvalidValueError(
            "init_process_group",
            "give init_method or store, not both",
            {"init_method": init_method},
        )  # fmt: skip
    if not isinstance(store, Store):
        raise TypeError(f"init_process_group: store is a Store, not {type(store).__name__}")
    if rank < 0 or world_size < 1:
        raise InvalidValueError(
            "init_process_group", "with store=, rank and world_size must be given",
            {"rank": rank, "world_size": world_size},
        )  # fmt: skip
    return Start(rank, world_size, PrefixStore("default_pg", store))


def shared(store: Store, timeout: timedelta | None) -> Store:
    """Return a store with the keys of the group of all."""
    if timeout is not None:
        store.set_timeout(timeout)
    return PrefixStore("default_pg", store)


def has_port(address: Any) -> bool:
    """Whether an address has a host and a port."""
    try:
        return bool(address.hostname and address.port)
    except ValueError:  # no number, or one that is none of a port
        return False


def number(told: dict[str, list[str]], name: str, argument: int, init_method: str | None) -> int:
    """Return rank or world size as the address says it, else the argument.

    Raises: ValueError: it is no number, or another one than the argument.
    """
    if name not in told:
        return argument
    text = told[name][-1]
    if not text.isdecimal() or argument not in (-1, int(text)):
        raise InvalidValueError(
            "init_process_group", f"{name} in init_method {init_method!r} does not fit",
            {name: argument if argument >= 0 else "not given"},
        )  # fmt: skip
    return int(text)


def from_environment(rank: int, world_size: int) -> tuple[int, int]:
    """Return rank and world size, from the environment where they are not given.

    Raises: MissingVariableError: they are not there either; all that are missing are named.
    """
    place = placement()
    if place is not None:
        rank = place.rank if rank < 0 else rank
        world_size = place.world_size if world_size < 0 else world_size
    values = {"RANK": rank, "WORLD_SIZE": world_size}
    values = {
        name: value if value >= 0 or (told := read_int(name)) is None else told
        for name, value in values.items()
    }
    missing = [name for name, value in values.items() if value < 0]
    if missing:
        raise missing_variables(missing)
    if not 0 <= values["RANK"] < values["WORLD_SIZE"]:
        raise InvalidValueError(
            "init_process_group", "rank is from 0 to world_size - 1",
            {"rank": values["RANK"], "world_size": values["WORLD_SIZE"]},
        )  # fmt: skip
    return values["RANK"], values["WORLD_SIZE"]
