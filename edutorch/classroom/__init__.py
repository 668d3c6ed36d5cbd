"""Exercises: what they are, and how an answer is checked.

    edutorch.check("02.softmax")        # in the notebook, after the cell with the answer

`exercise.py` says what an exercise is; the blocks of the course are in `specs/`.
"""

from .exercise import EXERCISES, Exercise, Hint, Mutant, SpecError, find_exercise, load_exercises
from .hand_in import write_hand_in
from .notebook import Feedback, check
from .own_values import values_of

__all__ = [
    "EXERCISES", "Exercise", "Feedback", "Hint", "Mutant", "SpecError", "check", "find_exercise",
    "load_exercises", "values_of", "write_hand_in",
]  # fmt: skip
