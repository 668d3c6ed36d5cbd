"""`torchrun` inside of `python -m edutorch run`: as the script, and as a command on the PATH."""

from __future__ import annotations

import os
import sys

from ..backends.platform import IS_WINDOWS

__all__ = ["NAME", "offer", "torchrun"]

NAME = "torchrun"
OFFERED = "_EDUTORCH_TORCHRUN"
"""Set in the environment once the command is on the PATH: processes hand it on."""


def torchrun(arguments: list[str]) -> int:
    """Run the launcher of several processes. Returns the exit code."""
    from ..distributed.run.agent import launch
    from ..distributed.run.options import parse

    return launch(parse(arguments))


def offer() -> None:
    """Put a command `torchrun` on the PATH of this process, for programs that start it themselves.

    Installed for good it would be in the way of PyTorch's: so it lies in a folder of this run.
    """
    if IS_WINDOWS or OFFERED in os.environ:
        return
    import atexit
    import tempfile
    from pathlib import Path

    folder = Path(tempfile.mkdtemp(prefix="edutorch-commands-"))
    atexit.register(remove, str(folder), os.getpid())
    command = folder / NAME
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m edutorch.distributed.run "$@"\n')
    command.chmod(0o755)
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    os.environ[OFFERED] = str(folder)


def remove(folder: str, process: int) -> None:
    """Remove the folder of a run; a forked process leaves it alone."""
    import shutil

    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
