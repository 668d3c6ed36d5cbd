"""How kernels are made, kept on the disk, and done without."""

import os
import queue
import subprocess
import sys
from pathlib import Path

import pytest

import edutorch
from edutorch import kernels
from edutorch.backends import blas, reference_mode
from edutorch.backends.kernel_registry import KERNELS
from edutorch.backends.reference_mode import slot_of
from tests.trials import tried

numba = pytest.importorskip("numba", reason="needs numba: the extra `fast`")


@tried("key", KERNELS)
def test_each_row_of_the_table_names_a_maker(key):
    assert callable(kernels.kernel_maker(slot_of(key)))


def run(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


STEP = """
import edutorch, time
from edutorch.backends.reference_mode import slots
w = edutorch.zeros(10_000, requires_grad=True)
w.grad = edutorch.ones(10_000)
edutorch.optim.Adam([w]).step()
wanted = [each for each in slots() if each.requested]
print(*(each.run is not None for each in wanted))
end = time.monotonic() + 120
while not all(each.run for each in wanted) and time.monotonic() < end:
    time.sleep(0.01)
print(*sorted(each.name for each in wanted if each.run))
"""


def test_nobody_waits_for_the_compiler_and_a_second_process_compiles_nothing(tmp_path):
    """The first one writes files; the second one may not compile, and has all of them."""
    names = run(STEP, EDUTORCH_KERNELS="beside", NUMBA_CACHE_DIR=str(tmp_path))
    assert names == ["False", "False", "optimizers.adam", "optimizers.step_count"]
    states = """
from edutorch import kernels
states = {each.name: each.state for each in kernels.warm_up(compile=False)}
print(states["optimizers.adam"], states["optimizers.step_count"], states["optimizers.radam"])
"""
    files = sorted(tmp_path.rglob("*"))
    assert any(file.suffix == ".nbc" for file in files)
    assert run(states, NUMBA_CACHE_DIR=str(tmp_path)) == ["loaded", "loaded", "not", "compiled"]
    assert sorted(tmp_path.rglob("*")) == files


@pytest.mark.slow
def test_every_kernel_is_found_on_the_disk_by_the_next_process():
    """One that holds a compiled function, say, has another name in each process."""
    states = "from edutorch import kernels\n"
    states += "print(*(f'{{each.name}}={{each.state}}' for each in kernels.warm_up({})))"
    run(states.format(""))
    state_of = dict(
        word.split("=", 1) for word in run(states.format("compile=False")) if "=" in word
    )
    assert len(state_of) > len(KERNELS)
    assert {name: state for name, state in state_of.items() if state != "loaded"} == {}


CACHED = """
import sys
sys.path.insert(0, {folder!r})
import kernel
print(*kernel.double.stats.cache_path.split())
"""


def test_an_installation_that_cannot_be_written_keeps_kernels_in_the_users_cache(tmp_path):
    folder, home = tmp_path / "installed", tmp_path / "home"
    folder.mkdir()
    (folder / "kernel.py").write_text(
        "from numba import njit\n@njit('int64(int64)', cache=True)\ndef double(x): return 2 * x\n"
    )
    (folder / "__pycache__").write_text("a file, where a folder should be: for root, too")
    (path,) = run(
        CACHED.format(folder=str(folder)), HOME=str(home), XDG_CACHE_HOME=str(home),
        PYTHONDONTWRITEBYTECODE="1", NUMBA_CACHE_DIR="",
    )  # fmt: skip
    assert home in Path(path).parents or sys.platform != "linux"
    assert any(path.suffix == ".nbc" for path in home.rglob("*"))


def test_where_nothing_can_be_kept_a_kernel_is_made_all_the_same(monkeypatch):
    made, before = [], numba.config.CACHE_DIR

    def maker():
        if before == numba.config.CACHE_DIR:
            raise RuntimeError("cannot cache function 'step': no locator available for file")
        return made.append

    monkeypatch.setattr(numba.config, "CACHE_DIR", before)
    monkeypatch.setattr(kernels, "kernel_maker", lambda slot: maker)
    slot = reference_mode.Slot("some.kernel", min_size=0)
    kernels.make(slot)
    assert slot.run == made.append


@pytest.mark.parametrize(("wish", "is_deterministic", "made"), [
    ("beside", False, "beside"), ("beside", True, "now"), ("", True, "now"), ("wait", False, "now"),
    ("wait", True, "now"), ("off", False, "never"), ("off", True, "never"),
])  # fmt: skip
def test_who_waits_for_a_kernel(monkeypatch, wish, is_deterministic, made):
    """Where results must not change, the definition does not run first and a kernel later."""
    told = ["never"]
    monkeypatch.setenv("EDUTORCH_KERNELS", wish)
    monkeypatch.setattr(kernels, "make_or_warn", lambda slot: told.append("now"))
    monkeypatch.setattr(kernels.compiler, "submit", lambda job: told.append("beside"))
    edutorch.use_deterministic_algorithms(is_deterministic)
    try:
        kernels.request_kernel(reference_mode.Slot("some.kernel", min_size=0))
    finally:
        edutorch.use_deterministic_algorithms(False)
    assert told[-1] == made


def test_without_numba_no_kernel_is_made(monkeypatch):
    monkeypatch.setattr(kernels, "is_available", lambda: False)
    monkeypatch.setattr(kernels, "make_or_warn", pytest.fail)
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    kernels.request_kernel(reference_mode.Slot("some.kernel", min_size=0))
    assert list(kernels.warm_up()) == []


def test_an_error_of_the_compiler_is_told_and_the_next_kernel_is_made(monkeypatch):
    told = queue.SimpleQueue()

    def maker_of(slot):
        if slot.name == "some.broken":
            raise numba.TypingError("no such type\nand many more lines")
        return lambda: print

    monkeypatch.setattr(kernels, "kernel_maker", maker_of)
    monkeypatch.setattr(kernels, "warn", told.put)
    broken, good = (reference_mode.Slot(name, min_size=0) for name in ("some.broken", "some.good"))
    kernels.compiler.submit(lambda: kernels.make_or_warn(broken))
    kernels.compiler.submit(lambda: kernels.make_or_warn(good))
    assert told.get(timeout=60) == (
        "no kernel for some.broken (no such type): slower, the same results; try `doctor`"
    )
    for _ in range(1000):
        if good.run is not None:
            break
        edutorch.kernels.time.sleep(0.01)
    assert good.run is print


def test_who_asks_for_a_kernel_holds_blas_at_one_thread():
    program = """
import edutorch
from edutorch.backends import blas
library = blas.blas()
edutorch.set_num_threads(2)
print(library.get_num_threads())
edutorch.ones(100, 100) @ edutorch.ones(100, 100)
print(library.get_num_threads())
edutorch.set_num_threads(3)
print(library.get_num_threads(), edutorch.get_num_threads())
with blas.all_threads():
    print(library.get_num_threads())
print(library.get_num_threads())
"""
    if blas.blas() is None or blas.blas().get_num_threads() is None:
        pytest.skip("NumPy's BLAS does not say how many threads it uses")
    assert run(program, EDUTORCH_KERNELS="beside") == ["2", "1", "1", "3", "3", "1"]
    off = run(program, EDUTORCH_KERNELS="off")
    assert off == ["2", "2", "3", "3", "3", "3"]


def test_a_process_that_is_forked_while_the_compiler_works_does_without(monkeypatch):
    program = """
import os, threading, edutorch
from edutorch import kernels
from edutorch.backends import reference_mode
begun, ended = threading.Event(), threading.Event()
def maker_of(slot):
    def maker():
        begun.set()
        ended.wait(60)
        return print
    return maker
kernels.kernel_maker = maker_of
slow, other = (reference_mode.Slot(name, 0) for name in ("some.slow", "some.other"))
slow.request()
begun.wait(60)
child = os.fork()
if not child:
    other.request()  # waits for nothing
    os._exit(0 if other.run is None and kernels.compiler.broken else 1)
print(os.waitpid(child, 0)[1])
ended.set()
"""
    assert run(program, EDUTORCH_KERNELS="beside") == ["0"]
