"""The launcher of programs that run in several processes, with the options of torchrun."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> None:
    """Run the launcher; the process ends with the exit code of the program.

    Args: args: by default those of the command line.
    """
    from .agent import launch
    from .options import parse

    raise SystemExit(launch(parse(args)))
