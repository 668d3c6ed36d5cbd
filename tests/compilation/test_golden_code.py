"""What is written for a program stays as it was: fused so, in this memory, with these kernels."""

from __future__ import annotations

import difflib

import pytest

from tests import golden_code

pytest.importorskip("numba", reason="needs numba: the extra `fast`")


@pytest.mark.parametrize("name", [*golden_code.GRAPHS, *golden_code.PROGRAMS])
def test_the_code_of_a_program(name):
    """Where it should change: `python -m tests.golden_code`, and read what `git diff` says."""
    kept = golden_code.path_of(name).read_text(encoding="utf-8")
    lines = difflib.unified_diff(kept.splitlines(), golden_code.text_of(name).splitlines(), n=1)
    differences = list(lines)
    assert not differences, "\n".join(differences[:20])
