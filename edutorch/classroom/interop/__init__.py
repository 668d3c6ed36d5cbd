"""Files for other graders and learning platforms, made from the same exercises.

    python -m edutorch classroom export nbgrader notebooks/02_backprop_by_hand.ipynb
    python -m edutorch grade export --canvas gradebook.csv

`assert_right` is what the test cells of nbgrader and the test files of otter call.
"""

from .right_answers import assert_right

__all__ = ["assert_right"]
