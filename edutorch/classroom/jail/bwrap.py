"""Namespaces by `bwrap`, where this process may not make them itself.

Some systems let that one program make namespaces, and no other. It is started anew for each jail,
and Python in it: that takes about two seconds instead of some milliseconds. Landlock, seccomp and
the limits are then raised as usual.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys

from . import landlock, seccomp
from .isolation import NAMESPACES, restrict_process
from .package_copy import masked_folders, readable_paths
from .root import HOME, is_top_link
from .settings import FLAGS, MIB, Settings

WALLS = frozenset(NAMESPACES) | {"pid namespace"}
"""What `bwrap` raises."""

PRELOADED = 120 * MIB
"""Memory that Python and edutorch take: it is not counted as the student's."""


def find_bwrap(settings: Settings) -> str:
    """Return the path of `bwrap` if it is there and makes namespaces; else ""."""
    program = settings.bwrap or shutil.which("bwrap") or ""  # a factory has no PATH: it is told
    if not program:
        return ""
    trial = [program, "--unshare-all", "--ro-bind", "/", "/", "--", sys.executable, "-ISc", "pass"]
    try:
        subprocess.run(trial, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return program


def command(program: str, folder: str, settings: Settings, talk: int) -> list[str]:
    """Return the command line that runs `serve_in_bwrap` in new namespaces.

    Args:
        folder: as `package_copy` made it.
        talk: the descriptor of the socket to the grader.
    """
    words = [program, "--unshare-all", "--die-with-parent", "--as-pid-1", "--hostname", "jail"]
    python = os.path.realpath(sys.executable)
    paths = [*readable_paths(folder), python]
    masked = masked_folders(paths)
    for path in sorted({*paths, *masked}, key=lambda path: path.count("/")):
        if is_top_link(path):
            words += ["--symlink", os.readlink(path), path]
        elif path in masked:
            words += ["--tmpfs", path]
        else:
            words += ["--ro-bind", path, path]
    for path in masked:
        words += ["--remount-ro", path]
    words += ["--perms", "0700", "--size", str(settings.disk), "--tmpfs", HOME]
    words += ["--remount-ro", "/", "--chdir", HOME, "--cap-drop", "ALL", "--"]
    site = os.path.join(folder, "site")
    code = f"import sys; sys.path.insert(0, {site!r}); " \
           "from edutorch.classroom.jail.bwrap import serve_in_bwrap; serve_in_bwrap()"  # fmt: skip
    text = settings.to_json().decode()
    return [*words, python, *FLAGS, code, str(talk), text]


def serve_in_bwrap() -> None:
    """Raise the other walls and serve: the main function of the process in `bwrap`."""
    from .inside import serve
    from .start import preload

    talk = socket.socket(fileno=int(sys.argv[1]))
    settings = Settings.from_json(sys.argv[2].encode())
    sys.argv[1:] = []
    if settings.has("landlock"):
        landlock.prepare(["/"], settings)
    if settings.has("seccomp"):
        seccomp.prepare()
    preload()
    os.dup2(1, 2)  # what the code prints goes nowhere: the log is a file outside
    restrict_process(settings, 4096 * MIB)
    try:
        serve(talk)
    finally:
        os._exit(0)
