"""What a thread shows is below the cell that started it; a lost page keeps a picture."""

from __future__ import annotations

import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

import edutorch
from edutorch.viz import draw
from edutorch.viz.live import fallback_picture, interpreter
from edutorch.viz.live.interpreter import ThreadCells, display_in_cell


class Events:
    def __init__(self) -> None:
        self.calls: dict[str, Any] = {}

    def register(self, name: str, call: Any) -> None:
        self.calls[name] = call


class Shell:
    """As much of IPython's shell as is used, with a cell that runs."""

    def __init__(self) -> None:
        self.events, self.cell = Events(), ""

    def get_parent(self) -> dict[str, Any]:
        return {"header": {"msg_id": self.cell}}

    def run(self, cell: str, body: Any) -> None:
        self.cell = cell
        self.events.calls["pre_run_cell"](None)
        body()
        self.events.calls["post_run_cell"](None)


@pytest.fixture
def shell():
    return Shell()


def waiting(told: list[Any], ask: Any, go: threading.Event) -> threading.Thread:
    def work() -> None:
        go.wait(10)
        told.append(ask())

    return threading.Thread(target=work)


def test_a_thread_belongs_to_the_cell_that_started_it(shell):
    watched, told, go = ThreadCells(shell), [], threading.Event()
    threads = [waiting(told, watched.cell, go) for _ in range(2)]
    shell.run("first", threads[0].start)
    shell.run("second", lambda: None)
    shell.run("third", threads[1].start)
    shell.cell = "fourth"
    go.set()
    for thread in threads:
        thread.join()
    assert sorted(parent["header"]["msg_id"] for parent in told) == ["first", "third"]


def test_while_its_cell_runs_nothing_has_to_be_known(shell):
    watched, told, go = ThreadCells(shell), [], threading.Event()
    go.set()
    thread = waiting(told, watched.cell, go)

    def body() -> None:
        thread.start()
        thread.join()

    shell.run("first", body)
    assert told == [None]
    assert watched.cell() is None  # the main thread


class Publisher:
    """IPython's publisher: hooks may change each message."""

    def __init__(self) -> None:
        self.hooks: list[Any] = []
        self.sent: list[Any] = []

    def register_hook(self, hook: Any) -> None:
        self.hooks.append(hook)

    def unregister_hook(self, hook: Any) -> None:
        self.hooks.remove(hook)

    def publish(self, shown: Any, **options: Any) -> str:
        message = {"parent_header": {"msg_id": "now"}, "content": shown}
        for hook in self.hooks:
            message = hook(message)
        self.sent.append(message)
        return "handle"


@pytest.fixture
def publisher(monkeypatch):
    pytest.importorskip("IPython")
    result = Publisher()
    monkeypatch.setattr("IPython.display.display", result.publish)
    shell = SimpleNamespace(display_pub=result)
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: shell)
    return result


def test_it_is_sent_to_that_cell(monkeypatch, publisher):
    for parent, cell in ((None, "now"), ({"header": {"msg_id": "then"}}, "then")):
        monkeypatch.setattr(
            interpreter, "_watched", SimpleNamespace(cell=lambda parent=parent: parent)
        )
        assert display_in_cell("shown") == "handle"
        assert publisher.sent[-1]["parent_header"] == {"msg_id": cell}
        assert publisher.hooks == []


class Handle:
    def __init__(self) -> None:
        self.shown: list[Any] = []

    def update(self, bundle: Any, raw: bool) -> None:
        self.shown.append(bundle)


@pytest.fixture
def handle(monkeypatch):
    result = Handle()
    monkeypatch.setattr(fallback_picture, "display_in_cell", lambda shown, **options: result)
    return result


def drawing() -> Any:
    return draw(edutorch.ones(2, requires_grad=True).sum())


def test_a_picture_is_left_once_and_what_stays_takes_its_place(handle, monkeypatch):
    monkeypatch.setattr(fallback_picture, "AFTER", 0.0)
    left = fallback_picture.FallbackPicture("abc")
    left.offer(drawing, 7)
    left.offer(drawing, 8)
    end = time.monotonic() + 10
    while not handle.shown and time.monotonic() < end:
        time.sleep(0.01)
    [bundle] = handle.shown
    assert "This is step 7." in bundle["text/plain"]
    assert 'data-of="abc"' in bundle["text/html"]
    assert "data:image/svg+xml;base64," in bundle["text/html"]
    assert left.end({"text/plain": "step 9"})
    assert handle.shown[-1] == {"text/plain": "step 9"}


def test_a_short_loop_leaves_nothing(handle):
    left = fallback_picture.FallbackPicture("abc")
    left.offer(drawing, 1)
    assert not left.end({"text/plain": "step 9"})
    left.offer(drawing, 2)
    assert handle.shown == []


def test_a_picture_that_comes_too_late_is_not_shown(handle, monkeypatch):
    monkeypatch.setattr(fallback_picture, "AFTER", 0.0)
    go, drawn = threading.Event(), threading.Event()
    left = fallback_picture.FallbackPicture("abc")

    def slow() -> Any:
        go.wait(10)
        drawn.set()
        return drawing()

    left.offer(slow, 1)
    left.end({"text/plain": "step 9"})
    go.set()
    drawn.wait(10)
    time.sleep(0.3)
    assert handle.shown == [{"text/plain": "step 9"}]


class Page:
    key = "abc"

    def _repr_mimebundle_(self) -> dict[str, Any]:
        return {"text/plain": "the view"}


def test_a_view_that_has_ended_is_not_given_its_picture_any_more(handle):
    go, drawn = threading.Event(), threading.Event()

    def bundle() -> dict[str, Any]:
        go.wait(10)
        drawn.set()
        return {"image/svg+xml": "<svg/>"}

    view = fallback_picture.ViewWithFallback(Page(), bundle)
    view.end({"text/plain": "what stays"}, "a text")
    go.set()
    assert drawn.wait(10)
    over = threading.Event()
    fallback_picture.drawer.submit(over.set)
    assert over.wait(10)
    assert handle.shown == [{"text/plain": "what stays"}, {"text/plain": "a text"}]
