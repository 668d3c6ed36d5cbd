"""Equal elements keep their order, however many there are."""

from __future__ import annotations

import numpy as np
import pytest

import edutorch


@pytest.mark.parametrize("length", [3, 16, 17, 100, 5000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
@pytest.mark.parametrize("descending", [False, True])
def test_a_sort_is_stable(length, dtype, descending):
    """From 17 elements on NumPy's other sorts change the order of equal ones."""
    elements = np.random.default_rng(length).integers(0, 3, length)
    values = edutorch.tensor(elements).to(getattr(edutorch, dtype))
    keys = values.to(edutorch.int64).tolist()
    expected = sorted(range(length), key=lambda index: -keys[index] if descending else keys[index])
    result = edutorch.sort(values, stable=True, descending=descending)
    assert result.indices.tolist() == expected
    assert edutorch.argsort(values, stable=True, descending=descending).tolist() == expected
    assert result.values.tolist() == [values.tolist()[index] for index in expected]


@pytest.mark.parametrize("dim", [0, 1])
def test_a_sort_of_a_matrix_is_stable(dim):
    values = edutorch.tensor(np.random.default_rng(0).integers(0, 2, (40, 50)))
    indices = edutorch.sort(values, dim=dim, stable=True).indices.numpy()
    assert (indices == np.argsort(values.numpy(), axis=dim, kind="stable")).all()
