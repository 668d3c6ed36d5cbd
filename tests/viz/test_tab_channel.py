"""Commands in a browser tab: heard while a cell runs, once each, and of this view only."""

from __future__ import annotations

import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from edutorch.viz.live import tab_channel
from edutorch.viz.live.tab_channel import FRAME, SHARE, TabChannel
from edutorch.viz.live.throttle import Gate


class Browser:
    """Stands for the page: its channels by name, and what is delivered while Python waits."""

    def __init__(self) -> None:
        self.channels: dict[str, Any] = {}
        self.underway: list[tuple[str, Any]] = []
        self.waits: list[float] = []

    def new(self, name: str) -> Any:
        return self.channels.setdefault(name, SimpleNamespace(onmessage=None))

    def run_sync(self, coroutine: Any) -> None:
        coroutine.close()
        self.waits.append(time.perf_counter())
        waiting, self.underway = self.underway, []
        for name, data in waiting:
            self.channels[name].onmessage(SimpleNamespace(data=data))


class Data:
    """An object of JavaScript."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def to_py(self) -> Any:
        return self.value


@pytest.fixture
def browser(monkeypatch):
    browser = Browser()
    js, ffi, pyodide = ModuleType("js"), ModuleType("pyodide.ffi"), ModuleType("pyodide")
    js.BroadcastChannel = browser  # type: ignore[attr-defined]
    ffi.create_proxy, ffi.run_sync = lambda call: call, browser.run_sync  # type: ignore[attr-defined]
    for name, module in (("js", js), ("pyodide", pyodide), ("pyodide.ffi", ffi)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(tab_channel, "can_wait", lambda: True)
    return browser


def test_a_command_is_heard_between_two_steps(browser):
    gate = Gate()
    channel = TabChannel(gate.command)
    channel.serve(gate)
    browser.underway.append((channel.description["name"], Data({"type": "pause", "id": "1"})))
    assert not gate.paused
    gate.keep_pace()
    assert gate.paused
    browser.underway.append((channel.description["name"], Data({"type": "resume", "id": "2"})))
    assert gate.wait()
    assert not gate.paused


def test_a_command_that_comes_twice_is_done_once(browser):
    heard: list[dict[str, Any]] = []
    channel = TabChannel(heard.append)
    command = {"type": "step", "id": "7"}
    browser.underway.append((channel.description["name"], Data(command)))
    assert channel.fetch()
    channel.once(command)  # as a message of the kernel, when the cell has ended
    channel.once({"type": "step", "id": "8"})
    channel.once({"type": "ready"})  # of a page that has no channel
    assert [command.get("id") for command in heard] == ["7", "8", None]


@pytest.mark.parametrize("data", [None, 3, "pause", Data("pause"), Data({"type": "pause"}), Data(
    {"type": "pause", "id": 3}
)])  # fmt: skip
def test_what_is_no_command_is_dropped(browser, data):
    heard: list[Any] = []
    channel = TabChannel(heard.append)
    browser.underway.append((channel.description["name"], data))
    assert not channel.fetch()
    assert heard == []


def test_two_views_have_channels_of_their_own(browser):
    first, second = TabChannel(print), TabChannel(print)
    assert first.description["name"] != second.description["name"]
    assert len(browser.channels) == 2


def test_the_loop_waits_once_per_frame_and_for_a_twentieth_of_its_time(browser, monkeypatch):
    now = 0.0

    def run_sync(coroutine: Any) -> None:
        nonlocal now
        coroutine.close()
        now += 0.01
        browser.waits.append(now)

    sys.modules["pyodide.ffi"].run_sync = run_sync  # type: ignore[attr-defined]
    monkeypatch.setattr(tab_channel.time, "perf_counter", lambda: now)
    channel = TabChannel(print)
    for _ in range(100_000):
        channel.fetch()
        now += 0.0001
        if now > 5:
            break
    assert 0.01 * len(browser.waits) / now <= SHARE * 1.01
    assert now / len(browser.waits) > FRAME


def test_without_jspi_nothing_is_heard_and_the_page_is_told(browser, monkeypatch):
    monkeypatch.setattr(tab_channel, "can_wait", lambda: False)
    gate = Gate()
    channel = TabChannel(gate.command)
    channel.serve(gate)
    assert channel.description["hears"] is False
    assert gate.fetch is None and browser.channels == {}


def test_stop_raises_keyboard_interrupt_between_two_steps():
    gate = Gate()
    gate.pause()
    gate.command({"type": "stop"})
    assert gate.wait()
    with pytest.raises(KeyboardInterrupt):
        gate.check_stop()
    gate.check_stop()  # once
