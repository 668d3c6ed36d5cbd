"""`%%live` at the head of a notebook cell: its loop is shown while it runs."""

from __future__ import annotations

import argparse
import ast
import shlex
import sys
from types import SimpleNamespace
from typing import Any, NoReturn

from ..errors import EdutorchError
from .graph.names import NotAModelError
from .live.interpreter import watch_cells
from .live.view import View


class MagicError(EdutorchError, ValueError):
    """`%%live` was given something that it does not know."""


class Options(argparse.ArgumentParser):
    """Parses the rest of the line; a mistake becomes an error and does not end Python."""

    def error(self, message: str) -> NoReturn:
        raise MagicError("%%live", message, hint=self.format_usage().strip())


def make_parser() -> Options:
    """Return the parser of the line: `%%live [models] [--speed N] [--keep] [--top-to-bottom]`."""
    options = Options(prog="%%live", add_help=False)
    options.add_argument("models", nargs="*", help="variables; without one, those that run")
    options.add_argument("--speed", type=float, default=None, help="steps per second")
    options.add_argument("--keep", action="store_true", help="leave the widget in the page")
    options.add_argument("--top-to-bottom", action="store_true", help="draw it downwards")
    return options


def live_magic(line: str, cell: str) -> Any:
    """Run a cell and show its training loop: `%%live model --speed 5`.

    Args:
        line: names of models (without one, those that run in the cell are used), `--speed N`
            steps per second, `--keep` the widget at the end, draw `--top-to-bottom`.
        cell: plain Python. For an asynchronous loop use `async with viz.live(model)` instead.

    Raises: MagicError, and whatever the cell raises.
    """
    options = make_parser().parse_args(shlex.split(line))
    shell = sys.modules["IPython"].get_ipython()
    space: dict[str, Any] = shell.user_ns
    models = []
    for name in options.models:
        if name not in space:
            raise MagicError(
                "%%live", f"there is no variable called {name!r}",
                hint="name a model of this notebook, or none: then those that run are found",
            )  # fmt: skip
        if not hasattr(space[name], "named_modules"):
            type_name = type(space[name]).__name__
            raise NotAModelError("%%live", f"{name} is not a module but of type {type_name}")
        models.append(space[name])
    # Names are looked up as in the frame of a function.
    frame: Any = SimpleNamespace(f_locals=space, f_globals=space)
    down = "TB" if options.top_to_bottom else None
    # Compiled before the view opens: a syntax error must not leave an empty widget.
    body, last = compile_cell(shell, cell)
    with View(tuple(models), frame, options.speed, options.keep, down):
        # In the notebook's own namespace, so the variables stay.
        exec(body, space)
        return eval(last, space) if last is not None else None


def compile_cell(shell: Any, cell: str) -> tuple[Any, Any]:
    """Compile a cell as IPython does: all of it but the value at its end, and that value."""
    tree = ast.parse(shell.transform_cell(cell))
    name = shell.compile.cache(cell, shell.execution_count, raw_code=cell)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not cell.rstrip().endswith(";"):
        last = compile(ast.Expression(tree.body.pop().value), name, "eval")  # type: ignore[attr-defined]
    return compile(tree, name, "exec"), last


def load_ipython_extension(shell: Any) -> None:
    """Register `%%live` on `%load_ext edutorch`."""
    shell.register_magic_function(live_magic, "cell", "live")


def register() -> None:
    """Register `%%live` if IPython is running already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        load_ipython_extension(shell)
        watch_cells(shell)
