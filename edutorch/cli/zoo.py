"""`python -m edutorch zoo`: lists the models that come with edutorch, and draws them."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..backends.device import device
from ..errors import InvalidValueError
from ..zoo.catalogue import Entry, find_model, list_entries
from ..zoo.figures import Figures, build_to_measure, measure, read_figures

SUFFIXES = (".svg", ".png", ".html", ".dot")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `zoo`."""
    parser.add_argument("name", nargs="?", metavar="MODEL", help="show one model: its parts")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path,
                        help="draw the model: FILE.svg, .png, .html, .dot")  # fmt: skip


def zoo(options: argparse.Namespace) -> int:
    """List the models, or show one.

    Raises: InvalidValueError: there is no such model, or no such format of a picture.
    """
    if options.name is None:
        if options.output:
            raise InvalidValueError(
                "zoo", "which model is to be drawn?", hint="zoo resnet18 -o FILE"
            )
        print_list()
        return 0
    entry = find_model(options.name)
    if options.output and options.output.suffix not in SUFFIXES:
        raise InvalidValueError(
            "zoo", f"{options.output.suffix or str(options.output)!r} is no format of a picture",
            hint=f"the name ends in one of {', '.join(SUFFIXES)}",
        )  # fmt: skip
    print_model(entry)
    if options.output:
        draw_model(entry, options.output)
        print(f"drawn: {options.output}")
    return 0


def print_list() -> None:
    """Print a line for each model."""
    figures = read_figures()
    entries = list_entries()
    width = max(len(entry.name) for entry in entries)
    sizes = f"{'parameters':>10}  {'memory':>9}  {'FLOPs':>9}"
    print(f"{'model':<{width}}  {sizes}  {'error':>7}  compared with")
    room = ""
    for entry in entries:
        if entry.room != room:
            room = entry.room
            print(f"edutorch.{room}")
        print(f"{entry.name:<{width}}  {describe(entry, figures[entry.name])}".rstrip())
    print("error: the largest difference of the outputs, relative to the largest output;")
    print("where there is none, only names and shapes of the weights have been compared")


def describe(entry: Entry, figures: Figures) -> str:
    parameters, memory = figures.parameters / 1e6, figures.memory / 1e6
    error = "" if figures.error is None else f"{figures.error:.1e}"
    return (
        f"{parameters:>8.2f} M  {memory:>6.1f} MB  {figures.flops / 1e9:>7.2f} G  {error:>7}  "
        f"{entry.oracle or entry.trained}"
    )


def print_model(entry: Entry) -> None:
    """Print the parts of a model, with the parameters of each."""
    error = read_figures()[entry.name].error
    print(f"{entry.name}  {describe(entry, measure(entry)._replace(error=error))}\n")
    for name, part in build_to_measure(entry).named_children():
        count = sum(parameter.numel() for parameter in part.parameters())
        print(f"  {name:<20}{type(part).__name__:<24}{count:>12,} parameters")


def draw_model(entry: Entry, path: Path) -> None:
    """Write a picture of the model, folded by its modules."""
    from .. import viz

    with device("cpu"):
        model = entry.build().eval()
        viz.draw(model, entry.example()).save(path)
