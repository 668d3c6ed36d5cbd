"""Runs the examples of a docstring, and records the ops that they run."""

from __future__ import annotations

import doctest
import math
import sys
import warnings
from dataclasses import dataclass, field
from typing import Any

import edutorch
from edutorch.errors import MissingExtraError
from edutorch.events import listening

from .picture import Sketch


@dataclass
class Outcome:
    """What the examples of one docstring printed: lines as in a Python session.

    Attributes:
        is_unchecked: an optional package is not installed, so what the docstring says is shown.
    """

    sketch: Sketch
    session: str = ""
    is_unchecked: bool = False
    wrong: list[str] = field(default_factory=list)


class _Runner(doctest.DocTestRunner):
    """Records what each example printed."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(optionflags=doctest.ELLIPSIS, verbose=False)
        self.outcome = outcome

    def report_start(self, out: Any, test: Any, example: doctest.Example) -> None:
        pass

    def report_success(self, out: Any, test: Any, example: doctest.Example, got: str) -> None:
        # A traceback would show the files of the machine that built the page.
        raised = example.exc_msg is not None
        random = "..." in example.want and "..." not in got
        self._note(example, example.want if raised or random else got)

    def report_failure(self, out: Any, test: Any, example: doctest.Example, got: str) -> None:
        if self.outcome.is_unchecked:
            return self._note(example, example.want)
        self.outcome.wrong.append(
            f"{test.name}: {example.source.strip()} gives\n{got}where the docstring says\n"
            f"{example.want}"
        )
        self._note(example, got)

    def report_unexpected_exception(
        self, out: Any, test: Any, example: doctest.Example, exc_info: Any
    ) -> None:
        if isinstance(exc_info[1], MissingExtraError):
            self.outcome.is_unchecked = True
        if self.outcome.is_unchecked:  # what follows lacks the variables
            return self._note(example, example.want)
        self.outcome.wrong.append(f"{test.name}: {example.source.strip()} raises {exc_info[1]!r}")
        self._note(example, "")

    def _note(self, example: doctest.Example, printed: str) -> None:
        first, *others = example.source.rstrip("\n").split("\n")
        lines = [f">>> {first}", *(f"... {line}" for line in others), *printed.splitlines()]
        self.outcome.session += "\n".join(line.rstrip() for line in lines) + "\n"


class _Watcher(doctest.DocTestRunner):
    """Runs examples for the ops that they run: what they print was looked at before."""

    def __init__(self, sketch: Sketch) -> None:
        super().__init__(verbose=False)
        self.sketch = sketch

    def report_start(self, out: Any, test: Any, example: doctest.Example) -> None:
        self.sketch.begin(example.source, test.globs)

    def report_failure(self, *args: Any) -> None:
        pass

    report_success = report_unexpected_exception = report_failure


def scope_of(module: str) -> dict[str, Any]:
    """Return the names an example may use: those of edutorch and of its file."""
    names = {name: getattr(edutorch, name) for name in edutorch.__dict__ if name[0] != "_"}
    names |= {"float": float, "int": int, "bool": bool, "edutorch": edutorch, "math": math}
    return {**vars(sys.modules[module]), **names, "range": range}


def run(name: str, doc: str, module: str, short: str) -> Outcome:
    """Run the examples in `doc` and return what they printed and which ops they ran.

    They run twice: with a listener, ops take another path, and a page shows the usual one.

    Args:
        short: the function's name as the examples write it.
    """
    parser, sketch = doctest.DocTestParser(), Sketch(short)
    outcome = Outcome(sketch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a page does not show them
        test = parser.get_doctest(doc, scope_of(module), name, None, None)
        if test.examples:
            edutorch.manual_seed(0)
            _Runner(outcome).run(test, out=str)
            again = parser.get_doctest(doc, scope_of(module), name, None, None)
            edutorch.manual_seed(0)
            with listening(sketch):
                _Watcher(sketch).run(again, out=str, clear_globs=False)
            sketch.end(again.globs)
    return outcome
