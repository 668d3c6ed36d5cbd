"""The command line: `python -m benchmarks all`, or one of the parts by its name."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from time import perf_counter

PARTS = {
    "overhead": "the cost of one op on tiny tensors",
    "calls": "every single call, by size",
    "train": "the cost of a training step",
    "chains": "softmax, layer norm, gelu, … on a million numbers and more",
    "compiled": "what edutorch.compile gains",
    "scaling": "how time grows with batch, width, depth and length",
    "memory": "the peak memory of a training step",
    "import": "the cost of `import edutorch`",
    "first": "the first call of an op, with no kernel made before",
    "engines": "the cost of a layout, by Graphviz engine",
    "live": "the cost of watching a loop",
    "gpu": "training steps on a GPU",
    "transforms": "pipelines of images, against the real torchvision",
    "packages": "the real transformers, torchvision and timm",
    "site": "a lesson in a browser tab",
    "grading": "a class of students, honest and hostile",
    "cpp": "exported C++ beside eager mode",
    "distributed": "two processes that train together, against PyTorch with gloo",
    "serving": "a server of models, under the load of 16 clients",
}
IN_ALL = ("overhead", "train", "chains", "compiled", "scaling", "memory", "import")
PLACES = {"import": ("imports", "run"), "chains": ("train", "run_chains")}
ROUNDS = {
    "overhead": 40,
    "calls": 7,
    "train": 15,
    "chains": 9,
    "import": 11,
    "first": 3,
    "engines": 12,
    "gpu": 7,
    "transforms": 9,
    "packages": 9,
    "cpp": 9,
    "site": 5,
    "distributed": 15,
}
BUDGETS = {"train": 6.0, "chains": 4.0, "scaling": 6.0, "gpu": 4.0}
"""Seconds after which no new round begins, for each workload (a curve: for four sizes)."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--threads", type=int, default=cores(), help="for both libraries")
    parser.add_argument("--keep", action="store_true", help="write down engines, live, calls")
    parser.add_argument("--quick", action="store_true", help="a third of the time, less exact")
    parser.add_argument("--against", metavar="COMMIT", help="compare this checkout with a commit")
    parser.add_argument("--only", nargs="+", metavar="KEY", help="with --against: boards or rows")
    parser.add_argument("--check", action="store_true", help="with --against: fail if calls slow")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("all", help="all that is compared with PyTorch: tables and charts")
    for name, help_ in PARTS.items():
        part = commands.add_parser(name, help=help_)
        if name in ROUNDS:
            part.add_argument("--rounds", type=int, default=ROUNDS[name])
        if name in ("overhead", "train", "chains", "compiled", "gpu", "calls", "first"):
            part.add_argument("--only", nargs="+", metavar="KEY", default=argparse.SUPPRESS)
        if name in ("train", "chains", "compiled"):
            part.add_argument("--peers", nargs="+", metavar="PEER", help="see peers.py")
        if name == "compiled":
            part.add_argument("--calls", type=int, nargs="+", metavar="SIZE", help="single calls")
        if name == "overhead":
            part.add_argument("--sizes", type=int, nargs="+", default=[1, 64], choices=[1, 64])
        if name == "calls":
            part.add_argument("--sizes", type=int, nargs="+", default=[32, 512, 2048])
            part.add_argument("--quickest", action="store_true", help="not medians: a busy machine")
            part.add_argument("--everyday", action="store_true", help="not the wider board")
        if name == "live":
            part.add_argument("--nodes", type=int, nargs="+", default=[100, 500, 2000])
            part.add_argument("--seconds", type=float, default=4.0, help="of each run")
            part.add_argument("--rows", type=int, default=8, help="of the square matrices")
            part.add_argument("--large", action="store_true", help="also a graph of 10,000 nodes")
        if name == "grading":
            add_grading_options(part)
        if name == "serving":
            part.add_argument("--seconds", type=float, default=5.0, help="of each run")
            part.add_argument("--clients", type=int, default=16)
    options = parser.parse_args()
    if bool(options.command) == bool(options.against):
        parser.error("give a command, or --against COMMIT")
    return options


def add_grading_options(part: argparse.ArgumentParser) -> None:
    part.add_argument("--students", type=int, default=200, help="all, the hostile ones too")
    part.add_argument("--hostile", type=int, default=20)
    part.add_argument("--exercises", type=int, default=10)
    part.add_argument("--workers", type=int, default=cores())
    part.add_argument("--timeout", type=float, default=10.0, help="seconds per exercise")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def settled(options: argparse.Namespace, name: str) -> argparse.Namespace:
    """Return the options of one part, with what was not said filled in."""
    from .peers import NAMES

    defaults = {
        "only": None,
        "sizes": [1, 64],
        "rounds": ROUNDS.get(name, 0),
        "peers": None,
        "calls": None,
    }
    filled = argparse.Namespace(**(defaults | vars(options)))
    # torch.compile runs a C++ compiler for minutes: it is timed where it is asked for.
    filled.peers = tuple(filled.peers or (name for name in NAMES if name != "torch.compile"))
    filled.budget = BUDGETS.get(name, 0.0)
    if options.quick:
        filled.rounds, filled.budget = max(3, filled.rounds // 4), filled.budget / 4
    return filled


def main() -> None:
    options = arguments()
    # Thread pools read these once, when NumPy is imported: hence the late imports below.
    for pool in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{pool}_NUM_THREADS"] = str(options.threads)
    if options.threads == 1:  # JAX knows only one or all
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    from . import report

    if options.against:
        from . import against

        print(against.run(options))
        return
    head = report.conditions(options.threads)
    print(head, end="\n\n", flush=True)
    start = perf_counter()
    texts = {}
    for name in IN_ALL if options.command == "all" else (options.command,):
        module, function = PLACES.get(name, (name, "run"))
        if importlib.util.find_spec(f"{__package__}.{module}") is None:
            print(f"{name}: not there yet")
            continue
        text = getattr(importlib.import_module(f".{module}", __package__), function)(
            settled(options, name)
        )
        print(f"\n{name}\n\n{text}\n", flush=True)
        texts[name] = text
        if options.keep and name not in (*IN_ALL, "calls"):  # which writes results/calls.md
            report.keep(name, f"{head}\n\n{text}")
    if options.command == "all":
        report.leave(head, texts, perf_counter() - start)


if __name__ == "__main__":
    main()
