"""What an exercise is: one block, from which everything else is made.

`edutorch.check` in a notebook, `python -m edutorch grade` for a class, and the files for other
graders all read this block:

    class SoftmaxGradient(Exercise):
        '''The gradient of softmax and cross entropy.'''

        id = "02.softmax"
        notebook, cell = "02_backprop_by_hand", "cell-37"
        points = 2
        names = ("gradient_of_logits",)

        def cases(rng):
            for size in (2, 5):
                yield {"z": rng.normal(size=size), "target": int(rng.integers(size))}

        def answer(theirs, z, target):
            return theirs.gradient_of_logits(torch.tensor(z), target)

        def right(z, target):
            gradient = torch.softmax(torch.tensor(z), 0)
            gradient[target] -= 1
            return gradient

        hints = (Hint("…", lambda attempt: …, mark="softmax"),)
        mutants = (Mutant("def gradient_of_logits(z, right): …", hint=0),)
        solution = "def gradient_of_logits(z, right): …"

`answer` runs beside the student's code: in the notebook, or in the jail of the grader, which gets
its source. So it may use its arguments, and the names in `NAMESPACE` only. All else stays with the
teacher: `right` never comes near a student's process.

Where each student shall have values of his or her own, `values(rng)` draws them, and `answer` and
`right` get them besides the case (`ByHand` of `specs/nb01_scalar_autograd.py` is an example).
`answer` may use them for the picture only: what it returns is the student's part alone, so that an
answer for somebody else's values can be recognized.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import CodeType, FunctionType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import EdutorchError
from .attempt import Attempt

EXERCISES: dict[str, type[Exercise]] = {}
"""All exercises that have been loaded, by id."""

_collected: ContextVar[list[type[Exercise]] | None] = ContextVar("collected", default=None)
"""Where exercises go that are not of the course, while their file is loaded."""

NAMESPACE = ("torch", "nn", "F", "np", "math")
"""The global names that `answer` may use: edutorch, its layers and functions, NumPy, math."""

PLAIN = (str, bytes, int, float, bool, type(None), np.ndarray)
"""What a case consists of: it is sent to the student's process as data."""


class SpecError(EdutorchError, ValueError):
    """An exercise is not written as it has to be."""


class Hint(NamedTuple):
    """One sentence for a kind of wrong answer.

    Attributes:
        text: what to look at, without the solution.
        when: whether it is right for an attempt. An error in it counts as no.
        mark: the op, or the name of the leaf, that is marked in the picture of the graph.
    """

    text: str
    when: Callable[[Attempt], bool]
    mark: str = ""


class Mutant(NamedTuple):
    """A wrong answer that students give, to test the exercise with.

    Attributes:
        code: what the student writes instead of the solution.
        hint: the index of the hint that should come first; None for the general sentence.
    """

    code: str
    hint: int | None = None


class Exercise:
    """Base class of all exercises; each is a subclass, and is never instantiated.

    Attributes:
        id: "<notebook>.<name>", as in `edutorch.check("02.softmax")`.
        title: one line for lists; by default the docstring.
        notebook, cell: where the student writes the answer: a file name without its suffix, and
            the id of the cell.
        names: what the student defines, and `answer` uses.
        forbid: public functions that the student may not call, as "softmax".
        tolerance: by dtype, if not that of `comparison.TOLERANCES`.
        before: what the student's code needs of the cells above it, as it stands there: run instead
            of them where only this cell is run.
        starter: what stands in the cell before the student writes.
        reads: the names of those that `answer` reads itself, as `theirs.encode`.
        values: draws what each student has for himself or herself, as {"a": 2.3}; None if all have
            the same exercise. `cases`' dicts are completed by them; see `own_values.py`.
        shared_values: those of everybody whose notebook was not made for one student.
        solution_of: the solution for some values; `solution` is that for `shared_values`.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    notebook: ClassVar[str]
    cell: ClassVar[str]
    points: ClassVar[float] = 1
    names: ClassVar[tuple[str, ...]]
    forbid: ClassVar[frozenset[str]] = frozenset()
    tolerance: ClassVar[Mapping[str, float]] = {}
    hints: ClassVar[tuple[Hint, ...]] = ()
    mutants: ClassVar[tuple[Mutant, ...]] = ()
    before: ClassVar[str] = ""
    starter: ClassVar[str] = ""
    reads: ClassVar[tuple[str, ...]] = ()
    solution: ClassVar[str]
    values: ClassVar[Callable[[np.random.Generator], dict[str, Any]] | None] = None
    shared_values: ClassVar[Mapping[str, Any]] = {}
    solution_of: ClassVar[Callable[..., str]]

    cases: ClassVar[Callable[[np.random.Generator], Iterator[dict[str, Any]]]]
    answer: ClassVar[Callable[..., Any]]
    right: ClassVar[Callable[..., Any]]

    def __init_subclass__(cls) -> None:
        for name, value in list(vars(cls).items()):
            if isinstance(value, FunctionType):
                setattr(cls, name, staticmethod(value))
        if "title" not in vars(cls):
            cls.title = inspect.cleandoc(cls.__doc__ or cls.__name__).split("\n")[0].rstrip(".")
        check_spec(cls)
        collected = _collected.get()
        if collected is not None:
            collected.append(cls)
            return
        known = EXERCISES.get(cls.id)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise SpecError(cls.id, f"there are two exercises of this id: {known.title!r}, too")
        EXERCISES[cls.id] = cls

    @classmethod
    def draw_cases(cls, seed: int, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return the cases of a seed.

        Args:
            values: of one student; by default those that all share.

        Raises: SpecError: there is none, or it contains something else than plain data.
        """
        own = cls.shared_values if values is None else values
        drawn = cls.cases(np.random.default_rng(seed))
        cases = [{name: as_int64(case[name]) for name in case} | dict(own) for case in drawn]
        if not cases:
            raise SpecError(cls.id, "`cases` yields nothing", hint="yield at least one dict")
        for case in cases:
            for name, value in case.items():
                check_plain(cls.id, name, value)
        return cases

    @classmethod
    @functools.cache
    def answer_source(cls) -> str:
        """Return the source of `answer`, for the student's process."""
        return textwrap.dedent(inspect.getsource(cls.answer))


def as_int64(value: Any) -> Any:
    """Return an array of NumPy's usual integers as int64: in a browser tab they have 32 bits."""
    is_usual = isinstance(value, np.ndarray | np.integer) and value.dtype == np.dtype(int)
    return value.astype(np.int64, copy=False) if is_usual else value


def check_spec(cls: type[Exercise]) -> None:
    """Refuse a block that lacks something, or whose `answer` would not run by itself."""
    for name in ("id", "notebook", "cell", "names", "cases", "answer", "right", "solution"):
        if not hasattr(cls, name):
            raise SpecError(cls.__name__, f"an exercise needs `{name}`")
    if not re.fullmatch(r"\w+\.\w+", cls.id):
        raise SpecError(cls.id, "an id is like '02.softmax'")
    if cls.values is not None and not (cls.shared_values and hasattr(cls, "solution_of")):
        raise SpecError(
            cls.id, "an exercise with `values` needs `shared_values` and `solution_of`",
            hint="shared_values = {'a': 2.0} and def solution_of(a): return f'…'",
        )  # fmt: skip
    used = global_names(cls.answer.__code__)
    absent = sorted(used & {*NAMESPACE} - cls.answer.__globals__.keys())
    if absent:  # in a notebook it runs as it stands in this module
        raise SpecError(cls.id, f"`answer` uses {', '.join(absent)}: import it above the block")
    others = sorted(used - {*NAMESPACE, *dir(builtins)})
    if others:
        raise SpecError(
            cls.id, f"`answer` uses {', '.join(others)}: it runs in the student's process",
            hint=f"there it has its arguments, and {', '.join(NAMESPACE)}",
        )  # fmt: skip


def global_names(code: CodeType) -> set[str]:
    """Return the global names that a function reads, and those that functions in it read."""
    import dis

    names = {
        instruction.argval for instruction in dis.get_instructions(code)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }  # fmt: skip
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return names.union(*map(global_names, inner))


def check_plain(id: str, name: str, value: Any) -> None:
    """Refuse a part of a case that is not plain data."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            check_plain(id, name, item)
    elif not isinstance(value, PLAIN) or (isinstance(value, np.ndarray) and value.dtype.hasobject):
        raise SpecError(
            id, f"case {name!r} holds a {type(value).__name__}",
            hint="a case consists of arrays, numbers and text; `answer` makes tensors of them",
        )  # fmt: skip


@contextlib.contextmanager
def collect_exercises() -> Iterator[list[type[Exercise]]]:
    """Collect the exercises that are defined meanwhile, in place of adding them to `EXERCISES`."""
    collected: list[type[Exercise]] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def load_exercises() -> dict[str, type[Exercise]]:
    """Import the exercises of all notebooks of the course, and return them by id."""
    from . import specs

    for module in pkgutil.iter_modules(specs.__path__):
        importlib.import_module(f"{specs.__name__}.{module.name}")
    return EXERCISES


def find_exercise(id: str, known: Mapping[str, type[Exercise]] | None = None) -> type[Exercise]:
    """Return an exercise by its id.

    Args:
        known: where to look; by default, the exercises of the course.

    Raises: SpecError: there is none, with the nearest ids.
    """
    import difflib

    if known is None:
        known = EXERCISES if id in EXERCISES else load_exercises()
    if id not in known:
        near = difflib.get_close_matches(id, known, 3, 0.4) or sorted(known)[:3]
        raise SpecError("check", f"there is no exercise {id!r}", hint=f"try {', '.join(near)}")
    return known[id]
