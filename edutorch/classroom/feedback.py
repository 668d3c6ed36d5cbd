"""What a student of a class is told about each exercise, and what not.

The cases that decide about points are hidden. Of them a student learns how many were right, the
points, and the fixed sentence of a hint: nothing that was computed from their inputs. Not even the
message of an error, as the student's code may have put the inputs into it.

All else comes from the example cases: those of a seed that is the same for every class, so that it
says nothing about a run's. They are answered by a process that has not seen a hidden case yet. Of
them inputs, answers and errors are shown, and the graph; `edutorch.check` with that seed
shows the same. The solution is never shown.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .attempt import Attempt
from .comparison import elements, text_of, type_name
from .exercise import Exercise
from .grading import Advice, Ask, Outcome, grade, grade_cases, right_cases
from .marked_graph import caption_of, compare_boxes, text_of_object

MOST_CODE = 20_000
"""Of a longer cell, only so many characters are shown."""

LONGEST_TEXT = 400
"""Of a sentence or an input; the student's code may have written it."""

ENDINGS = re.compile(
    r"TimeoutError: the code did not answer in time"
    r"|(MemoryError|BlockingIOError): the code used more (memory|processes) than it may"
    r"|SystemExit: the code (closed its connection to the grader|ended its process)"
    r"|SystemError: the code crashed its process \(signal \d{1,2}\)"
)
"""What the grader says of a process that has ended; a student's error may say it, too."""

OTHERS = "right for the example cases, but not for all others: which inputs are special?"
OTHER_ERROR = "right for the example cases, but your code raises an error for others"


class Example(NamedTuple):
    """One example case: what it was, and what the student's code made of it.

    Attributes:
        seed: for `edutorch.check`, which then shows this case.
        inputs: a line for each.
        mark: the op or leaf that the sentence is about.
        captions: of the answer and of the marked box, what was expected and what came.
    """

    seed: int
    inputs: tuple[str, ...]
    attempt: Attempt
    mark: str
    captions: tuple[str, ...]


class ExerciseFeedback(NamedTuple):
    """What a student is told about one exercise.

    Attributes:
        code: the student's cell.
        sentence: the hint, or why it could not be graded; "" if it is right.
        example: None where it is right, or no process could answer.
    """

    exercise: type[Exercise]
    points: float
    passed: int = 0
    total: int = 0
    code: str = ""
    sentence: str = ""
    example: Example | None = None

    @property
    def is_right(self) -> bool:
        return self.total > 0 and self.passed == self.total


def example_seed(id: str) -> int:
    """Return the seed of an exercise's example cases.

    It depends on the id alone: from a seed that came of a run's, that could be searched for.

    >>> from edutorch.classroom.feedback import example_seed
    >>> example_seed("02.softmax")
    1679251081
    """
    return int.from_bytes(hashlib.sha256(f"example:{id}".encode()).digest()[:4], "big")


def has_ended(outcome: Outcome) -> bool:
    """Return whether the student's process has ended: another one would not answer, either.

    With a line of code it is an error of the student's, which may say what it likes.
    """
    attempt = outcome.attempt
    return not attempt.line and ENDINGS.fullmatch(attempt.error) is not None


def first_example(
    exercise: type[Exercise], ask: Ask, values: Mapping[str, Any] | None = None
) -> Outcome:
    """Ask for the answer to the first example case alone.

    Args:
        values: of this student, where each has values of his or her own.
    """
    seed = example_seed(exercise.id)
    cases = (
        shared_examples(exercise, seed) if values is None else right_cases(exercise, seed, values)
    )
    return grade_cases(exercise, ask, cases[:1])


def all_examples(
    exercise: type[Exercise], ask: Ask, values: Mapping[str, Any] | None = None
) -> Outcome:
    return grade(exercise, ask, example_seed(exercise.id), values)


shared_examples = functools.lru_cache(256)(right_cases)
"""The example cases and what is right: worked out once."""


def feedback_on(outcome: Outcome, code: str, examples: Outcome) -> ExerciseFeedback:
    """Return what a student is told about a graded exercise.

    Args:
        outcome: of the hidden cases.
        code: the student's cell.
        examples: of example cases, by a process that had seen no hidden case.
    """
    exercise, attempt = outcome.exercise, examples.attempt
    feedback = ExerciseFeedback(exercise, outcome.points, outcome.passed, outcome.total, code)
    if outcome.is_right:
        return feedback
    if has_ended(outcome):
        return feedback._replace(sentence=outcome.advice[0].text)
    advice = advice_to_show(outcome, examples)
    captions = filter(None, (caption_of(attempt), compare(exercise, attempt, advice.mark)))
    inputs = tuple(describe_input(name, value) for name, value in attempt.case.items())
    shown = tuple(caption[:LONGEST_TEXT] for caption in captions)
    example = Example(example_seed(exercise.id), inputs, attempt, advice.mark, shown)
    return feedback._replace(sentence=advice.text[:LONGEST_TEXT], example=example)


def advice_to_show(outcome: Outcome, examples: Outcome) -> Advice:
    """Return the sentence for the hidden cases if it is a fixed one, else that for examples."""
    first = outcome.advice[0]
    if first.index is not None or outcome.attempt.forbidden:
        return first
    if examples.advice:
        return examples.advice[0]
    return Advice(OTHER_ERROR if outcome.attempt.error else OTHERS)


def compare(exercise: type[Exercise], attempt: Attempt, mark: str) -> str:
    return "" if attempt.error else compare_boxes(exercise, attempt, mark)


def describe_input(name: str, value: Any) -> str:
    """Return an input of an example on one line.

    >>> from edutorch.classroom.feedback import describe_input
    >>> import numpy
    >>> describe_input("x", numpy.array([1.0, 2.0]))
    'x = [1, 2]  (2 float64)'
    """
    if type_name(value) in ("Tensor", "array"):
        array = elements(value)
        shape = "×".join(map(str, array.shape)) or "scalar"
        return f"{name} = {text_of(array)}  ({shape} {array.dtype.name})"
    if isinstance(value, Mapping):
        return f"{name} = {', '.join(map(str, value))}"[:LONGEST_TEXT]
    text = text_of_object(value)
    return f"{name} = {text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + '…'}"


def shortened(code: str) -> str:
    """Return a cell's code for a page: without what no page can hold, and not too long."""
    code = code.replace("\r\n", "\n").replace("\r", "\n").expandtabs(4).rstrip("\n")
    code = (
        code
        if len(code) <= MOST_CODE
        else f"{code[:MOST_CODE]}\n… and {len(code) - MOST_CODE:,} more characters"
    )
    return clean(code)


def clean(text: str) -> str:
    """Return text without what a page cannot hold, or a terminal would obey."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "�" for letter in text)
