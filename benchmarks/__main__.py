"""The command line: `python -m benchmarks overhead`, `train`, `import`, `engines`."""

from __future__ import annotations

import argparse
import os
import sys


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--threads", type=int, default=cores(), help="for both libraries")
    parser.add_argument("--keep", action="store_true", help="write the results into README.md")
    commands = parser.add_subparsers(dest="command", required=True)
    overhead = commands.add_parser("overhead", help="the cost of one op on tiny tensors")
    overhead.add_argument("--sizes", type=int, nargs="+", default=[1, 64], choices=[1, 64])
    overhead.add_argument("--rounds", type=int, default=40)
    overhead.add_argument("--only", nargs="+", metavar="OP")
    train = commands.add_parser("train", help="the cost of a training step")
    train.add_argument("--rounds", type=int, default=15)
    train.add_argument("--only", nargs="+", choices=["mlp", "wide", "cnn"])
    imports = commands.add_parser("import", help="the cost of `import edutorch`")
    imports.add_argument("--rounds", type=int, default=11)
    graphs = commands.add_parser("engines", help="the cost of a layout, by Graphviz engine")
    graphs.add_argument("--rounds", type=int, default=12)
    live = commands.add_parser("live", help="the cost of watching a loop")
    live.add_argument("--nodes", type=int, nargs="+", default=[100, 500, 2000])
    live.add_argument("--seconds", type=float, default=4.0, help="of each run")
    live.add_argument("--rows", type=int, default=8, help="of the square matrices")
    live.add_argument("--large", action="store_true", help="also a graph of 10,000 nodes")
    return parser.parse_args()


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def main() -> None:
    options = arguments()
    # Thread pools read these once, when NumPy is imported: hence the late imports below.
    for pool in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{pool}_NUM_THREADS"] = str(options.threads)
    from . import engines, imports, live, overhead, report, train

    commands = {
        "overhead": overhead,
        "train": train,
        "import": imports,
        "engines": engines,
        "live": live,
    }
    command = commands[options.command]
    head = report.conditions(options.threads)
    print(head, end="\n\n", flush=True)
    text = command.run(options)
    print(text)
    if options.keep:
        report.keep(options.command, f"{head}\n\n{text}")


if __name__ == "__main__":
    main()
