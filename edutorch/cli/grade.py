"""`python -m edutorch grade DIR`: grade the hand-ins of a class."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("folder", metavar="DIR", type=Path, help="the hand-ins, in any layout")
    parser.add_argument("--out", type=Path, default=Path("grades"), metavar="FOLDER",
                        help="where the results go; by default ./grades")  # fmt: skip
    parser.add_argument("--workers", type=positive, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--timeout", type=seconds, default=10.0, metavar="S", help="per exercise")
    parser.add_argument("--memory", type=positive, default=512, metavar="MB", help="per exercise")
    parser.add_argument("--only", action="append", metavar="EXERCISE", help="may be repeated")
    parser.add_argument("--student", action="append", metavar="NAME", help="may be repeated")
    parser.add_argument("--seed", type=int, help="draw the cases of an earlier run again")
    parser.add_argument("--resume", action="store_true", help="grade only who is not graded yet")
    parser.add_argument("--walls", choices=["all", "fewer"], default="all",
                        help="fewer: run where a wall of the jail is missing")  # fmt: skip


def grade(options: argparse.Namespace) -> int:
    """Grade a class; return 0 if everything could be read."""
    from ..classroom import class_run  # not before it is asked for: `edutorch run` starts faster

    return class_run.grade(options)
