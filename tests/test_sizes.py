"""`utils.small`: one value in a browser tab, another on a computer."""

from __future__ import annotations

import pytest

from edutorch.utils import sizes, small


@pytest.mark.parametrize(
    ("is_browser", "variable", "expected"),
    [
        (False, None, 900),
        (True, None, 150),
        (False, "1", 150),
        (True, "0", 900),
        (False, "0", 900),
        (True, "1", 150),
        (True, "", 150),  # as if it was not set
        (False, "", 900),
        (True, "yes", 900),  # nothing but 1 is small
    ],
)
def test_the_variable_decides_and_else_the_platform(is_browser, variable, expected, monkeypatch):
    monkeypatch.setattr(sizes, "IS_BROWSER", is_browser)
    monkeypatch.delenv("EDUTORCH_SMALL", raising=False)
    if variable is not None:
        monkeypatch.setenv("EDUTORCH_SMALL", variable)
    assert small(150, otherwise=900) == expected


def test_any_two_values_can_be_given(monkeypatch):
    monkeypatch.setenv("EDUTORCH_SMALL", "1")
    assert small((1, "a"), otherwise=(2, "b")) == (1, "a")
    with pytest.raises(TypeError):
        small(1, 2)
