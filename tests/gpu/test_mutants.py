"""Mutants of the CUDA kernels are caught: here a sample, in the long run all of them."""

from __future__ import annotations

import pytest

from tests.gpu.fibers import has_compiler
from tests.gpu.mutants import CHECKS, is_caught, mutants_of, sample, survivors_with_reasons

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")


def test_every_file_has_mutants_of_every_kind() -> None:
    for file in CHECKS:
        operators = {mutant.operator for mutant in mutants_of(file)}
        assert {"bound", "index"} <= operators, file
    assert {m.operator for m in mutants_of(next(iter(CHECKS)))} >= {"barrier", "shuffle"}


def test_survivors_in_the_table_exist() -> None:
    names = {mutant.name for file in CHECKS for mutant in mutants_of(file)}
    known = survivors_with_reasons()
    assert set(known) <= names
    assert len(known) <= 0.05 * len(names)
    assert all(len(reason) > 20 for reason in known.values())


def test_a_sample_is_caught() -> None:
    known = survivors_with_reasons()
    alive = [mutant.name for mutant in sample(10) if not is_caught(mutant)]
    assert [name for name in alive if name not in known] == []
