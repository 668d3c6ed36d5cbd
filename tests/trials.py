"""Many trials in one test: all of them run, and each one that fails is named.

    @tried("dtype", TYPES)
    def test_something(dtype): ...

is `pytest.mark.parametrize` within one test: to keep thousands of tests apart costs more time
than they take themselves. What says how a trial differs from its neighbours stays a parameter of
the test only where somebody wants to run it alone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Any

import pytest

import edutorch


class Failures(BaseExceptionGroup):
    """What went wrong in some trials of a test, and the name of each of them."""

    names: list[str]


class Trials:
    """Collects the failures of trials, and raises them together at the end."""

    def __init__(self) -> None:
        self.made = 0
        self.failed: list[tuple[str, BaseException]] = []
        self.skipped: list[str] = []

    def __enter__(self) -> Callable[..., Trial]:
        return lambda *names: Trial(self, ", ".join(names))

    def __exit__(
        self, error_class: Any, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return  # an error between the trials goes its way
        if self.failed:
            names = [name for name, _ in self.failed]
            failures = Failures("; ".join(names), [error_ for _, error_ in self.failed])
            failures.names = names
            raise failures
        if self.skipped:
            pytest.skip(f"{len(self.skipped)} of {self.made} trials: {'; '.join(self.skipped)}")


class Trial:
    """A single trial. It starts from the same random seed, as each test does."""

    def __init__(self, trials: Trials, name: str) -> None:
        self.trials, self.name = trials, name

    def __enter__(self) -> None:
        self.trials.made += 1
        edutorch.manual_seed(0)

    def __exit__(
        self, error_class: Any, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Failures):  # of trials inside of this one
            inner = zip(error.names, error.exceptions, strict=True)
            self.trials.failed += [(f"{self.name}, {name}", error_) for name, error_ in inner]
            return True
        if isinstance(error, Exception | pytest.fail.Exception):
            self.trials.failed.append((self.name, error))
            return True
        if isinstance(error, pytest.skip.Exception):  # which must not hide the other trials
            self.trials.skipped.append(f"{self.name}: {error}")
            return True
        return False  # all went well, or Ctrl-C


def tried(
    names: str,
    values: Collection[Any] | Callable[..., Collection[Any]],
    ids: Callable[[Any], str] = str,
) -> Callable[..., Any]:
    """Call a test with each of `values`, all in one test; each failure is named by its values.

    Args: as for `pytest.mark.parametrize`: one name, or several with a comma between them.
        `values` may be a function of the other arguments of the test.
    """
    keys = names.split(",")
    chosen = values if callable(values) else lambda **_: values

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def each_of_them(**arguments: Any) -> None:
            with Trials() as trial:
                for value in chosen(**arguments):
                    several = value if len(keys) > 1 else (value,)
                    with trial(*map(ids, several)):
                        test(**arguments, **dict(zip(keys, several, strict=True)))

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        each_of_them.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return each_of_them

    return decorate
