"""Anomaly mode names the op whose backward made the NaN, and the line of its forward."""

from __future__ import annotations

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
