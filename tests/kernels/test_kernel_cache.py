"""How kernels are made, kept on the disk, and done without."""

import inspect
import os
import queue
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import edutorch
from edutorch import kernels
from edutorch.backends import blas, kernel_registry, platform
from edutorch.backends.kernel_registry import declarations, slot_of
from edutorch.core.registry import REGISTRY
from edutorch.kernels import disk_cache
from tests.trials import tried

numba = pytest.importorskip("numba", reason="needs numba: the extra `fast`")


@tried("key", declarations())
def test_each_kernel_is_found_from_its_definition_and_back(key):
    """The decorators as they are read, without importing a compiler, and as they are run."""
    place = slot_of(key)
    assert callable(kernels.kernel_maker(place))
    maker = inspect.unwrap(place.maker)
    assert any(key in getattr(one, "replaces", ()) for one in (place.maker, maker))
    name, _, rule = key.partition("/")
    if name in REGISTRY:
        op = REGISTRY[name]
        assert (op.rule_slots[rule] if rule else op.slot) is place
        assert inspect.getmodule(maker).__name__ == f"edutorch.kernels.cpu.{place.file}"


def test_a_decorator_that_is_not_read_is_refused():
    with pytest.raises(TypeError, match="in one line"):
        edutorch.relu.kernel("cpu", min_size=1)(lambda: None)


def run(program, cwd=None, **environment):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=cwd,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


STEP = """
import edutorch, time
from edutorch.backends.kernel_registry import slots
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


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A copy of the package in which nothing may be written."""
    folder = tmp_path_factory.mktemp("installed")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(edutorch.__file__).parent, folder / "edutorch", ignore=ignored)
    paths = sorted(folder.rglob("*"))
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in paths:
        path.chmod(0o755)


def test_nobody_waits_for_the_compiler_and_a_second_process_compiles_nothing(tmp_path, installed):
    """The first one writes files, all in the cache; the second one may not compile, and has all."""
    package = sorted(installed.rglob("*"))
    settings = {"EDUTORCH_CACHE": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    names = run(STEP, cwd=installed, EDUTORCH_KERNELS="beside", **settings)
    assert names == ["False", "False", "Adam.fused_kernel", "STEP_COUNT"]
    states = """
from edutorch import kernels
states = {each.name: each.state for each in kernels.warm_up(compile=False)}
print(states["Adam.fused_kernel"], states["STEP_COUNT"], states["RAdam.fused_kernel"])
"""
    files = sorted(tmp_path.rglob("*.nb?"))
    assert any(file.suffix == ".nbc" for file in files)
    # This process runs the package itself: the same source has the same kernels wherever it is.
    assert run(states, **settings) == ["loaded", "loaded", "not", "compiled"]
    assert sorted(tmp_path.rglob("*.nb?")) == files
    assert sorted(installed.rglob("*")) == package


@pytest.mark.slow
def test_every_kernel_is_found_on_the_disk_by_the_next_process():
    """One that holds a compiled function, say, has another name in each process."""
    states = "from edutorch import kernels\n"
    states += "print(*(f'{{each.name}}={{each.state}}' for each in kernels.warm_up({})))"
    run(states.format(""))
    state_of = dict(
        word.split("=", 1) for word in run(states.format("compile=False")) if "=" in word
    )
    assert state_of.keys() >= declarations().keys()
    assert {name: state for name, state in state_of.items() if state != "loaded"} == {}


def test_the_cache_is_where_the_system_has_them_and_can_be_moved(monkeypatch):
    for name in ("EDUTORCH_CACHE", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    folders = {"linux": "~/.cache", "darwin": "~/Library/Caches", "win32": "/local"}
    for name, folder in folders.items():
        monkeypatch.setattr(platform, "IS_MACOS", name == "darwin")
        monkeypatch.setattr(platform, "IS_WINDOWS", name == "win32")
        assert disk_cache.default_cache() == f"{folder}/edutorch"
        monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
        assert disk_cache.default_cache() == "/xdg/edutorch"
        monkeypatch.delenv("XDG_CACHE_HOME")


def test_a_cache_that_cannot_be_written_is_a_temporary_one(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("EDUTORCH_CACHE", str(tmp_path / "file" / "cache"))
    folder = disk_cache.user_cache_folder.__wrapped__("kernels")
    assert folder.is_dir()
    disk_cache.remove_own_folder(folder, os.getpid() + 1)  # a forked process ends
    assert folder.is_dir()
    disk_cache.remove_own_folder(folder, os.getpid())
    assert not folder.exists()


def test_what_a_kernel_imports_belongs_to_its_stamp(tmp_path, monkeypatch):
    def stamp():
        disk_cache.source_stamp.cache_clear()
        return disk_cache.source_stamp(str(tmp_path / "kernel.py"))

    (tmp_path / "kernel.py").write_text("from .inner import f\n")
    (tmp_path / "inner.py").write_text("from ...ops import op\nfrom . import deep\n")
    (tmp_path / "deep.py").write_text("")
    (tmp_path / "other.py").write_text("")
    first = stamp()
    (tmp_path / "other.py").write_text("x = 1\n")
    (tmp_path / "inner.py").write_text("from ...ops.moved import op\nfrom . import deep\n")
    assert stamp() == first
    (tmp_path / "deep.py").write_text("x = 1\n")
    assert stamp() != first
    disk_cache.source_stamp.cache_clear()


def test_old_versions_of_a_kernel_are_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_cache, "user_cache_folder", lambda name: tmp_path)
    for version in range(6):
        (tmp_path / f"matmul-{version}").mkdir()
        os.utime(tmp_path / f"matmul-{version}", (version, version))
    (tmp_path / "norms-0").mkdir()
    file = str(Path(kernels.__file__).parent / "cpu" / "matmul.py")
    locator = disk_cache.KernelCacheLocator.from_function(lambda: None, file)
    locator.ensure_cache_path()
    names = {path.name for path in tmp_path.iterdir()} - {Path(locator.get_cache_path()).name}
    assert names == {"norms-0", "matmul-3", "matmul-4", "matmul-5"}
    assert disk_cache.KernelCacheLocator.from_function(lambda: None, __file__) is None


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
        kernels.request_kernel(kernel_registry.Slot("some.kernel", min_size=0))
    finally:
        edutorch.use_deterministic_algorithms(False)
    assert told[-1] == made


def test_without_numba_no_kernel_is_made(monkeypatch):
    monkeypatch.setattr(kernels, "is_available", lambda: False)
    monkeypatch.setattr(kernels, "make_or_warn", pytest.fail)
    monkeypatch.setenv("EDUTORCH_KERNELS", "wait")
    kernels.request_kernel(kernel_registry.Slot("some.kernel", min_size=0))
    assert list(kernels.warm_up()) == []


@pytest.mark.parametrize("wish", ["off", "wait"])
def test_a_kernel_that_cannot_come_is_asked_for_once(monkeypatch, wish):
    """Each call of a large array would ask anew: twice the time of a small op."""
    monkeypatch.setenv("EDUTORCH_KERNELS", wish)
    monkeypatch.setattr(kernels, "is_available", lambda: False)
    slot = kernel_registry.GeneratedSlot("add", None)
    scope = {"KERNEL": slot, "x": np.zeros(10_000), "y": np.zeros(10_000)}
    test = slot.size_test("KERNEL", "x", ["y"])
    assert eval(test, scope)
    assert slot(scope["x"], scope["y"]) is None
    assert not eval(test, scope)


def test_an_error_of_the_compiler_is_told_and_the_next_kernel_is_made(monkeypatch):
    told = queue.SimpleQueue()

    def maker_of(slot):
        if slot.name == "some.broken":
            raise numba.TypingError("no such type\nand many more lines")
        return lambda: print

    monkeypatch.setattr(kernels, "kernel_maker", maker_of)
    monkeypatch.setattr(kernels, "warn", told.put)
    broken, good = (kernel_registry.Slot(name, min_size=0) for name in ("some.broken", "some.good"))
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
from edutorch.backends import kernel_registry
begun, ended = threading.Event(), threading.Event()
def maker_of(slot):
    def maker():
        begun.set()
        ended.wait(60)
        return print
    return maker
kernels.kernel_maker = maker_of
slow, other = (kernel_registry.Slot(name, 0) for name in ("some.slow", "some.other"))
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
