"""The command line: `python -m benchmarks overhead`, `train`, `import`."""

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
    return parser.parse_args()


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def main() -> None:
    options = arguments()
    # Thread pools read these once, when NumPy is imported: hence the late imports below.
    for pool in ("OPENBLAS", "OMP", "MKL"):
        os.environ[f"{pool}_NUM_THREADS"] = str(options.threads)
    from . import imports, overhead, report, train

    command = {"overhead": overhead, "train": train, "import": imports}[options.command]
    head = report.conditions(options.threads)
    print(head, end="\n\n", flush=True)
    text = command.run(options)
    print(text)
    if options.keep:
        report.keep(options.command, f"{head}\n\n{text}")


if __name__ == "__main__":
    main()
