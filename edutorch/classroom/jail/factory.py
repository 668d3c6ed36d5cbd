"""Jails of Linux's walls: starts the parent of all jails, and asks it for jails.

with JailFactory(Settings()) as factory:
    with factory.jail(cells) as jail:
        attempt = jail.ask(exercise.answer_source(), case, exercise.forbid)
"""

from __future__ import annotations

import dataclasses
import json
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from ...backends.platform import IS_LINUX, WHERE
from .jail import GRACE_SECONDS, Connection, Jail, JailError, MissingWalls
from .package_copy import copy_package, library_paths, make_folder
from .settings import FLAGS, Settings

DEFAULT = Settings()
START_SECONDS = 120.0
PYTHON = (sys.executable, *FLAGS)


class JailFactory:
    """One process that forks jails; each is a process of its own.

    Threads may share it: each takes jails of its own.

    Attributes:
        walls: by name, whether a wall stands (None: it is not needed), and what is to be said.

    Raises: MissingWalls: a wall is missing, and the settings do not allow it; MissingExtraError:
        a library for the walls is missing.
    """

    def __init__(self, settings: Settings = DEFAULT) -> None:
        if not IS_LINUX:
            raise MissingWalls(
                "grade", f"there are no walls for student code {WHERE}",
                hint='pip install "edutorch[classroom-wasm]", or grade on Linux',
            )  # fmt: skip
        bwrap = settings.bwrap or shutil.which("bwrap") or ""
        self.settings = dataclasses.replace(settings, bwrap=bwrap)
        self.folder = make_folder()
        self.walls: dict[str, tuple[bool | None, str]] = {}
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Start the process, and wait until it is ready."""
        (self.folder / "root").mkdir()
        site = copy_package(self.folder, library_paths(self.settings))
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = f"import sys; sys.path.insert(0, {str(site)!r}); " \
               "from edutorch.classroom.jail.start import main; main()"  # fmt: skip
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                [*PYTHON, code, str(theirs.fileno()), str(self.folder)],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=log, env=environment(), cwd="/", start_new_session=True,
            )  # fmt: skip
        theirs.close()
        self.control.send(self.settings.to_json())
        self.control.settimeout(START_SECONDS)
        try:
            reply = self.control.recv(1 << 16)
        except TimeoutError:
            reply = b""
        if not reply:
            raise JailError("grade", f"the process for jails did not start\n{self.log()}")
        self.read_walls(json.loads(reply))

    def read_walls(self, reply: Mapping[str, Any]) -> None:
        """Keep which walls stand, as the process reports."""
        if error := reply.get("error"):
            if error.startswith('RuntimeError: {"missing"'):
                raise missing_walls(json.loads(error.partition(": ")[2])["missing"])
            raise JailError("grade", f"the process for jails did not start: {error}")
        self.walls = {name: tuple(state) for name, state in reply["walls"].items()}

    def jail(self, cells: list[str]) -> Jail:
        """Return a jail for a submission: its cells run in it, exercise by exercise."""
        return Jail(lambda: JailProcess(self), self.settings, cells)

    def fork(self) -> tuple[socket.socket, socket.socket]:
        """Have a jail forked; return the sockets to talk to it, and to hold it by."""
        talk, their_talk = socket.socketpair()
        leash, their_leash = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with their_talk, their_leash:
            try:
                # One packet with both: threads need no lock.
                socket.send_fds(
                    self.control, [b"fork"], [their_talk.fileno(), their_leash.fileno()]
                )
            except OSError:
                raise JailError("grade", "the process for jails has ended") from None
        return talk, leash

    def log(self) -> str:
        """Return what the process has written before it ended."""
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def close(self) -> None:
        """End all jails and their parent, and remove what they had."""
        if self.process is not None:
            self.control.close()
            try:
                self.process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> JailFactory:
        return self

    def __exit__(
        self, error_class: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


def environment() -> dict[str, str]:
    """Return the environment of all jails: nothing of the grader's."""
    # With one hash seed, a set is printed in the same order in each run.
    return {"HOME": "/home", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0",
            "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # fmt: skip


def missing_walls(missing: Mapping[str, str]) -> MissingWalls:
    from .walls import MEANINGS

    return MissingWalls(
        "grade", f"walls around the students' code are missing: {', '.join(missing)}",
        {name.replace(" ", "-"): f"{MEANINGS[name]} ({why})" for name, why in missing.items()},
        "grade on another machine, or with --walls=fewer if you trust your students; "
        "--walls=wasm needs none of them (extra classroom-wasm)",
    )  # fmt: skip


class JailProcess(Connection):
    """One forked process, by its two sockets."""

    def __init__(self, factory: JailFactory) -> None:
        talk, self.leash = factory.fork()
        super().__init__(talk, factory.settings)
        self.factory = factory

    def end(self, patience: float) -> Mapping[str, Any]:
        """Kill the process, wait until it is reaped, and return the report of its parent."""
        self.talk.close()
        if not select.select([self.leash], [], [], patience)[0]:
            self.leash.shutdown(socket.SHUT_WR)
        self.leash.settimeout(GRACE_SECONDS)
        report: dict[str, Any] = {}
        try:
            while packet := self.leash.recv(1 << 16):
                report.update(json.loads(packet))
        except TimeoutError:
            raise JailError("grade", "a jail could not be ended") from None
        finally:
            self.leash.close()
        if "reason" not in report:
            raise JailError("grade", f"the process for jails has ended\n{self.factory.log()}")
        if "broken" in report:
            raise JailError("grade", f"a jail could not be built: {report['broken']}")
        return report
