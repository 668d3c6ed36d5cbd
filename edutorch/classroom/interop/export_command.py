"""`python -m edutorch classroom export`: an assignment for nbgrader, otter or Gradescope."""

from __future__ import annotations

import argparse
import secrets
from pathlib import Path

import edutorch

from ...errors import EdutorchError
from .gradescope import VISIBILITIES


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add a command for each grader."""
    graders = parser.add_subparsers(dest="grader", required=True, metavar="GRADER")
    nbgrader = graders.add_parser("nbgrader", help="source and release notebooks")
    otter = graders.add_parser("otter", help="notebooks, tests and autograders for otter-grader 7")
    gradescope = graders.add_parser("gradescope", help="an autograder that runs our grader")
    for command in (nbgrader, otter, gradescope):
        command.add_argument("notebooks", metavar="NOTEBOOK", nargs="+", type=Path)
        command.add_argument("--only", action="append", metavar="EXERCISE", help="may be repeated")
        command.add_argument("--out", type=Path, metavar="PATH", required=command is gradescope,
                             help="a folder (the zip file, for Gradescope)")  # fmt: skip
    for command in (nbgrader, otter):
        command.add_argument("--assignment", metavar="NAME",
                             help="by default the name of the first notebook")  # fmt: skip
    for command in (otter, gradescope):
        command.add_argument("--install", metavar="REQUIREMENT",
                             help="what pip installs to have edutorch: a requirement, or, for "
                             "Gradescope, a wheel")  # fmt: skip
    otter.add_argument("--seed", type=int, help="draws the inputs of the hidden tests")
    gradescope.add_argument("--visibility", choices=VISIBILITIES, default="visible",
                            help="when students see the results of the tests")  # fmt: skip


def export(options: argparse.Namespace) -> int:
    """Write the files of an assignment, and print where they are."""
    from . import gradescope, lessons, nbgrader, otter

    chosen = lessons.read_lessons(options.notebooks, options.only)
    out, left = options.out or Path("."), ""
    if options.grader == "gradescope":
        install = options.install or own_requirement()
        written = [gradescope.export_gradescope(chosen, out, install, options.visibility)]
    else:
        assignment = chosen[0].name if options.assignment is None else options.assignment
        if options.grader == "nbgrader":
            written = nbgrader.export_nbgrader(chosen, assignment, out)
        else:
            seed = secrets.randbits(32) if options.seed is None else options.seed
            install = options.install or own_requirement()
            if install.endswith(".whl"):
                raise EdutorchError("export", "--install takes no wheel for otter",
                                    hint="give a requirement of pip, as an address")  # fmt: skip
            written, left = otter.export_otter(chosen, assignment, out, install, seed)
    points = sum(lesson.points for lesson in chosen)
    exercises = sum(len(lesson.exercises) for lesson in chosen)
    print(f"{len(chosen)} notebooks, {exercises} exercises, {points:g} points:")
    print("\n".join(map(str, written)))
    if left:
        print(left)
    return 0


def own_requirement() -> str:
    """Return this version of edutorch as pip names it."""
    return f"edutorch[classroom]=={edutorch.__version__}"
