"""A job on several computers: the launcher of node 0 leads, those of the others follow."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from ..errors import DistNetworkError
from .agent import Attempt, job_environment
from .daemon import checked_command
from .handshake import Channel, Refused, read_secret
from .monitor import Fault, process_state
from .mpirun import find_mpi
from .options import Options
from .rendezvous import Meeting, Node, join_meeting
from .report import format_fault

__all__ = ["follow", "lead"]

TAG = "edutorch.distributed.run"


def lead(options: Options) -> int:
    """Wait for the other nodes and run the job with them. Returns the exit code."""
    secret = read_secret(options.rendezvous.get("secret_file"))
    timeout = float(options.rendezvous.get("timeout") or 300)
    own = Node(0, socket.gethostname(), options.processes)
    meeting = Meeting(options.master, secret, options.nodes)
    left, attempt = options.max_restarts, 0
    try:
        while True:
            nodes = meeting.wait(own, timeout)
            job = WideAttempt(options, attempt, meeting, nodes)
            code, fault = job.run()
            if fault is None:
                return code
            print(format_fault(fault, job.world_size), file=sys.stderr, flush=True)
            if not left and not job.has_grown:
                return code
            left -= not job.has_grown
            attempt += 1
            print(f"{TAG}: starts anew ({left} left)", file=sys.stderr, flush=True)
    finally:
        meeting.close()


class WideAttempt(Attempt):
    """One start of all processes on several computers.

    Args:
        options, attempt: see `Attempt`.
        meeting: the rendezvous, which goes on: a node may be lost, or come.
        nodes: those that take part, by rank.
    """

    def __init__(self, options: Options, attempt: int, meeting: Meeting, nodes: list[Node]) -> None:
        super().__init__(options, attempt, sum(node.processes for node in nodes))
        self.meeting, self.nodes, self.has_grown = meeting, nodes, False
        self.lost: Fault | None = None
        self.ended: set[int] = set()  # the nodes whose daemon has ended
        self.waiting: dict[int, Connection] = {}  # those that asked for a daemon, by node
        self.control = Listener(str(self.folder / "control"), family="AF_UNIX")
        self.is_running = True

    def command(self) -> list[str]:
        """Return mpirun's command, with the hosts and what starts daemons on them."""
        mpi = find_mpi()
        agent = f"{sys.executable} -S {Path(__file__).with_name('remote_start.py')}"
        hosts = ",".join(f"{node.host}:{node.processes}" for node in self.nodes)
        network = os.environ.get("EDUTORCH_NETWORK", "")
        chosen = (
            ["--prtemca", "prte_if_include", network, "--mca", "btl_tcp_if_include", network]
            if network
            else []
        )
        return mpi.command_line(
            self.world_size,
            [
                "--host", hosts, "--leave-session-attached", "--prtemca", "plm_ssh_agent",
                f"{agent} {self.folder / 'control'}", "--prtemca", "plm_ssh_no_tree_spawn", "1",
                *chosen, *self.child(),
            ],
        )  # fmt: skip

    def run(self) -> tuple[int, Fault | None]:
        """Run the job beside the conversations with the other nodes."""
        threading.Thread(target=self.serve_starts, daemon=True).start()
        for node in self.nodes[1:]:
            assert node.channel is not None
            node.channel.send({"begin": self.attempt})
            threading.Thread(target=self.listen_to, args=(node,), daemon=True).start()
        try:
            return super().run()
        finally:
            self.is_running = False
            with suppress(OSError):  # its file is gone with the folder
                self.control.close()
            for node in self.nodes[1:]:
                with suppress(OSError), node.lock:
                    if node.channel is not None:
                        node.channel.send({"stop": self.attempt})

    def watch(self) -> Fault | None:
        """Look at the processes until they end; mpirun ends with 0 when a computer is lost, too."""
        fault, limit = super().watch(), time.monotonic() + END_LIMIT
        others = {node.rank for node in self.nodes[1:]}
        while fault is None and self.ended != others and time.monotonic() < limit:
            fault = self.lost
            time.sleep(0.02)
        return fault

    def watch_more(self) -> Fault | None:
        """Return a fault if a node was lost, or if one has come."""
        if self.lost is not None:
            return self.lost
        present = len(self.meeting.members)
        if present > len(self.nodes) and len(self.nodes) < self.options.nodes[1]:
            self.has_grown = True
            return Fault(None, f"goes on with {present} nodes: one has come")
        return None

    def serve_starts(self) -> None:
        """Hand each daemon that mpirun wants to start to its node."""
        while self.is_running:
            try:
                asker = self.control.accept()
                wanted = json.loads(asker.recv_bytes(1 << 20))
            except (OSError, EOFError, ValueError):
                continue
            node = next((n for n in self.nodes if n.host == wanted.get("host")), None)
            if node is None or node.channel is None:
                asker.send_bytes(b'{"code": 1}')
                continue
            self.waiting[node.rank] = asker
            with node.lock:
                node.channel.send({"start": wanted["command"]})

    def listen_to(self, node: Node) -> None:
        """Take in what a node says: the records of its ranks, and the end of its daemon."""
        assert node.channel is not None
        last_heard = time.monotonic()
        while self.is_running:
            try:
                got = node.channel.receive(timeout=0.5)
            except (OSError, EOFError, Refused):
                self.lose(node, "its launcher has ended")
                return
            if got is None:
                if time.monotonic() - last_heard > SILENCE:
                    self.lose(node, f"nothing was heard of it for {SILENCE:g} s")
                    return
                continue
            last_heard = time.monotonic()
            self.take_in(node, *got)

    def take_in(self, node: Node, message: dict[str, object], data: bytes) -> None:
        """Take in one message of a node."""
        name = message.get("file")
        if isinstance(name, str) and name.startswith("rank") and "/" not in name:
            path = self.folder / name
            path.with_name(f"{name}.part").write_bytes(data)
            path.with_name(f"{name}.part").rename(path)
        if "ended" in message and node.rank in self.waiting:
            self.ended.add(node.rank)
            with suppress(OSError):
                self.waiting.pop(node.rank).send_bytes(
                    json.dumps({"code": message["ended"]}).encode()
                )

    def lose(self, node: Node, reason: str) -> None:
        """Go on without a node."""
        self.meeting.members.pop(node.rank, None)
        if node.channel is not None:
            node.channel.close()
        self.lost = Fault(None, f"has lost node {node.rank} ({node.host}): {reason}")


END_LIMIT = 3.0
"""Seconds in which all nodes say that they have ended, after mpirun has."""

SILENCE = 10.0
"""Seconds after which a node that says nothing is lost; it says something twice a second."""


def follow(options: Options) -> int:
    """Take part in the job of node 0 until it ends. Returns the exit code."""
    secret = read_secret(options.rendezvous.get("secret_file"))
    timeout = float(options.rendezvous.get("timeout") or 300)
    own = Node(options.node_rank, socket.gethostname(), options.processes)
    channel = join_meeting(options.master, secret, own, timeout)
    while True:
        try:
            got = channel.receive(timeout=0.5)
        except (OSError, EOFError):
            print(f"{TAG}: node 0 has ended", file=sys.stderr)
            return 1
        if got is None:
            continue
        message, _ = got
        if "refused" in message:
            raise DistNetworkError("rendezvous", str(message["refused"]))
        if "end" in message:
            return 0
        if "begin" in message:
            Part(options, int(message["begin"]), channel).run()


class Part:
    """What a following node does in one start of the job: it runs the daemon, and reports.

    Args:
        options: of this node.
        attempt: how many starts there were before.
        channel: to node 0.
    """

    def __init__(self, options: Options, attempt: int, channel: Channel) -> None:
        self.options, self.attempt, self.channel = options, attempt, channel
        self.folder = Path(tempfile.mkdtemp(prefix="edutorch-run-"))
        self.process: subprocess.Popen[bytes] | None = None
        self.sent: dict[str, bytes] = {}

    def run(self) -> None:
        """Serve node 0 until it says that this start is over."""
        before = signal.signal(signal.SIGTERM, lambda number, frame: self.hand_on(number))
        try:
            while True:
                got = self.channel.receive(timeout=self.options.monitor_interval)
                if got is not None and "start" in got[0]:
                    self.start(got[0]["start"])
                elif got is not None and ("stop" in got[0] or "end" in got[0]):
                    return
                self.report()
        finally:
            signal.signal(signal.SIGTERM, before)
            self.end_processes()
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, command: list[str]) -> None:
        """Start the daemon, if the command is one."""
        try:
            checked = checked_command(command)
        except DistNetworkError as error:
            print(error, file=sys.stderr)
            self.channel.send({"ended": 1})
            return
        environment = job_environment(self.options, self.folder, self.attempt)
        environment["GROUP_RANK"] = str(self.options.node_rank)
        self.process = subprocess.Popen(checked, env=environment, start_new_session=True)

    def report(self) -> None:
        """Send what is new of the ranks here, and the end of the daemon."""
        self.channel.send({"alive": True})
        for path in sorted(self.folder.glob("rank*")):
            if path.suffix == ".part":
                continue
            data = path.read_bytes()
            if self.sent.get(path.name) != data:
                self.sent[path.name] = data
                self.channel.send({"file": path.name}, data)
            if path.suffix == ".pid" and data:
                state = process_state(int(data)).encode()
                name = path.with_suffix(".state").name
                if self.sent.get(name) != state:
                    self.sent[name] = state
                    self.channel.send({"file": name}, state)
        if self.process is not None and self.process.poll() is not None:
            self.channel.send({"ended": self.process.returncode})
            self.process = None

    def hand_on(self, number: int) -> None:
        """Send a signal to the ranks of this node, which may save something before they end."""
        for path in self.folder.glob("rank*.pid"):
            with suppress(OSError, ValueError):
                os.kill(int(path.read_text()), number)

    def end_processes(self) -> None:
        """End the daemon and the ranks of this node."""
        self.hand_on(9)
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.terminate()
                self.process.wait(timeout=2)
            with suppress(OSError):
                os.killpg(self.process.pid, 9)
