"""`viz.settings` turns off, one by one or all together, what reaches into Python and Jupyter."""

from __future__ import annotations

import dataclasses
import gc
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import edutorch
from edutorch import viz
from edutorch.viz.live import interpreter
from edutorch.viz.live.interpreter import (
    CollectorPause,
    CommQueue,
    FastSender,
    Settings,
    ThreadAffinity,
)

SWITCHES = [field.name for field in dataclasses.fields(Settings)]


@pytest.fixture(params=["enabled", "own"])
def turn_off(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that turns one of them off: by its own switch, or by that of all."""

    def off(name: str) -> None:
        chosen = "enabled" if request.param == "enabled" else name
        value = None if chosen == "switch_interval" else False
        monkeypatch.setattr(viz.settings, chosen, value)

    return off


def test_all_are_on_and_described_in_the_table() -> None:
    assert dataclasses.replace(viz.settings) == Settings()
    assert viz.settings is interpreter.settings
    text = interpreter.__doc__ or ""
    assert [name for name in SWITCHES if name != "enabled" and f"| `{name}` |" not in text] == []
    with pytest.raises(AttributeError):
        viz.settings.pin_sneder = False  # type: ignore[attr-defined]


def test_the_switch_interval_stays(turn_off: Any) -> None:
    turn_off("switch_interval")
    before = sys.getswitchinterval()
    with viz.live():
        assert sys.getswitchinterval() == before
    assert sys.getswitchinterval() == before


def test_the_collector_is_not_paused(turn_off: Any) -> None:
    pause = CollectorPause()
    pause(True)
    assert not gc.isenabled()
    turn_off("pause_collector")
    pause(False)  # what was paused before comes back
    assert gc.isenabled()
    pause(True)
    assert gc.isenabled()
    w = edutorch.ones(2, requires_grad=True)
    enabled = []
    with viz.live():
        for _ in range(3):
            (w * w).sum().backward()
            enabled.append(gc.isenabled())
    assert enabled == [True] * 3


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins threads")
def test_a_pinned_thread_is_let_go(turn_off: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[set[int]] = []
    monkeypatch.setattr(interpreter, "allowed_cpus", lambda thread: frozenset({0, 1, 2}))
    monkeypatch.setattr("os.sched_setaffinity", lambda thread, cpus: calls.append(set(cpus)))
    affinity = ThreadAffinity(7)
    monkeypatch.setattr(affinity, "_current_cpu", lambda: 1)
    affinity.pin_to_current()
    turn_off("pin_sender")
    affinity._due = 0.0
    affinity.pin_to_current()
    affinity.pin_to_current()
    assert calls == [{1}, {0, 1, 2}]


def test_messages_go_the_usual_way(turn_off: Any) -> None:
    sender = FastSender(None)
    sender.possible, sender._comm = True, SimpleNamespace(_closed=False)
    sender._session = SimpleNamespace(pid=__import__("os").getpid())
    sender._thread = SimpleNamespace(thread=SimpleNamespace(is_alive=lambda: True))
    with pytest.raises(AttributeError):
        sender({}, [])  # on its way to the kernel, which is missing here
    turn_off("direct_sender")
    assert sender({}, []) is False


def test_the_queue_of_the_kernel_is_not_touched(turn_off: Any) -> None:
    fetch = CommQueue(None, "id")
    with pytest.raises(AttributeError):
        fetch()
    turn_off("fetch_commands")
    fetch._next = 0.0
    assert fetch() is False


def test_output_stays_in_the_running_cell(turn_off: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("IPython")
    hooks: list[object] = []
    publisher = SimpleNamespace(register_hook=hooks.append, unregister_hook=lambda hook: None)
    shell = SimpleNamespace(display_pub=publisher)
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.display.display", lambda shown, **options: shown)
    monkeypatch.setattr(interpreter, "_watched", SimpleNamespace(cell=lambda: {"header": {}}))
    assert interpreter.display_in_cell("picture") == "picture"
    assert len(hooks) == 1
    turn_off("own_cell")
    assert interpreter.display_in_cell("picture") == "picture"
    assert len(hooks) == 1
