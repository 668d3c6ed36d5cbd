"""Helpers of captures for arrays and simple values."""

from __future__ import annotations

import numpy as np
import pytest

from edutorch.fx.captured_state import is_unchanged
from edutorch.fx.traced_array import memory_layout

FLAT = np.arange(24.0)
WHOLE = FLAT.reshape(4, 6)
PARTS = {
    "all": (WHOLE, WHOLE, 0), "transposed": (WHOLE, WHOLE.T, 0),
    "rows upside down": (WHOLE, WHOLE[::-1], 3 * 48),
    "both axes backwards": (WHOLE, WHOLE[1:, ::-2], 48 + 5 * 8),
    "the last elements": (WHOLE, WHOLE[3:, 4:], 3 * 48 + 4 * 8),
    "before it": (WHOLE[1:3], WHOLE, None), "past its end": (WHOLE[:2], WHOLE[1:], None),
    "backwards out of it": (WHOLE[2:], WHOLE[2::-1], None),
    "one element before it": (FLAT[1:5], FLAT[:3], None),
    "one element past its end": (FLAT[:5], FLAT[3:6], None),
    "backwards, one element before it": (FLAT[1:5], FLAT[2::-1], None),
    "backwards, up to its ends": (FLAT[1:5], FLAT[4:0:-1], 3 * 8),
    "with gaps": (WHOLE[:, ::2], WHOLE[:, ::2], None),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_where_a_part_begins_in_an_array(name):
    whole, part, start = PARTS[name]
    assert memory_layout(whole, part)[1] == start


def test_simple_values_are_the_same_by_value_and_type():
    for value, others in (
        (1, (2, 1.0, True)), (1.5, (2.5, 1)), ("a", ("b", b"a")), (None, (0,)),
        ((1, (2.0, "x")), ((1, (2.0, "y")), (1,), [1, (2.0, "x")])),
    ):  # fmt: skip
        again = eval(repr(value))
        assert is_unchanged(again, value)
        assert not any(is_unchanged(other, value) for other in others)
    assert is_unchanged(float("nan"), float("nan"))
