"""Installs packages into this environment, with pip, or with uv where there is no pip."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys

from ...backends.platform import HAS_PROCESSES, WHERE
from ...errors import EdutorchError


def installer() -> list[str]:
    """Return the command in front of `install` and `uninstall`.

    Raises: EdutorchError: there is neither pip nor uv.
    """
    if not HAS_PROCESSES:
        raise EdutorchError(
            "add", f"no other program can be started {WHERE}",
            hint="in a notebook: %pip install NAME, then %load_ext edutorch.alias",
        )  # fmt: skip
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    uv = shutil.which("uv")
    if uv is None:
        raise EdutorchError(
            "add", "this environment has no pip, and there is no uv on the PATH",
            hint=f"{sys.executable} -m ensurepip",
        )  # fmt: skip
    return [uv, "pip"]


def install(arguments: list[str]) -> None:
    """Install what the arguments name. Raises: EdutorchError: the installer's own last words."""
    run("install", ["--quiet", *arguments])


def uninstall(names: list[str]) -> None:
    """Remove packages. Raises: EdutorchError: the installer's own last words."""
    without_asking = ["--yes"] if installer()[-1] != "pip" else []  # uv never asks
    run("uninstall", ["--quiet", *without_asking, *names])


def run(what: str, arguments: list[str]) -> None:
    command = installer()
    where = ["--python", sys.executable] if command[-1] == "pip" else []
    done = subprocess.run(
        [*command, what, *where, *arguments],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")]
    names = " ".join(name for name in arguments if not name.startswith("-"))
    raise EdutorchError(
        "add" if what == "install" else "remove",
        "\n  ".join([f"{names} could not be {what}ed", *(errors or lines[-3:])]),
        hint="python -m edutorch add --list: what was tried; does this machine have a network?",
    )
