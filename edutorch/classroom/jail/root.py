"""The jail's root filesystem: a few read-only folders, at the same paths as outside.

The same paths, so that modules imported before and after find their files. There is no /proc, no
/dev, no /etc and no program in it; /home is the only place that can be written to.
"""

from __future__ import annotations

import os

from . import linux
from .package_copy import masked_folders, readable_paths

HOME = "/home"


def build_root(folder: str) -> None:
    """Make a new root of what the jail may read, and enter it. Needs a mount namespace.

    Args:
        folder: as `package_copy` made it.
    """
    linux.mount("none", "/", "", linux.MS_REC | linux.MS_PRIVATE)
    root = os.path.join(folder, "root")
    flags = linux.MS_NOSUID | linux.MS_NODEV
    linux.mount("tmpfs", root, "tmpfs", flags, "size=4m,nr_inodes=10000,mode=755")
    paths = readable_paths(folder)
    copy_links(paths, root)
    masked = masked_folders(paths)
    for path in sorted({*paths, *masked}, key=lambda path: path.count("/")):
        if is_top_link(path):
            continue
        if path in masked:
            linux.mount("tmpfs", make_target(root, path), "tmpfs", flags, "size=1m,mode=755")
        else:
            bind(path, root)
    os.makedirs(root + HOME, 0o755, exist_ok=True)
    linux.make_read_only(root)
    linux.enter_root(root)


def copy_links(paths: list[str], root: str) -> None:
    """Make /lib a link to /usr/lib where it is one outside."""
    for path in paths:
        if is_top_link(path):
            os.symlink(os.readlink(path), root + path)


def is_top_link(path: str) -> bool:
    """Return whether a path is a link in the root, as /lib is one to /usr/lib."""
    return os.path.islink(path) and path.count("/") == 1


def bind(path: str, root: str) -> None:
    """Show a folder or a file in the new root."""
    target = make_target(root, path)
    linux.mount(path, target, "", linux.MS_BIND | linux.MS_REC)


def make_target(root: str, path: str) -> str:
    """Make the empty folder or file that something is mounted on, and return it."""
    target = root + path
    if os.path.exists(target):
        return target
    if os.path.isdir(path):
        os.makedirs(target, 0o755)
    else:
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    return target
