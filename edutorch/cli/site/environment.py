"""The build environment: a JupyterLite that fits Pyodide, apart from the user's packages.

It is made once for each pair of versions, with a network, and kept in the user's cache.

<cache>/edutorch/site/<pyodide>/bin/python    with JupyterLite
<cache>/edutorch/site/<pyodide>/wheels/       the libraries of widgets, as a tab loads them
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ...backends.platform import IS_WINDOWS, caches_of_user
from .versions import OP, Pair, SiteError

READY = "ready.txt"
INSTALL = "python -m edutorch site install"


def environment_of(pair: Pair) -> Path:
    """Return the build environment for a pair; make it where it is not there yet.

    Raises: SiteError: pip could not, with its last message.
    """
    parent = Path(
        os.environ.get("EDUTORCH_CACHE") or Path(caches_of_user()).expanduser() / "edutorch"
    )
    folder = parent / "site" / pair.pyodide
    wanted = "\n".join((*pair.tools, *pair.wheels))
    ready = folder / READY
    if ready.is_file() and ready.read_text("utf-8") == wanted:
        return folder
    print(
        f"{OP}: JupyterLite for Pyodide {pair.pyodide} is installed in {str(folder)!r}", flush=True
    )
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{pair.pyodide}-", dir=folder.parent))
    try:
        run([sys.executable, "-m", "venv", str(temporary)])
        python = str(python_of(temporary))
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pair.tools])
        run([python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--only-binary=:all:", "--platform", "any", "--python-version", pair.python,
             "--dest", str(temporary / "wheels"), *pair.wheels])  # fmt: skip
        (temporary / READY).write_text(wanted, "utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def python_of(environment: Path) -> Path:
    """Return the interpreter of an environment."""
    return environment / ("Scripts/python.exe" if IS_WINDOWS else "bin/python")


def run(command: list[str]) -> None:
    """Run a command of the installation. Raises: SiteError: it failed."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no message"]
        raise SiteError(
            OP, f"JupyterLite could not be installed: {errors[-1].removeprefix('ERROR: ')}",
            hint=f"with a network, once: {INSTALL}",
        )  # fmt: skip


def python_to_compile(version: str) -> str | None:
    """Return an interpreter of a version, as "3.12"; None where none is found.

    It is this one, on the PATH, or where pyenv and uv keep theirs.
    """
    if version == "{}.{}".format(*sys.version_info):
        return sys.executable
    home = Path.home()
    kept = [
        *sorted((home / ".pyenv/versions").glob(f"{version}.*/bin/python")),
        *sorted((home / ".local/share/uv/python").glob(f"cpython-{version}.*/bin/python3")),
    ]
    for candidate in (shutil.which(f"python{version}"), *map(str, kept)):
        if candidate and says_version(candidate, version):
            return candidate
    return None


def says_version(python: str, version: str) -> bool:
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    try:
        done = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.stdout.strip() == version
