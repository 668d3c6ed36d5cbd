"""Python as a browser tab has it: no threads, no processes, no compiled libraries. A pytest plugin.

    python -m pytest -p tests.as_in_a_browser tests/core

A mistake that would only show in a browser shows here. A test that needs bfloat16 or a file of
safetensors is skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).parents[1]
ABSENT = ("ml_dtypes", "safetensors", "numba", "threadpoolctl", "cupy")


def refuse_thread(*_: Any) -> NoReturn:
    skip_if_a_test_asks()
    raise RuntimeError("can't start new thread")


def refuse_process(*_: Any, **__: Any) -> NoReturn:
    skip_if_a_test_asks()
    raise OSError("emscripten does not support processes.")


def skip_if_a_test_asks() -> None:
    """Skip a test that starts a thread or a process itself; edutorch must not."""
    frame = sys._getframe(2)
    while frame is not None and not frame.f_code.co_filename.startswith(str(ROOT)):
        frame = frame.f_back
    if frame is not None and frame.f_code.co_filename.startswith(str(ROOT / "tests")):
        pytest.skip("there are no threads and no processes")


def skip(purpose: str, reason: str, hint: str = "") -> pytest.skip.Exception:
    return pytest.skip.Exception(f"{purpose}: {reason}")


class Promise:
    """Of something that never comes."""

    def then(self, call: Callable[[Any], None]) -> None:
        """Never call it."""


pyodide = ModuleType("pyodide")
pyodide.code = SimpleNamespace(run_js=lambda code: lambda *_: Promise())  # type: ignore[attr-defined]
pyodide.ffi = SimpleNamespace(can_run_sync=lambda: False)  # type: ignore[attr-defined]
sys.modules.update(
    {f"pyodide.{name}": part for name, part in vars(pyodide).items() if name in ("code", "ffi")}
)
sys.modules["pyodide"] = pyodide
sys.modules.update(dict.fromkeys(ABSENT))  # importing one of them raises an ImportError
sysconfig.get_paths()  # kept: it depends on the platform
platform, sys.platform = sys.platform, "emscripten"
import edutorch.viz  # noqa: E402, F401
from edutorch import dtypes  # noqa: E402
from edutorch.serialization import safetensors_file  # noqa: E402

sys.platform = platform
threading.Thread.start = refuse_thread  # type: ignore[method-assign]
subprocess.Popen.__init__ = refuse_process  # type: ignore[method-assign]
os.fork = refuse_process  # type: ignore[assignment]
dtypes.MissingExtraError = safetensors_file.MissingExtraError = skip  # type: ignore[assignment,misc]
