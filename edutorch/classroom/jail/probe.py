"""Which walls can be raised here? Each is tried in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable

from . import bwrap, linux, seccomp
from .isolation import NAMESPACES, become, map_user
from .settings import WALLS, Settings

TRIAL_UID = 1_000_000_000


def probe_walls(settings: Settings, proc: int) -> dict[str, tuple[bool | None, str]]:
    """Return, for each wall, whether it stands, and what is to be said about it.

    None instead of False: it is not needed.
    """
    walls: dict[str, tuple[bool | None, str]] = {}
    for name in WALLS:
        if not settings.has(name):
            walls[name] = False, "not wanted"
        else:
            walls[name] = probe_wall(name, proc)
    if walls["own uid"][0] and not walls["mount namespace"][0]:  # it reads Python where it lies
        walls["own uid"] = attempt_in_child(read_python_as_another)
    return walls


def probe_all(settings: Settings, proc: int) -> tuple[dict[str, tuple[bool | None, str]], str]:
    """Return the walls as `probe_walls`, and the path of `bwrap` if it has to raise some."""
    walls = probe_walls(settings, proc)
    stand_in = bwrap.WALLS | {"landlock"}
    refused = {name for name in stand_in if settings.has(name) and walls[name][0] is False}
    if not refused or not bwrap.WALLS.isdisjoint(settings.without):
        return walls, ""
    program = bwrap.find_bwrap(settings)
    if program:
        walls |= dict.fromkeys(bwrap.WALLS, (True, f"by {program}"))
        walls["own uid"] = None, "bwrap separates"
        if "landlock" in refused:
            walls["landlock"] = None, f"{walls['landlock'][1]}; bwrap's namespaces stand"
    return walls, program


def probe_wall(name: str, proc: int) -> tuple[bool | None, str]:
    if name in NAMESPACES or name == "pid namespace":
        flag = NAMESPACES.get(name, linux.CLONE_NEWPID)
        return attempt_in_child(lambda: enter(flag, proc))
    if name == "own uid":
        if can_change_user():
            return attempt_in_child(lambda: become(TRIAL_UID))
        return None, "not root: the user namespace separates"
    if name == "landlock":
        return probe_landlock()
    if name == "seccomp":
        return attempt_in_child(refuse_fork)
    if name == "watcher":
        return attempt_in_child(lambda: os.close(os.open("self/status", os.O_RDONLY, dir_fd=proc)))
    return True, ""


def read_python_as_another() -> None:
    become(TRIAL_UID)
    os.listdir(os.path.dirname(os.__file__))


def enter(flag: int, proc: int) -> None:
    """Enter a namespace; a user who is not root needs one of users for it."""
    uid, gid = os.geteuid(), os.getegid()
    if not can_change_user():
        linux.unshare(linux.CLONE_NEWUSER)
        map_user(uid, gid, proc)
    linux.unshare(flag)


def probe_landlock() -> tuple[bool, str]:
    try:
        import landlockpy
    except ImportError:
        return False, 'landlockpy is not installed: pip install "edutorch[classroom]"'
    version = landlockpy.abi_version()
    if version < 1:
        return False, "the kernel has no Landlock"
    missing = [name for name, least in (("TCP", 4), ("signals", 6)) if version < least]
    return True, f"ABI {version}" + (
        f", which knows no {' and no '.join(missing)}" if missing else ""
    )


def refuse_fork() -> None:
    try:
        seccomp.prepare()
        seccomp.load_filter()
    except ImportError:
        raise OSError('seccompy is not installed: pip install "edutorch[classroom]"') from None
    try:
        os.fork()
    except PermissionError:
        return
    raise OSError("the filter refuses nothing")


def attempt_in_child(action: Callable[[], None]) -> tuple[bool, str]:
    """Return whether an action succeeds in a child process, and else why not."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            action()
        except BaseException as error:  # noqa: BLE001  (the parent says what it was)
            os.write(writer, str(error).encode()[:500])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        text = stream.read().decode()
    os.waitpid(pid, 0)
    return not text, text


def can_change_user() -> bool:
    """Return whether this process may become another user, and give up what it is."""
    if os.geteuid() != 0:
        return False
    with open("/proc/self/uid_map") as file:
        return any(
            int(first) <= TRIAL_UID and int(first) + int(count) >= TRIAL_UID + (1 << 29)
            for first, _, count in (line.split() for line in file)
        )
