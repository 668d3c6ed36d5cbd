"""The grader's side: starts the parent of all jails, asks for jails, and asks them.

with JailFactory(Settings()) as factory:
    with factory.jail(cells) as jail:
        attempt = jail.ask(exercise.answer_source(), case, exercise.forbid)
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from ...backends.platform import IS_LINUX, WHERE
from ...errors import EdutorchError
from ..attempt import Attempt
from .attempts import decode_attempt
from .frames import Ended, FrameError, receive_frame, send_frame
from .package_copy import copy_package
from .settings import FLAGS, Settings
from .values import Encoder

DEFAULT = Settings()
PREFIX = "edutorch-jail-"
START_SECONDS = 120.0
PYTHON = (sys.executable, *FLAGS)
GRACE_SECONDS = 30.0  # for a jail to be killed and reaped on a busy machine


class JailError(EdutorchError, RuntimeError):
    """A jail cannot be built here: it is no fault of the student's."""


class MissingWalls(JailError):
    """Some walls cannot be raised on this machine."""


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
                hint="grade on Linux, or in a Linux container",
            )  # fmt: skip
        bwrap = settings.bwrap or shutil.which("bwrap") or ""
        self.settings = dataclasses.replace(settings, bwrap=bwrap)
        remove_stale_folders()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
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
        site = copy_package(self.folder, self.settings)
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
        return Jail(self, cells)

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


def remove_stale_folders() -> None:
    """Remove the folders of graders that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if (
            pid.isdecimal()
            and folder.lstat().st_uid == os.geteuid()
            and not os.path.exists(f"/proc/{pid}")
        ):
            shutil.rmtree(folder, ignore_errors=True)


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
        "grade on another machine, or with --walls=fewer if you trust your students",
    )  # fmt: skip


class Jail:
    """Answers the questions of one submission, each exercise in a process of its own.

    So what one exercise's code breaks, exhausts or leaves behind is gone at the next one.
    """

    def __init__(self, factory: JailFactory, cells: list[str]) -> None:
        self.factory, self.settings, self.cells = factory, factory.settings, cells
        self.seconds_left = self.settings.submission_seconds
        self.question: tuple[str, frozenset[str]] | None = None
        self.process: JailProcess | None = None
        self.failure = ""
        self.exercise_left = 0.0

    def ask(
        self, answer_source: str, case: Mapping[str, Any], forbid: frozenset[str] = frozenset(),
        seconds: float | None = None,
    ) -> Attempt:  # fmt: skip
        """Ask the student's code for one answer.

        Args:
            answer_source: of the exercise's `answer`.
            seconds: for all cases of the exercise, with the start of its process; what one
                takes is not there for the next one.

        Returns: the attempt; where the code has ended, hung, or sent something else, its `error`
            says so.
        """
        question = (answer_source, frozenset(forbid))
        if question != self.question:
            self.close()
            self.question, self.failure = question, ""
            self.exercise_left = self.settings.seconds if seconds is None else seconds
        if not self.failure:
            start = time.monotonic()
            left = min(self.exercise_left, self.seconds_left)
            attempt = self._ask(case, start + left)
            used = time.monotonic() - start
            self.exercise_left -= used
            self.seconds_left -= used
            if attempt is not None:
                return attempt
        return Attempt(case, error=self.failure)

    def _ask(self, case: Mapping[str, Any], deadline: float) -> Attempt | None:
        """Return the attempt; None, and `failure` says why, if there is none."""
        assert self.question is not None
        source, forbid = self.question
        failure, patience = "", 0.0
        try:
            if self.process is None:
                self.process = JailProcess(self.factory)
                self.process.send({"cells": self.cells, "answer": source,
                                   "forbid": sorted(forbid)}, [], deadline)  # fmt: skip
            encoder = Encoder()
            self.process.send(encoder.encode(dict(case)), encoder.blobs, deadline)
            header, body = self.process.receive(deadline)
            return decode_attempt(header, body, case, forbid)
        except TimeoutError:
            failure = "TimeoutError: the code did not answer in time"
        except Ended:  # the report says why
            patience = 2.0
        except FrameError as error:
            failure = f"RuntimeError: the answer could not be read: {error}"
        report = self.close(patience)
        self.failure = failure or explain(report)
        return None

    def close(self, patience: float = 0.0) -> Mapping[str, Any]:
        """End the process, and return why it ended; what it started has gone, too.

        Args:
            patience: seconds to wait for an end by itself.
        """
        if self.process is None:
            return {}
        process, self.process = self.process, None
        return process.end(patience)

    def __enter__(self) -> Jail:
        return self

    def __exit__(
        self, error_class: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


class JailProcess:
    """One forked process, by its two sockets."""

    def __init__(self, factory: JailFactory) -> None:
        self.factory, self.settings = factory, factory.settings
        self.talk, self.leash = factory.fork()

    def send(self, header: Any, blobs: list[bytes], deadline: float) -> None:
        send_frame(self.talk, header, blobs, deadline)

    def receive(self, deadline: float) -> tuple[Any, bytes]:
        settings = self.settings
        return receive_frame(self.talk, settings.header_bytes, settings.answer_bytes, deadline)

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


def explain(report: Mapping[str, Any]) -> str:
    """Return the sentence for a jail that ended by itself."""
    reason, status = report.get("reason"), report.get("status")
    if reason in ("memory", "processes"):
        error = {"memory": "MemoryError", "processes": "BlockingIOError"}[reason]
        return f"{error}: the code used more {reason} than it may"
    if reason == "released":
        return "SystemExit: the code closed its connection to the grader"
    if isinstance(status, int) and status > 128:  # so `bwrap` says it
        status = 128 - status
    if isinstance(status, int) and status < 0:
        return f"SystemError: the code crashed its process (signal {-status})"
    return "SystemExit: the code ended its process"
