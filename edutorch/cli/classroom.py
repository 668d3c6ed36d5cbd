"""`python -m edutorch classroom …`: what a teacher does before and after grading.

Each subcommand is a line of `SUBCOMMANDS`; its code is in `edutorch/classroom`, and is imported
when it is asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple


class Subcommand(NamedTuple):
    """One subcommand.

    Attributes:
        module: of `edutorch.classroom`.
        options: its function that adds the arguments to a parser.
        run: its function that takes them and returns the exit code.
    """

    help: str
    module: str
    options: str
    run: str


SUBCOMMANDS = {
    "key": Subcommand(
        "make the key that draws each student's own values",
        "own_values", "add_key_options", "write_key",
    ),
    "notebooks": Subcommand(
        "write the notebooks of each student, with his or her own values",
        "own_notebooks", "add_options", "write_notebooks",
    ),
    "similarity": Subcommand(
        "list the answers that are similar, side by side; it is no proof",
        "similarity", "add_options", "report",
    ),
    "pack": Subcommand(
        "make a folder that a class can work with offline",
        "pack", "add_options", "pack",
    ),
    "export": Subcommand(
        "write an assignment for nbgrader, otter or Gradescope",
        "interop.export_command", "add_options", "export",
    ),
    "hand-in": Subcommand(
        "put a student's notebooks into one zip file",
        "hand_in", "add_options", "hand_in",
    ),
}  # fmt: skip


def load(name: str, module: str) -> Callable[..., Any]:
    """Return a function of a module of `edutorch.classroom`."""
    return getattr(import_module(f"edutorch.classroom.{module}"), name)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command: those of a subcommand are read by its own parser."""
    width = max(map(len, SUBCOMMANDS))
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(
        f"  {name:{width}}  {subcommand.help}" for name, subcommand in SUBCOMMANDS.items()
    )
    parser.add_argument("subcommand", metavar="SUBCOMMAND", choices=SUBCOMMANDS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="SUBCOMMAND --help lists them")


def classroom(options: argparse.Namespace) -> int:
    """Run a subcommand; return its exit code."""
    subcommand = SUBCOMMANDS[options.subcommand]
    parser = argparse.ArgumentParser(
        prog=f"edutorch classroom {options.subcommand}", description=subcommand.help,
        allow_abbrev=False,
    )  # fmt: skip
    load(subcommand.options, subcommand.module)(parser)
    return load(subcommand.run, subcommand.module)(parser.parse_args(options.arguments))
