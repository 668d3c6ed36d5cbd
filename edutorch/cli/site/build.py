"""Builds a site: Pyodide, wheels, notebooks and JupyterLite's pages in one folder.

The folder is built aside and renamed at the end, so that an error leaves the old site whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...compat.version import OWN
from ...datasets import write_data
from ..lessons import data_of
from .environment import environment_of, python_of
from .lock import (
    LOCK,
    add_wheel,
    check_package,
    normalized,
    read_lock,
    update_hashes,
    with_dependencies,
)
from .pages import APPS, add_to_pages
from .versions import OP, PAIRS, Pair, SiteError, pair_of_lock, pair_of_version
from .wheels import compile_wheels, own_wheels, write_wheel

ABOUT = "edutorch-site.json"
"""A file that says of a folder that it is a site of ours, which may be replaced."""

KERNEL = "@jupyterlite/pyodide-kernel-extension"
STARTED = (
    "ssl",
    "sqlite3",
    "ipykernel",
    "comm",
    "pyodide_kernel",
    "jedi",
    "ipython",
    "micropip",
    "piplite",
)
"""What the kernel installs at its start, one after the other, unless Pyodide loads it before."""

PRELOADED = (*STARTED, "numpy", "edutorch", "edutorch_tab", "anywidget")
BINARY = {
    ending: {"name": ending, "extensions": [f".{ending}"], "fileFormat": "base64",
             "mimeTypes": ["application/octet-stream"]}
    for ending in ("npy", "npz", "tif", "zip", "safetensors", "pt")
}  # fmt: skip
"""JupyterLite takes any other file for a text."""

LOADED_WHEN_IMPORTED = ("matplotlib", "scikit-learn")
"""Pyodide loads these when a cell imports them. A site without them is smaller."""


class Site(NamedTuple):
    """What a site is made of.

    Attributes:
        pyodide: the folder with Pyodide; None loads it from its CDN.
        notebooks: their files.
    """

    pyodide: Path | None
    notebooks: Sequence[Path]


def build_site(folder: Path, site: Site) -> Path:
    """Build a site, and put it in the place of an old one.

    Raises: SiteError: a package is missing, damaged, or for another Pyodide; the folder has
        something else in it; JupyterLite failed. The old site is left as it was.
    """
    lock = read_lock(site.pyodide) if site.pyodide else None
    pair = pair_of_lock(lock) if lock else PAIRS[-1]
    environment = environment_of(pair)
    with replaced_folder(folder) as output, tempfile.TemporaryDirectory() as scratch:
        lite = Path(scratch) / "lite"
        packages = lite / "static" / "pyodide"
        packages.mkdir(parents=True)
        wheels = gather_wheels(packages, environment, pair)
        if site.pyodide and lock:
            copy_pyodide(site.pyodide, packages, lock)
            without_sockets(packages, lock)
        else:
            lock = lock_of_cdn(environment, pair)
        is_compiled = compile_wheels(packages.glob("*.whl"), environment, pair)
        write_lock(packages, lock, wheels)
        write_settings(lite, pair, is_from_cdn=site.pyodide is None)
        copy_notebooks(lite / "files", site.notebooks)
        run_jupyterlite(environment, lite, output)
        correct_listings(output)
        add_to_pages(output)
        about = {
            "edutorch": OWN,
            "pyodide": lock["info"]["version"],
            "compiled": is_compiled,
        }
        (output / ABOUT).write_text(json.dumps(about), "utf-8")
    if not is_compiled:
        print(f"{OP}: there is no Python {pair.python} to compile the packages with, so each start "
              f"takes some 10 s longer; install it, and build again")  # fmt: skip
    return folder


@contextlib.contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Give a folder to write to; it replaces a site at the end. After an error nothing changes.

    Raises: SiteError: there is something at this path that is no site.
    """
    folder = folder.absolute()
    is_there = folder.is_dir() and any(folder.iterdir())
    if (is_there and not (folder / ABOUT).is_file()) or (folder.exists() and not folder.is_dir()):
        raise SiteError(
            OP,
            f"{str(folder)!r} is there, and is no site of edutorch's",
            hint="choose a new folder",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise SiteError(OP, f"{str(folder)!r} cannot be written: {error.strerror}") from None
    new, old = aside / "new", aside / "old"
    try:
        new.mkdir()
        yield new
        if folder.exists():
            os.replace(folder, old)
        os.replace(new, folder)
    except BaseException:
        if old.exists() and not folder.exists():
            os.replace(old, folder)
        raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def copy_pyodide(source: Path, target: Path, lock: dict[str, Any]) -> None:
    """Copy Pyodide and those of its packages that are there; take the others out of the lock.

    Raises: SiteError: a file that is needed is missing, or one is damaged or does not fit.
    """
    for name in ("pyodide.js", "pyodide.mjs", "pyodide.asm.js", "pyodide.asm.mjs",
                 "pyodide.asm.wasm", "python_stdlib.zip"):  # fmt: skip
        if (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    for name in ("pyodide.asm.wasm", "python_stdlib.zip"):
        if not (target / name).is_file():
            raise SiteError(
                OP, f"{name} is missing in {str(source)!r}", hint="is this all of Pyodide?"
            )
    needed = with_dependencies(lock, PRELOADED)
    offered = with_dependencies(lock, LOADED_WHEN_IMPORTED)
    for name in list(lock["packages"]):
        is_there = (source / lock["packages"][name]["file_name"]).is_file()
        if name in needed or (name in offered and is_there):
            path = check_package(source, lock, name)
            shutil.copyfile(path, target / path.name)
        else:
            del lock["packages"][name]
    for package in lock["packages"].values():
        names = map(normalized, package["depends"])
        package["depends"] = [name for name in names if name in lock["packages"]]


def gather_wheels(target: Path, environment: Path, pair: Pair) -> list[Path]:
    """Copy the wheels that Pyodide does not have; return them, each after those it needs."""
    extension = environment / "share/jupyter/labextensions" / KERNEL / "static/pypi"
    kernel = [path for path in extension.glob("*.whl") if "-3.6." not in path.name]  # ipywidgets 7
    wheels = [
        Path(shutil.copy(path, target))
        for path in (*sorted((environment / "wheels").glob("*.whl")), *sorted(kernel))
    ]
    return [*wheels, *own_wheels(target, OWN)]


def write_lock(target: Path, lock: dict[str, Any], wheels: Sequence[Path]) -> None:
    """Write the lock with all wheels; twice, so that each finds those that it needs."""
    for _ in range(2):
        for path in wheels:
            add_wheel(lock, path)
    update_hashes(target, lock)
    lock["packages"]["piplite"]["depends"] = ["micropip"]
    missing = [name for name in map(normalized, PRELOADED) if name not in lock["packages"]]
    if missing:
        raise SiteError(
            OP, f"Pyodide's lock lists no {', '.join(missing)}", hint="take the lock of a release"
        )
    (target / LOCK).write_text(json.dumps(lock), "utf-8")


def without_sockets(target: Path, lock: dict[str, Any]) -> None:
    """Put an empty package in the place of ssl, which the kernel asks for: a tab has no sockets."""
    (target / lock["packages"]["ssl"]["file_name"]).unlink(missing_ok=True)
    add_wheel(lock, write_wheel(target, "ssl", "0", [], []))
    others = {name for package in lock["packages"].values() for name in package["depends"]}
    if "openssl" in lock["packages"] and "openssl" not in others:
        (target / lock["packages"].pop("openssl")["file_name"]).unlink(missing_ok=True)


def lock_of_cdn(environment: Path, pair: Pair) -> dict[str, Any]:
    """Return the lock of the Pyodide on the CDN, with whole addresses of its files.

    Raises: SiteError: it was never fetched, and there is no network.
    """
    from urllib.request import urlopen

    kept = environment / LOCK
    if not kept.is_file():
        try:
            with urlopen(pair.cdn + LOCK, timeout=30) as answer:
                kept.write_bytes(answer.read())
        except OSError as error:
            raise SiteError(
                OP, f"{pair.cdn + LOCK} cannot be fetched: {error}",
                hint="with a network, once, or with --pyodide FOLDER",
            ) from None  # fmt: skip
    lock = read_lock(environment)
    pair_of_version(str(lock["info"]["version"]))
    for package in lock["packages"].values():
        package["file_name"] = pair.cdn + package["file_name"]
    return lock


def write_settings(lite: Path, pair: Pair, is_from_cdn: bool) -> None:
    """Write JupyterLite's configuration: which Pyodide, and what it loads at its start."""
    folder = pair.cdn if is_from_cdn else "./static/pyodide/"
    options = {"packages": list(PRELOADED), "lockFileURL": f"./static/pyodide/{LOCK}"}
    kernel = {"pyodideUrl": folder + pair.entry, "disablePyPIFallback": not is_from_cdn,
              "loadPyodideOptions": options}  # fmt: skip
    if not is_from_cdn:
        del options["lockFileURL"]  # it lies beside Pyodide, where it is looked for
    data = {
        "appName": "edutorch", "exposeAppInBrowser": True,
        "litePluginSettings": {f"{KERNEL}:kernel": kernel}, "fileTypes": BINARY,
    }  # fmt: skip
    text = {"jupyter-lite-schema-version": 0, "jupyter-config-data": data}
    (lite / "jupyter-lite.json").write_text(json.dumps(text, indent=1), "utf-8")


def copy_notebooks(target: Path, notebooks: Sequence[Path]) -> None:
    """Copy notebooks, and the data that they read.

    Raises: SiteError: a notebook is not there, or two have the same name.
    """
    target.mkdir()
    for path in notebooks:
        if not path.is_file():
            raise SiteError(OP, f"there is no file {str(path)!r}")
        if (target / path.name).exists():
            raise SiteError(OP, f"two notebooks are called {path.name!r}")
        shutil.copyfile(path, target / path.name)
    data = dict.fromkeys(name for path in notebooks for name in data_of(path))
    if data:
        write_data(target / "edutorch_data", data)


def correct_listings(output: Path) -> None:
    """Say of compressed files that they are: JupyterLite lists `a.csv.gz` as the text it was."""
    for path in (output / "api" / "contents").rglob("all.json"):
        listing = json.loads(path.read_text("utf-8"))
        for entry in listing["content"]:
            if entry["name"].endswith(".gz"):
                entry["mimetype"] = "application/gzip"
        path.write_text(json.dumps(listing), "utf-8")


def run_jupyterlite(environment: Path, lite: Path, output: Path) -> None:
    """Let JupyterLite write its pages. Raises: SiteError: it failed."""
    command = [str(python_of(environment)), "-W", "ignore", "-m", "jupyterlite_core.app", "build",
               "--lite-dir", str(lite), "--output-dir", str(output),
               "--contents", str(lite / "files"), "--no-sourcemaps"]  # fmt: skip
    command += [word for app in APPS for word in ("--apps", app)]
    done = subprocess.run(
        command, cwd=lite, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "Error" in line]
        raise SiteError(OP, f"JupyterLite failed: {lines[-1] if lines else done.stderr[-300:]}")
