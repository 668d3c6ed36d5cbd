"""A site for the browser, built from stand-ins: a Pyodide of empty files, and JupyterLite."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import types
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

from edutorch import __main__ as command_line
from edutorch.cli.site import build as building
from edutorch.cli.site import environment, tab_start, wheels
from edutorch.cli.site.build import PRELOADED, Site, build_site
from edutorch.cli.site.lock import LOCK, add_wheel, hash_of, normalized, read_lock
from edutorch.cli.site.pages import SCRIPT
from edutorch.cli.site.serve import site_server
from edutorch.cli.site.versions import PAIRS, SiteError, pair_of_version
from edutorch.cli.site.wheels import write_wheel

FROM_KERNEL = {"ipykernel", "pyodide-kernel", "piplite", "comm", "anywidget"}
OWN = {"edutorch", "edutorch-tab"}


def stand_in(
    folder: Path, version: str = "0.27.7", python: str = "3.12.7", abi: str = "2024_0"
) -> Path:
    """Write a folder that looks like a release of Pyodide."""
    folder.mkdir()
    for name in ("pyodide.js", "pyodide.mjs", "pyodide.asm.wasm", "python_stdlib.zip"):
        (folder / name).write_bytes(b"of Pyodide")
    info = {"version": version, "python": python, "abi_version": abi}
    lock = {"info": info, "packages": {}}
    for name in {*map(normalized, PRELOADED), "matplotlib", "nothing"} - FROM_KERNEL - OWN:
        add_wheel(lock, write_wheel(folder, name.replace("-", "_"), "1.0", [], []))
    (folder / LOCK).write_text(json.dumps(lock))
    return folder


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A build environment whose JupyterLite writes two pages."""
    root = tmp_path / "environment"
    (root / "wheels").mkdir(parents=True)
    kernel = root / "share/jupyter/labextensions/@jupyterlite/pyodide-kernel-extension/static/pypi"
    kernel.mkdir(parents=True)
    for name in FROM_KERNEL:
        folder = kernel if name != "anywidget" else root / "wheels"
        write_wheel(folder, name.replace("-", "_"), "2.0", ["numpy", "absent; extra == 'x'"], [])

    def run_jupyterlite(environment, lite, output):
        for page in ("lab/index.html", "notebooks/index.html", "index.html"):
            (output / page).parent.mkdir(exist_ok=True)
            (output / page).write_text("<html><head></head></html>")
        (lite / "static").rename(output / "static")
        (lite / "files").rename(output / "files")
        (lite / "jupyter-lite.json").rename(output / "jupyter-lite.json")

    widgets = tmp_path / "widgets"
    (widgets / "vendor").mkdir(parents=True)
    (widgets / "vendor" / "graphviz.js").write_text("export {}")
    (widgets / "live.js").write_text("export {}")
    monkeypatch.setattr(building, "environment_of", lambda pair: root)
    monkeypatch.setattr(building, "run_jupyterlite", run_jupyterlite)
    monkeypatch.setattr(wheels, "widgets_folder", lambda: widgets)
    monkeypatch.setattr(wheels, "python_to_compile", lambda version: None)
    return root


@pytest.fixture
def notebook(tmp_path):
    path = tmp_path / "00_tour.ipynb"
    path.write_text('{"cells": []}')
    return path


def settings_of(site: Path) -> dict:
    data = json.loads((site / "jupyter-lite.json").read_text())["jupyter-config-data"]
    return data["litePluginSettings"]["@jupyterlite/pyodide-kernel-extension:kernel"]


@pytest.mark.parametrize(("version", "python", "entry"), [
    ("0.27.7", "3.12.7", "pyodide.js"), ("314.0.7", "3.14.2", "pyodide.mjs"),
])  # fmt: skip
def test_a_site_has_all_that_its_lock_lists(tmp_path, tools, notebook, version, python, entry):
    pyodide = stand_in(tmp_path / "pyodide", version, python)
    site = build_site(tmp_path / "site", Site(pyodide, [notebook]))
    lock = read_lock(site / "static" / "pyodide")
    assert set(lock["packages"]) == {*map(normalized, PRELOADED), "matplotlib"}
    for package in lock["packages"].values():
        path = site / "static" / "pyodide" / package["file_name"]
        assert hash_of(path) == package["sha256"]
        assert set(package["depends"]) <= set(lock["packages"])
    assert lock["packages"]["edutorch"]["depends"] == ["numpy"]
    assert "nothing" not in lock["packages"]
    settings = settings_of(site)
    assert settings["pyodideUrl"] == f"./static/pyodide/{entry}"
    assert set(settings["loadPyodideOptions"]["packages"]) == set(PRELOADED)
    assert settings["disablePyPIFallback"]
    assert (site / "files" / "00_tour.ipynb").read_text() == notebook.read_text()
    for page in ("index.html", "lab/index.html", "notebooks/index.html"):
        assert SCRIPT in (site / page).read_text()


def test_the_wheel_has_the_package_and_its_widgets(tmp_path, tools):
    own, tab = wheels.own_wheels(tmp_path, "1.2")
    names = set(zipfile.ZipFile(own).namelist())
    expected = ("__init__.py", "_widgets/live.js", "_widgets/vendor/graphviz.js")
    assert {f"edutorch/{name}" for name in expected} <= names
    assert "edutorch-1.2.dist-info/RECORD" in names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".ipynb")]
    data = zipfile.ZipFile(tab).read("edutorch_tab-1.2.data/data/etc/ipython/ipython_config.py")
    assert b"import edutorch_tab" in data
    again = [hash_of(path) for path in wheels.own_wheels(tmp_path, "1.2")]
    assert again == [hash_of(own), hash_of(tab)]


def test_a_tab_says_what_to_use_instead(capsys, monkeypatch):
    installed = []

    async def install(requirements, keep_going=False):
        installed.append((requirements, keep_going))

    piplite = types.SimpleNamespace(install=install)
    monkeypatch.setitem(sys.modules, "piplite", piplite)
    tab_start.say_what_to_use_instead()
    asyncio.run(piplite.install(["torch>=2.1", "tqdm", "Numba"], keep_going=True))
    assert installed == [(["tqdm"], True)]
    asyncio.run(piplite.install("torch==2.13"))
    assert installed == [(["tqdm"], True)]
    out = capsys.readouterr().out
    assert "torch is not installed: edutorch is in its place: import edutorch as torch" in out
    assert "numba is not installed: edutorch computes by NumPy alone" in out


def test_compiled_modules_are_what_their_sources_say(tmp_path):
    source = write_wheel(
        tmp_path, "small", "1", [], [("small.py", b"number = 41 + 1\n"), ("old.py", b"print 1")]
    )
    for keep, name in (
        ("KEEP", f"__pycache__/small.{sys.implementation.cache_tag}.pyc"),
        ("DROP", "small.pyc"),
    ):
        target = tmp_path / f"{keep}.whl"
        subprocess.run([sys.executable, wheels.COMPILER, keep, source, target], check=True)
        with zipfile.ZipFile(target) as wheel:
            assert name in wheel.namelist()
            assert ("small.py" in wheel.namelist()) == (keep == "KEEP")
            assert "old.py" in wheel.namelist()  # a source of another Python stays one
            wheel.extractall(tmp_path / keep)
        command = [sys.executable, "-c", "import small; print(small.number)"]
        done = subprocess.run(command, cwd=tmp_path / keep, capture_output=True, text=True)
        assert done.stdout == "42\n"


def damage_wheel(pyodide):
    (pyodide / "numpy-1.0-py3-none-any.whl").write_bytes(b"half of it")


def lose_wheel(pyodide):
    (pyodide / "numpy-1.0-py3-none-any.whl").unlink()


def rename_wheel(pyodide, name):
    lock = json.loads((pyodide / LOCK).read_text())
    (pyodide / "numpy-1.0-py3-none-any.whl").rename(pyodide / name)
    lock["packages"]["numpy"]["file_name"] = name
    (pyodide / LOCK).write_text(json.dumps(lock))


def edit_lock(pyodide, **info):
    lock = json.loads((pyodide / LOCK).read_text())
    lock["info"] |= info
    (pyodide / LOCK).write_text(json.dumps(lock))


BAD = {
    "damaged": (damage_wheel, "is damaged, or another version", "SHA-256"),
    "missing": (lose_wheel, "numpy-1.0-py3-none-any.whl is miss", "the lock needs it for numpy"),
    "python": (
        lambda folder: rename_wheel(folder, "numpy-1.0-cp311-cp311-pyodide_2024_0_wasm32.whl"),
        "is for another Python", "Pyodide  = cp312",
    ),
    "abi": (
        lambda folder: rename_wheel(folder, "numpy-1.0-cp312-cp312-pyodide_2025_0_wasm32.whl"),
        "is for another interface (ABI)", "2024_0 wasm32",
    ),
    "version": (
        lambda folder: edit_lock(folder, version="0.19.0"), "Pyodide 0.19.0 is not", "314.0.7",
    ),
    "both": (
        lambda folder: edit_lock(folder, python="3.14.1"), "is for Python 3.14.1", "Python 3.12",
    ),
    "no wasm": (lambda folder: (folder / "pyodide.asm.wasm").unlink(), "wasm is missing", ""),
    "no lock": (lambda folder: (folder / LOCK).unlink(), "has no pyodide-lock.json", ""),
    "half a lock": (lambda folder: (folder / LOCK).write_text('{"info": '), "cannot be read", ""),
    "a list": (lambda folder: (folder / LOCK).write_text("[]"), "lists no packages", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_after_an_error_the_old_site_is_whole(tmp_path, tools, notebook, name):
    spoil, message, also = BAD[name]
    pyodide = stand_in(tmp_path / "pyodide")
    site = build_site(tmp_path / "site", Site(pyodide, [notebook]))
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    spoil(pyodide)
    with pytest.raises(SiteError) as caught:
        build_site(site, Site(pyodide, [notebook]))
    assert message in str(caught.value)
    assert also in str(caught.value)
    assert before == {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_only_a_site_is_replaced(tmp_path, tools, notebook):
    pyodide = stand_in(tmp_path / "pyodide")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("all of it")
    for folder in (precious, notebook):
        with pytest.raises(SiteError, match="is no site of edutorch's"):
            build_site(folder, Site(pyodide, [notebook]))
    assert (precious / "thesis.txt").read_text() == "all of it"
    with pytest.raises(SiteError, match="there is no file"):
        build_site(tmp_path / "site", Site(pyodide, [tmp_path / "absent.ipynb"]))
    with pytest.raises(SiteError, match="two notebooks are called"):
        build_site(tmp_path / "site", Site(pyodide, [notebook, notebook]))
    assert not (tmp_path / "site").exists()


def test_a_site_of_the_cdn_has_only_its_own_wheels(tmp_path, tools, notebook):
    pair = PAIRS[-1]
    release = stand_in(tmp_path / "release", pair.pyodide, "3.14.2")
    (tools / LOCK).write_text((release / LOCK).read_text())
    site = build_site(tmp_path / "site", Site(None, [notebook]))
    settings = settings_of(site)
    assert settings["pyodideUrl"] == f"{pair.cdn}pyodide.mjs"
    assert settings["loadPyodideOptions"]["lockFileURL"] == "./static/pyodide/pyodide-lock.json"
    packages = read_lock(site / "static" / "pyodide")["packages"]
    assert packages["numpy"]["file_name"] == f"{pair.cdn}numpy-1.0-py3-none-any.whl"
    assert packages["edutorch"]["file_name"].startswith("edutorch-")
    assert {path.stem.split("-")[0] for path in (site / "static" / "pyodide").glob("*.whl")} == {
        name.replace("-", "_") for name in FROM_KERNEL | OWN
    }


def test_the_right_jupyterlite_for_each_pyodide():
    assert "jupyterlite-core==0.6.4" in pair_of_version("0.27.7").tools
    assert "jupyterlite-core==0.8.6" in pair_of_version("314.0.3").tools
    with pytest.raises(
        SiteError, match=r"Pyodide 0\.28\.0 is not among .*\n.*0\.27\.7 or 314\.0\.7"
    ):
        pair_of_version("0.28.0")


def test_the_environment_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setenv("EDUTORCH_CACHE", str(tmp_path))
    commands = []
    monkeypatch.setattr(environment, "run", commands.append)
    pair = PAIRS[0]
    folder = environment.environment_of(pair)
    assert folder == tmp_path / "site" / "0.27.7"
    assert len(commands) == 3
    assert {*pair.tools} <= {*commands[1]}
    assert {*pair.wheels} <= {*commands[2]}
    environment.environment_of(pair)
    assert len(commands) == 3
    environment.environment_of(pair._replace(tools=(*pair.tools, "another")))
    assert len(commands) == 6


def test_without_a_network_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("EDUTORCH_CACHE", str(tmp_path))
    code = "import sys; sys.exit('ERROR: no matching distribution')"
    real = environment.run
    monkeypatch.setattr(environment, "run", lambda command: real([sys.executable, "-c", code]))
    with pytest.raises(SiteError, match=r"no matching distribution\n.*site install"):
        environment.environment_of(PAIRS[0])
    assert not list((tmp_path / "site").iterdir())


def test_a_site_is_served_with_its_headers(tmp_path, tools, notebook):
    site = build_site(tmp_path / "site", Site(stand_in(tmp_path / "pyodide"), [notebook]))
    with site_server(site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_port}"
        with urllib.request.urlopen(f"{base}/static/pyodide/pyodide.asm.wasm") as answer:
            assert answer.headers["Content-Type"] == "application/wasm"
            assert answer.headers["Cache-Control"] == "no-cache"
        for path in ("../environment/wheels", "absent"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{base}/{path}")
        with pytest.raises(SiteError, match="cannot be used"):
            site_server(site, server.server_port)
        server.shutdown()
    with pytest.raises(SiteError, match="is no site"):
        site_server(tmp_path)


def test_the_command_builds_and_refuses(tmp_path, tools, notebook, capsys):
    pyodide = stand_in(tmp_path / "pyodide")
    arguments = ["site", "build", str(tmp_path / "site"), "--pyodide", str(pyodide)]
    assert command_line.main([*arguments, "--notebooks", str(notebook)]) == 0
    out = capsys.readouterr().out
    assert "1 notebooks" in out
    assert "install it, and build again" in out
    assert command_line.main(["site", "serve", str(tmp_path)]) == 1
    assert "is no site" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command_line.main(["site", "build", str(tmp_path / "site")])
    assert "--pyodide --cdn is required" in capsys.readouterr().err
