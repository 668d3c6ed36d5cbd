"""What Python in WebAssembly outside of a browser can do: nothing that is to be started."""

from __future__ import annotations

import importlib
import os
import sys

import pytest

from edutorch.backends import platform
from edutorch.core import error_messages


@pytest.fixture
def in_wasi(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "wasi")
        yield importlib.reload(platform)
    importlib.reload(platform)


def test_wasi_starts_nothing_and_is_no_browser(in_wasi):
    assert not in_wasi.IS_BROWSER and in_wasi.IS_WASM
    assert not (in_wasi.HAS_THREADS or in_wasi.HAS_PROCESSES or in_wasi.HAS_SIGNALS)
    assert in_wasi.WHERE == "on wasi"
    done = []
    assert in_wasi.run_beside("at once", done.append, 1) is None and done == [1]


def test_a_system_that_reports_no_memory_has_enough(monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: 0)
    assert error_messages.physical_memory() == 2**62
