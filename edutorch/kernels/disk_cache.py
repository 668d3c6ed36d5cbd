"""Where compiled kernels are kept: in the user's cache folder, never beside their source.

numba asks locators, one after the other, in which folder a function's machine code is, and by which
stamp to tell that its source has changed. Its own stamp covers one file, but a kernel contains the
code of all the files that it imports. The locator here hashes them all, and puts the hash into the
folder's name: so several versions of edutorch can share a cache, and moving them costs nothing.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..backends.platform import caches_of_user

__all__ = ["import_source", "install_locator", "user_cache_folder"]

DEFINITIONS = re.compile(rb"^from \.\.\.[^(\n]*$", re.MULTILINE)

MAX_VERSIONS = 4
"""So many versions of a file's kernels are kept; the oldest ones are deleted."""


@functools.cache
def user_cache_folder(name: str) -> Path:
    """Return a folder for one purpose in the user's cache; a temporary one if that is not writable.

    The cache is at EDUTORCH_CACHE, in NUMBA_CACHE_DIR, or where the operating system has caches: in
    XDG_CACHE_HOME or ~/.cache, on macOS ~/Library/Caches, on Windows %LOCALAPPDATA%.
    """
    try:
        folder = Path(os.environ.get("EDUTORCH_CACHE") or default_cache()).expanduser() / name
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()  # access rights alone do not say it
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        folder = Path(tempfile.mkdtemp(prefix="edutorch-"))
        atexit.register(remove_own_folder, folder, os.getpid())
    return folder


def default_cache() -> str:
    """Return the folder for the cache of this user."""
    return os.path.join(os.environ.get("NUMBA_CACHE_DIR") or caches_of_user(), "edutorch")


def remove_own_folder(folder: Path, process: int) -> None:
    """Delete a temporary folder, but not at the end of a process that was forked from its owner."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def source_stamp(file: str) -> str:
    """Return a hash of a kernel's file and of all files here that it imports, also indirectly.

    Imports of definitions are left out: no machine code comes from them.
    """
    import llvmlite

    path = Path(file)
    texts: dict[str, bytes] = {}
    waiting = [path.stem]
    while waiting:
        name = waiting.pop()
        if name in texts:
            continue
        texts[name] = path.with_name(f"{name}.py").read_bytes()
        waiting += re.findall(r"^\s*from \.(\w+) import", texts[name].decode(), re.MULTILINE)
        waiting += re.findall(r"^from \. import (\w+)$", texts[name].decode(), re.MULTILINE)
    # numba's own index covers its version and the CPU, but not LLVM's version.
    digest = hashlib.sha256(llvmlite.__version__.encode())
    # Sorted: the hash must not depend on the order of imports.
    for name in sorted(texts):
        digest.update(name.encode() + b"\0" + DEFINITIONS.sub(b"", texts[name]))
    return digest.hexdigest()[:20]


def import_source(source: str, stamp: bytes) -> ModuleType:
    """Import the file with this generated source, which is written first if it does not exist.

    Args:
        stamp: what the compiled code depends on besides its own source.
    """
    key = hashlib.sha256(source.encode() + stamp + sys.version.encode()).hexdigest()[:24]
    name = f"edutorch_kernel_{key}"
    path = user_cache_folder("compiled") / f"{name}.py"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
        part.write_text(source, encoding="utf-8")
        # Renamed when it is complete: no other process imports half a file.
        part.replace(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where numba looks up a kernel loaded from its cache
    spec.loader.exec_module(module)
    return module


class KernelCacheLocator:
    """Says where the machine code of a function in `edutorch/kernels/` is; for numba."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._line = function.__code__.co_firstlineno
        self._stamp = source_stamp(file)
        self._name = Path(file).stem
        self._path = user_cache_folder("kernels") / f"{self._name}-{self._stamp}"

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> KernelCacheLocator | None:
        """Return the locator of a function, or None for one that is not edutorch's own."""
        if Path(file).parent.parent != Path(__file__).parent or not os.path.exists(file):
            return None
        return cls(function, file)

    def ensure_cache_path(self) -> None:
        """Make the folder; numba calls this before it writes."""
        if not self._path.is_dir():
            self._path.mkdir(parents=True, exist_ok=True)
            self._remove_old_versions()

    def _remove_old_versions(self) -> None:
        versions = [path for path in self._path.parent.glob(f"{self._name}-*") if path.is_dir()]
        versions.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in versions[MAX_VERSIONS:]:
            shutil.rmtree(path, ignore_errors=True)  # what another process uses, it makes again

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(self._path)

    def get_source_stamp(self) -> str:
        """Return what changes when a kernel has to be compiled again."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """Return what tells functions of one name apart: the line."""
        return str(self._line)


def install_locator() -> None:
    """Let numba ask `KernelCacheLocator` first. Functions of others stay where they are."""
    from numba.core import caching

    implementation: Any = getattr(caching, "CacheImpl", None) or caching._CacheImpl  # numba < 0.62
    if KernelCacheLocator not in implementation._locator_classes:
        # numba takes the first locator that answers, and its own ones answer for most files.
        implementation._locator_classes.insert(0, KernelCacheLocator)
