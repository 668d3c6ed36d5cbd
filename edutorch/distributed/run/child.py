"""What each process of a job runs: it sets the variables that programs read, then runs the program.

    python -m edutorch.distributed.run.child script|module|program|function PROGRAM ARGUMENTS…

An exception is written into a file, so that the launcher shows it once, with its rank; then the
whole job ends.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import threading
import time
import traceback
from importlib import import_module
from pathlib import Path

from ..environment import placement
from ..recorder import FOLDER_VARIABLE

__all__ = ["LOCAL_RANK_VARIABLE", "main"]

LOCAL_RANK_VARIABLE = "EDUTORCH_PASS_LOCAL_RANK"
"""Set by `distributed.launch`: the program gets `--local-rank=N` as its first argument."""


def main() -> int:
    """Run the program of the command line in this process."""
    how, *program = sys.argv[1:]
    place = placement()
    assert place is not None, "started without a launcher"
    os.environ.update(
        RANK=str(place.rank), WORLD_SIZE=str(place.world_size), LOCAL_RANK=str(place.local_rank),
        LOCAL_WORLD_SIZE=str(place.local_world_size), ROLE_RANK=str(place.rank),
        ROLE_WORLD_SIZE=str(place.world_size),
        GROUP_RANK=os.environ.get("GROUP_RANK", str(place.rank // place.local_world_size)),
    )  # fmt: skip
    folder = Path(os.environ[FOLDER_VARIABLE])
    (folder / f"rank{place.rank}.pid").write_text(str(os.getpid()))
    divert_output(place.rank)
    if os.environ.pop(LOCAL_RANK_VARIABLE, ""):
        program.insert(1, f"--local-rank={place.local_rank}")
    if how == "program":
        os.execvp(program[0], program)
    try:
        if how == "function":
            from .functions import run_function

            return run_function(program[0], place.rank)
        return run_python(how, program)
    except SystemExit as stop:
        if stop.code in (None, 0):
            return 0
        code = stop.code if isinstance(stop.code, int) else 1
        write_failure(folder, place.rank, f"it left with {stop.code!r}", "", code)
    except BaseException as error:  # noqa: BLE001 (whatever ends a rank ends the job)
        write_failure(folder, place.rank, headline(error), traceback_of(error))
    end_job()
    return 1


def run_python(how: str, program: list[str]) -> int:
    """Run a script or a module as `edutorch run` does: `import torch` imports edutorch."""
    runner = import_module("edutorch.cli.run")
    if how == "module":
        return runner.run_module(program[0], program[1:])
    return runner.run(program[0], program[1:])


def headline(error: BaseException) -> str:
    """Return the class of an error and the first line of its message."""
    return traceback.format_exception_only(error)[-1].strip().partition("\n")[0]


def traceback_of(error: BaseException) -> str:
    """Return the traceback as the program's own hook prints it."""
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        sys.excepthook(type(error), error, error.__traceback__)
    return text.getvalue()


def write_failure(folder: Path, rank: int, message: str, trace: str, code: int = 1) -> None:
    """Write why this rank has failed, for the launcher."""
    path = folder / f"rank{rank}.error"
    text = json.dumps({"message": message, "traceback": trace, "time": time.time(), "code": code})
    path.with_suffix(".part").write_text(text)
    path.with_suffix(".part").rename(path)


def end_job() -> None:
    """End all processes of the job, in MPI's way where MPI runs."""
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(0.5)  # the launcher sees the file first
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(1)
    os._exit(1)


# Output into files -------------------------------------------------------------------------------


def divert_output(rank: int) -> None:
    """Send stdout and stderr to files as well (`--tee`), or only there (`--redirects`)."""
    folder = os.environ.get("EDUTORCH_LOG_DIR")
    if not folder:
        return
    redirects, tee = (
        int(os.environ.get(name, "0")) for name in ("EDUTORCH_REDIRECTS", "EDUTORCH_TEE")
    )
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    place = Path(folder) / f"attempt_{attempt}" / str(rank)
    place.mkdir(parents=True, exist_ok=True)
    for bit, stream in ((1, sys.stdout), (2, sys.stderr)):
        if not (redirects | tee) & bit:
            continue
        name = "stdout.log" if bit == 1 else "stderr.log"
        file = os.open(place / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if tee & bit:
            copy_output(stream.fileno(), file)
        else:
            os.dup2(file, stream.fileno())


def copy_output(stream: int, file: int) -> None:
    """Let what is written to a stream go to a file as well."""
    screen = os.dup(stream)
    reader, writer = os.pipe()
    os.dup2(writer, stream)
    os.close(writer)

    def copy() -> None:
        while data := os.read(reader, 65536):
            os.write(file, data)
            os.write(screen, data)

    threading.Thread(target=copy, daemon=True, name="edutorch-tee").start()


if __name__ == "__main__":
    raise SystemExit(main())
