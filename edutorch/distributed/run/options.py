"""The options of torchrun. Each one may also come from the environment: `PET_NPROC_PER_NODE`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...settings import default_num_threads

__all__ = ["Options", "parse"]


@dataclass(frozen=True, slots=True)
class Options:
    """What to run, and how often.

    Attributes:
        processes: on this computer.
        nodes: how many computers take part, at least and at most.
        program: script, module or program, and its arguments.
        how: "script", "module" (`-m`) or "program" (`--no-python`).
    """

    processes: int
    program: tuple[str, ...]
    how: str = "script"
    nodes: tuple[int, int] = (1, 1)
    node_rank: int = 0
    master: tuple[str, int] = ("127.0.0.1", 29500)
    standalone: bool = False
    max_restarts: int = 0
    monitor_interval: float = 0.1
    log_dir: str | None = None
    redirects: str = "0"
    tee: str = "0"
    run_id: str = "none"
    rendezvous: Mapping[str, str] = field(default_factory=dict)


class FromEnvironment(argparse.Action):
    """An option whose default is the environment variable `PET_` + its name."""

    def __init__(self, option_strings: Sequence[str], dest: str, **named: object) -> None:
        default = os.environ.get(f"PET_{dest.upper()}", named.pop("default", None))
        super().__init__(option_strings, dest, default=default, **named)  # type: ignore[arg-type]

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object,
        option_string: str | None = None,
    ) -> None:  # fmt: skip
        setattr(namespace, self.dest, values)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m edutorch.distributed.run", allow_abbrev=False,
        description="Run a program in several processes that train together.",
    )  # fmt: skip

    def add(*names: str, **named: object) -> None:
        # PyTorch accepts both spellings.
        both = [n for name in names for n in {name, "--" + name[2:].replace("-", "_")}]
        both = [name for name in both if name.startswith("-") and name != "--"]
        made.add_argument(*both, action=FromEnvironment, **named)  # type: ignore[arg-type]

    add("--nnodes", default="1:1", metavar="N|MIN:MAX", help="computers")
    add("--nproc-per-node", default="1", metavar="N|auto|cpu|gpu", help="processes on each")
    add("--node-rank", default="0", help="the number of this computer")
    add("--master-addr", default="127.0.0.1", help="the computer with number 0")
    add("--master-port", default="29500", help="its port")
    add("--rdzv-backend", default="static", help="accepted: static, c10d")
    add("--rdzv-endpoint", default="", help="HOST:PORT instead of --master-addr and --master-port")
    add("--rdzv-id", default="none", help="the name of the job")
    add("--rdzv-conf", default="", help="more settings, as timeout=60")
    add("--rdzv-timeout", default="300", help="seconds to wait for all computers")
    add("--rdzv-secret-file", default="", help="a file with the job's secret, the same on all")
    add("--max-restarts", default="0", help="how often to start anew after a failure")
    add("--monitor-interval", default="0.1", help="seconds between two looks at the processes")
    add("--log-dir", default=None, help="a folder for the output of each rank")
    add("--redirects", default="0", help="0 nothing, 1 stdout, 2 stderr, 3 both: only into files")
    add("--tee", default="0", help="the same, into files and to the screen")
    add("--start-method", default="spawn", help="accepted")
    add("--role", default="default", help="accepted")
    add("--local-addr", default="", help="accepted")
    made.add_argument("--standalone", action="store_true", help="one computer, any free port")
    how = made.add_mutually_exclusive_group()
    how.add_argument("-m", "--module", action="store_true", help="the program is a module")
    how.add_argument(
        "--no-python", "--no_python", action="store_true", help="it is no Python program"
    )
    made.add_argument("program", help="a script, and its arguments")
    made.add_argument("arguments", nargs=argparse.REMAINDER)
    return made


def parse(args: Sequence[str] | None = None) -> Options:
    """Read the command line.

    Raises: SystemExit: an option is wrong; it is named.
    """
    reader = parser()
    arguments = reader.parse_args(args)
    try:
        return make_options(arguments)
    except ValueError as error:
        reader.error(str(error))


def make_options(arguments: argparse.Namespace) -> Options:
    """Check the arguments of the command line.

    Raises: ValueError: with a sentence.
    """
    host, port = arguments.master_addr, arguments.master_port
    if arguments.rdzv_endpoint:
        host, _, told = arguments.rdzv_endpoint.rpartition(":")
        host, port = (host, told) if host else (arguments.rdzv_endpoint, port)
    restarts = count("--max-restarts", arguments.max_restarts)
    for name in ("redirects", "tee"):
        if str(getattr(arguments, name)) not in ("0", "1", "2", "3"):
            raise ValueError(f"--{name} is 0, 1, 2 or 3, not {getattr(arguments, name)!r}")
    return Options(
        processes=process_count(arguments.nproc_per_node),
        program=(arguments.program, *arguments.arguments),
        how="module" if arguments.module else "program" if arguments.no_python else "script",
        nodes=node_counts(arguments.nnodes),
        node_rank=count("--node-rank", arguments.node_rank),
        master=(host or "127.0.0.1", count("--master-port", port)),
        standalone=arguments.standalone,
        max_restarts=restarts,
        monitor_interval=float(arguments.monitor_interval),
        log_dir=arguments.log_dir,
        redirects=str(arguments.redirects),
        tee=str(arguments.tee),
        run_id=arguments.rdzv_id,
        rendezvous={
            "timeout": str(arguments.rdzv_timeout),
            "secret_file": arguments.rdzv_secret_file,
            "conf": arguments.rdzv_conf,
        },
    )


def count(name: str, text: object, least: int = 0) -> int:
    """Return an option as a number.

    Raises: ValueError: it is none, or too small.
    """
    try:
        number = int(str(text))
    except ValueError:
        raise ValueError(f"{name} is a number, not {text!r}") from None
    if number < least:
        raise ValueError(f"{name} is at least {least}, not {number}")
    return number


def process_count(text: str) -> int:
    """Return the number of processes on this computer.

    Raises: ValueError: it is neither a number nor auto, cpu or gpu, or there is no GPU.
    """
    if text in ("auto", "cpu", "gpu"):
        from ...cuda import device_count

        cards = device_count()
        if text == "gpu" and not cards:
            raise ValueError("--nproc-per-node gpu: there is no GPU here; say how many, or auto")
        return default_num_threads() if text == "cpu" or not cards else cards
    return count("--nproc-per-node", text, least=1)


def node_counts(text: str) -> tuple[int, int]:
    """Return how many computers take part: N, or MIN:MAX.

    Raises: ValueError: not of this form.
    """
    least, _, most = str(text).partition(":")
    low = count("--nnodes", least, least=1)
    high = count("--nnodes", most, least=1) if most else low
    if high < low:
        raise ValueError(f"--nnodes MIN:MAX has the smaller number first, not {text!r}")
    return low, high
