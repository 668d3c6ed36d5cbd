"""The wheels that are ours: edutorch as a tab loads it, and the settings of its kernel."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...viz.render.graphviz import folder as widgets_folder
from .environment import python_to_compile
from .versions import OP, Pair, SiteError

PACKAGE = Path(__file__).resolve().parents[2]

COMPILER = Path(__file__).with_name("compile_wheel.py")
START = Path(__file__).with_name("tab_start.py")

WITH_SOURCES = ("edutorch-", "edutorch_tab-")
"""Wheels whose sources a student reads, in tracebacks and with `??`."""

LEFT_OUT = ("_notebooks/", "_widgets/", "cli/", "classroom/jail/", "classroom/interop/")
"""Of the package: what a tab has elsewhere, and what grades a class."""

SETTINGS = """\
c.InteractiveShellApp.ignore_cwd = True
c.InteractiveShellApp.hide_initial_ns = True
c.InteractiveShellApp.exec_lines = ["import edutorch_tab"]
"""
"""IPython's configuration. The folder of the notebook is looked into last, not first: each look
goes through the page, and an import of edutorch looks hundreds of times."""


def own_wheels(folder: Path, version: str) -> list[Path]:
    """Write edutorch's wheel and that of the kernel's settings; return their paths.

    Raises: SiteError: the browser's Graphviz was not built.
    """
    widgets = widgets_folder()
    engine = widgets / "vendor" / "graphviz.js"
    if not engine.is_file():
        raise SiteError(
            OP, f"{str(engine)!r} is missing: no picture could be drawn",
            hint="in a checkout: make widgets",
        )  # fmt: skip
    own = write_wheel(folder, "edutorch", version, ["numpy"], own_files(widgets))
    # The `.data/data` of a wheel is unpacked at the root: IPython reads /etc/ipython.
    data = f"edutorch_tab-{version}.data/data/etc/ipython/ipython_config.py"
    files = [("edutorch_tab.py", START.read_bytes()), (data, SETTINGS.encode())]
    return [own, write_wheel(folder, "edutorch_tab", version, ["edutorch", "ipython"], files)]


def own_files(widgets: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files of the package; notebooks lie in the site."""
    for path in sorted(PACKAGE.rglob("*")):
        name = path.relative_to(PACKAGE).as_posix()
        left_out = name.startswith(LEFT_OUT) or "__pycache__" in name
        if path.is_file() and not left_out and path.suffix != ".pyc":
            yield f"edutorch/{name}", path.read_bytes()
    for path in sorted((*widgets.glob("*.js"), *widgets.glob("*.css"), *widgets.glob("vendor/*"))):
        name = path.relative_to(widgets).as_posix()
        if "config" not in name:
            yield f"edutorch/_widgets/{name}", path.read_bytes()


def write_wheel(
    folder: Path, name: str, version: str, needs: Iterable[str], files: Iterable[tuple[str, bytes]]
) -> Path:
    """Write a wheel of pure Python, the same bytes for the same files, and return its path."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"]
    metadata += [f"Requires-Dist: {need}\n" for need in needs]
    about_wheel = (
        "Wheel-Version: 1.0\nGenerator: edutorch\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    entries = [
        *files,
        (f"{about}/METADATA", "".join(metadata).encode()),
        (f"{about}/WHEEL", about_wheel.encode()),
    ]
    record = "".join(f"{name},,\n" for name, _ in entries) + f"{about}/RECORD,,\n"
    with zipfile.ZipFile(path, "w") as wheel:
        for entry, data in (*entries, (f"{about}/RECORD", record.encode())):
            wheel.writestr(zipfile.ZipInfo(entry), data, zipfile.ZIP_DEFLATED, compresslevel=9)
    return path


def compile_wheels(paths: Iterable[Path], environment: Path, pair: Pair) -> bool:
    """Put bytecode into wheels; return whether there is a Python of Pyodide's version for it.

    What was compiled once is kept in the build environment.
    """
    python = python_to_compile(pair.python)
    if python is None:
        return False
    kept = environment / "compiled"
    kept.mkdir(exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda path: compile_one(path, kept, python), paths):
            pass
    return True


def compile_one(path: Path, kept: Path, python: str) -> None:
    """Put bytecode into a wheel, with another interpreter, or take what is kept of it."""
    keep = "KEEP" if path.name.startswith(WITH_SOURCES) else "DROP"
    key = hashlib.sha256(path.read_bytes() + COMPILER.read_bytes() + keep.encode()).hexdigest()
    compiled = kept / f"{key[:32]}.whl"
    if not compiled.is_file():
        temporary = compiled.with_suffix(".part")
        command = [python, "-W", "ignore", str(COMPILER), keep, str(path), str(temporary)]
        subprocess.run(command, check=True)
        temporary.replace(compiled)
    shutil.copyfile(compiled, path)
