"""What this platform can do: threads, processes, signals, the C library.

Everything that depends on it asks here, so that a mistake shows in one place. Python compiled to
WebAssembly has none of the four: in a browser tab (Pyodide), or outside of browsers (WASI). Code
that would start a thread there does its work at once, and code that would start a process says that
it cannot.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from threading import Thread
from typing import Any

IS_BROWSER = sys.platform == "emscripten"
IS_WASM = IS_BROWSER or sys.platform == "wasi"
IS_LINUX = sys.platform == "linux"
IS_MACOS = sys.platform == "darwin"
IS_WINDOWS = sys.platform == "win32"
IS_POSIX = os.name == "posix" and not IS_WASM

HAS_THREADS = not IS_WASM
"""Whether a thread can be started. Locks exist in any case."""

HAS_PROCESSES = not IS_WASM
"""Whether another program can be started."""

HAS_SIGNALS = not IS_WASM
"""Whether Ctrl-C arrives as a signal, between any two instructions."""

WHERE = "in a browser tab" if IS_BROWSER else f"on {sys.platform}"
"""As the end of a sentence."""


def run_beside(name: str, function: Callable[..., object], *arguments: Any) -> Thread | None:
    """Call a function on a thread of its own; at once where there are no threads.

    Args:
        name: of the thread.

    Returns: the thread, which has been started, or None if the call is over.
    """
    if not HAS_THREADS:
        function(*arguments)
        return None
    thread = Thread(target=function, args=arguments, name=name, daemon=True)
    thread.start()
    return thread


def can_wait() -> bool:
    """Return whether a browser lets Python wait for a promise here (JSPI): then clicks arrive."""
    if not IS_BROWSER:
        return False
    from pyodide.ffi import can_run_sync

    return bool(can_run_sync())


def c_function(name: str) -> Callable[..., Any] | None:
    """Return a function of the C library, on Linux; None where there is none of this name."""
    if not IS_LINUX:
        return None
    import ctypes

    return getattr(ctypes.CDLL(None), name, None)


def caches_of_user() -> str:
    """Return the folder where the programs of this user keep what they can make again."""
    parent = os.environ.get("XDG_CACHE_HOME")
    if not parent and IS_WINDOWS:
        parent = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    return parent or ("~/Library/Caches" if IS_MACOS else "~/.cache")
