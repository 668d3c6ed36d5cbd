"""A function that is not compiled says so once, and why."""

from __future__ import annotations

import warnings

import pytest

import edutorch
from edutorch.compilation import pipeline
from edutorch.compilation.xla import XlaError


def twice(x):
    return (x * 2).sin()


def said(compiled, x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = [compiled(x) for _ in range(4)]
    assert all(bool((y == twice(x)).all()) for y in results)
    return [str(warning.message) for warning in caught]


def test_tensors_without_elements():
    compiled = edutorch.compile(twice)
    with pytest.warns(UserWarning, match="runs as it is written") as warned:
        assert compiled(edutorch.ones(3, device="meta")).shape == (3,)
    assert str(warned[0].message) == (
        "compile: twice runs as it is written, not compiled: a tensor is on the device meta, which "
        "has no elements"
    )
    assert said(compiled, edutorch.ones(3)) == []
    assert "a tensor is on the device meta" in compiled.explain()


def test_what_xla_has_not(monkeypatch):
    def lowered(graph, options):
        def run(arrays):
            raise XlaError("compile", "`sin` cannot be run by XLA: no such function")

        return run

    monkeypatch.setitem(pipeline.BACKENDS, "jax", lowered)
    monkeypatch.setattr(pipeline, "require_jax", lambda: None)
    (text,) = said(edutorch.compile(twice, backend="jax"), edutorch.ones(3))
    assert text.startswith("compile: twice runs as it is written, not compiled: its compiled")
    assert "`sin` cannot be run by XLA" in text


def test_a_mistake_of_the_caller_is_no_such_case():
    compiled = edutorch.compile(lambda x, y: x @ y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(edutorch.ones(2, 3), edutorch.ones(3, 2))
        with pytest.raises(RuntimeError, match="matmul"):
            compiled(edutorch.ones(2, 3), edutorch.ones(2, 3))


def test_one_way_that_cannot_be_compiled_leaves_the_others():
    def function(x, whole):
        return x * x.sum().item() if whole else x * 2

    compiled = edutorch.compile(function)
    x = edutorch.ones(3)
    with pytest.warns(UserWarning, match=r"with \.item\(\)"):
        assert compiled(x, True).tolist() == [3.0] * 3
    for _ in range(2):
        assert compiled(x, False).tolist() == [2.0] * 3
        assert compiled(x * 2, True).tolist() == [12.0] * 3
    assert not compiled.given_up and len(compiled.entries) == 2
    assert sorted(bool(entry.reasons) for entry in compiled.entries) == [False, True]
