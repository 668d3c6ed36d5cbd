"""`python -m edutorch grade DIR`: grade the hand-ins of a class."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import InvalidValueError


def positive(text: str) -> int:
    """Return a number of at least 1, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def seconds(text: str) -> float:
    """Return a number above 0, for argparse."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be above 0, got {value:g}")
    return value


def shard(text: str) -> tuple[int, int]:
    """Return a part of a class, as 2/8, for argparse."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"is like 2/8, from 1/8 to 8/8, got {text!r}")
    return int(number), int(count)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("folder", metavar="DIR", type=Path, nargs="?",
                        help="the hand-ins, in any layout")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("grades"), metavar="FOLDER",
                        help="where the results go; by default ./grades")  # fmt: skip
    parser.add_argument("--workers", type=positive, metavar="N",
                        help="students at once; by default one for each processor")  # fmt: skip
    parser.add_argument("--timeout", type=seconds, default=10.0, metavar="S", help="per exercise")
    parser.add_argument("--memory", type=positive, default=512, metavar="MB", help="per exercise")
    parser.add_argument("--only", action="append", metavar="EXERCISE", help="may be repeated")
    parser.add_argument("--student", action="append", metavar="NAME", help="may be repeated")
    parser.add_argument("--seed", type=int, help="draw the cases of an earlier run again")
    parser.add_argument("--resume", action="store_true", help="grade only who is not graded yet")
    parser.add_argument("--course-key", type=Path, metavar="FILE",
                        help="of the students' own values")  # fmt: skip
    parser.add_argument("--class-list", type=Path, metavar="FILE",
                        help="who has own values, one a line")  # fmt: skip
    parser.add_argument("--feedback", choices=["html", "notebook", "none"], default="html",
                        help="the form of the page for each student")  # fmt: skip
    parser.add_argument("--walls", choices=["all", "fewer", "wasm"], default="all",
                        help="fewer: run where a wall of the jail is missing; wasm: run the code "
                             "in WebAssembly")  # fmt: skip
    add_options_of_teachers(parser)
    add_options_of_machines(parser)


def add_options_of_teachers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--specs", action="append", type=Path, metavar="FOLDER",
                        help="exercises of your own; may be repeated")  # fmt: skip
    parser.add_argument("--check-specs", action="store_true",
                        help="grade nobody: try the exercises with their own mistakes")  # fmt: skip
    parser.add_argument("--assignment", type=Path, metavar="FILE",
                        help="by default DIR/assignment.toml")  # fmt: skip


def add_options_of_machines(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shard", type=shard, metavar="I/N",
                        help="grade one part of N; `grade merge` puts them together")  # fmt: skip
    parser.add_argument("--engine", choices=["local", "dask"], default="local")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of dask, as tcp://10.0.0.1:8786")
    parser.add_argument("--shard-size", type=positive, default=10, metavar="N",
                        help="students that a worker of dask gets at once")  # fmt: skip


def add_options_of_merge(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `grade merge`."""
    parser.add_argument("folders", metavar="OUT", type=Path, nargs="+",
                        help="the results of each shard")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")


def merge(options: argparse.Namespace) -> int:
    """Merge the results of shards; return 0 if nobody is missing."""
    from ..classroom import merging

    return merging.merge(options.folders, options.out)


def refuse_combinations(options: argparse.Namespace) -> None:
    """Refuse options that say nothing without others."""
    sentences = {
        "give the folder with the hand-ins": not options.folder and not options.check_specs,
        "--check-specs grades nobody: leave out the folder": options.folder and options.check_specs,
        "--shard needs --seed: all shards are graded with the same one":
            options.shard and options.seed is None and not options.resume,
        "--engine dask needs --scheduler, the address that `dask scheduler` prints":
            options.engine == "dask" and not options.scheduler,
        "--scheduler is for --engine dask": options.engine != "dask" and options.scheduler,
    }  # fmt: skip
    for sentence, is_so in sentences.items():
        if is_so:
            raise InvalidValueError("grade", sentence)


def grade(options: argparse.Namespace) -> int:
    """Grade a class; return 0 if everything could be read."""
    refuse_combinations(options)
    from ..classroom import class_run  # not before it is asked for: `edutorch run` starts faster

    return class_run.grade(options)
