"""Indices of 64 bits where NumPy's have 32, as in a browser tab."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from edutorch.backends import index_width

VALUES = np.array([3.0, 1.0, 2.0, 0.0])
CALLS = {
    "arange": (3,),
    "argmax": (VALUES,),
    "argmin": (VALUES, 0),
    "argpartition": (VALUES, 1),
    "argsort": (VALUES,),
    "argwhere": (VALUES,),
    "bincount": ([0, 2, 2],),
    "count_nonzero": (VALUES, 0),
    "digitize": (VALUES, [0.5, 1.5]),
    "flatnonzero": (VALUES,),
    "lexsort": ((VALUES,),),
    "nonzero": (VALUES,),
    "searchsorted": ([0.5, 1.5], VALUES),
    "tril_indices": (3,),
    "triu_indices": (3,),
}


@pytest.fixture
def narrow(monkeypatch):
    """NumPy as in a browser tab: positions are int32, and nothing else is accepted as such."""

    def in_32_bits(function, place):
        def call(*arguments, **settings):
            if place is not None and arguments[place].dtype != np.int32:
                raise TypeError("Cannot cast array data from dtype('int64') to dtype('int32')")
            result = function(*arguments, **settings)
            if isinstance(result, tuple):
                return tuple(part.astype(np.int32) for part in result)
            is_index = getattr(result, "dtype", None) == np.int64
            return result.astype(np.int32) if is_index else result

        return call

    names = {*index_width.TAKES, *index_width.GIVES}
    functions = {name: in_32_bits(getattr(np, name), index_width.TAKES.get(name)) for name in names}
    numpy = SimpleNamespace(**vars(np) | functions | {"intp": np.int32, "fft": np.fft})
    monkeypatch.setattr(index_width, "np", numpy)
    return index_width.numpy_with_64_bit_indices()


def test_on_a_computer_nothing_is_changed():
    assert index_width.numpy_with_64_bit_indices() is np


def test_every_function_has_a_call():
    assert set(CALLS) == set(index_width.GIVES)


@pytest.mark.parametrize("name", CALLS)
def test_positions_are_int64(name, narrow):
    result = getattr(narrow, name)(*CALLS[name])
    expected = getattr(np, name)(*CALLS[name])
    for part in result if isinstance(result, tuple) else (result,):
        assert part.dtype == np.int64
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_positions_of_any_type_are_taken(dtype, narrow):
    index = np.array([2, 0, 1], dtype)
    np.testing.assert_array_equal(narrow.take(VALUES, index, axis=0), VALUES[[2, 0, 1]])
    np.testing.assert_array_equal(narrow.repeat(VALUES[:3], index), [3.0, 3.0, 2.0])
    np.testing.assert_array_equal(narrow.bincount(index, minlength=4), [1, 1, 1, 0])
    assert narrow.take(VALUES, [0]).dtype == VALUES.dtype, "values keep their type"


def test_a_count_is_int64(narrow):
    assert narrow.count_nonzero(VALUES) == 3
    assert narrow.count_nonzero(VALUES).dtype == np.int64


def test_everything_else_is_numpys(narrow):
    assert narrow.fft is np.fft and narrow.float32 is np.float32
    with pytest.raises(AttributeError):
        narrow.no_such_function  # noqa: B018


def test_a_type_that_was_asked_for_is_kept(narrow):
    assert narrow.arange(3, dtype=np.int32).dtype == np.int32
    assert narrow.arange(3.0).dtype == np.float64


def test_what_is_no_position_is_left_to_numpy(narrow):
    with pytest.raises(TypeError, match="Cannot cast"):
        narrow.take(VALUES, [0.5])
