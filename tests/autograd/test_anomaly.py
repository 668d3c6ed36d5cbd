"""Anomaly mode names the op whose backward produced the NaN, and the line of its forward."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import edutorch
from edutorch.errors import GradientError


def test_it_names_op_and_line():
    x = edutorch.tensor([0.0, 1.0], requires_grad=True)
    with edutorch.autograd.detect_anomaly():
        y = (x * 0).sqrt()  # here
        with pytest.raises(GradientError) as caught:
            (y * 0).sum().backward()
    assert "'SqrtBackward0' returned nan values in its 0th output" in str(caught.value)
    assert "test_anomaly.py" in str(caught.value)
    assert "y = (x * 0).sqrt()  # here" in str(caught.value)


def test_pytorch_says_the_same(torch):
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with torch.autograd.set_detect_anomaly(True), pytest.raises(RuntimeError) as caught:
        ((x * 0).sqrt() * 0).sum().backward()
    assert "'SqrtBackward0' returned nan values in its 0th output" in str(caught.value)


def test_the_switch():
    autograd = edutorch.autograd
    assert not autograd.is_anomaly_enabled()
    autograd.set_detect_anomaly(True)
    assert autograd.is_anomaly_enabled()
    autograd.set_detect_anomaly(False)
    assert not autograd.is_anomaly_enabled()
    with autograd.set_detect_anomaly(True):
        with autograd.set_detect_anomaly(False):
            assert not autograd.is_anomaly_enabled()
        assert autograd.is_anomaly_enabled()
    assert not autograd.is_anomaly_enabled()


def test_pytorchs_names_of_the_switch(torch):
    for library in (torch, edutorch):
        for check_nan in (True, False):
            library.set_anomaly_enabled(True, check_nan)
            assert library.is_anomaly_enabled()
            assert library.is_anomaly_check_nan_enabled() == check_nan
        library.set_anomaly_enabled(False)
        assert not library.is_anomaly_enabled()


def test_without_check_nan_and_without_nan_all_runs():
    x = edutorch.tensor([0.0], requires_grad=True)
    with edutorch.autograd.detect_anomaly(check_nan=False):
        (x.sqrt() * 0).sum().backward()
    with edutorch.autograd.detect_anomaly():
        (x * 3).sum().backward()
    assert x.grad.isnan().all()


def test_a_forward_outside_is_said_to_be_unknown():
    x = edutorch.tensor([0.0], requires_grad=True)
    y = (x.sqrt() * 0).sum()
    with edutorch.autograd.detect_anomaly(), pytest.raises(GradientError, match="not recorded"):
        y.backward()


@pytest.mark.parametrize(
    ("function", "name", "value"),
    [
        (lambda x: (x.sqrt() * 0).sum(), "SqrtBackward0", "invalid value"),
        (lambda x: (x * 0 / x).sum(), "DivBackward0", "divide by zero"),
        (lambda x: x.log().sum(), "LogBackward0", "divide by zero"),
    ],
)
def test_without_the_mode_a_warning_names_the_op(function, name, value):
    x = edutorch.zeros(2, requires_grad=True)
    with np.errstate(all="ignore"):
        loss = function(x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loss.backward()
    first = caught[0]
    assert issubclass(first.category, RuntimeWarning)
    assert first.category.__name__ == "NonFiniteGradientWarning"
    assert str(first.message).startswith(f"{name}: {value} encountered in backward")
    assert first.filename == __file__  # the user's line, not one of a rule
    assert np.geterr()["invalid"] == "warn"


def test_what_the_user_asked_of_numpy_stays():
    x = edutorch.zeros(2, requires_grad=True)
    loss = (x.sqrt() * 0).sum()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        loss.backward()


@pytest.mark.parametrize(
    ("dtype", "start", "warns"),
    [("float16", 3e4, False), ("bfloat16", 3e38, False), ("float32", 3e38, True),
     ("float64", 1e308, True)],
)  # fmt: skip
def test_an_overflow_is_worth_a_warning_except_in_16_bits(dtype, start, warns):
    """A `GradScaler` checks for infinities in 16 bits itself, and lowers its scale."""
    x = edutorch.ones(2, dtype=getattr(edutorch, dtype), requires_grad=True)
    y = x * 4
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y.backward(edutorch.full_like(y, start))
    assert x.grad.isinf().all()
    messages = [str(warning.message) for warning in caught]
    assert [": overflow encountered in backward" in message for message in messages] == [
        True
    ] * warns
