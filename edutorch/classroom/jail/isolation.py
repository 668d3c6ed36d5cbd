"""Raises the walls of one jail, in the process that will run the student's code.

The order matters: each step needs rights that a later one gives up. What a wall keeps out, and
what it means if it is missing, is said in `walls.py`.
"""

from __future__ import annotations

import os
import resource
import signal

from . import linux
from .landlock import restrict_files
from .root import HOME
from .seccomp import load_filter
from .settings import Settings

NAMESPACES = {
    "user namespace": linux.CLONE_NEWUSER,
    "mount namespace": linux.CLONE_NEWNS,
    "network namespace": linux.CLONE_NEWNET,
    "ipc namespace": linux.CLONE_NEWIPC,
    "uts namespace": linux.CLONE_NEWUTS,
}
"""All but that of the processes: one enters that by being forked, see `factory_process`."""


def raise_walls(settings: Settings, uid: int | None, parent: int, proc: int) -> None:
    """Raise all walls but the fork into a PID namespace.

    Args:
        uid: the user to become; None where there is no right to.
        parent: the process whose end must end this one.
        proc: a descriptor of the folder /proc as it was outside; it is closed.
    """
    if uid is not None:
        become(uid)
    enter_namespaces(settings, proc)
    addresses = read_address_space(proc)
    os.close(proc)
    make_home(settings)
    linux.drop_capabilities()
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() not in (parent, 0):  # 0: it is outside of our PID namespace
        os._exit(1)
    restrict_process(settings, addresses)


def restrict_process(settings: Settings, addresses: int) -> None:
    """Raise the walls that need no right.

    Args:
        addresses: the bytes of address space that this process has reserved already.
    """
    if settings.has("limits"):
        set_limits(settings, addresses)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if settings.has("landlock"):
        restrict_files(settings)
    if settings.has("seccomp"):
        load_filter()


def become(uid: int) -> None:
    """Become another user, for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # A process that changed its user is not dumpable, and /proc/self/uid_map then belongs to root.
    linux.prctl(linux.PR_SET_DUMPABLE, 1)


def enter_namespaces(settings: Settings, proc: int) -> None:
    """Enter new namespaces; in that of users, this user is the only one."""
    flags = sum(flag for wall, flag in NAMESPACES.items() if settings.has(wall))
    if not flags:
        return
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(flags)
    if settings.has("user namespace"):
        map_user(uid, gid, proc)


def map_user(uid: int, gid: int, proc: int) -> None:
    """Map this user and group to themselves, in a new user namespace."""
    lines = (("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1"), ("uid_map", f"{uid} {uid} 1"))
    for name, line in lines:
        descriptor = os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def make_home(settings: Settings) -> None:
    """Mount the only place that can be written to: it lies in memory, and its size is limited."""
    if settings.has("mount namespace"):
        data = f"size={settings.disk},nr_inodes=1000,mode=700"
        flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
        linux.mount("tmpfs", HOME, "tmpfs", flags, data)
        os.chdir(HOME)


def set_limits(settings: Settings, addresses: int) -> None:
    """Limit what each process may use; what they use together is the watcher's affair.

    Args:
        addresses: the bytes of address space that this process has reserved already.
    """
    limits = {
        # Addresses that are reserved: each thread does so with 72 MiB. The watcher looks at use.
        resource.RLIMIT_AS: addresses + settings.memory + (2 << 30),
        resource.RLIMIT_CPU: settings.cpu_seconds,
        resource.RLIMIT_FSIZE: settings.disk,
        resource.RLIMIT_NOFILE: settings.descriptors,
        # Linux counts them by user and by user namespace: this one is new, and has one process.
        resource.RLIMIT_NPROC: settings.processes,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_SIGPENDING: 64,
    }
    for limit, value in limits.items():
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def read_address_space(proc: int) -> int:
    """Return how many bytes of address space this process has reserved."""
    descriptor = os.open("self/statm", os.O_RDONLY, dir_fd=proc)
    try:
        pages = int(os.read(descriptor, 100).split()[0])
    finally:
        os.close(descriptor)
    return pages * resource.getpagesize()
