"""Starts a job, watches it, and starts it anew where that is asked for."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from ...settings import default_num_threads
from ..recorder import FOLDER_VARIABLE
from .monitor import Fault, Monitor, waiting_lines, with_host
from .mpirun import find_mpi
from .options import Options
from .report import format_fault

__all__ = ["launch"]

KILLED = re.compile(
    r"(?:process )?rank (\d+) .*?signal (\d+)|PID (\d+) RUNNING AT|EXIT CODE: (\d+)", re.DOTALL
)
NOISE = re.compile(
    r"\[proxy:|\[mpiexec@|prterun|Abort\(|\[[^]]*\] (plm:ssh: Warning|\*\*\*)|"
    r"YOUR APPLICATION TERMINATED|This typically refers to a problem|Please see the FAQ page for"
)
OF_A_RANK = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
"""Variables that may be there already, of a pod or of a rank that starts this job: mpirun says them
anew."""
RULE = re.compile(r"^(-{20,}|={20,})\s*$")


def launch(options: Options) -> int:
    """Run a job, with its restarts. Returns the exit code."""
    if options.nodes != (1, 1):
        from .nodes import follow, lead

        return follow(options) if options.node_rank else lead(options)
    code = 1
    for attempt in range(options.max_restarts + 1):
        code, fault = Attempt(options, attempt).run()
        if fault is None:
            return code
        print(format_fault(fault, options.processes), file=sys.stderr, flush=True)
        left = options.max_restarts - attempt
        if left:
            print(f"edutorch.distributed.run: starts anew ({left - 1} left)", file=sys.stderr)
    return code


class Attempt:
    """One start of all processes.

    Args:
        options: what to run.
        attempt: how many starts there were before.
        world_size: how many processes; by default those of this computer.
    """

    copies_stdout = False  # by default the processes print where this one does

    def __init__(self, options: Options, attempt: int, world_size: int = 0) -> None:
        self.options, self.attempt = options, attempt
        self.world_size = world_size or options.processes
        # Whoever watches this job (`viz.watch_ranks`) says where, and removes it.
        self.watched_folder = os.environ.get(FOLDER_VARIABLE)
        self.folder = Path(tempfile.mkdtemp(prefix="edutorch-run-", dir=self.watched_folder))
        self.monitor = Monitor(self.folder, self.world_size)
        self.noise: list[
            str
        ] = []  # what mpirun itself says: kept, shown where nothing else is known
        self.received = 0  # a signal that ends the job

    def child(self) -> list[str]:
        """Return the command of each process."""
        child = [sys.executable, "-m", "edutorch.distributed.run.child", self.options.how]
        return [*child, *self.options.program]

    def command(self) -> list[str]:
        """Return the command that starts all processes."""
        return find_mpi().command_line(self.world_size, self.child())

    def environment(self) -> dict[str, str]:
        """Return the variables of the processes."""
        return job_environment(self.options, self.folder, self.attempt)

    def watch_more(self) -> Fault | None:
        """Return a fault that is not one of a rank, or None."""
        return None

    def run(self) -> tuple[int, Fault | None]:
        """Start the processes and wait for them. Returns the exit code, and what was wrong."""
        environment = self.environment()
        # MPICH says on stdout why a rank has ended, Open MPI on stderr.
        copies_stdout = self.copies_stdout or find_mpi().name == "MPICH"
        stdout = subprocess.PIPE if copies_stdout else None
        self.process = subprocess.Popen(
            self.command(), env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
        readers = [self.copy(self.process.stderr, sys.stderr)]
        if copies_stdout:
            readers.append(self.copy(self.process.stdout, sys.stdout))
        try:
            with self.forward_signals():
                fault = self.watch()
            for reader in readers:
                reader.join(timeout=5)
            code = self.process.returncode
            if fault is None and code and not self.received:
                fault = self.explain_end(code)
            if not self.received:
                return 1 if fault else code, fault
            if fault is not None:
                print(format_fault(fault, self.world_size), file=sys.stderr, flush=True)
            # 0: the program has saved, and has left in its own way. It is not started anew.
            return 128 + self.received if code else 0, None
        finally:
            self.end_processes()
            if self.watched_folder is None:
                shutil.rmtree(self.folder, ignore_errors=True)

    def watch(self) -> Fault | None:
        """Look at the processes until they end, or something is wrong."""
        while self.process.poll() is None:
            fault = self.monitor.look() or self.watch_more()
            if fault is not None:
                self.end_processes()
                return fault
            time.sleep(self.options.monitor_interval)
        return self.monitor.look()

    def explain_end(self, code: int) -> Fault:
        """Return the fault of a job that has ended by itself, from what mpirun says."""
        ranks = self.monitor.ranks()
        text = "\n".join(self.noise)
        by_pid = {rank.pid: rank.number for rank in ranks}
        number: int | None = None
        killed_by = ""
        for rank, by_signal, pid, exit_code in KILLED.findall(text):
            number = int(rank) if rank else by_pid.get(int(pid)) if pid else number
            killed_by = by_signal or exit_code or killed_by
        if number is None:
            shown = [line for line in self.noise if line.strip() and not RULE.match(line)]
            return Fault(None, f"has ended with exit code {code}", shown[:10])
        name = ""
        with suppress(ValueError):
            name = f" ({signal.Signals(int(killed_by or 0)).name})"
        cause = f"was killed by signal {killed_by}{name}"
        return with_host(Fault(number, cause, (), waiting_lines(ranks, {number})), ranks)

    # Processes ----------------------------------------------------------------------------------

    def copy(self, source: Any, target: Any) -> threading.Thread:
        """Copy what the processes print, without what mpirun says about their end."""

        def run() -> None:
            inside = False
            for line in source:
                if RULE.match(line):
                    inside = not inside
                    self.noise.append(line.rstrip())
                elif inside or NOISE.match(line):
                    self.noise.append(line.rstrip())
                else:
                    target.write(line)
                    target.flush()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    @contextmanager
    def forward_signals(self) -> Iterator[None]:
        """Hand SIGTERM and SIGINT to the processes, which may save something before they end."""

        def forward(number: int, frame: FrameType | None) -> None:
            self.received = number
            for pid in self.own_pids():
                with suppress(OSError):
                    os.kill(pid, number)

        before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            before = {n: signal.signal(n, forward) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def own_pids(self) -> list[int]:
        """Return the processes of the ranks on this computer: others tell their states."""
        ranks = self.monitor.ranks()
        return [r.pid for r in ranks if not (self.folder / f"rank{r.number}.state").exists()]

    def end_processes(self) -> None:
        """End all processes of the job that are left, also stopped ones."""
        if self.process.poll() is None:
            for pid in self.own_pids():
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=3)
        if self.process.poll() is None:
            with suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def job_environment(options: Options, folder: Path, attempt: int) -> dict[str, str]:
    """Return the variables of the processes of one computer.

    Args:
        folder: where they write their records.
        attempt: how many starts there were before.
    """
    host, port = options.master
    threads = max(1, default_num_threads() // options.processes)
    made = {name: value for name, value in os.environ.items() if name not in OF_A_RANK}
    made.setdefault("OMP_NUM_THREADS", str(threads))
    made |= {
        FOLDER_VARIABLE: str(folder),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": options.run_id,
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
        "EDUTORCH_REDIRECTS": options.redirects,
        "EDUTORCH_TEE": options.tee,
    }
    if options.log_dir:
        made["EDUTORCH_LOG_DIR"] = os.path.abspath(options.log_dir)
    return made
