"""The Linux system calls that the jail needs and Python 3.11 does not have, by ctypes.

Each raises OSError as `os` does. The numbers are those of the kernel's headers.
"""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR = 442  # the same number everywhere
_AT_RECURSIVE = 0x8000
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, name: str) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Leave the namespaces in `flags` for new ones (`os.unshare` from Python 3.12)."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(descriptor: int, flags: int) -> None:
    """Enter a namespace (`os.setns` from Python 3.12)."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(flags)), "setns")


def mount(source: str, target: str, filesystem: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a filesystem, or change a mount."""
    result = _libc.mount(
        source.encode(), target.encode(), filesystem.encode() or None, ctypes.c_ulong(flags),
        data.encode() or None,
    )  # fmt: skip
    _check(result, f"mount {target}")


class _MountAttributes(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user_namespace")
    ]


def make_read_only(path: str) -> None:
    """Make a mount, and those in it, read-only, without devices and set-user-ID programs."""
    attributes = _MountAttributes(MS_RDONLY | MS_NOSUID | MS_NODEV, 0, 0, 0)
    result = _libc.syscall(
        _MOUNT_SETATTR, ctypes.c_int(-100), path.encode(), ctypes.c_uint(_AT_RECURSIVE),
        ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes)),
    )  # fmt: skip
    _check(result, f"mount_setattr {path}")


def enter_root(path: str) -> None:
    """Make a mount the root of this mount namespace, and detach the old root."""
    os.chdir(path)
    number = _PIVOT_ROOT[os.uname().machine]
    _check(_libc.syscall(number, b".", b"."), "pivot_root")  # the old root now lies over the new
    _check(_libc.umount2(b".", MNT_DETACH), "umount")
    os.chdir("/")


def prctl(option: int, value: int = 0, more: int = 0) -> int:
    """Change something of this process."""
    numbers = [ctypes.c_ulong(number) for number in (value, more, 0, 0)]
    return _check(_libc.prctl(ctypes.c_int(option), *numbers), "prctl")


def drop_capabilities() -> None:
    """Give up all capabilities, and those that a program could gain."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:  # the kernel knows no more, or there are none to drop
            break
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(nothing)), "capset")
