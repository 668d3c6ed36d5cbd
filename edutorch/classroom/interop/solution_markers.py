"""Marks what of a solution the student is to write, in the way that nbgrader knows.

The lines that the starter and the solution have in common, at the start and at the end, stay; what
lies between them is the solution.
"""

from __future__ import annotations

import ast
import itertools

from ..exercise import Exercise

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"


def marked_solution(exercise: type[Exercise]) -> str:
    """Return the cell of an answer with the solution between markers.

    >>> from edutorch.classroom import find_exercise
    >>> from edutorch.classroom.interop.solution_markers import marked_solution
    >>> print(marked_solution(find_exercise("02.product")))
    def gradient_of_B(A, B, C, G):
        ### BEGIN SOLUTION
        return A.T @ G @ C.T
        ### END SOLUTION
    """
    starter, solution = exercise.starter.splitlines(), exercise.solution.splitlines()
    start = common_length(starter, solution)
    end = common_length(starter[start:][::-1], solution[start:][::-1])
    while start < len(solution) and not solution[start].strip():
        start += 1
    # What is left for the student must be Python: the stub may not stand before an indented line.
    for first, last in [*((start, end - less) for less in range(end + 1)), (0, 0)]:
        before, after = solution[:first], solution[len(solution) - last :]
        middle = solution[first : len(solution) - last]
        if middle and is_python([*before, indent_of(middle) + "raise", *after]):
            break
    indent = indent_of(middle)
    return "\n".join([*before, indent + BEGIN, *middle, indent + END, *after])


def indent_of(lines: list[str]) -> str:
    """Return the smallest indent of some lines."""
    return " " * min(len(line) - len(line.lstrip()) for line in lines if line.strip())


def is_python(lines: list[str]) -> bool:
    try:
        ast.parse("\n".join(lines))
    except SyntaxError:
        return False
    return True


def common_length(lines: list[str], others: list[str]) -> int:
    """Return how many lines two lists have in common at their start."""
    pairs = zip(lines, others, strict=False)
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
