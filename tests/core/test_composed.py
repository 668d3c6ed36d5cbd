"""The public forms of composed functions: the generated path does what the general one does."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

import edutorch
from edutorch.core.composed import composition_of, takes_out
from edutorch.errors import ArgumentError
from tests.trials import tried

F = edutorch.nn.functional
X = edutorch.arange(24.0).reshape(1, 2, 3, 4) - 10

CALLS = {
    "pad": (F.pad, ((X, (1, 2)), {"value": 3.0})),
    "avg_pool2d": (F.avg_pool2d, ((X, 2), {"stride": 1})),
    "normalize": (F.normalize, ((X,), {"dim": 2})),
    "std": (edutorch.std, ((X, 1), {"correction": 0})),
    "logsigmoid": (F.logsigmoid, ((X,), {})),
    "batch_norm": (F.batch_norm, ((X, None, None), {"training": True})),
    "embedding": (F.embedding, ((edutorch.tensor([1, 0]), X[0, 0]), {})),
}


@tried("name", CALLS)
def test_both_paths_return_the_same(name):
    function, (args, named) = CALLS[name]
    composition = composition_of(function)
    generated = function(*args, **named)
    assert "COMPOSITION.call" in composition.source
    general = composition.call(args, dict(named))
    assert generated.tolist() == general.tolist()
    recorded = [
        call(*(a.clone().requires_grad_() if a is X else a for a in args), **named).grad_fn
        for call in (function, lambda *args, **named: composition.call(args, dict(named)))
    ]
    assert type(recorded[0]) is type(recorded[1])


WRONG = {
    "a keyword": ((X, (1, 1)), {"mod": "constant"}),
    "too many": ((X, (1, 1), "constant", 0.0, 1), {}),
    "none": ((), {}),
    "one of them": ((), {"pad": (1, 1)}),
    "a class": ((X, (1, 1)), {"value": "0"}),
    "no tensor": ((None, (1, 1)), {}),
    "an odd number": ((X, (1,)), {}),
}


@tried("what", WRONG)
def test_both_paths_raise_the_same(what):
    args, named = WRONG[what]
    with pytest.raises((ArgumentError, ValueError)) as generated:
        F.pad(*args, **named)
    with pytest.raises((ArgumentError, ValueError)) as general:
        composition_of(F.pad).call(args, dict(named))
    assert type(generated.value) is type(general.value)
    assert str(generated.value) == str(general.value)


def test_unusual_arguments_take_the_general_path():
    assert F.avg_pool2d(X, np.int64(2)).tolist() == F.avg_pool2d(X, 2).tolist()
    assert edutorch.std(X, axis=1, keepdims=True).shape == (1, 1, 3, 4)
    y = edutorch.empty(1, 2, 1, 2)
    assert F.avg_pool2d(X, 2, out=y) is y
    with edutorch.autocast("cpu"):
        assert F.conv1d(X[0], edutorch.ones(1, 3, 1)).dtype is edutorch.bfloat16


def test_a_public_form_looks_like_the_function():
    assert str(inspect.signature(F.avg_pool2d)).endswith("= None, *, out=None) -> 'Tensor'")
    assert F.pad.__doc__ == inspect.unwrap(F.pad).__doc__
    assert pickle.loads(pickle.dumps(F.pad)) is F.pad
    assert takes_out(abs_plus).__module__ == __name__


def abs_plus(input):
    return input.abs() + 1
