"""Landlock: the kernel refuses files outside of the jail, TCP, foreign sockets and signals.

Where the mount namespace stands, the jail's root holds nothing else anyway: two walls, each of
which would do. Where it does not, this is the wall around the files.
"""

from __future__ import annotations

import os

from .package_copy import masked_folders
from .root import HOME
from .settings import Settings

readable: list[str] = []
"""What may be read without a mount namespace: set before the first jail, by `prepare`."""


def prepare(paths: list[str], settings: Settings) -> None:
    """Load the library, and expand the paths: rules can allow, but not except."""
    import landlockpy

    landlockpy.abi_version()  # loads libc by name, for which it runs a program: not possible later
    if settings.has("mount namespace"):
        readable[:] = ["/"]
        return
    masked = masked_folders(paths)
    for path in paths:
        inner = [folder for folder in masked if folder.startswith(path + "/")]
        readable.extend(expand(path, inner))


def expand(path: str, masked: list[str]) -> list[str]:
    """Return paths that together cover a folder without the masked folders in it."""
    if path in masked:
        return []
    if not any(folder.startswith(path + "/") for folder in masked):
        return [path]
    return [part for entry in os.scandir(path) for part in expand(entry.path, masked)]


def restrict_files(settings: Settings) -> None:
    """Refuse this process, and all that it starts, what is not in the jail."""
    from landlockpy import AccessFS, Ruleset, Scope

    read = AccessFS.READ_FILE | AccessFS.READ_DIR
    with Ruleset(scoped=Scope.ABSTRACT_UNIX_SOCKET | Scope.SIGNAL) as rules:
        for path in readable:
            rules.allow_path(path, read if os.path.isdir(path) else AccessFS.READ_FILE)
        if settings.has("mount namespace"):
            write = AccessFS.WRITE_FILE | AccessFS.TRUNCATE | AccessFS.MAKE_REG
            write |= AccessFS.MAKE_DIR | AccessFS.REMOVE_FILE | AccessFS.REMOVE_DIR
            rules.allow_path(HOME, read | write)
        rules.restrict()
