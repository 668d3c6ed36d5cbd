"""Memory shared with NumPy, on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch
from edutorch import from_numpy


def test_from_numpy_shares_memory():
    a = np.zeros(2)
    x = from_numpy(a)
    a[0] = 5
    x[1] = 7
    assert x.tolist() == a.tolist() == [5, 7]
    assert x.numpy() is a
    x.numpy()[0] = 1
    assert x.tolist() == [1, 7]


def test_writes_from_numpys_side_reach_every_view():
    a = np.arange(6.0)
    x = from_numpy(a).view(2, 3)
    a[3] = 50
    assert x[1, 0].item() == 50
    assert x[1:].numpy().base is not None


def test_without_recording_a_tensor_that_requires_grad_is_converted():
    x = edutorch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with edutorch.no_grad():
        assert x.numpy().tolist() == [1, 1]
        assert np.asarray(x).tolist() == [1, 1]
    with edutorch.inference_mode():
        assert x.numpy().tolist() == [1, 1]
